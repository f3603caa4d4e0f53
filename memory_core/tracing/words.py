"""Labels for trace stages and carriers.

Pure; everything is plain text.
"""

from collections.abc import Mapping

from memory_core.tracing.stages import no_prompt
from memory_core.tracing.values import Carrier, Knowledge, Stage, StageName, Trace, Verdict

STAGES: Mapping[StageName, str] = {
    "said": "Said",
    "queue": "Queue",
    "flush": "Flushed",
    "delivery": "Delivered",
    "learned": "Learned",
    "kept": "Kept",
    "found": "Found",
    "prompt": "Prompt",
    "answer": "Answer",
}

VERDICTS: Mapping[Verdict, str] = {
    "passed": "passed",
    "lost": "lost",
    "waiting": "not yet",
    "not_reached": "not reached",
    "unknown": "unknown",
}

KNOWLEDGE: Mapping[Knowledge, str] = {
    "decided": "decided here",
    "reported": "from the log",
    "observed": "inferred from its words",
}
KNOWLEDGE_HELP = (
    "Decided here: the engine recorded the rule. From the log: another program reported it, in an imported file or a "
    "span of an attached agent. Inferred from its words: texts were only compared, so no rule is claimed."
)

NAME_CHARACTERS = 40
"""Maximum characters of a block's name."""


def stage_name(stage: Stage) -> str:
    """Return a stage's name; for vector blocks, "stored" instead of "learned"."""
    return "Stored" if "unit" in stage.numbers and stage.name == "learned" else STAGES[stage.name]


def brief(stage: Stage) -> str:
    """Summarise a stage in two or three words."""
    turn = f"turn {stage.turn:,}" if stage.turn else ""
    if stage.verdict == "not_reached":
        return "not reached" if stage.name != "prompt" else "left the queue"
    if stage.name == "found" and "score" in stage.numbers:
        return f"score {stage.numbers['score']:.2f}"
    if stage.name == "learned" and "fact" in stage.numbers and stage.verdict == "passed":
        return ", ".join(filter(None, [f"fact {stage.numbers['number']:,.0f}", turn]))
    if stage.name == "answer":
        return "quoted" if stage.verdict == "passed" else "not quoted"
    if stage.name == "queue" and stage.verdict == "passed":
        return stage.text.removeprefix("In the queue ").removesuffix(".")
    if stage.verdict == "waiting":
        return "not yet"
    return turn or {"passed": "yes", "lost": "no"}.get(stage.verdict, "")


def carrier_name(carrier: Carrier) -> str:
    """Name a track's carrier: `Fact 7 of Facts`."""
    block = short(carrier.block or "")
    if carrier.kind == "message":
        return f"The message ({carrier.seq:,})" if carrier.seq is not None else "The message"
    if carrier.ref is not None and carrier.kind in ("fact", "relation"):
        return f"{carrier.kind.capitalize()} {carrier.number or carrier.ref.number:,} of {block}"
    if carrier.kind == "record":
        return f"Record {short(carrier.record)} of {block}" if carrier.record else f"A record of {block}"
    if carrier.kind == "unit":
        return f"Stored turn of {block}"
    return f"Text of {block}" if carrier.kind == "text" else block


def short(text: str, most: int = NAME_CHARACTERS) -> str:
    """Cut a text to at most `most` characters: the last one is then an ellipsis, without a space before it."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def matched(trace: Trace) -> str:
    """Describe how a phrase was matched; empty for a picked ref."""
    how = {"words": "Matched by words."}
    kinds = {message.matched for message in trace.said} if trace.target is None else set()
    return how.get(next(iter(kinds), ""), "")


def prompt_of(trace: Trace) -> str:
    """Name the viewed prompt if the requested turn has none; else empty."""
    if trace.prompt_turn is None:
        return no_prompt(trace.turn)
    if trace.prompt_turn != trace.turn:
        return f"Turn {trace.turn:,} has no prompt; this is the one of turn {trace.prompt_turn:,}."
    return ""
