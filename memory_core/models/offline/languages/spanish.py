"""Rules for Spanish: "vivo en Oporto" becomes "El usuario vive en Oporto". Pure."""

import re

from memory_core.models.offline.languages.reading import VALUE_CHARACTERS, Language, Rule, pattern_rule
from memory_core.models.offline.patterns import pattern
from memory_core.models.offline.wording import StatedFact
from memory_core.planning import slots
from memory_core.planning.slots import Slot, of_user

_USER = "El usuario"
_NAME = r"[A-ZÁÉÍÓÚÑ][\wáéíóúüñ-]{1,25}(?: [A-ZÁÉÍÓÚÑ][\wáéíóúüñ-]{1,25}){0,2}"
_DATED = r"(?=.*(?:\d|lunes|martes|miércoles|jueves|viernes|sábado|domingo|mañana|enero|febrero|marzo|abril|mayo|junio|"
_DATED += r"julio|agosto|septiembre|octubre|noviembre|diciembre)).+"

_KIN = (
    "madre|padre|mamá|papá|hermana|hermano|hermanas|hermanos|hija|hijo|hijas|hijos|esposa|esposo|mujer|marido|pareja|"
    "novia|novio|abuela|abuelo|tía|tío|prima|primo|sobrina|sobrino|suegra|suegro|cuñada|cuñado|amiga|amigo|vecina|"
    "vecino|jefa|jefe|colega|compañera|compañero|profesora|profesor|médica|médico|perra|perro|gata|gato|mascota|bebé"
)
_OWNED = (
    rf"(?:mejor )?(?:{_KIN})|nombre|edad|cumpleaños|aniversario|trabajo|empresa|presupuesto|límite|dirección|teléfono|"
    r"número de teléfono|correo|coche|carro|bicicleta|casa|piso|apartamento|vuelo|tren|cita|reunión|entrevista|boda|"
    r"operación|examen|alergia|dieta|horario|alquiler|fiesta|cena|viaje|universidad|escuela|medicación|sueldo|"
    r"(?:\w+ )?(?:color|comida|película|libro|música|canción|deporte|equipo|plato|bebida|ciudad|serie|animal|"
    r"número|postre|autor|autora|grupo|juego|flor) (?:favorit[oa]|preferid[oa])"
)
_FEMININE = pattern(r"(?:mejor )?(?:mujer|madre|\w*(?:[aá](?<!mascotá)|ción|dad|tud))\b.*")
_MASCULINE = pattern(r"(?:mejor )?(?:papá|problema|día|sofá|idioma|tema)\b.*")
_ATTRIBUTES = {"cumpleaños": slots.BIRTHDAY, "nombre": slots.NAME, "edad": slots.AGE, "dirección": slots.ADDRESS}

_VERBS = {
    # first person: (third person, category)
    **{"vivo": ("vive", "personal"), "vivimos": ("vive", "personal"), "trabajo": ("trabaja", "work")},
    **{"hablo": ("habla", "personal"), "conduzco": ("conduce", "personal"), "manejo": ("maneja", "personal")},
    **{"vengo": ("viene", "personal"), "nací": ("nació", "personal"), "odio": ("odia", "preference")},
    **{"detesto": ("detesta", "preference"), "prefiero": ("prefiere", "preference"), "adoro": ("adora", "preference")},
    **{"amo": ("ama", "preference"), "como": ("come", "preference"), "bebo": ("bebe", "preference")},
    **{"tomo": ("toma", "preference"), "fumo": ("fuma", "preference"), "toco": ("toca", "preference")},
    **{"juego": ("juega", "preference"), "corro": ("corre", "preference"), "nado": ("nada", "preference")},
    **{"colecciono": ("colecciona", "preference"), "leo": ("lee", "preference"), "cocino": ("cocina", "preference")},
    **{"viajo": ("viaja", "preference"), "practico": ("practica", "preference"), "pinto": ("pinta", "preference")},
    **{"bailo": ("baila", "preference"), "canto": ("canta", "preference"), "escribo": ("escribe", "preference")},
    **{"estudio": ("estudia", "work"), "enseño": ("enseña", "work"), "dirijo": ("dirige", "work")},
    **{"aprendo": ("aprende", "other"), "busco": ("busca", "plan"), "quiero": ("quiere", "plan")},
    **{"planeo": ("planea", "plan"), "compré": ("compró", "other"), "vendí": ("vendió", "other")},
    **{"visité": ("visitó", "other"), "empecé": ("empezó", "other"), "adopté": ("adoptó", "other")},
    **{"aprendí": ("aprendió", "other"), "perdí": ("perdió", "other"), "gané": ("ganó", "other")},
    **{"reservé": ("reservó", "other"), "terminé": ("terminó", "other"), "conocí": ("conoció", "other")},
    **{"viajé": ("viajó", "other"), "dejé": ("dejó", "other"), "compramos": ("compró", "other")},
    **{"reservamos": ("reservó", "other"), "visitamos": ("visitó", "other"), "planeamos": ("planea", "plan")},
}
_DOES = pattern(r"(?P<not>(?:ya )?no |nunca )?(?P<verb>[\wáéíóúñ]+) (?P<rest>.+)", re.IGNORECASE)
_VAGUE = pattern(
    r"(?:que|lo|la|eso|esto|esa|ese|algo|nada|todo|saber|decir|preguntar|pedir|hablar|ver|bien|mucho|"
    r"aquí|allí)\b(?! \w+ \w)",
    re.IGNORECASE,
)
_MINE = {
    "mi": "su", "mis": "sus", "me": "se", "conmigo": "consigo", "mío": "suyo", "mía": "suya", "nuestro": "su",
    "nuestra": "su", "nuestros": "sus", "nuestras": "sus", "nos": "se",
}  # fmt: skip
_MINE_WORD = pattern(r"\b(?:mis?|me|conmigo|mí[oa]|nuestr[oa]s?|nos)\b", re.IGNORECASE)
_CUT = pattern(r",? (?:porque|pero|aunque|ya que|así que|mientras|cuando|donde|y (?:me|nos|mi|yo|ahora))\b.*$")


def _third(rest: str) -> str:
    """Return the words after a verb, cut before another clause, with "mi" and "me" turned into the third person."""
    return _MINE_WORD.sub(lambda word: _MINE[word[0].lower()], _CUT.sub("", rest)).strip(" ,.")


def _doing(clause: str) -> StatedFact | None:
    match = _DOES.fullmatch(clause)
    if match is None or match["verb"].lower() not in _VERBS or _VAGUE.match(match["rest"]):
        return None
    verb, category = _VERBS[match["verb"].lower()]
    rest, denied = _third(match["rest"]), (match["not"] or "").lower()
    if not rest or len(rest) > VALUE_CHARACTERS:
        return None
    if denied and verb in ("come", "bebe", "toma", "fuma"):
        category = "health"
    return StatedFact(f"{_USER} {denied}{verb} {rest}", category, _slot(verb, rest), bool(denied))


def _slot(verb: str, rest: str) -> Slot | None:
    first = rest.split(" ")[0]
    if verb == "vive" and first in ("en", "cerca"):
        return of_user(slots.HOME)
    if verb == "viene" and first == "de":
        return of_user(slots.ORIGIN)
    if verb == "trabaja":
        attribute = {"como": slots.JOB, "de": slots.JOB, "para": slots.EMPLOYER}.get(first)
        return None if attribute is None else of_user(attribute)
    return None


def _owned(clause: str) -> StatedFact | None:
    match = _POSSESSED.fullmatch(clause)
    if match is None or len(match["rest"]) > VALUE_CHARACTERS:
        return None
    noun, verb, rest = match["noun"], match["verb"], _third(match["rest"])
    kin = pattern(rf"(?:mejor )?(?:{_KIN})").fullmatch(noun)
    owner = f"{_article(noun, plural=match['mine'].endswith('s'))} {noun} del usuario"
    attribute = _ATTRIBUTES.get(noun, noun)
    if verb == "se llama":
        return StatedFact(f"{owner} se llama {rest}", "relationship") if kin else None
    if kin:
        holds = {"vive en": slots.HOME, "trabaja para": slots.EMPLOYER}
        attribute = holds.get(f"{verb} {rest.split(' ')[0]}", "")
        slot = Slot(f"user.{noun}", attribute) if attribute else None
        return StatedFact(f"{owner} {verb} {rest}", _kind(verb, rest) or "relationship", slot)
    favourite = noun.endswith(("favorito", "favorita", "preferido", "preferida"))
    timed = pattern(_DATED).fullmatch(rest) is not None
    # A possession with an adjective alone is an opinion: "mi coche es rápido".
    if not (favourite or timed or noun in _ATTRIBUTES or re.match(r"[\d€$A-ZÁÉÍÓÚÑ]|un[oa]? ", rest)):
        return None
    category = "preference" if favourite else "personal" if noun in _ATTRIBUTES else "plan" if timed else "personal"
    at_a_time = verb not in ("es", "es de", "está")
    slot = Slot(f"user.{attribute}", slots.TIME) if at_a_time else of_user(attribute)
    return StatedFact(f"{owner} {verb} {rest}", category, slot)


_POSSESSED = pattern(
    rf"(?P<mine>[Mm]is?|[Nn]uestr[oa]s?) (?P<noun>{_OWNED}) "
    r"(?P<verb>se llama|es de|es|son|está|tiene|vive|trabaja|estudia|cumple|sale|llega|empieza|termina|cuesta|odia|"
    r"prefiere|come|toca|juega|habla) (?P<rest>.+)"
)


def _article(noun: str, *, plural: bool) -> str:
    feminine = bool(_FEMININE.fullmatch(noun)) and not _MASCULINE.fullmatch(noun)
    return ("Las" if plural else "La") if feminine else ("Los" if plural else "El")


def _kind(verb: str, rest: str) -> str | None:
    """Return the fact category of a verb and its complement; None if no rule matches."""
    if verb == "es" and pattern(r"(?:alérgic|vegetarian|vegan|celíac|diabétic|asmátic|intolerante).*").match(rest):
        return "health"
    if verb == "tiene" and pattern(
        r"(?:diabetes|asma|migrañas?|hipertensión|epilepsia|artritis|cáncer|alergia|insomnio|depresión|ansiedad)\b.*"
    ).match(rest):
        return "health"
    return {"trabaja": "work", "estudia": "work", "vive": "personal", "tiene": "personal"}.get(verb)


_ILLNESS = (
    r"(?:diabetes|asma|migrañas?|hipertensión|epilepsia|artritis|cáncer|insomnio|depresión|ansiedad|alergia a .+)"
)
_COUNT = r"(?:un|una|dos|tres|cuatro|cinco|seis|siete|ocho|varios|varias|muchos|\d+)"
_MOMENT = (
    r"(?:pregunta|duda|problema|idea|momento|rato|minuto|mal día|buen día|hambre|sed|frío|calor|"
    r"sueño|razón|ganas|miedo)"
)
_STATUSES = (
    (r"(?:casad|solter|divorciad|comprometid|viud|separad)[oa]s?", slots.MARITAL),
    (r"(?:jubilad|retirad)[oa]s?", slots.STATUS),
)
_BECAME = {"divorcié": "divorció", "casé": "casó", "separé": "separó"}
"""Verbs that give a new marital status, in the first and third person."""
_TRADE = (
    r"(?!mayor|mejor|peor|menor|consciente|paciente|feliz|capaz)\w+(?:dora?|tora?|sora?|ista|eros?|era|logo|loga|iatra|"
    r"ario|aria)|médic[oa]|abogad[oa]|arquitect[oa]|ingenier[oa]|músic[oa]|estudiante|periodista|químic[oa]|físic[oa]|"
    r"matemátic[oa]|cociner[oa]|chef|poeta|electricista|mecánic[oa]|veterinari[oa]|farmacéutic[oa]|piloto|soldado"
)


def _rule(said: str, text: str, category: str, attribute: str | None = None, subject: str = "user") -> Rule:
    return pattern_rule(pattern(said), text, category, attribute, subject, reworded=_third)


_I = r"(?:[Yy]o )?"
_THEY = (
    rf"(?P<who>(?!(?:Mi|Mis|Su|Sus|El|La|Los|Las|Un|Una|Yo|Me|No|Eso|Esto|Esa|Este|Esta|Ese|Hoy|Qué|Él|Ella)\b){_NAME})"
)
_RULES: tuple[Rule, ...] = (
    _rule(rf"{_I}[Mm]e llamo (?P<name>{_NAME})", f"{_USER} se llama {{name}}", "personal", slots.NAME),
    _rule(rf"[Mm]i nombre es (?P<name>{_NAME})", f"{_USER} se llama {{name}}", "personal", slots.NAME),
    _rule(
        r"(?:[Yy]o |[Yy]a )?(?:[Mm]e|[Nn]os) (?:mudé|he mudado|mudamos|hemos mudado) a (?P<where>.+)",
        f"{_USER} se mudó a {{where}}",
        "personal",
        slots.HOME,
    ),
    _rule(
        rf"(?:{_I}|[Aa] mí )(?P<no>no )?[Mm]e (?P<taste>gustan?|encantan?|interesan?|fascinan?|apasionan?) "
        r"(?P<what>(?!que\b|eso\b|esto\b|saber\b|mucho$|cómo\b|la idea\b).+)",
        "Al usuario {no} le {taste} {what}",
        "preference",
    ),
    _rule(rf"{_I}[Tt]engo (?P<years>\d+ años)", f"{_USER} tiene {{years}}", "personal", slots.AGE),
    _rule(rf"{_I}(?:[Tt]engo|[Ss]ufro de) (?P<ill>{_ILLNESS})", f"{_USER} tiene {{ill}}", "health"),
    _rule(
        rf"{_I}(?:[Tt]engo|[Tt]enemos) (?P<what>{_COUNT} (?:\w+ )?(?:{_KIN})s?\b.*)",
        f"{_USER} tiene {{what}}",
        "relationship",
    ),
    _rule(
        rf"{_I}(?:[Tt]engo|[Tt]enemos) (?P<what>{_COUNT} (?!{_MOMENT}\b|poco\b).+)",
        f"{_USER} tiene {{what}}",
        "personal",
    ),
    *(
        _rule(rf"{_I}{verb} (?P<how>{how})\b.*", f"{_USER} {third} {{how}}", "personal", attribute)
        for verb, third in (("(?:[Ee]stoy|[Ee]stamos)", "está"), ("[Ss]oy", "es"))
        for how, attribute in _STATUSES
    ),
    *(
        _rule(
            rf"(?:[Yy]o |[Yy]a )?(?:[Mm]e (?:{first}|he {first[:-1]}ado)|"
            rf"[Nn]os (?:{first[:-1]}amos|hemos {first[:-1]}ado))"
            rf"(?: (?P<whom>(?:con|de) {_NAME}))?(?: (?:ayer|hace poco|este año|el (?:año|mes) pasado))?",
            f"{_USER} se {third} {{whom}}",
            "personal",
            slots.MARITAL,
        )
        for first, third in _BECAME.items()
    ),
    _rule(
        rf"{_I}(?:[Ee]stoy|[Ee]stamos) (?P<what>(?:buscando|planeando|preparando|organizando|"
        rf"planificando) (?!que\b).+)",
        f"{_USER} está {{what}}",
        "plan",
    ),
    _rule(
        rf"{_I}(?:[Ee]stoy|[Ee]stamos) (?P<what>(?:aprendiendo|estudiando|escribiendo|leyendo|"
        rf"trabajando en|haciendo un) .+)",
        f"{_USER} está {{what}}",
        "other",
    ),
    _rule(
        rf"{_I}(?P<no>no )?[Ss]oy "
        r"(?P<how>(?:alérgic[oa] .+|intolerante a .+|(?:vegetarian|vegan|celíac|diabétic|asmátic|hipertens)[oa]))",
        f"{_USER} {{no}} es {{how}}",
        "health",
    ),
    _rule(rf"{_I}[Ss]oy de (?P<where>{_NAME})", f"{_USER} es de {{where}}", "personal", slots.ORIGIN),
    _rule(rf"{_I}[Ss]oy (?P<what>(?:un |una )?(?:{_TRADE})\b.*)", f"{_USER} es {{what}}", "work", slots.JOB),
    _rule(rf"{_I}[Nn]o puedo (?P<what>(?:comer|beber|tomar|consumir) .+)", f"{_USER} no puede {{what}}", "health"),
    _rule(rf"{_I}[Tt]engo que (?P<what>{_DATED})", f"{_USER} tiene que {{what}}", "constraint"),
    _rule(rf"{_I}(?:[Vv]oy|[Vv]amos) a (?P<what>\w+[aei]r\b.* {_DATED})", f"{_USER} va a {{what}}", "plan"),
    _rule(r"[Ff]ui(?:mos)? a (?P<where>.+)", f"{_USER} fue a {{where}}", "other"),
    _owned,
    _rule(
        rf"{_THEY} (?P<what>es (?:alérgic[oa] a .+|vegetarian[oa]|vegan[oa]|celíac[oa]|diabétic[oa]))",
        "{who} {what}",
        "health",
    ),
    _rule(rf"{_THEY} (?P<what>vive en .+)", "{who} {what}", "personal", slots.HOME, "{who}"),
    _rule(rf"{_THEY} (?P<what>trabaja (?:como|para|en) .+)", "{who} {what}", "work"),
    _rule(rf"{_THEY} es (?P<what>mi (?:mejor )?(?:{_KIN}))", "{who} es {what} (del usuario)", "relationship"),
    _rule(rf"[Aa] {_THEY} (?P<what>(?:no )?le (?:gustan?|encantan?) .+)", "A {who} {what}", "preference"),
    _rule(
        r"(?P<the>[Ee]l|[Ll]a) (?P<thing>boda|cena|fiesta|reunión|vuelo|tren|cita|examen|entrevista|viaje|concierto|"
        rf"operación|evento|comida) (?P<what>(?:es|será|empieza|sale|termina) {_DATED})",
        "{the} {thing} {what}",
        "plan",
        slots.DATE,
        "{thing}",
    ),
    _doing,
)

_FIRST = {third: first for first, (third, _) in reversed(_VERBS.items())} | {
    **{"es": "soy", "está": "estoy", "tiene": "tengo", "se llama": "me llamo", "se mudó": "me mudé"},
    **{f"se {third}": f"me {first}" for first, third in _BECAME.items()},
}
_THE_USER = pattern(r"\bEl usuario (?P<not>(?:ya )?no |nunca )?(?P<verb>se \w+|[\wáéíóúñ]+)")
_OF_THE_USER = pattern(r"\b(?P<the>El|La|Los|Las) (?P<noun>[\wáéíóúñ ]{2,40}?) del usuario\b")


def _first_person(fact: str) -> str:
    """Turn "El usuario vive en Oporto" back into "Vivo en Oporto"."""
    fact = _OF_THE_USER.sub(lambda m: f"Mi{'s' if m['the'].endswith('s') else ''} {m['noun']}", fact)
    return _THE_USER.sub(lambda m: f"{m['not'] or ''}{_FIRST.get(m['verb'], m['verb'])}", fact)


SPANISH = Language(
    rules=_RULES,
    sentence_end=pattern(r"[.!?…]{1,5}(?=\s|$)|\n"),
    question=pattern(r"[?¿]"),
    unsure=pattern(
        r"(?:^|[ ,])(?:si|quizás?|tal vez|a lo mejor|ojalá|podría|podríamos|gustaría|pensando en|según|dice|dijo|"
        r"dicen|acaso|como si|puede que|supongamos|imagina|probablemente)\b",
        re.IGNORECASE,
    ),
    joint=pattern(
        r"; | – |, (?=(?:y |pero )?(?:[Mm]i|[Mm]e|[Tt]engo|[Ss]oy|[Vv]ivo|[Tt]rabajo)\b)"
        r"|,? (?:y|pero|e) (?:también |además |ahora |ya )?(?=(?:yo|mi|mis|me|nos|no|soy|estoy|tengo|tiene|vivo|vive|"
        r"vengo|trabajo|trabaja|quiero|prefiero|odio|nuestr[oa]|voy|hablo|estudio)\b)"
    ),
    lead_in=pattern(
        r"^(?:(?:bueno|pues|además|también|ahora|hola|oye|por cierto|en realidad|actualmente|la verdad|y|pero|sí|"
        r"recuerda|recuerde|por favor|no olvides|ten en cuenta|apunta)(?:,? que\b)?,? ){1,3}",
        re.IGNORECASE,
    ),
    first_person=_first_person,
    # "mi hijo se llama Leo y tiene seis años": the second clause is about the son
    inherit=lambda clause, before: (
        f"{owner[0]} {clause}"
        if (owner := pattern(rf"(?:[Mm]is?|[Nn]uestr[oa]s?) (?:{_OWNED})(?= )").match(before))
        and pattern(r"(?:tiene|vive|trabaja|es|está|estudia)\b").match(clause)
        else clause
    ),
)
