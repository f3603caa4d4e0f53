"""Rules for German: "ich wohne in Porto" becomes "Der Nutzer wohnt in Porto". Pure."""

import re

from memory_core.models.offline.languages.reading import VALUE_CHARACTERS, Language, Rule, pattern_rule
from memory_core.models.offline.patterns import pattern
from memory_core.models.offline.wording import StatedFact
from memory_core.planning import slots
from memory_core.planning.slots import Slot, of_user

_USER = "Der Nutzer"
_NAME = r"[A-ZÄÖÜ][\wäöüß-]{1,25}(?: [A-ZÄÖÜ][\wäöüß-]{1,25}){0,2}"
_DATED = (
    r"(?=.*(?:\d|[Mm]orgen|(?:Mon|Diens|Donners|Frei|Sams|Sonn)tag|Mittwoch|Januar|Februar|März|April|Mai|Juni|Juli|"
    r"August|September|Oktober|November|Dezember)).+"
)
_KIN = (
    r"(?:beste[rn]? )?(?:Mutter|Mama|Schwester|Tochter|Frau|Ehefrau|Partnerin|Freundin|Oma|Großmutter|Tante|Cousine|"
    r"Nichte|Schwiegermutter|Nachbarin|Chefin|Kollegin|Lehrerin|Ärztin|Hündin|Katze|Vater|Papa|"
    r"Bruder|Sohn|Mann|Ehemann|"
    r"Partner|Freund|Opa|Großvater|Onkel|Cousin|Neffe|Schwiegervater|Nachbar|Chef|Kollege|Lehrer|Arzt|Hund|Kater|Kind|"
    r"Baby|Haustier|Pferd|Eltern|Kinder|Geschwister|Söhne|Töchter|Katzen|Hunde|Schwestern|Brüder|Freunde)"
)
_NEUTER = pattern(
    r"(?:Kind|Baby|Haustier|Pferd|Auto|Fahrrad|Haus|Budget|Gehalt|Lieblings(?:essen|buch|tier|lied|gericht|"
    r"getränk|spiel|land|team|wort)|Geburtsdatum|Zimmer|Büro|Handy)\b.*"
)
_OWNED = (
    rf"{_KIN}|Lieblings\w+|Name|Alter|Geburtstag|Hochzeitstag|Job|Arbeit|Firma|Budget|Limit|Adresse|Telefonnummer|"
    r"E-Mail|Auto|Fahrrad|Haus|Wohnung|Flug|Zug|Termin|Vorstellungsgespräch|Hochzeit|Prüfung|Operation|Allergie|Miete|"
    r"Feier|Party|Reise|Urlaub|Universität|Schule|Schicht|Gehalt|Muttersprache|Hobby"
)
_ATTRIBUTES = {"Geburtstag": slots.BIRTHDAY, "Name": slots.NAME, "Alter": slots.AGE, "Adresse": slots.ADDRESS}

_VERBS = {
    # first person: (third person, category)
    **{"wohne": ("wohnt", "personal"), "lebe": ("lebt", "personal"), "wohnen": ("wohnt", "personal")},
    **{"arbeite": ("arbeitet", "work"), "studiere": ("studiert", "work"), "unterrichte": ("unterrichtet", "work")},
    **{"leite": ("leitet", "work"), "komme": ("kommt", "personal"), "spreche": ("spricht", "personal")},
    **{"fahre": ("fährt", "personal"), "besitze": ("besitzt", "personal"), "mag": ("mag", "preference")},
    **{"liebe": ("liebt", "preference"), "hasse": ("hasst", "preference"), "bevorzuge": ("bevorzugt", "preference")},
    **{"esse": ("isst", "preference"), "trinke": ("trinkt", "preference"), "rauche": ("raucht", "preference")},
    **{"spiele": ("spielt", "preference"), "laufe": ("läuft", "preference"), "jogge": ("joggt", "preference")},
    **{"sammle": ("sammelt", "preference"), "lese": ("liest", "preference"), "koche": ("kocht", "preference")},
    **{"backe": ("backt", "preference"), "male": ("malt", "preference"), "schwimme": ("schwimmt", "preference")},
    **{"tanze": ("tanzt", "preference"), "singe": ("singt", "preference"), "reise": ("reist", "preference")},
    **{"höre": ("hört", "preference"), "lerne": ("lernt", "other"), "suche": ("sucht", "plan")},
    **{"suchen": ("sucht", "plan"), "plane": ("plant", "plan"), "planen": ("plant", "plan")},
    **{"vertrage": ("verträgt", "health"), "nehme": ("nimmt", "health"), "brauche": ("braucht", "constraint")},
}
_DOES = pattern(r"(?:(?:ich|wir) )?(?P<verb>[\wäöüß]+) (?P<rest>.+)", re.IGNORECASE)
_FRONTED = pattern(r"(?P<front>(?!Wenn|Falls|Ob|Als)[^,]{2,40}?) (?P<verb>[\wäöüß]+) (?P<who>ich|wir) (?P<rest>.+)")
_VAGUE = pattern(
    r"(?:das|es|dass|dies|ihn|sie|etwas|nichts|alles|viel|sehr|gut|gern|mal|dir|dich|hier|da|zu|mit dir|auf|an)\b"
    r"(?!, | \w+ \w)(?! Zug\b)",
    re.IGNORECASE,
)
_CUT = pattern(r",? (?:weil|aber|obwohl|sodass|damit|während|denn|wo|und (?:ich|das|es|wir|jetzt))\b.*$")
_MINE = {"mich": "sich", "mir": "sich", "uns": "sich"}
_MINE_WORD = pattern(r"\b(?:mein|dein(?!e[mnrs]? Meinung)|unse?r)(?=e?[mnrs]?\b)|\b(?:mich|mir|uns)\b")


def _third(rest: str) -> str:
    """Return the words after a verb, cut before another clause, with "mein" and "mich" turned into the third person."""
    return _MINE_WORD.sub(lambda word: _MINE.get(word[0], "sein"), _CUT.sub("", rest)).strip(" ,.")


def _doing(clause: str) -> StatedFact | None:
    if front := _FRONTED.fullmatch(clause):  # "seit Mai wohne ich in Porto"
        first = front["front"]
        clause = f"ich {front['verb']} {front['rest']} {first[0].lower() + first[1:]}"
    match = _DOES.fullmatch(clause)
    if match is None or match["verb"].lower() not in _VERBS:
        return None
    verb, category = _VERBS[match["verb"].lower()]
    rest = _third(match["rest"])
    if not rest or len(rest) > VALUE_CHARACTERS or (_VAGUE.match(rest) and not rest.startswith("es, ")):
        return None
    denied = bool(re.search(r"\b(?:nicht|keine?[mnrs]?|nie|niemals)\b", rest))
    # "Kommt morgen" is an arrival, not an origin.
    if verb == "kommt" and not rest.startswith("aus "):
        return None
    # Needs are mostly fleeting; medicine and amounts are not.
    if verb in ("braucht", "nimmt") and not re.search(r"\d|mg\b|Tablette|Insulin|Medikament", rest):
        return None
    if denied and verb in ("isst", "trinkt", "raucht"):
        category = "health"
    # "im August eine Reise nach Norwegen" keeps its order: German allows it after a verb
    return StatedFact(f"{_USER} {verb} {rest}", category, _slot(verb, rest), denied)


def _slot(verb: str, rest: str) -> Slot | None:
    first = pattern(r"^(?:(?:jetzt|nun|seit \w+|derzeit|zurzeit) )*(\w+)").sub(r"\1", rest).split(" ")[0]
    if verb in ("wohnt", "lebt"):
        return of_user(slots.HOME) if first in ("in", "bei", "am") and "nicht mehr" not in rest else None
    if verb == "kommt":
        return of_user(slots.ORIGIN)
    if verb == "arbeitet":
        attribute = {"als": slots.JOB, "für": slots.EMPLOYER}.get(first)
        return None if attribute is None else of_user(attribute)
    return None


def _owned(clause: str) -> StatedFact | None:
    match = _POSSESSED.fullmatch(clause)
    if match is None or len(match["rest"]) > VALUE_CHARACTERS:
        return None
    noun, verb, rest = match["noun"], match["verb"], _third(match["rest"])
    # The article follows from the possessive's ending, and for neuter nouns from a list.
    article = "Die" if match["mine"].endswith("e") else "Das" if _NEUTER.fullmatch(noun) else "Der"
    owner = f"{article} {noun} des Nutzers"
    if pattern(_KIN).fullmatch(noun):
        health = pattern(r"(?:allergisch|Vegetarier|Veganer|Diabetiker|vegan|vegetarisch)").match(rest)
        category = "health" if health else {"arbeitet": "work", "wohnt": "personal", "lebt": "personal"}.get(verb)
        lives = verb in ("wohnt", "lebt") and rest.startswith("in ")
        slot = Slot(f"user.{noun.lower()}", slots.HOME) if lives else None
        return StatedFact(f"{owner} {verb} {rest}", category or "relationship", slot)
    timed = pattern(_DATED).fullmatch(rest) is not None
    favourite = noun.startswith("Lieblings")
    # A possession with an adjective alone is an opinion: "mein Auto ist schnell".
    if not (favourite or timed or noun in _ATTRIBUTES or re.match(r"[\d€$A-ZÄÖÜ]|eine?\b", rest)):
        return None
    category = "preference" if favourite else "plan" if timed and noun not in _ATTRIBUTES else "personal"
    attribute = _ATTRIBUTES.get(noun, noun.lower())
    at_a_time = verb not in ("ist", "beträgt", "heißt", "liegt")
    slot = Slot(f"user.{attribute}", slots.TIME) if at_a_time else of_user(attribute)
    return StatedFact(f"{owner} {verb} {rest}", category, slot)


_POSSESSED = pattern(
    rf"(?P<mine>[Mm]eine?|[Uu]nsere?) (?P<noun>{_OWNED}) "
    r"(?P<verb>ist|sind|heißt|heißen|wohnt|lebt|arbeitet|studiert|hat|haben|beträgt|liegt|geht|"
    r"beginnt|endet|findet|kommt|"
    r"mag|liebt|hasst|spielt|isst|kostet) (?P<rest>.+)"
)
_ILLNESS = (
    r"(?:Diabetes|Asthma|Migräne|Bluthochdruck|Epilepsie|Arthritis|Krebs|Schlafstörungen|"
    r"Depressionen|eine? \w*[Aa]llergie.*)"
)
_COUNT = r"(?:eine?n?|zwei|drei|vier|fünf|sechs|sieben|acht|mehrere|viele|\d+)"
_MOMENT = r"(?:\w*[Ff]rage|Problem|Idee|Moment|Minute|Hunger|Durst|Angst|Lust|Bitte|Gefühl|Zeit|guten|schlechten|Plan)"
_PARTICIPLE = r"(?:\w*ge\w+(?:t|en)|\w+iert|besucht|bestellt|verkauft|verloren|begonnen|bekommen|umgezogen|verlobt)"
_TRADE = (
    r"\w*(?:lehrer|pfleger|schwester|arzt|ärztin|ingenieur|berater|entwickler|fahrer|händler|anwalt|anwältin|künstler|"
    r"musiker|koch|köchin|student|studentin|professor|architekt|designer|journalist|programmierer|verkäufer|polizist|"
    r"bäcker|mechaniker|tischler|rentner|forscher|biologe|biologin|schüler|manager|techniker)(?:in)?"
)


def _rule(said: str, text: str, category: str, attribute: str | None = None, subject: str = "user") -> Rule:
    return pattern_rule(pattern(said), text, category, attribute, subject, reworded=_third)


_I = r"(?:(?:[Ii]ch|[Ww]ir) )?"
_THEY = (
    r"(?P<who>(?!(?:Ich|Wir|Er|Sie|Es|Das|Die|Der|Dies|Mein|Meine|Dein|Deine|Was|Wer|Man|Hier|Heute|"
    r"Jetzt|Da|Alles|Alle|"
    rf"Niemand|Jemand|Jeder)\b){_NAME})"
)
_RULES: tuple[Rule, ...] = (
    _rule(rf"{_I}[Hh]eiße (?P<name>{_NAME})", f"{_USER} heißt {{name}}", "personal", slots.NAME),
    _rule(rf"[Mm]ein Name ist (?P<name>{_NAME})", f"{_USER} heißt {{name}}", "personal", slots.NAME),
    _rule(rf"{_I}[Bb]in (?P<years>\d+(?: Jahre alt)?)", f"{_USER} ist {{years}}", "personal", slots.AGE),
    _rule(
        rf"{_I}(?:[Bb]in|[Ss]ind) (?P<what>(?:\w+ ){{0,3}}(?:nach|zu|in) .+ (?:um)?gezogen)",
        f"{_USER} ist {{what}}",
        "personal",
        slots.HOME,
    ),
    _rule(
        rf"{_I}[Bb]in (?P<how>(?:nicht )?allergisch .+|Vegetarier(?:in)?|Veganer(?:in)?|Diabetiker(?:in)?|"
        rf"vegan|vegetarisch)",
        f"{_USER} ist {{how}}",
        "health",
    ),
    *(
        _rule(
            rf"{_I}(?:[Bb]in|[Ss]ind) (?:jetzt |nun |wieder )*(?P<how>{how})\b.*",
            f"{_USER} ist {{how}}",
            "personal",
            attribute,
        )
        for how, attribute in (
            (rf"(?:mit {_NAME} )?(?:verheiratet|verlobt)|ledig|geschieden|verwitwet|[Ss]ingle", slots.MARITAL),
            ("im Ruhestand|arbeitslos", slots.STATUS),
        )
    ),
    *(
        _rule(
            rf"{_I}[Hh]aben? {whom}(?P<what>{what})",
            f"{_USER} hat {third}{{what}}",
            "personal",
            slots.MARITAL,
        )
        for whom, third, what in (
            ("", "", rf"{_NAME} geheiratet"),
            ("(?:mich|uns|sich) ", "sich ", rf"(?:von {_NAME} )?(?:scheiden lassen|getrennt)"),
        )
    ),
    _rule(rf"{_I}[Bb]in (?P<what>(?:(?i:{_TRADE}))\b.*)", f"{_USER} ist {{what}}", "work", slots.JOB),
    _rule(rf"{_I}(?:[Hh]abe|[Ll]eide an|[Ll]eide unter) (?P<ill>{_ILLNESS})", f"{_USER} hat {{ill}}", "health"),
    *(
        _rule(
            rf"{_I}{form} (?P<what>(?!(?:es|das|dich|dir|Sie|nicht|mich) ).{{4,70}} {_PARTICIPLE})",
            f"{_USER} {third} {{what}}",
            "other",
        )
        for form, third in (("[Hh]aben?", "hat"), ("(?:[Bb]in|[Ss]ind)", "ist"))
    ),
    _rule(
        rf"{_I}[Hh]aben? (?P<what>{_COUNT} (?:\w+ )?(?:{_KIN})(?:e|en|innen)?\b.*)",
        f"{_USER} hat {{what}}",
        "relationship",
    ),
    _rule(
        rf"{_I}[Hh]aben? (?P<what>{_COUNT} (?:{_KIN}) (?:namens|mit Namen) .+)", f"{_USER} hat {{what}}", "relationship"
    ),
    _rule(rf"{_I}[Hh]aben? (?P<what>{_COUNT} (?!{_MOMENT}\b).+)", f"{_USER} hat {{what}}", "personal"),
    _rule(
        rf"{_I}(?:[Kk]ann|[Dd]arf) (?P<what>keine?n? .+ (?:essen|trinken|vertragen))",
        f"{_USER} kann {{what}}",
        "health",
    ),
    _rule(
        rf"{_I}(?:[Mm]öchten?|[Ww]ill|[Ww]ollen) "
        r"(?P<what>(?!(?:dich|dir|nur|wissen|dass|mich|dir|das|es|gerne? wissen)\b).*\w+(?:en|ern|eln))",
        f"{_USER} möchte {{what}}",
        "plan",
    ),
    _rule(rf"{_I}[Mm]uss (?P<what>{_DATED})", f"{_USER} muss {{what}}", "constraint"),
    _rule(rf"{_I}[Ww]erden? (?P<what>{_DATED}en)", f"{_USER} wird {{what}}", "plan"),
    _rule(
        r"[Mm]ir (?P<taste>gefällt|gefallen|schmeckt|schmecken) (?P<what>(?!das\b|es\b).+)",
        "Dem Nutzer {taste} {what}",
        "preference",
    ),
    _owned,
    _rule(rf"{_THEY} (?P<what>ist (?:allergisch .+|Vegetarier(?:in)?|Veganer(?:in)?|vegan))", "{who} {what}", "health"),
    _rule(rf"{_THEY} (?P<what>(?:wohnt|lebt) in .+)", "{who} {what}", "personal", slots.HOME, "{who}"),
    _rule(rf"{_THEY} (?P<what>arbeitet (?:als|für|bei|in) .+)", "{who} {what}", "work"),
    _rule(rf"{_THEY} ist meine? (?P<what>{_KIN})", "{who} ist {what} des Nutzers", "relationship"),
    _rule(rf"{_THEY} (?P<what>(?:mag|liebt|hasst) (?!das$|es$|dich\b).+)", "{who} {what}", "preference"),
    _rule(
        r"(?P<the>[Dd]er|[Dd]ie|[Dd]as) (?P<thing>Hochzeit|Feier|Party|Besprechung|Flug|Zug|Termin|Prüfung|Reise|"
        rf"Konzert|Operation|Treffen|Essen|Abendessen|Veranstaltung) (?P<what>(?:ist|beginnt|geht|findet|"
        rf"endet) {_DATED})",
        "{the} {thing} {what}",
        "plan",
        slots.DATE,
        "{thing}",
    ),
    _doing,
)
_THAT = pattern(
    r"(?:bitte )?(?:merk|denk|vergiss|beacht|notier)\w*[^,]{0,20}, dass (?P<who>ich|wir) (?P<rest>.+) (?P<verb>\w+)",
    re.IGNORECASE,
)


def _main_clause(clause: str, before: str) -> str:
    """Put the verb of "merk dir, dass ich kurze Antworten bevorzuge" second; add a missing subject from `before`."""
    if that := _THAT.fullmatch(clause):
        return f"{that['who']} {that['verb']} {that['rest']}"
    owner = pattern(rf"(?:[Mm]eine?|[Uu]nsere?) (?:{_OWNED})(?= )").match(before)
    if owner and pattern(r"(?:ist|hat|wohnt|lebt|arbeitet|studiert)\b").match(clause):
        return f"{owner[0]} {clause}"
    return clause


# First persons only: plural forms would give two verbs for one third person.
_FIRST = {third: first for first, (third, _) in _VERBS.items() if not first.endswith("en")} | {
    **{"heißt": "heiße", "ist": "bin", "hat": "habe", "möchte": "möchte", "kann": "kann"},
}
_THE_USER = pattern(r"\bDer Nutzer (?P<verb>[\wäöüß]+)")
_OF_THE_USER = pattern(r"\b(?P<the>Die|Der|Das) (?P<noun>[\wäöüß-]+) des Nutzers\b")


def _first_person(fact: str) -> str:
    """Turn "Der Nutzer wohnt in Porto" back into "Ich wohne in Porto"."""
    fact = _OF_THE_USER.sub(lambda m: f"Mein{'e' if m['the'] == 'Die' else ''} {m['noun']}", fact)
    return _THE_USER.sub(lambda m: f"Ich {_FIRST.get(m['verb'], m['verb'])}", fact)


GERMAN = Language(
    rules=_RULES,
    sentence_end=pattern(r"(?<!\d)[.!?…]{1,5}(?=\s|$)|(?<=\d)[!?]|\n"),
    question=pattern(r"\?"),
    unsure=pattern(
        r"(?:^|[ ,])(?:wenn|falls|vielleicht|eventuell|womöglich|wahrscheinlich|würde|würden|wäre|hätte|"
        r"könnte|überlege|"
        r"überlegen|angenommen|laut|sagt|sagte|sagen|angeblich|soll|sollte|denke daran|wünschte|ob)\b",
        re.IGNORECASE,
    ),
    joint=pattern(
        r"; | – |,? (?:und|aber|sowie) (?:jetzt |auch |außerdem |nun )?(?=(?:ich|mein|meine|mir|wir|"
        r"unser|unsere|habe|bin|"
        r"ist|hat|wohne|wohnt|lebe|lebt|komme|arbeite|arbeitet|mag|spiele|esse|trinke|möchte|suche|liebe|"
        r"hasse|spreche)\b)"
        r"|, (?=(?:ich|mein|meine|wir|unser|unsere)\b)"
    ),
    lead_in=pattern(
        r"^(?:(?:hallo|hi|also|übrigens|ja|nein|gut|und|aber|nun|tja|ach|ehrlich gesagt|im Moment|außerdem),? ){1,3}",
        re.IGNORECASE,
    ),
    first_person=_first_person,
    inherit=_main_clause,
)
