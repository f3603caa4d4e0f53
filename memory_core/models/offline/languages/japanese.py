"""Rules for Japanese: "東京に住んでいます" becomes "ユーザーは東京に住んでいます". Pure.

A sentence without a subject is about its speaker. Verbs have no persons, so a fact is the clause itself, with
"ユーザーは" (the user) before it.
"""

import re

from memory_core.models.offline.languages.reading import Language, Rule, pattern_rule
from memory_core.models.offline.patterns import pattern
from memory_core.planning import slots

_KIN = (
    "妻|夫|旦那|主人|息子|娘|子供|子ども|母|父|お母さん|お父さん|姉|妹|兄|弟|祖母|祖父|彼氏|恋人|友人|友達|親友|同僚|上司|"
    "社長|先生|犬|猫|ペット|両親|家族"
)
_THINGS = (
    "誕生日|名前|予算|飛行機|フライト|電車|会議|面接|結婚式|試験|手術|旅行|電話番号|住所|会社|家賃|給料|母語|趣味|年齢"
)
_DATED = r"(?=.*(?:\d|[一二三四五六七八九十]+[月日時分歳]|曜日|明日|来週|来月|来年)).+"
_END = r"(?:です|でした|だ|である)?(?:よ|ね|から|けど|が|ので)?"
_DOING = r"(?:い(?:ます|る|て)|ます|る)(?:よ|ね|から|けど|が|ので)?"
_NUMBER = r"(?:\d+|[一二三四五六七八九十]+)"
_ILLNESS = (
    r"(?:糖尿病|喘息|高血圧|低血圧|片頭痛|偏頭痛|てんかん|関節炎|がん|不眠症|うつ病|[\u4e00-\u9fff]{1,6}(?:病|症|炎))"
)
_TRADE = (
    r"(?:教師|先生|医者|医師|看護師|薬剤師|弁護士|会計士|学生|大学生|教授|主婦|会社員|公務員|作家|画家|記者|料理人|"
    r"[ァ-ヶー]*(?:エンジニア|デザイナー|プログラマー?|マネージャー|コンサルタント)|[\u4e00-\u9fff]{1,5}[師士員者家])"
)
_SOMEBODY = r"(?P<who>(?!私|僕|俺|これ|それ|あれ|ここ|そこ|彼)[ァ-ヶー・]{2,12}|[\u4e00-\u9fff]{2,4}さん)"


def _user(value: str) -> str:
    """Return a value with ユーザー (the user) in place of 私 (I)."""
    value = re.sub(r"(?<=[すたるい])(?:が|けど|ので|から)$", "", value)  # the conjunction to the next clause
    return re.sub(r"(?<=[てで])い(?:て|る)$", "います", re.sub(r"私たち|私|僕|俺", "ユーザー", value))


def _rule(said: str, text: str, category: str, attribute: str | None = None, subject: str = "user") -> Rule:
    return pattern_rule(pattern(said), text, category, attribute, subject, reworded=_user)


_OWN = r"(?:(?:私|僕|俺|うち|わたし|ぼく|私たち)の)?"
_ABOUT_USER = tuple(
    _rule(f"(?:(?:私|僕|俺|わたし|ぼく|私たち)(?:は|も|には?))?、?{form}", f"ユーザーは{text}", category, attribute)
    for form, text, category, attribute in (
        (
            r"(?:名前は)?(?P<v>[ァ-ヶー・\u4e00-\u9fffA-Za-z ]{1,14})"
            r"(?:と申します|といいます|と言います|という名前です)",
            "{v}という名前です",
            "personal",
            slots.NAME,
        ),
        (
            r"(?:私の)?名前は(?P<v>[ァ-ヶー・\u4e00-\u9fffA-Za-z ]{1,14}?)(?:です|で|だ)?",
            "{v}という名前です",
            "personal",
            slots.NAME,
        ),
        (rf"(?P<v>[^はが]+に(?:住んで|暮らして){_DOING})", "{v}", "personal", slots.HOME),
        (r"(?P<v>[^はが]*[にへ]引っ越し(?:まし)?た)", "{v}", "personal", slots.HOME),
        (rf"(?:年齢は)?(?P<v>{_NUMBER}歳){_END}", "{v}です", "personal", slots.AGE),
        (rf"(?P<v>[^はが]+)(?:の)?出身{_END}", "{v}出身です", "personal", slots.ORIGIN),
        (rf"(?P<v>[^は]+として(?:.+で)?(?:働いて|勤めて|勤務して){_DOING})", "{v}", "work", slots.JOB),
        (rf"(?P<v>[^は]+[でに](?:働いて|勤めて|勤務して){_DOING})", "{v}", "work", slots.EMPLOYER),
        (
            rf"(?P<v>[^は]{{1,20}}アレルギー)(?:です|だ|があり(?:ます)?|がある|を持って{_DOING})",
            "{v}があります",
            "health",
            None,
        ),
        (
            rf"(?P<v>{_ILLNESS})(?:を患って{_DOING}|があり(?:ます)?|です|を持って{_DOING})",
            "{v}があります",
            "health",
            None,
        ),
        (rf"(?P<v>(?:ベジタリアン|ヴィーガン|ビーガン|菜食主義者?)){_END}", "{v}です", "health", None),
        (
            r"(?P<v>.+[はが](?:食べません|食べられません|飲みません|飲めません|吸いません|食べない|飲まない|飲めない|食べられない))",
            "{v}",
            "health",
            None,
        ),
        (
            rf"(?P<v>(?!もう|彼|これ|それ|あなた)[^は]+(?:が|も|のほうが|の方が)(?:大)?(?:好き|嫌い|苦手|好み|怖い|得意|お気に入り)(?:では?ない|じゃない)?){_END}(?:と覚えておいて(?:ください)?)?",
            "{v}です",
            "preference",
            None,
        ),
        (r"(?P<v>(?!もう|彼|これ|それ|あなた)[^は]+が好き(?:では|じゃ)ありません)", "{v}", "preference", None),
        (
            rf"(?P<v>[^は]{{1,20}})は(?:私|僕|俺)の(?:一番の?)?お気に入り.{{0,8}}{_END}",
            "{v}がお気に入りです",
            "preference",
            None,
        ),
        (rf"(?P<v>{_TRADE})(?:です|だ|で)(?:よ|ね)?", "{v}です", "work", slots.JOB),
        (rf"(?P<v>.+を.{{0,6}}飼って{_DOING})", "{v}", "relationship", None),
        (
            rf"(?P<v>[^はが]{{0,14}}(?:{_KIN}|兄弟|姉妹)が{_NUMBER}?.*(?:います|いる|いて|おります))",
            "{v}",
            "relationship",
            None,
        ),
        (
            r"(?P<v>(?:\d+|[一二三四五六七八九十])[匹人頭羽台個つ]の[^はが]{1,14}が(?:います|あります)|ペットの[^はが]{1,12}がいます)",
            "{v}",
            "personal",
            None,
        ),
        (r"(?P<v>(?:自宅|家)に.+があります)", "{v}", "personal", None),
        (rf"(?P<v>.+を(?:勉強して|習って|学んで|専攻して|練習して){_DOING})", "{v}", "other", None),
        (rf"(?P<v>.+(?:予定|つもり|計画)){_END}", "{v}です", "plan", None),
        (rf"(?P<v>.+を(?:探して|計画して|準備して){_DOING})", "{v}", "plan", None),
        (
            r"(?P<v>.+(?<!聞き)(?<!知り)(?<!お願いし)(?<!教えてもらい)(?<!し)たい)(?:です|と思います|と思っています)?",
            "{v}です",
            "plan",
            None,
        ),
        (rf"(?P<v>.+を(?:弾いて|演奏して|集めて|吹いて|描いて|書いて){_DOING})", "{v}", "preference", None),
        (r"(?P<v>.+を(?:話せます|話します|話せる|話す))", "{v}", "personal", None),
        (rf"(?P<v>.+に乗って{_DOING}|.+を(?:運転して|持って|所有して){_DOING})", "{v}", "personal", None),
        (r"(?P<v>[^は]*を(?:演奏し|弾き|運転し|収集し)ます)", "{v}", "preference", None),
        (rf"(?P<v>.+を?(?:ボランティアを|購入)して{_DOING})", "{v}", "preference", None),
        (
            rf"(?P<v>(?:毎[朝日晩週夜]|いつも|よく|普段).+(?:て|で){_DOING}|(?:毎[朝日晩週年夜]|いつも|定期的に).+ます)",
            "{v}",
            "preference",
            None,
        ),
        (
            r"(?P<v>.+[をに](?:買い|売り|訪れ|獲得し|手伝い|予約し|始め|参加し|行き|やめ|購入し|卒業し|結婚し|見つけ|失くし)(?:まし)?た|.+[をに](?:買った|売った|行った))",
            "{v}",
            "other",
            None,
        ),
        (
            rf"(?P<v>(?:[^はがを]{{1,14}}と)?(?:結婚して{_DOING}|結婚しました|離婚しました|婚約して{_DOING})|独身){_END}",
            "{v}",
            "personal",
            slots.MARITAL,
        ),
        (rf"(?P<v>退職しました){_END}", "{v}", "personal", slots.STATUS),
    )
)
_RULES: tuple[Rule, ...] = (
    _rule(
        rf"{_OWN}(?P<noun>{_KIN})の名前は(?P<v>.+?)(?:です|だ|で|といいます)?",
        "ユーザーの{noun}の名前は{v}です",
        "relationship",
    ),
    _rule(
        rf"{_OWN}(?P<noun>{_KIN})は(?P<v>.+)(?:といいます|と言います)",
        "ユーザーの{noun}の名前は{v}です",
        "relationship",
    ),
    _rule(
        rf"(?P<v>[^はが]{{1,14}})という(?:名前の)?(?P<noun>{_KIN})を飼って{_DOING}",
        "ユーザーは{v}という{noun}を飼っています",
        "relationship",
    ),
    _rule(
        rf"{_OWN}(?P<noun>{_KIN})は(?P<v>.+に(?:住んで|暮らして){_DOING})",
        "ユーザーの{noun}は{v}",
        "personal",
        slots.HOME,
        "user.{noun}",
    ),
    _rule(rf"{_OWN}(?P<noun>{_KIN})は(?P<v>.+(?:働いて|勤めて){_DOING})", "ユーザーの{noun}は{v}", "work"),
    _rule(
        rf"{_OWN}(?P<noun>{_KIN})(?:は|には)(?P<v>.+アレルギー)(?:です|があります|がある)",
        "ユーザーの{noun}は{v}です",
        "health",
    ),
    _rule(
        rf"{_OWN}(?P<noun>{_KIN})は(?P<v>{_NUMBER}歳|.+が(?:大)?(?:好き|嫌い)){_END}",
        "ユーザーの{noun}は{v}です",
        "relationship",
    ),
    _rule(
        rf"{_OWN}(?P<noun>一?番?好きな[^は]{{1,8}})は(?P<v>.+?){_END}",
        "ユーザーの{noun}は{v}です",
        "preference",
        "{noun}",
    ),
    _rule(rf"{_OWN}誕生日は(?P<v>{_DATED}?){_END}", "ユーザーの誕生日は{v}です", "personal", slots.BIRTHDAY),
    _rule(rf"{_OWN}(?P<noun>{_THINGS})は(?P<v>{_DATED})", "ユーザーの{noun}は{v}", "plan", "{noun}"),
    _rule(rf"{_SOMEBODY}(?:は|には)(?P<v>[^は]+アレルギー)(?:です|があります|がある|だ)", "{who}は{v}です", "health"),
    _rule(rf"{_SOMEBODY}は(?P<v>.+に(?:住んで|暮らして){_DOING})", "{who}は{v}", "personal", slots.HOME, "{who}"),
    _rule(rf"{_SOMEBODY}は(?:私|僕|俺)の(?P<noun>{_KIN}){_END}", "{who}はユーザーの{noun}です", "relationship"),
    _rule(
        rf"(?P<thing>コンサート|パーティー|試合|イベント|夕食会|打ち合わせ|ミーティング)は(?P<v>{_DATED})",
        "{thing}は{v}",
        "plan",
        slots.DATE,
        "{thing}",
    ),
    *_ABOUT_USER,
    # "私は司書です": says what the user is; moods and opinions are excluded.
    _rule(
        r"(?:私|僕|俺)(?P<too>は|も)(?:現在|今)?(?P<v>(?!.*(?:元気|大丈夫|賛成|同じ|幸せ|残念|不安|心配|初めて|大変|好き|一番|本当))"
        rf"[^はがをにも]{{0,14}}[ァ-ヶー\u4e00-\u9fff])(?:で|{_END})",
        "ユーザー{too}{v}です",
        "personal",
    ),
)

JAPANESE = Language(
    rules=_RULES,
    sentence_end=pattern(r"[。！？!?…\n]+"),
    question=pattern(
        r"[?？]|(?:です|ます|でしょう|ました|ません)か$|の？?$|何|どこ|いつ(?!も)|誰|どんな|どの|いくら|なぜ|どう"
    ),
    unsure=pattern(
        r"もし|(?<!大人になっ)たら(?:、|$)|なら(?:、|$)|れば、|かもしれ|でしょう|だろう|らしい|そうです$|と(?:言って|聞き|聞いて)|考えて|悩んで|"
        r"(?<!覚えておいて)ください|くれ(?:ます|ませ)|もらえ|多分|たぶん|おそらく"
    ),
    joint=pattern(r"(?<=[てでしがど])、|(?<=ので)、|(?<=から)、"),
    lead_in=pattern(
        r"^(?:こんにちは|はい|いいえ|ええ|実は|ちなみに|ところで|あと|そして|また|でも|それと)、?|^今(?:は|、)"
    ),
    first_person=lambda fact: fact.replace("ユーザー", "私"),
    # "妻は東京に住んでいて、" and "息子の名前はレオで、6歳です": the next clause is about the same person
    inherit=lambda clause, before: (
        f"{owner[1]}は{clause}"
        if (owner := pattern(rf"{_OWN}({_KIN})(?:の名前)?は").match(before)) and not re.search("[はが]", clause)
        else clause
    ),
)
