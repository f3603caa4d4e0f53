"""Detect the language of a text: by its script, else by its most frequent short words. Pure.

A list of short words per language is enough for whole sentences ("vivo en Oporto con mi hermana"). It does not
work for single words and names, which are left undecided.
"""

import re

from memory_core.models.offline.grammar import word_set
from memory_core.models.offline.patterns import pattern
from memory_core.text import STOP_WORDS, words

ENGLISH = "English"

_SCRIPTS = (
    ("Japanese", pattern(r"[\u3040-\u30ff]")),  # before Chinese, whose characters Japanese uses too
    ("Chinese", pattern(r"[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("Korean", pattern(r"[\uac00-\ud7af]")),
    ("Russian or Ukrainian", pattern(r"[\u0400-\u04ff]")),
    ("Greek", pattern(r"[\u0370-\u03ff]")),
    ("Arabic or Persian", pattern(r"[\u0600-\u06ff]")),
    ("Hebrew", pattern(r"[\u0590-\u05ff]")),
    ("Hindi", pattern(r"[\u0900-\u097f]")),
    ("Thai", pattern(r"[\u0e00-\u0e7f]")),
)
_SCRIPT_SHARE = 0.3
"""Fraction of a text's letters above which their script decides its language: names may be in another script."""

_SHORT_WORDS = {
    ENGLISH: STOP_WORDS | {"not", "no", "don't", "i'm", "it's", "isn't", "please", "thanks", "hello", "yes"},
    "Spanish": word_set(
        """
        a el la los las un una unos unas de del al en con por para que y o pero mi mis tu tus su sus me te se lo le les
        nos es soy eres somos está estoy estás están estamos fue era ser estar ha han hemos tengo tiene tienes tenemos
        hay muy más también no sí ya como cuando donde dónde adónde qué quién cuál cuántos cuándo cómo porque si este
        esta esto ese esa eso yo tú él ella nosotros ellos nuestro nuestra gusta gustan encanta ahora antes todas todos
        desde hasta sin sobre quiero puedo vivo trabajo hola gracias llamo quizás quizá
        hablo odio prefiero conduzco corro toco busco compré tomo vivimos aquí
        """
    ),
    "German": word_set(
        """
        der die das den dem des ein eine einen einem einer eines und oder aber ich du er sie es wir ihr mein meine
        meinen meinem meiner dein deine unser unsere ist sind bin bist war waren habe hat hast haben nicht kein keine
        keinen mit von zu zum zur im am in an auf für bei nach aus um über als auch noch schon nur sehr wie was wer wo
        wann warum dass wenn weil mir mich dir dich sich wird werden kann möchte heißt heiße jetzt jeden wohne arbeite
        wohnt magst mag guten liebe spiele esse trinke komme suche lerne fahre
        bitte danke hallo gern gerne
        """
    ),
    "French": word_set(
        """
        le la les un une des du de et ou mais je j'ai tu il elle nous vous ils mon ma mes ton ta son sa ses notre est
        suis sont était ai as avons ne pas que qui dans sur avec pour par au aux en ce cette c'est où quand comment
        très plus aussi à chez j'aime j'habite
        """
    ),
    "Italian": word_set(
        """
        il lo la gli le un una di del della e o ma io tu lui lei noi mio mia miei tuo suo sono è sei siamo ho hai ha
        non che chi con per da in su al alla nel nella mi ti si ci dove quando come perché molto più anche questo
        """
    ),
    "Portuguese": word_set(
        """
        o a os as um uma de do da dos das em no na nos nas e ou mas eu você ele ela nós meu minha meus minhas seu sua é
        sou são estou está tenho tem não que com por para se ao à onde quando como muito mais também isso moro
        """
    ),
    "Dutch": word_set(
        """
        de het een en of maar ik jij hij zij wij we mijn jouw zijn haar ons onze is ben bent was heb heeft hebben niet
        geen met van naar in op voor bij uit te dat die wie wat waar wanneer hoe ook nog al heel mij me je woon werk
        """
    ),
    "Swedish": word_set("jag du han hon vi ett och men är var har inte med av till på för om som min mitt mina i det"),
    "Polish": word_set("ja ty on ona my i oraz ale jest jestem są nie w na z do od za mój moja moje się że to mam"),
    "Turkish": word_set("ben sen o biz bir ve ama için ile benim bu şu var yok değil çok ne nerede adım da de mi"),
}
"""Frequent short words by language; a word of several languages counts for each."""

_SHARE = 0.2
"""Minimum fraction of a text's words that must be frequent short words of its language."""

_WORDS_READ = 300
"""Maximum words of a text that are looked at."""

_BY_ONE_WORD = ("Spanish", "German")
"""Languages whose lists hold the verbs of short sentences, so that a single word is enough: "soy vegano"."""
_ALSO_ENGLISH = word_set(
    "a am an as con de mi ya del die el en es gern hat hay in las los me no para se son so war was y"
)
"""Short words that are also English words, or occur in names: alone they are no sign of a language."""

_LETTER = re.compile(r"[^\W\d_]")


def language_of(text: str) -> str | None:
    """Return the English name of a text's language; None where it cannot be detected.

    >>> language_of("Vivo en Oporto con mi hermana"), language_of("我住在北京"), language_of("Ana")
    ('Spanish', 'Chinese', None)
    """
    # About eight characters a word, so that a long document costs no more than a short one.
    read = text[: _WORDS_READ * 8]
    # ASCII text is in none of the scripts, so they need not be counted.
    if not read.isascii():
        letters = len(_LETTER.findall(read))
        for language, script in _SCRIPTS:
            if len(script.findall(read)) > _SCRIPT_SHARE * letters:
                return language
    terms = words(read)[:_WORDS_READ]
    hits = {language: [term for term in terms if term in short] for language, short in _SHORT_WORDS.items()}
    best = max(hits, key=lambda language: len(hits[language]))  # of equals the first, so English before all others
    if best != ENGLISH:
        foreign = set(hits[best]) - _SHORT_WORDS[ENGLISH]
        # One foreign word may be a name or a loan, so most languages need two.
        if len(foreign) < 2 and (not foreign - _ALSO_ENGLISH or best not in _BY_ONE_WORD):
            return None
    return best if len(hits[best]) >= max(1, _SHARE * len(terms)) else None


def other_language(text: str) -> str | None:
    """Return a text's language if it is not English; None if it is English or cannot be detected.

    >>> other_language("Ich wohne in Porto"), other_language("I live in Porto")
    ('German', None)
    """
    language = language_of(text)
    return None if language == ENGLISH else language
