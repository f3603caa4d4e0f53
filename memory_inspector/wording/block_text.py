"""Words of the blocks: their cards, the cutting order above them, and a running summary. Pure; no Streamlit.

Everything returned is markdown in which quoted words are escaped, unless its docstring says that it is plain text.
Fields documented as markdown contain untrusted text only through `plain`; `Card.holds` is unescaped, for `st.text`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memory_core import Holding
from memory_core.blocks.base import CALL_TOKENS
from memory_core.curation.block_desks import SummaryRevision, recorded_revisions
from memory_core.events import EventRecord, Ref
from memory_core.history.change_log import maker
from memory_core.history.usage import BlockUse
from memory_core.messages import content_hash
from memory_core.planning.context_plan import CutOrder
from memory_core.planning.running_summary import sentences
from memory_core.text import capitalised
from memory_inspector.palette import Mode, block_colour
from memory_inspector.wording.block_kinds import kind_of, stored, stored_plural, unit_of
from memory_inspector.wording.formatting import count, plain, plural, short, tokens

NAMED = 12
"""Maximum number of lost names, numbers and dates listed in one line; beyond it they are counted."""

NAMED_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Freshness:
    """Distance between a summary and the end of the conversation, in turns."""

    covers: int | None
    """The last turn that the summary covers; None if it covers none."""
    latest: int


def freshness_then(records: Iterable[EventRecord], block: str, latest: int) -> Freshness:
    """Return the freshness of a summary after these records, the whole log or its beginning."""
    revisions = recorded_revisions(records, block)
    return Freshness(revisions[-1].covers_turn if revisions else None, latest)


def freshness_line(fresh: Freshness) -> str:
    """Freshness in words: `Covers up to turn 31, 4 turns behind`."""
    if fresh.covers is None:
        return "Covers no turn yet"
    behind = fresh.latest - fresh.covers
    how_far = f"{count(behind, 'turn')} behind" if behind > 0 else "up to date"
    return f"Covers up to turn {tokens(fresh.covers)}, {how_far}"


def sentence_refs(text: str) -> frozenset[str]:
    """The refs by which prompts name a summary's sentences."""
    return frozenset(Ref.of("text", content_hash(sentence)) for sentence in sentences(text))


def as_lines(text: str) -> str:
    """A summary with one sentence per line, for comparing versions. Plain text."""
    return "\n".join(sentences(text))


def by_whom(revision: SummaryRevision) -> str:
    """Author of a version. Plain text."""
    if revision.actor != "engine":
        return f"by {maker(revision.actor, revision.person)}"
    return f"by {short(revision.summariser)}" if revision.summariser else "by the engine"


def origin_line(revision: SummaryRevision) -> str:
    """Origin of a version, and what it covers."""
    parts = []
    if revision.restored is not None:
        parts.append(f"restores version {tokens(revision.restored)}")
    # A restored version was asked for as well; what it restores says more.
    elif revision.asked_by == "user":
        parts.append("rewritten on demand")
    if revision.messages:
        parts.append(f"read {count(revision.messages, 'message')}")
    if revision.covers_turn is not None:
        parts.append(f"covers up to turn {tokens(revision.covers_turn)}")
    if revision.shortened:
        parts.append(f"{count(revision.shortened, 'token')} of sentences left out to stay within its limit")
    line = ", ".join(parts)
    return f":gray[{plain(capitalised(line))}.]" if line else ""


def lost_line(lost: Sequence[str]) -> str:
    """The names, numbers and dates that a version lost, by name."""
    if not lost:
        return ":gray[No name, number or date of the version before is missing.]"
    named = ", ".join(f"~~{plain(short(name, NAMED_CHARACTERS))}~~" for name in lost[:NAMED])
    more = f" and {tokens(len(lost) - NAMED)} more" if len(lost) > NAMED else ""
    return f":red[:material/remove_circle: Lost: {named}{more}]"


def cost_line(messages: int, size: int, model: str | None) -> str:
    """Messages a rewrite would read, and model calls it would make; `model` is None if rules write."""
    what = f"{count(messages, 'message')}, {count(size, 'token')}" if messages else f"its own {count(size, 'token')}"
    if model is None:
        return f"It reads {what}, by rules on this machine: no model is called."
    # A learner reads at most `CALL_TOKENS` tokens in one call; without messages, one call rewrites the text.
    calls = max(1, -(-size // CALL_TOKENS)) if messages else 1
    times = "once" if calls == 1 else f"about {tokens(calls)} times"
    return f"It reads {what}, and calls {plain(short(model, NAMED_CHARACTERS))} {times}."


# -- the cards, and the line of the cutting order -------------------------------------------------


HELD_CHARACTERS = 180
"""Characters of a text shown on a card; the dialog shows all of it."""

HELD_LINES = 3

ERROR_CHARACTERS = 160

Tone = Literal["plain", "waiting", "loss"]


@dataclass(frozen=True, slots=True)
class Standing:
    """A block at the turn shown."""

    name: str
    kind: str
    """`static`, `facts`, `vector`, `summary`, ..., or `custom`."""
    type: str
    settings: Mapping[str, Any]
    text: str | None = None
    """Text of a static block or a summary; of a custom block, what it last put into a prompt."""
    text_ref: str | None = None
    """Reference of a static block's text in prompts."""
    text_tokens: int | None = None
    made_here: bool = True
    """True if this process can run the block."""
    fresh: Freshness | None = None
    """Freshness of a summary: how far it is behind."""
    sentences: frozenset[str] | None = None
    """References of a summary's sentences in prompts."""
    waits_for: str | None = None
    """Model that learns for the block, if this process does not have that model; otherwise None."""

    @property
    def enabled(self) -> bool:
        return bool(self.settings.get("enabled", True))

    @property
    def priority(self) -> int:
        return int(self.settings.get("priority", 0))

    @property
    def agent_edits(self) -> bool:
        """Tell whether the agent may edit the block's text through tools."""
        # Text with this first character is encoded images or files, not words to edit.
        given_from_python = (self.text or "").startswith("\x01")
        editable = self.kind == "static" and self.enabled and not self.settings.get("read_only", True)
        return editable and not given_from_python


@dataclass(frozen=True, slots=True)
class GrantedInPrompt:
    """A block's part of the prompt shown, in tokens."""

    asked: int
    granted: int
    limit: int
    refs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """A line on a block's card about an exceptional state."""

    icon: str
    says: str
    """Text of the line, as markdown."""
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Card:
    """The card of a block."""

    name: str
    kind: str
    size: str
    """Tokens in the prompt shown, as markdown."""
    holds: str
    lines: str
    """Share of the limit, last write and number of cuts, as markdown."""
    states: tuple[State, ...]
    waiting: bool
    """True if a delivery is waiting that could be tried now."""
    waits_for: str | None = None
    """Model that the delivery waits for; the user may let another model learn instead."""


def card(
    shown: Standing,
    part: GrantedInPrompt | None,
    use: BlockUse,
    holding: Holding,
    *,
    with_tools: bool = False,
) -> Card:
    """Build the card of a block; `with_tools`: an agent may edit one of the session's blocks."""
    return Card(
        name=shown.name,
        kind=shown.kind,
        size=_size(shown, part, use),
        holds=_holds(shown, holding),
        lines=" · ".join(_lines(shown, part, use, holding)),
        states=(*_states(shown, part, use, holding), *_for_the_agent(shown, with_tools)),
        waiting=bool(holding.waiting),
        waits_for=shown.waits_for,
    )


def square(kind: str, mode: Mode) -> str:
    """Coloured square of a kind of block, the same on every page, as markdown."""
    return f':color[■]{{foreground="{block_colour(kind, mode)}"}}'


def labelled(name: str, kind: str, mode: Mode) -> str:
    """A block's square and name, as markdown that does not break between them."""
    return f"{square(kind, mode)}\N{NO-BREAK SPACE}{plain(short(name))}"


def strip(
    order: CutOrder, priorities: Mapping[str, int], kinds: Mapping[str, str], mode: Mode, off: Iterable[str] = ()
) -> str:
    """Order in which blocks are cut, as one line of markdown; blocks of equal rank side by side."""
    left_out = set(off)

    def place(names: Iterable[str]) -> str:
        return " ".join(labelled(name, kinds.get(name, "custom"), mode) for name in names)

    groups = [[name for name in group if name not in left_out] for group in order.groups]
    steps = [f"{place(group)} :gray[{priorities[group[0]]}]" for group in groups if group]
    never = [name for name in order.never if name not in left_out]
    sentences = []
    if steps:
        order_said = "Cut in this order" if sum(map(len, groups)) > 1 else "Cut first"
        sentences.append(f":material/content_cut: {order_said}: {' → '.join(steps)}.")
    if never:
        sentences.append(f"{'Never' if steps else 'Never cut'}: {place(never)}.")
    if left_out:
        sentences.append(f"Off: {place(name for name in priorities if name in left_out)}.")
    return " ".join(sentences)


def card_order(order: CutOrder) -> tuple[str, ...]:
    """Names of blocks from "never cut" to "cut first", as everywhere in the app."""
    # Reversed within equal priority too, because the earlier block is cut first.
    return (*order.never, *(name for group in reversed(order.groups) for name in reversed(group)))


def clipped(text: str) -> str:
    """The beginning of a text: at most three non-empty lines."""
    lines = [line.rstrip() for line in text.strip().splitlines() if line.strip()]
    shown = "\n".join(lines[:HELD_LINES])
    cut_short = len(lines) > HELD_LINES or len(shown) > HELD_CHARACTERS
    return shown[:HELD_CHARACTERS].rstrip() + (" …" if cut_short else "")


def shown_sentences(text: str) -> list[tuple[str, Ref]]:
    """First sentences of a summary that fit a card, each with its reference in prompts.

    >>> [said[-9:] for said, _ in shown_sentences("Ana likes jazz. " + "So on and " * 30 + "so on. The end.")]
    ['kes jazz.', 'nd So o …']
    """
    shown_refs: list[tuple[str, Ref]] = []
    room = HELD_CHARACTERS
    for sentence in sentences(text):
        if room <= 0:
            break
        shortened = sentence if len(sentence) <= room else f"{sentence[:room].rstrip()} …"
        shown_refs.append((" ".join(shortened.split()), Ref.of("text", content_hash(sentence))))
        # One more for the blank between two sentences.
        room -= len(sentence) + 1
    return shown_refs


# -- what it holds ---------------------------------------------------------------------------------


def _size(shown: Standing, part: GrantedInPrompt | None, use: BlockUse) -> str:
    if not shown.enabled:
        return ":gray[off]"
    if part is None:
        # A block that was in no prompt yet differs from one that only this prompt leaves out.
        return ":gray[not in this prompt]" if use.prompts else ":gray[in no prompt yet]"
    if part.granted < part.asked:
        return f"**{tokens(part.granted)}** of {tokens(part.asked)} tokens"
    return f"**{tokens(part.granted)}** {'token' if part.granted == 1 else 'tokens'}"


def _holds(shown: Standing, holding: Holding) -> str:
    if shown.kind == "facts":
        return _facts(holding, bool(shown.settings.get("accept_short_term_memory", True)))
    if shown.kind == "vector":
        return _turns(shown, holding)
    if shown.kind == "graph":
        return _graph(holding)
    text = shown.text or ""
    if text.startswith("\x01"):
        return "Images or files, given from Python."
    if text.strip():
        return clipped(text)
    return kind_of(shown.kind).holds_nothing


def _facts(holding: Holding, learns: bool) -> str:
    active, proposed = holding.facts.get("active", 0), holding.facts.get("proposed", 0)
    waits = f" {tokens(proposed)} to review." if proposed else ""
    if not active:
        return f"No facts yet.{waits or (' They are learned when messages leave the queue.' if learns else '')}"
    newest = f" Newest: {clipped(' '.join(holding.newest.split()))}" if holding.newest else ""
    return f"{count(active, 'fact')}.{waits}{newest}"


def _graph(holding: Holding) -> str:
    entities, relations = holding.entities.get("active", 0), holding.relations
    if not entities:
        return "No relations yet. They are learned when messages leave the queue."
    gone = relations.get("ended", 0)
    ended = f", {tokens(gone)} ended" if gone else ""
    newest = f" Newest: {clipped(' '.join(holding.newest.split()))}" if holding.newest else ""
    return f"{count(entities, 'entity')}, {count(relations.get('active', 0) + gone, 'relation')}{ended}.{newest}"


def _turns(shown: Standing, holding: Holding) -> str:
    unit = unit_of(shown.settings)
    if not holding.turns:
        return f"No {stored_plural(unit)} yet. {capitalised(plural(unit))} are stored when they leave the queue."
    whole = shown.settings.get("truncation") == "drop"
    how = "all or none in a prompt" if whole else f"whole {plural(unit)} cut, lowest score first"
    return f"{stored(holding.turns, unit)}, {how}."


# -- its numbers -----------------------------------------------------------------------------------


def _lines(shown: Standing, part: GrantedInPrompt | None, use: BlockUse, holding: Holding) -> Iterable[str]:
    if part is not None and shown.enabled:
        yield f"{_share(part.granted, part.limit)} of the limit"
    written = use.last_write
    if shown.fresh is not None:
        yield f"{tokens(shown.text_tokens or 0)} of {tokens(int(shown.settings['max_tokens']))} tokens used"
    if shown.kind == "static":
        how = "written" if holding.texts == 1 else "edited"
        who = " by the agent" if written and written.actor == "agent" else ""
        yield f"{how} in turn {tokens(written.turn)}{who}" if written and written.turn else "unchanged since the start"
        if shown.agent_edits:
            yield characters_used(len(shown.text or ""), shown.settings.get("limit"))
    elif written is None:
        yield "nothing written yet"
    else:
        yield f"last write turn {tokens(written.turn)}" if written.turn else "written at the start"
    if use.cut_in:
        last = f", last turn\N{NO-BREAK SPACE}{tokens(use.last_cut_turn)}" if use.last_cut_turn else ""
        yield f":red[cut in {tokens(use.cut_in)} of {count(use.prompts, 'prompt')}{last}]"
    elif not shown.priority:
        yield "never cut"
    elif use.prompts:
        yield f"cut in none of {count(use.prompts, 'prompt')}"


def characters_used(used: int, limit: int | None) -> str:
    """Format the characters used: `84 of 2,000 characters`."""
    return count(used, "character") if limit is None else f"{tokens(used)} of {count(limit, 'character')}"


def _for_the_agent(shown: Standing, with_tools: bool) -> Iterable[State]:
    """States on what the agent may do with the block, in a session where it may edit any."""
    limit = shown.settings.get("limit")
    if shown.agent_edits:
        if limit is not None and len(shown.text or "") > limit:
            yield State("block", "Above its limit: the agent can only shorten it.", "waiting")
    elif with_tools and shown.kind == "static" and shown.enabled:
        yield State("lock", "Read only for the agent.")
    elif with_tools and shown.kind == "facts" and shown.enabled and not _is_given_messages(shown):
        yield State("archive", "The agent's archive: it writes here and searches it through tools.")


def _is_given_messages(shown: Standing) -> bool:
    return bool(shown.settings.get("accept_short_term_memory", True))


def _share(granted: int, limit: int) -> str:
    percent = round(100 * granted / limit) if limit else 0
    # A small share is not rounded to 0 %, which would mean that nothing is in the prompt.
    return "under 1\N{NO-BREAK SPACE}%" if granted and not percent else f"{percent}\N{NO-BREAK SPACE}%"


def _states(shown: Standing, part: GrantedInPrompt | None, use: BlockUse, holding: Holding) -> Iterable[State]:
    settings = shown.settings
    if not shown.enabled:
        yield State("toggle_off", "Off. It receives nothing and is not in the prompt.")
    if holding.waiting:
        given_up = f" {count(len(use.parked), 'delivery')} given up for now." if use.parked else ""
        reason = f" {plain(short(use.delivery_error, ERROR_CHARACTERS))}" if use.delivery_error else ""
        # Only if all deliveries come from flushes can they be counted as such.
        flushes = holding.flushes == holding.waiting
        what = (
            f"{count(holding.waiting, 'flush')} not delivered" if flushes else f"{count(holding.waiting, 'delivery')}"
        )
        model = f" Waits for {plain(short(shown.waits_for))}, which learns for it." if shown.waits_for else ""
        yield State("hourglass_top", f"Waiting: {what}.{given_up}{model or reason}", "waiting")
    if not shown.made_here:
        where = plain(short(shown.type, 60))
        yield State("extension_off", f"Not available here: this app cannot load {where}. Its last state is shown.")
    if use.read_error:
        reason = plain(short(use.read_error, ERROR_CHARACTERS))
        yield State("error", f"Could not be read for the last prompt: {reason}", "loss")
    # The prompt shown holds another version of the text than the block does now.
    if shown.text_ref and part is not None and shown.text_ref not in part.refs and shown.enabled:
        size = f"{tokens(shown.text_tokens)} tokens" if shown.text_tokens is not None else "another size"
        yield State("update", f"Edited since: {size} from the next prompt on.")
    if shown.fresh is not None:
        yield State("timelapse", f"{freshness_line(shown.fresh)}.")
    if shown.sentences is not None and part is not None and shown.enabled and _written_since(shown, part):
        yield State("update", f"Written since: {tokens(shown.text_tokens or 0)} tokens from the next prompt on.")
    most = settings.get("max_tokens")
    if shown.fresh is not None and most is not None and (shown.text_tokens or 0) > most:
        yield State("compress", "Above its limit: it is shortened when it is next written.", "waiting")
    # What follows concerns learning, which fixed text does not do.
    if shown.kind == "static":
        return
    if not settings.get("accept_short_term_memory", True):
        yield State("input_circle", "Receives no flushed messages, so it learns nothing new.")
    if settings.get("truncation") == "drop" and shown.kind != "vector":
        yield State("content_cut", "Dropped as a whole if it must be cut.")
    if settings.get("deliver_on") == "turn":
        yield State("speed", "Learns after every turn.")
    elif settings.get("deliver_on") == "session_end":
        yield State("event", "Learns when the session ends.")


def _written_since(shown: Standing, part: GrantedInPrompt) -> bool:
    """Tell whether a summary has changed since the prompt shown."""
    now, then = shown.sentences or frozenset(), frozenset(part.refs)
    # Sentences of the prompt may be fewer because some were cut; uncut, both must be the same.
    return not then <= now or (part.granted == part.asked and then != now)
