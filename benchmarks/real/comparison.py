"""Compare what is known after the conversations, explain each difference by a row of the documents, and write both."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from conversations import CONVERSATIONS, Conversation
from results import Known

SYSTEMS, LLAMAINDEX, FRAMEWORKS = (
    "docs/reference/systems.md",
    "docs/how-to/coming-from-llamaindex.md",
    "docs/reference/frameworks.md",
)
"""Pages with a table of what differs on purpose."""
BEGIN, END = "<!-- written by `make real` -->", "<!-- end of what `make real` writes -->"
SHORT = 60
"""Maximum characters of a text in the table."""


@dataclass(frozen=True)
class Difference:
    """Part of what is known after a conversation, in which the two sides differ."""

    system: str
    conversation: Conversation
    part: str
    theirs: Sequence[str]
    ours: Sequence[str]

    @property
    def theirs_alone(self) -> list[str]:
        return list((Counter(self.theirs) - Counter(self.ours)).elements())

    @property
    def ours_alone(self) -> list[str]:
        return list((Counter(self.ours) - Counter(self.theirs)).elements())

    def line(self) -> str:
        """Return the difference in short."""
        sides = {"there alone": self.theirs_alone, "here alone": self.ours_alone}
        if not any(sides.values()):
            return f"{self.part}: another order"
        return f"{self.part}, " + "; ".join(f"{side}: {_listed(texts)}" for side, texts in sides.items() if texts)


@dataclass(frozen=True)
class Explanation:
    """A row of a document, and which differences it explains."""

    systems: tuple[str, ...]
    parts: tuple[str, ...]
    row: str
    """First cell of the row."""
    fits: Callable[[Difference], bool]
    page: str = SYSTEMS

    def explains(self, difference: Difference) -> bool:
        return difference.system in self.systems and difference.part in self.parts and self.fits(difference)


def _same_words(difference: Difference) -> bool:
    """Return whether the other side has nothing but repetitions, in whichever case, of what is known here."""
    known = {text.casefold() for text in difference.ours}
    return not difference.ours_alone and {text.casefold() for text in difference.theirs} == known


def _in_pieces(difference: Difference) -> bool:
    """Return whether the same sentences are several facts here."""
    several = len(difference.ours_alone) > len(difference.theirs_alone) > 0
    return several and _sentences(difference.theirs_alone) == _sentences(difference.ours_alone)


def _learned_later(difference: Difference) -> bool:
    """Return whether all that is known here alone was said when the model failed."""
    failed = [statement.fact for statement in difference.conversation.statements if statement.fails]
    return _adds(difference, failed)


def _learned_in_context(difference: Difference) -> bool:
    """Return whether all that is known here alone needs other messages to be understood."""
    return _adds(difference, [statement.fact for statement in difference.conversation.statements if statement.needs])


def _newest_turn_stays(difference: Difference) -> bool:
    """Return whether the newest turn is whole here, and partly gone there."""
    newest = [str(message["content"]) for message in difference.conversation.turns[-1]]
    return [text.partition(": ")[2] for text in difference.ours] == newest and not difference.theirs_alone


def _newest_turn_not_summed_up(difference: Difference) -> bool:
    """Return whether the summary lacks what the newest turn states, and nothing else."""
    newest = " ".join(str(message["content"]) for message in difference.conversation.turns[-1])
    stated = [one.fact for one in difference.conversation.statements if one.words in newest]
    missing = _sentences(difference.theirs) - _sentences(difference.ours)
    return _sentences(difference.ours) <= _sentences(difference.theirs) and missing == _sentences(stated)


def _one_entity(difference: Difference) -> bool:
    """Return whether both sides are the same once names are compared without case."""
    return _merged(difference.theirs) == _merged(difference.ours)


def _adds(difference: Difference, facts: Iterable[str]) -> bool:
    return not difference.theirs_alone and set(difference.ours_alone) <= set(facts)


def _sentences(texts: Iterable[str]) -> set[str]:
    return {sentence.rstrip(".") for text in texts for sentence in re.split(r"(?<=\.) ", text)}


def _merged(entities: Iterable[str]) -> dict[str, set[str]]:
    merged: dict[str, set[str]] = {}
    for entity in entities:
        name, _, observations = entity.casefold().partition(": ")
        merged.setdefault(name, set()).update(filter(None, observations.split("; ")))
    return merged


MEMORIES = ("memories",)
TWICE = "the same memory twice, or in other case, is two rows; an empty one is kept"
SUMMED_UP = "`ChatSummaryMemoryBuffer`: a newest turn above the limit is summed up, too"
EXPLANATIONS = (
    Explanation(("mem0",), MEMORIES, "a memory in other case is another memory", _same_words),
    Explanation(("mem0",), MEMORIES, "an `add` that the model fails is lost", _learned_later),
    Explanation(("mem0",), MEMORIES, "a memory of any length is one", _in_pieces),
    Explanation(("agno",), MEMORIES, TWICE, _same_words),
    Explanation(("agno",), MEMORIES, "a run whose memories the model fails to give is lost", _learned_later),
    Explanation(("agno",), MEMORIES, "a memory of any length is one row", _in_pieces),
    Explanation(("agno",), MEMORIES, "the model is shown the user's message and all memories", _learned_in_context),
    Explanation(("llamaindex",), ("facts",), "a fact of any length is one", _in_pieces, LLAMAINDEX),
    Explanation(
        ("llamaindex",), ("facts",), "a block that fails to learn fails `put`, and never gets these messages again",
        _learned_later, LLAMAINDEX,
    ),
    Explanation(
        ("llamaindex",), ("buffer",), "`ChatMemoryBuffer`: an answer without its question may be all that fits",
        _newest_turn_stays, LLAMAINDEX,
    ),
    Explanation(("llamaindex",), ("after the summary",), SUMMED_UP, _newest_turn_stays, LLAMAINDEX),
    Explanation(("llamaindex",), ("summary",), SUMMED_UP, _newest_turn_not_summed_up, LLAMAINDEX),
    Explanation(
        ("mcp",), ("entities", "relations"), 'names that differ in case, in quotes or in a leading "the"',
        _one_entity, FRAMEWORKS,
    ),
)  # fmt: skip


def differences(system: str, theirs: Mapping[str, Known], ours: Mapping[str, Known]) -> list[Difference]:
    """Return every part in which the two sides differ, in the order of the conversations."""
    return [
        Difference(system, conversation, part, texts, ours[conversation.name].get(part, []))
        for conversation in CONVERSATIONS
        for part, texts in theirs[conversation.name].items()
        if texts != ours[conversation.name].get(part, [])
    ]


def explanation(difference: Difference) -> Explanation | None:
    """Return the first explanation that fits; None if the difference is unexplained."""
    return next((one for one in EXPLANATIONS if one.explains(difference)), None)


@dataclass(frozen=True)
class Compared:
    """Result of a system that was run."""

    system: str
    versions: Mapping[str, str]
    differences: Sequence[Difference]


def table(compared: Sequence[Compared], notes: Sequence[str], date: str) -> str:
    """Return the result as markdown: a row for each system, one for each difference, and notes."""
    lines = [
        f"{date}: {len(CONVERSATIONS)} conversations, each with the real system and with ours, and one model for both.",
        "",
        "| system | version | conversations equal | different |",
        "|---|---|---|---|",
    ]
    for one in compared:
        versions = ", ".join(f"{package} {version}" for package, version in one.versions.items())
        different = len({difference.conversation.name for difference in one.differences})
        lines.append(f"| {one.system} | {versions} | {len(CONVERSATIONS) - different} | {different} |")
    lines += ["", "| system | conversation | difference | explained by |", "|---|---|---|---|"]
    for difference in (difference for one in compared for difference in one.differences):
        reason = explanation(difference)
        cells = (
            difference.system,
            difference.conversation.name,
            difference.line(),
            reason.row if reason else "unexplained",
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, "", *notes, ""])


def rewritten(page: str, section: str) -> str:
    """Return a page with this text between its two marks.

    Raises:
        ValueError: the page has no such marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no section between {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{section.strip()}\n\n{END}{after}"


def last_versions(page: str) -> dict[str, str]:
    """Return the versions that the section of a page names, by package."""
    section = page.partition(BEGIN)[2].partition(END)[0]
    rows = re.findall(r"^\| [\w-]+ \| ([^|]+) \| \d+ \| \d+ \|$", section, re.MULTILINE)
    rows += re.findall(r"^\| (\S+ \S+) \| \w+ → \w+ \|", section, re.MULTILINE)
    return dict(pair.rsplit(" ", 1) for row in rows for pair in row.split(", "))


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(f'"{text if len(text) <= SHORT else text[: SHORT - 1] + "…"}"' for text in texts)
