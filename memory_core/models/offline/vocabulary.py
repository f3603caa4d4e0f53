"""Words and patterns by which the offline rules judge a statement; the rules themselves are in other modules."""

import re

from memory_core.models.offline.grammar import NAME, RELATION, word_set
from memory_core.models.offline.patterns import pattern

MONTH = (
    "(?:January|February|March|April|May|June|July|August|September|October|November|December|"
    "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)"
)
WEEKDAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
DATE = pattern(
    rf"\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{MONTH}\b|\b{MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{4}}-\d\d-\d\d\b|"
    rf"\b\d{{1,2}}/\d{{1,2}}\b|"
    rf"\b{WEEKDAY}s?\b|\b(?:tomorrow|tonight|next (?:week|month|year|spring|summer|autumn|fall|winter|weekend))\b|"
    rf"\b(?:in|of) {MONTH}\b|\bthe \d{{1,2}}(?:st|nd|rd|th)\b"
)
TIME = pattern(
    r"\b\d{1,2}(?:[:.]\d\d)? ?(?:am|pm|a\.m|p\.m|o'clock)\b|\b\d{1,2}:\d\d\b|\b(?:noon|midnight|"
    r"half past)\b|\bat \d{1,2}\b",
    re.IGNORECASE,
)
MONEY = pattern(
    r"[€$£] ?\d|\b\d[\d.,]{0,12} ?(?:k )?(?:euros?|dollars?|pounds?|francs?|yen|yuan|bucks|usd|eur|gbp|€|\$|£)",
    re.IGNORECASE,
)
NUMBER = pattern(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|dozen|hundred|thousand)\b",
    re.IGNORECASE,
)
CAPITAL = pattern(rf"(?<![.!?] )\b(?!I\b|I'|AI\b|OK\b){NAME}\b|[\"“]")
LIMIT = pattern(
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
"""Verbs of named people and things, in addition to habits and tastes."""
EVENTS = word_set(
    """
    go visit travel see watch buy get make attend learn register book meet finish start join adopt lose sell
    graduate retire pass fail win quit break celebrate plant climb hike read move cook bake run play
    participate receive discover apply organise organize order reserve complete build create host invite marry
    open try swim ski paint write eat study work live grow begin leave volunteer train raise photograph teach
    paint come arrive take drive bring wear spend
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

CONDITION = pattern(
    r"(?:not )?(?:an? )?(?:severely |deathly |highly |very |quite |slightly |strictly )?(?:allergic|"
    r"intolerant|lactose|gluten|vegetarian|vegan|"
    r"pescatarian|pescetarian|diabetic|pregnant|coeliac|celiac|asthmatic|anaemic|anemic|kosher|halal|"
    r"teetotal|colou?r-?blind|"
    r"blind|deaf|dyslexic|left-handed|sober)\b",
    re.IGNORECASE,
)
ILLNESS = pattern(
    r"(?:an? |the |some |severe |mild |bad |chronic |high |low |type \d ){0,3}(?:asthma|diabetes|"
    r"migraines?|insomnia|arthritis|adhd|allerg(?:y|ies)|"
    r"anxiety|depression|epilepsy|eczema|hypertension|blood pressure|back pain|knee|cancer|flu|cold|fever|"
    r"injury|headaches?|"
    r"heart condition|coeliac disease|celiac disease)\b",
    re.IGNORECASE,
)
FEELING = pattern(
    r"(?:a (?:bit|little) |very |so |really |quite |extremely |rather |under (?:a lot of |so much |"
    r"great )?(?:\w+ )?pressure|"
    r"more )?(?:stressed|anxious|tired|exhausted|lonely|depressed|sad|overwhelmed|nervous|worried|unwell|"
    r"sick|ill|down|low|"
    r"burn(?:t|ed) out|busy|procrastinating|pressure|unmotivated|confused|lost)\b|under (?:a lot of |"
    r"so much |great )?(?:\w+ )?pressure",
    re.IGNORECASE,
)
FONDNESS = pattern(
    r"(?:a (?:big |huge |great )?fan of|into|fond of|keen on|interested in|most interested in|"
    r"passionate about|obsessed with|crazy about|"
    r"good at|bad at|terrible at|afraid of|scared of|terrified of|allergic to|addicted to)\b",
    re.IGNORECASE,
)
STATUS = pattern(
    r"(?:not )?(?:married|single|engaged|divorced|widowed|separated|retired|unemployed|self-employed)\b", re.I
)
MARITAL = pattern(
    r"(?:not )?(?:married|single|engaged(?! (?:in|with)\b)|divorced|widowed|separated)(?![\w-])", re.IGNORECASE
)
BECAME = pattern(
    rf"(?:get (?:married|engaged|divorced|separated)(?: (?:to|from) {NAME}(?: {NAME})?)?|marry {NAME})"
    r"(?: (?:again|now|recently|just|yesterday|today|(?:last|this) (?:week|month|year)))?"
)
"""Verb in its base form, and words after it, that give a new marital status; one of an earlier year may be over."""
NATIONALITY = pattern(
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
OWN_NOUN = pattern(
    rf"(?:(?:[\w'-]{{1,20}} ){{0,3}})?(?:{RELATION}|name|age|birthday|anniversary|job|budget|limit|address|"
    rf"phone|phone number|car|bike|"
    r"house|flat|apartment|email|hobby|hobbies|hometown|home town|major|salary|flight|train|appointment|"
    r"interview|wedding|"
    r"surgery|exam|allergy|diet|company|deadline|dream|goal|native language|mother tongue|nationality|medication|"
    r"blood type|school|university|shift|rent|party|dinner|trip|holiday|vacation|plan)(?:'s (?:name|birthday|job))?",
    re.IGNORECASE,
)
FAVOURITE = pattern(r"favou?rite (?!ones?\b|thing\b|part\b)[\w' -]{2,40}", re.IGNORECASE)
FILLER_AIM = pattern(
    r"(?:to )?(?:chat|talk|ask|know|share|tell|say|brag|complain|vent|apologi[sz]e|admit|mention|add that|congratulate|"
    r"wait|double-check|notice|note|put|reali[sz]e|discuss|hear|thank|find|do|be|make|see|understand|try|take|check|follow|"
    r"keep|give|remember|have|think|rest|relax|look|hear|improve my(?:self)?|know|that|you|we|help|go now|"
    r"stop here)\b",
    re.IGNORECASE,
)
