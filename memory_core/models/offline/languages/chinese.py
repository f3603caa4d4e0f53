"""Rules for Chinese: "我住在北京" becomes "用户住在北京". Pure.

Verbs have no persons and sentences no spaces, so a fact is the clause itself with "用户" (the user) for "我" (I).
"""

import re

from memory_core.models.offline.languages.reading import Language, Rule, pattern_rule
from memory_core.models.offline.patterns import pattern
from memory_core.planning import slots

_KIN = (
    "最好的朋友|妻子|老婆|太太|丈夫|老公|先生|儿子|女儿|孩子|妈妈|母亲|爸爸|父亲|姐姐|妹妹|哥哥|弟弟|奶奶|爷爷|外婆|外公|男朋友|女朋友|"
    "朋友|同事|老板|上司|经理|室友|邻居|医生|狗|猫|宠物|家人|父母"
)
_THINGS = "生日|名字|预算|航班|火车|会议|面试|婚礼|考试|手术|旅行|电话|地址|公司|房租|工资|母语|爱好|年龄"
_DATED = r"(?=.*(?:\d|[一二三四五六七八九十]+[月日号点岁]|星期|周[一二三四五六日末]|明天|后天|下个?[周月])).+"
_OWNER = rf"(?P<who>我们?(?:的)?(?:{_KIN})|我们?)"
_SOMEBODY = r"(?P<who>(?!.{0,3}(?:[我你您他她它谁这那]|大家|有人|别人|人们))[\u4e00-\u9fff·A-Za-z]{2,8}?)"
_NUMBER = r"(?:\d+|[一二两三四五六七八九十几]+)"
_ILLNESS = r"(?:糖尿病|哮喘|高血压|低血压|偏头痛|癫痫|关节炎|癌症|失眠|抑郁症|焦虑症|[\u4e00-\u9fff]{1,6}(?:病|症|炎))"
_TRADE = (
    r"[\u4e00-\u9fffA-Za-z]{0,10}(?:师|员|医生|护士|学生|教授|作家|画家|专家|经理|司机|厨师|记者|演员|工人|农民|警察|"
    r"士兵|老板|顾问)"
)
_NOT_WISHED = (
    "知道|问|请|说|听|看看|了解|聊|确认|麻烦|让|你|我|谢|他|她|它|这|那|走|去?吃[早午晚]?饭|去?睡|休息|下线|找一?些"
)
_LIKES = r"(?:喜欢|喜爱|热爱|偏爱|讨厌|痛恨|害怕|怕|爱)"
_NO_PERSON = r"(?!.*(?:[他她它你]们?|这样|那样|这些|那些))"


def _user(value: str) -> str:
    """Return a value with 用户 (the user) in place of 我 (I)."""
    return re.sub(r"我们?", "用户", value)


def _rule(said: str, text: str, category: str, attribute: str | None = None, subject: str = "user") -> Rule:
    return pattern_rule(pattern(said), text, category, attribute, subject, reworded=_user)


_NOW = (
    r"(?P<when>(?:很|只|刚|以前|曾经?|现在|目前|今年|已经|也|还|一直|正|平时|通常|经常|每天\w{0,8}?|每周\w{0,8}?|最近|刚|"
    r"上个?[月周]|去年|\w{0,6}月|早上|晚上|下班后|上班前){0,4})"
)
"""Adverbs between the subject and the verb; they stay in the fact."""
_FOR_USER = tuple(
    _rule(f"我们?{_NOW}{form}", f"用户{{when}}{text}", category, attribute)
    for form, text, category, attribute in (
        (r"(?:的名字)?(?:叫|是叫)(?P<v>[\u4e00-\u9fff·A-Za-z ]{1,14})", "叫{v}", "personal", slots.NAME),
        (r"(?P<v>不?住在?(?!一起|得).+)", "{v}", "personal", slots.HOME),
        (r"(?P<v>搬(?:到|去|进)了?.+)", "{v}", "personal", slots.HOME),
        (rf"(?P<v>{_NUMBER}岁)了?", "{v}", "personal", slots.AGE),
        (r"(?P<v>来自.+|是.{1,8}人)", "{v}", "personal", slots.ORIGIN),
        (r"(?P<v>是(?:素食|纯素|糖尿病).{0,4}|吃素)", "{v}", "health", None),
        (rf"(?P<v>(?:是|当|做)(?:一名|一位|一个|个|名)?{_TRADE})", "{v}", "work", slots.JOB),
        (rf"(?P<v>在.+(?:当|做|担任|任)(?:一名|一位)?{_TRADE})", "{v}", "work", slots.JOB),
        (r"(?P<v>在.+(?:工作|上班)|为.+工作)", "{v}", "work", slots.EMPLOYER),
        (r"(?P<v>对.+过敏)", "{v}", "health", None),
        (rf"(?P<v>(?:有|患有|得了){_ILLNESS})", "{v}", "health", None),
        (r"(?P<v>(?:不|不能|不可以|从不|戒)(?:吃|喝|抽|碰).+)", "{v}", "health", None),
        (
            rf"(?P<v>(?:很|最|更|特别|非常|超级?|都|不|不太|真的|比较|并|是)*{_LIKES}{_NO_PERSON}.+|对.+感到(?:恐惧|害怕))",
            "{v}",
            "preference",
            None,
        ),
        (
            rf"(?P<v>(?:有|养了?|养着|领养了)(?:一|{_NUMBER})(?:个|只|条|位|名|匹)?.*(?:{_KIN}).*)",
            "{v}",
            "relationship",
            None,
        ),
        (
            rf"(?P<v>(?:有|拥有|养了?|养着|领养了|收藏了?|家里?有)(?:一|超过|{_NUMBER})(?!些|点|种感觉|个问题|道|个想法|个疑问).+)",
            "{v}",
            "personal",
            None,
        ),
        (r"(?P<v>(?:会|能)?说[\u4e00-\u9fff、和及]+语[\u4e00-\u9fff、和及]*)", "{v}", "personal", None),
        (r"(?P<v>(?:在|开始|正在)?(?:学习?|自学|练习?)(?!到|会了|校).+|在.+(?:学|读|念|攻读).+)", "{v}", "other", None),
        (rf"(?P<v>(?:打算|计划|准备|决定|想要?|希望|要)(?!{_NOT_WISHED}).{{2,}})", "{v}", "plan", None),
        (r"(?P<v>(?:打|踢|拉|弹|吹|跑|骑|画|收集|写|唱|跳).+|跑步)", "{v}", "preference", None),
        (r"(?P<v>.{0,12}里?(?:拉|弹|吹|跑|跳|练|打)[\u4e00-\u9fff]{1,8})", "{v}", "preference", None),
        (r"(?P<v>(?:开|骑)(?:一|着|的是)?[辆着]?.+)", "{v}", "personal", None),
        (r"(?P<v>(?:在|正在).{0,12}(?:找|寻找).+)", "{v}", "plan", None),
        (
            r"(?P<v>在.+(?:工作|生活|住|待)了.+年|去过.+|(?:在|正在)(?:读|上)(?:小学|初中|高中|大学|研究生)|读.+)",
            "{v}",
            "other",
            None,
        ),
        (
            r"(?P<v>(?:购买|买|听|吃|喝|看|用|穿|去|锻炼|参加|练)(?!了|过|听|起来|到|看|法).+)",
            "{v}",
            "preference",
            None,
        ),
        (
            r"(?P<v>(?:帮助|帮忙)?.{0,12}(?:买|卖|订|去|设计|获得|赢得|参加|收养|完成|丢|赢|写|毕业|换|修|预订)了.+)",
            "{v}",
            "other",
            None,
        ),
        (
            r"(?P<v>(?:[和跟与][^，了]{1,12}?)?(?:结婚|离婚|订婚)了?|是?单身了?|未婚|已婚)",
            "{v}",
            "personal",
            slots.MARITAL,
        ),
        (r"(?P<v>退休了?)", "{v}", "personal", slots.STATUS),
    )
)
_IS = r"(?!.*(?:[的很说想在来去你他她它这那]|真心|第一次|认真))[\u4e00-\u9fffA-Za-z]{2,10}"
_RULES: tuple[Rule, ...] = (
    _rule(
        r"(?P<v>[^，我你他她这那]{1,14})是我的?最(?P<how>喜欢的?|爱的?)(?P<noun>.{0,6})",
        "用户最{how}{noun}是{v}",
        "preference",
    ),
    _rule(
        r"(?:比起|和|跟)(?P<than>[^，]{1,12})相?比?，我更?(?:喜欢|偏爱)(?P<v>.+)",
        "用户更喜欢{v}而不是{than}",
        "preference",
    ),
    *_FOR_USER,
    _rule(r"我们?的?最?(?P<noun>喜欢的.{1,6}?|最爱的.{1,6}?)是(?P<v>.+)", "用户最{noun}是{v}", "preference", "{noun}"),
    _rule(r"我们?的?(?:年龄|岁数)是(?P<v>.+)", "用户的年龄是{v}", "personal", slots.AGE),
    _rule(r"我们?的?生日(?:是|在)(?P<v>.+)", "用户的生日是{v}", "personal", slots.BIRTHDAY),
    _rule(rf"我们?的?(?P<noun>{_THINGS})(?P<v>(?:是|在)?{_DATED})", "用户的{noun}{v}", "plan", "{noun}"),
    _rule(rf"我们?的?(?P<noun>{_KIN})(?:的名字)?(?:叫|是叫)(?P<v>.+)", "用户的{noun}叫{v}", "relationship"),
    _rule(
        rf"我们?的?(?P<noun>{_KIN})(?P<v>(?:现在|也|今年)?(?:住在.+|搬到了?.+))",
        "用户的{noun}{v}",
        "personal",
        slots.HOME,
        "user.{noun}",
    ),
    _rule(
        rf"我们?的?(?P<noun>{_KIN})(?P<v>.{{0,2}}(?:对.+过敏|有{_ILLNESS}|不能?[吃喝].+))", "用户的{noun}{v}", "health"
    ),
    _rule(rf"我们?的?(?P<noun>{_KIN})(?P<v>.{{0,3}}在.+工作|是{_TRADE})", "用户的{noun}{v}", "work"),
    _rule(
        rf"我们?的?(?P<noun>{_KIN})(?P<v>(?:今年)?{_NUMBER}岁|(?:很|最)?(?:喜欢|讨厌).+)",
        "用户的{noun}{v}",
        "relationship",
    ),
    _rule(r"我(?P<also>也)?是(?:一[名位个])?(?P<v>" + _IS + ")", "用户{also}是{v}", "personal"),
    _rule(rf"{_SOMEBODY}(?P<v>对.+过敏)", "{who}{v}", "health"),
    _rule(rf"{_SOMEBODY}(?P<v>住在.+)", "{who}{v}", "personal", slots.HOME, "{who}"),
    _rule(rf"{_SOMEBODY}是我们?的?(?P<noun>{_KIN})", "{who}是用户的{noun}", "relationship"),
    _rule(
        rf"(?P<thing>婚礼|会议|聚会|航班|考试|面试|手术|旅行|演唱会|派对|晚餐)(?P<v>(?:是|在|将在|于|改到|改在){_DATED})",
        "{thing}{v}",
        "plan",
        slots.DATE,
        "{thing}",
    ),
)
_VERB_FIRST = pattern(
    r"(?:现在|今年|目前|也|还|很|最|更|不|正在|在.+)?(?:住在|住|来自|叫|是|有|在|喜欢|讨厌|对.+过敏|养|会说|想|打算|今年|搬到|不吃|不喝|\d+岁).*"
)
_SUBJECT = pattern(_OWNER)


def _with_subject(clause: str, before: str) -> str:
    """Prefix a clause that lacks a subject with the subject of the clause before it: "我叫克拉拉，住在波尔图"."""
    subject = _SUBJECT.match(before)
    if subject and not _SUBJECT.match(clause) and _VERB_FIRST.fullmatch(clause):
        return f"{subject[0]}{clause}"
    return clause


CHINESE = Language(
    rules=_RULES,
    sentence_end=pattern(r"[。！？!?；;…\n]+"),
    question=pattern(r"[?？]|吗$|呢$|什么|怎么|哪|谁|多少|几[个岁点月只]|是不是|能不能|可不可以|为何|为什么"),
    unsure=pattern(
        r"如果|要是|假如|假设|也许|可能|或许|大概|考虑|听说|据说|好像|似乎|觉得|想象|说过|他说|她说|说：|的话$"
    ),
    joint=pattern(r"(?<!比起.)(?<!比起..)(?<!比起...)(?<!比起....)[，,](?:而且|并且|但是?|也|所以|另外|还)?"),
    lead_in=pattern(
        r"^(?:(?:请|麻烦)?(?:你)?(?:记住|记得|记一下|注意|别忘了)|你好啊?|嗨|哦|哈哈|很好|太好了|太棒了|对了|其实|另外|顺便说一下|那个|嗯|好的?|是的)[，,：:]?"
    ),
    first_person=lambda fact: fact.replace("用户", "我"),
    inherit=_with_subject,
)
