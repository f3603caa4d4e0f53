"""The words and patterns by which the offline rules judge a statement. No rule is here, only what rules look for."""

import re

from memory_core.models.grammar import NAME, RELATION, word_set

MONTH = (
    "(?:January|February|March|April|May|June|July|August|September|October|November|December|"
    "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)"
)
WEEKDAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
DATE = re.compile(
    rf"\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{MONTH}\b|\b{MONTH} \d{{1,2}}\b|\b\d{{4}}-\d\d-\d\d\b|"
    rf"\b\d{{1,2}}/\d{{1,2}}\b|"
    rf"\b{WEEKDAY}s?\b|\b(?:tomorrow|tonight|next (?:week|month|year|spring|summer|autumn|fall|winter|weekend))\b|"
    rf"\b(?:in|of) {MONTH}\b|\bthe \d{{1,2}}(?:st|nd|rd|th)\b"
)
TIME = re.compile(
    r"\b\d{1,2}(?:[:.]\d\d)? ?(?:am|pm|a\.m|p\.m|o'clock)\b|\b\d{1,2}:\d\d\b|\b(?:noon|midnight|"
    r"half past)\b|\bat \d{1,2}\b",
    re.IGNORECASE,
)
MONEY = re.compile(
    r"[€$£] ?\d|\b\d[\d.,]{0,12} ?(?:k )?(?:euros?|dollars?|pounds?|francs?|yen|yuan|bucks|usd|eur|gbp|€|\$|£)",
    re.IGNORECASE,
)
NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|dozen|hundred|thousand)\b",
    re.IGNORECASE,
)
CAPITAL = re.compile(rf"(?<![.!?] )\b(?!I\b|I'|AI\b|OK\b){NAME}\b|[\"“]")
LIMIT = re.compile(
    r"\b(?:at most|at least|no more than|not more than|no later than|not later than|no earlier than|"
    r"not before|maximum|"
    r"minimum|up to|at the latest|under|below)\b",
    re.IGNORECASE,
)

TASTES = word_set(
    """
    like love enjoy prefer hate dislike adore
    """
)
HABITS = word_set(
    """
    work study live teach run own drive speak play collect practise practice exercise cook bake read write
    paint draw listen watch eat drink smoke take train volunteer swim ski sing dance commute rent travel walk
    wear avoid raise host suffer spend manage photograph
    """
)
DOINGS = word_set(
    """
    pay bring park come arrive leave organise organize book order cost start begin open close turn want need
    use go visit join plan
    """
)
"""What named people and things do, beside habits and tastes."""
EVENTS = word_set(
    """
    go visit travel see watch buy get make attend learn register book meet finish start join adopt lose sell
    graduate retire pass fail win quit break celebrate plant climb hike read move cook bake run play
    participate receive discover apply organise organize order reserve complete build create host invite marry
    open try swim ski paint write eat study work live grow begin leave volunteer train raise photograph teach
    paint come arrive
    """
)
UNDERWAY = word_set(
    """
    learn study read work plan prepare train save write move take visit travel build live suffer struggle
    consider organise organize celebrate host come bring pay arrive leave start begin book run play practice
    practise teach raise apply rent exercise meet paint draw get look think try go cook use spend attend
    collect feel see watch expect
    """
)
AIMS = word_set(
    """
    plan want hope intend need decide
    """
)

CONDITION = re.compile(
    r"(?:not )?(?:an? )?(?:severely |deathly |highly |very |quite |slightly |strictly )?(?:allergic|"
    r"intolerant|lactose|gluten|vegetarian|vegan|"
    r"pescatarian|pescetarian|diabetic|pregnant|coeliac|celiac|asthmatic|anaemic|anemic|kosher|halal|"
    r"teetotal|colou?r-?blind|"
    r"blind|deaf|dyslexic|left-handed|sober)\b",
    re.IGNORECASE,
)
ILLNESS = re.compile(
    r"(?:an? |the |some |severe |mild |bad |chronic |high |low |type \d ){0,3}(?:asthma|diabetes|"
    r"migraines?|insomnia|arthritis|adhd|allerg(?:y|ies)|"
    r"anxiety|depression|epilepsy|eczema|hypertension|blood pressure|back pain|knee|cancer|flu|cold|fever|"
    r"injury|headaches?|"
    r"heart condition|coeliac disease|celiac disease)\b",
    re.IGNORECASE,
)
FEELING = re.compile(
    r"(?:a (?:bit|little) |very |so |really |quite |extremely |rather |under (?:a lot of |so much |"
    r"great )?(?:\w+ )?pressure|"
    r"more )?(?:stressed|anxious|tired|exhausted|lonely|depressed|sad|overwhelmed|nervous|worried|unwell|"
    r"sick|ill|down|low|"
    r"burn(?:t|ed) out|busy|procrastinating|pressure|unmotivated|confused|lost)\b|under (?:a lot of |"
    r"so much |great )?(?:\w+ )?pressure",
    re.IGNORECASE,
)
FONDNESS = re.compile(
    r"(?:a (?:big |huge |great )?fan of|into|fond of|keen on|interested in|most interested in|"
    r"passionate about|obsessed with|crazy about|"
    r"good at|bad at|terrible at|afraid of|scared of|terrified of|allergic to|addicted to)\b",
    re.IGNORECASE,
)
STATUS = re.compile(
    r"(?:not )?(?:married|single|engaged|divorced|widowed|separated|retired|unemployed|self-employed)\b", re.I
)
NATIONALITY = re.compile(
    r"(?:half )?(?:American|Argentinian|Australian|Austrian|Belgian|Brazilian|British|Bulgarian|Canadian|"
    r"Chilean|Chinese|Colombian|"
    r"Croatian|Czech|Danish|Dutch|Egyptian|English|Estonian|Filipino|Finnish|French|German|Greek|Hungarian|"
    r"Icelandic|Indian|"
    r"Indonesian|Iranian|Irish|Israeli|Italian|Japanese|Jewish|Kenyan|Korean|Latvian|Lebanese|Lithuanian|"
    r"Malaysian|Mexican|"
    r"Moroccan|Muslim|Nigerian|Norwegian|Pakistani|Peruvian|Polish|Portuguese|Romanian|Russian|Scottish|"
    r"Serbian|Slovak|"
    r"Spanish|Swedish|Swiss|Syrian|Taiwanese|Thai|Turkish|Ukrainian|Vietnamese|Welsh|Catholic|Christian|"
    r"Buddhist|Hindu)\b"
)
OWN_NOUN = re.compile(
    rf"(?:(?:[\w'-]{{1,20}} ){{0,3}})?(?:{RELATION}|name|age|birthday|anniversary|job|budget|limit|address|"
    rf"phone|phone number|car|bike|"
    r"house|flat|apartment|email|hobby|hobbies|hometown|home town|major|salary|flight|train|appointment|"
    r"interview|wedding|"
    r"surgery|exam|allergy|diet|company|deadline|dream|goal|native language|mother tongue|nationality|medication|"
    r"blood type|school|university|shift|rent|party|dinner|trip|holiday|vacation|plan)(?:'s (?:name|birthday|job))?",
    re.IGNORECASE,
)
FAVOURITE = re.compile(r"favou?rite [\w' -]{2,40}", re.IGNORECASE)
VAGUE = re.compile(
    r"(?:to )?(?:(?:a|an|the|some|any|this|that|these|those|my|one|another|such|so|more|much|many|no|other|all|every|"
    r"great|good|small|little|few|lot of|very|really|different|same|two|certain) ){0,4}"
    r"(?:questions?|problems?|troubles?|idea|ideas|thoughts?|feelings?|suggestions?|advice|"
    r"recommendations?|points?|look|minute|"
    r"moment|time|times|lot|bit|way|ways|chance|thing|things|something|anything|everything|nothing|"
    r"methods?|tips?|sense|"
    r"it|them|him|her|here|there|so|both|one|this|that|these|those|others|myself|better|help|need|well|too|"
    r"confident|confidence|conversation|chat|topic|topics|what|how|why|whether|person|progress|decision|"
    r"experience)\b(?!-)"
    r"(?!\s+(?:job|course|book|club|trainer|brother|sister|machine|off|called|named|of|in|with|abroad|from))",
    re.IGNORECASE,
)
FILLER_AIM = re.compile(
    r"(?:to )?(?:chat|talk|ask|know|share|tell|say|discuss|hear|thank|find|do|be|make|see|understand|try|"
    r"take|check|follow|"
    r"keep|give|remember|have|think|rest|relax|look|hear|improve my(?:self)?|know|that|you|we|help|go now|"
    r"stop here)\b",
    re.IGNORECASE,
)
