"""HTML of each object of the engine in a notebook: the function `render` of the entry point `memory_core.html`."""

from collections.abc import Mapping
from functools import singledispatch

from memory_core import ChatMessage, Context, Memory
from memory_core.curation.change_sets import Change
from memory_core.curation.known_facts import FactList
from memory_core.engine.next_prompt import NextPrompt
from memory_core.events import AgentAttached, ContextBuilt
from memory_core.messages import message_text
from memory_core.planning.context_plan import QUEUE, RESERVED_LABEL, ContextPlan, Cut
from memory_core.planning.fact_merging import Fact
from memory_core.planning.flush import FlushPlan
from memory_core.text import listed
from memory_core.tracing.rule_words import CUTS, FLUSHES
from memory_core.tracing.values import CutEntry, Stage, Trace, Track, Verdict
from memory_core.tracing.words import VERDICTS, brief, carrier_name, prompt_of, stage_name
from memory_inspector.figures import budget_lanes
from memory_inspector.figures.budget_lanes import Lanes, Segment
from memory_inspector.notebook.markup import Html, card, folded, items, joined, table, tag, words
from memory_inspector.palette import block_colour
from memory_inspector.wording.event_sentences import describe
from memory_inspector.wording.event_sentences.event_words import present_words
from memory_inspector.wording.event_sentences.line import Line
from memory_inspector.wording.formatting import count, session_name, short, tokens
from memory_inspector.wording.story import STORY_KINDS, story

QUOTED = 80
"""Maximum characters of words within a sentence."""

NOTHING: Mapping[str, str] = {}

MARKS: Mapping[Verdict, str] = {"passed": "✓", "lost": "✕", "waiting": "…", "not_reached": "–", "unknown": "?"}


def render(shown: object) -> str | None:
    """Return an object of the engine as HTML for a notebook; None for any other object."""
    inside = body(shown)
    return card(inside) if inside else None


@singledispatch
def body(shown: object) -> Html:
    """Return the contents of an object's card; empty for an object that has none."""
    return Html()


@body.register
def _(memory: Memory) -> Html:
    status = memory.session.status()
    newest = memory.events(kinds=[ContextBuilt.kind], newest_first=True, limit=1)
    built = newest[0].event if newest and isinstance(newest[0].event, ContextBuilt) else None
    events = memory.events(turn=status.turns, kinds=STORY_KINDS)
    named = present_words(memory, events)
    kinds = {attached.name: attached.kind for attached in memory.blocks}
    segments: tuple[Segment, ...] = ()
    # Another program's prompt was recorded, not planned: its limit is not known, and its queue is its own.
    if built.known != "built" if built else memory.events(kinds=[AgentAttached.kind], limit=1):
        budget = tag("p", describe(built, named).text if built else "")
    else:
        lanes = budget_lanes.lanes_of(status, built, kinds)
        until_flush = tag("p", budget_lanes.queue_sentence(status).replace("**", ""), kind="quiet")
        budget = joined(Html(budget_lanes.lanes_html(lanes, "css")), until_flush)
        segments = budget_lanes.in_order(lanes)
    parts = [(_name(s.label, s.kind), budget_lanes.amount(s), _note(s)) for s in segments]
    unused = [name for name in kinds if name not in {segment.label for segment in segments}]
    parts += [(_name(name, kinds[name]), "–", tag("span", "in no prompt yet", kind="quiet")) for name in unused]
    lines = story(events, named) or [Line("", "Nothing left the queue, and nothing had to be cut.")][: status.turns]
    sizes = f"{count(status.turns, 'turn')}, {count(status.queue_messages, 'message')} in the queue"
    sizes += f", {tokens(status.archived_messages)} archived" if status.archived_messages else ""
    return joined(
        _title(short(session_name(status.title, status.session_id), QUOTED), sizes),
        budget,
        table((f"Prompt of turn {tokens(newest[0].turn)}" if newest else "No prompt yet", "Tokens", ""), parts, tuple),
        tag("p", f"What memory did in turn {tokens(status.turns)}" if status.turns else "No turn yet.", kind="head"),
        tag("ul", items(lines, _story_line)),
    )


def _title(title: str, more: str = "") -> Html:
    return tag("p", tag("b", title), tag("span", more, kind="quiet"), kind="title")


def _name(name: str, kind: str) -> Html:
    square = Html(f'<span aria-hidden="true" style="color:{block_colour(kind, "css")}">■</span> ')
    return tag("span", square, short(name), title=name)


def _note(segment: Segment) -> Html:
    cut = f" cut {tokens(segment.cut)}" if segment.cut else ""
    return joined(tag("span", budget_lanes.note_of(segment), kind="quiet"), tag("span", cut, kind="loss"))


def _story_line(line: Line) -> Html:
    """Return a line of a turn's story with short details; what a reader may ask further is its title."""
    details = "; ".join(short(detail, QUOTED) for detail in line.details)
    sentence = tag("span", line.text, kind="loss" if line.tone == "loss" else "", title="\n".join(line.more))
    return joined(sentence, tag("span", f": {details}" if details else "", kind="quiet"))


@body.register
def _(context: Context) -> Html:
    problems = [f"{name} could not be read: {problem}" for name, problem in context.failures.items()]
    messages = tag("ul", items(context.messages, _message))
    problems += [f"Not in the log: {context.unrecorded}"] if context.unrecorded is not None else []
    return joined(
        _plan(context.plan, context.kinds, context.words),
        *(tag("p", problem, kind="loss") for problem in problems),
        tag("p", context.explain().rpartition("\n")[2].capitalize(), kind="quiet"),  # what is billed
        folded(f"{count(len(context.messages), 'message')} for the model", messages),
    )


def _message(message: ChatMessage) -> Html:
    return joined(tag("b", str(message.role)), " ", words(message_text(message)))


@body.register
def _plan(plan: ContextPlan, kinds: Mapping[str, str] = NOTHING, texts: Mapping[str, str] = NOTHING) -> Html:
    """Return the lane of a prompt, and its parts with their pieces; those that were cut are struck through."""
    pinned, queued = plan.pinned_tokens, count(len(plan.queue), "message")
    segments = [Segment("Queue", "queue", plan.queue_granted, None, plan.queue_asked, queued)]
    segments += [Segment("System messages", "custom", pinned, 0, pinned, "pinned")] if pinned else []
    beside = plan.reserved_tokens
    segments += [Segment(RESERVED_LABEL, "custom", beside, 0, beside, "the agent's")] if beside else []
    for part in plan.granted:
        segments.append(Segment(part.name, kinds.get(part.name, "custom"), part.granted, part.priority, part.asked))
    cut = sum(cut.tokens for cut in plan.cuts)
    lanes = Lanes(plan.token_limit, flush_line=0, sent=tuple(segments), free=plan.free, queue_now=0, cut=cut)
    pieces = {part.name: [texts[piece.ref] for piece in part.pieces if texts.get(piece.ref)] for part in plan.granted}
    head = tag("div", *(tag("span", title) for title in ("Part", "Requested", "Granted")), kind="quiet")
    parts = []
    for s in budget_lanes.in_order(lanes):
        place = QUEUE if s.kind == "queue" else s.label
        cells = _name(s.label, s.kind), tokens(s.asked), tokens(s.tokens), _note(s)
        columns = joined(*(tag("span", cell) for cell in cells))
        cuts = [_cut(cut, texts) for cut in plan.cuts if cut.part == place]
        inside = tag("ul", items(pieces.get(place, ()), words), *cuts)
        # A part without any words to show has nothing that could be opened.
        parts.append(folded(columns, inside, opened=bool(cuts)) if inside else tag("div", columns))
    ends = f"{tokens(plan.over_by)} over the limit" if plan.over_by else f"{tokens(plan.free)} free"
    never = f"Never cut, and too large alone: {plan.over_because}." if plan.over_because else ""
    return joined(
        _title(f"{tokens(plan.total)} of {tokens(plan.token_limit)} tokens sent, {ends}"),
        Html(budget_lanes.lanes_html(lanes, "css", queue=False)),
        tag("p", never, kind="loss"),
        tag("div", head, *parts, kind="parts"),
    )


def _cut(cut: Cut, texts: Mapping[str, str]) -> Html:
    gone = [texts[ref] for ref in cut.refs if texts.get(ref)]
    why = f"({CUTS[cut.rule].removed}): the prompt was {tokens(cut.over_before)} over"
    return joined(items(gone, _struck), tag("li", f"Cut {count(cut.tokens, 'token')} {why}", kind="loss"))


def _struck(text: str) -> Html:
    return words(text, "s")


@body.register
def _(plan: FlushPlan) -> Html:
    if not plan:
        return tag("p", f"Nothing leaves the queue, which has {count(plan.tokens_left, 'token')}.")
    moved = f"{count(len(plan.leave), 'message')} with {count(plan.tokens, 'token')}"
    rules = " ".join(f"Rule: {FLUSHES[rule]}." for rule in plan.rules)
    over = f" It is still {tokens(plan.over_by)} above the history budget." if plan.over_by else ""
    return joined(
        _title(f"{moved} leave the queue, {tokens(plan.tokens_left)} stay"),
        tag("p", f"{rules}{over}", kind="quiet"),
        table(("Message", "Role", "Tokens"), plan.leave, lambda m: (tokens(m.seq), m.role, tokens(m.tokens))),
    )


@body.register
def _(following: NextPrompt) -> Html:
    unknown = f" What {listed(following.unknown)} will learn is not known yet." if following.unknown else ""
    return joined(
        tag("p", "Next message: ", _message(following.message) if following.message else "not known yet"),
        tag("p", f"The queue has {count(following.queue_tokens, 'token')} with it.{unknown}", kind="quiet"),
        body(following.flush) if following.flush else "",
        body(following.context),
    )


@body.register
def _(change: Change) -> Html:
    if change.prompt is None:
        return tag("p", change.sentence)
    return joined(_title(change.sentence, "a preview: nothing is stored"), body(change.prompt))


@body.register
def _(facts: FactList) -> Html:
    return table(("Id", "Fact", "Turn", "Tokens", ""), facts, _fact) if facts else tag("p", "No facts.")


def _fact(fact: Fact) -> tuple[str, ...]:
    marks = {fact.state: fact.state != "active", "pinned": fact.pinned, "by hand": fact.origin == "written"}
    marks |= {fact.category: fact.category != "other", **dict.fromkeys(fact.topics, True), fact.key or "": True}
    noted = tag("span", ", ".join(mark for mark, holds in marks.items() if mark and holds), kind="quiet")
    return str(fact.id), words(fact.text), str(fact.turn or ""), tokens(fact.tokens), noted


@body.register
def _(trace: Trace) -> Html:
    near, others = trace.nearest, trace.tracks[1:]
    stages = trace.tracks[0].stages if trace.tracks else ()
    return joined(
        # A cut is followed as a whole: each of its entries is struck through instead of quoted.
        "" if trace.cut else tag("p", words(f"“{trace.asked}”")),
        tag("ul", items(trace.cut.entries, _cut_entry)) if trace.cut else "",
        tag("p", trace.sentence, kind="lead"),
        *(tag("p", more, kind="quiet") for more in (trace.origin, prompt_of(trace))),
        tag("p", f"Closest, in turn {tokens(near.turn)}: ", words(near.words)) if near else "",
        *map(_track, trace.tracks[:1]),
        folded("Every stage in words", table(("Stage", "", "What happened"), stages, _stage)) if stages else "",
        folded(count(len(others) + trace.more, "other carrier"), *map(_track, others)) if others else "",
    )


def _cut_entry(entry: CutEntry) -> Html:
    return joined(_struck(entry.words or "(erased)"), f" {entry.otherwise}")


def _stage(stage: Stage) -> tuple[str, ...]:
    return stage_name(stage), VERDICTS[stage.verdict], stage.text


def _track(track: Track) -> Html:
    quoted = tag("span", f" “{short(track.carrier.words, QUOTED)}”" if track.carrier.words else "", kind="quiet")
    name = tag("p", tag("b", carrier_name(track.carrier)), quoted, kind="carrier")
    return joined(name, tag("ol", *map(_chip, track.stages), kind="stages"))


def _chip(stage: Stage) -> Html:
    kind = "reached" if stage.name == "prompt" and stage.verdict == "passed" else stage.verdict
    return tag("li", tag("b", f"{MARKS[stage.verdict]} {stage_name(stage)}"), brief(stage), kind=kind, title=stage.text)
