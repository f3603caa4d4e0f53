"""Sessions, the queue, deliveries and replies in sentences."""

from memory_core.events import (
    AgentAttached,
    ConfigurationChanged,
    DeliveryDone,
    DeliveryFailed,
    DeliveryParked,
    DeliveryQueued,
    DeliveryRetried,
    DeliverySkipped,
    FlushPlanned,
    MemoryStripped,
    MessageAdded,
    NothingLearned,
    NothingReason,
    QuarantineChanged,
    QueueRecounted,
    QueueReplaced,
    ReplyEnded,
    ReplyStarted,
    SessionBranched,
    SessionClosed,
    SessionCreated,
    SessionHandedBack,
    SessionImported,
    SessionRenamed,
    SessionReset,
    SessionTakenOver,
    expand,
)
from memory_core.text import listed
from memory_core.tracing.rule_words import NOTHING
from memory_inspector.wording.block_kinds import common
from memory_inspector.wording.event_sentences.event_words import (
    QUOTED,
    SAID,
    Line,
    Words,
    because,
    clause,
    describe,
    fact_words,
    in_quotes,
    seconds,
)
from memory_inspector.wording.formatting import count, short, tokens
from memory_inspector.wording.settings import setting_words

# -- the session ---------------------------------------------------------------------------------


@describe.register
def _(event: SessionCreated, words: Words) -> Line:
    return Line("flag", f"Started the session{in_quotes(event.title)}")


@describe.register
def _(event: AgentAttached, words: Words) -> Line:
    if event.source == "file":
        return Line("visibility", f"Opened from {short(event.name)}, read only: this session shows its contents")
    how = {
        "proxy": "seen by the recording proxy",
        "adapter": "seen by its framework's adapter",
        "spans": "reported by its spans",
    }.get(event.source, event.source)
    return Line("sensors", f"Attached an agent: its calls were {how}")


@describe.register
def _(event: SessionTakenOver, words: Words) -> Line:
    return Line("back_hand", "Took the session over from the agent that works in it")


@describe.register
def _(event: SessionHandedBack, words: Words) -> Line:
    return Line("back_hand", "Handed the session back to its agent")


@describe.register
def _(event: SessionRenamed, words: Words) -> Line:
    return Line("edit", f"Renamed the session from “{short(event.before)}” to “{short(event.after)}”")


@describe.register
def _(event: SessionClosed, words: Words) -> Line:
    return Line("lock", "Closed the session: everything left the queue")


@describe.register
def _(event: SessionReset, words: Words) -> Line:
    what = {None: "everything", "active": "the queue", "archived": "what had left the queue"}.get(event.status, "")
    vectors = f"stored {common(words.units.values())}"
    gone = [
        count(number, noun)
        for number, noun in ((event.messages, "message"), (event.facts, "fact"), (event.vectors, vectors))
    ]
    # With seqs, single messages went because they said a phrase, whatever their status.
    if event.seqs is not None:
        what = "a phrase"
    return Line("delete", f"Forgot {what}: {', '.join(gone)}", "loss")


@describe.register
def _(event: QuarantineChanged, words: Words) -> Line:
    if event.released:
        return Line("lock_open", f"Released set {event.number:,} from quarantine")
    held = [
        count(number, noun)
        for number, noun in (
            (len(expand(event.messages)), "message"),
            (len(event.facts), "fact"),
            (len(event.relations), "relation"),
            (len(event.sentences), "sentence"),
        )
        if number
    ]
    if event.joined:
        return Line("block", f"Says what is in quarantine, and joined set {event.number:,}: {', '.join(held)}")
    return Line("block", f"Put into quarantine as set {event.number:,}: {', '.join(held) or 'what is said later'}")


@describe.register
def _(event: SessionImported, words: Words) -> Line:
    skipped = f", {tokens(event.skipped)} skipped" if event.skipped else ""
    source = f" from {short(event.source, QUOTED)}" if event.source else ""
    return Line("upload_file", f"Imported {count(event.messages, 'message')}{source}{skipped}")


@describe.register
def _(event: SessionBranched, words: Words) -> Line:
    erased = f", {count(event.missing, 'item')} erased since then" if event.missing else ""
    return Line("call_split", f"Branched from another session at the end of turn {tokens(event.turn)}{erased}")


@describe.register
def _(event: ConfigurationChanged, words: Words) -> Line:
    # Nothing was changed: values of the code lost against stored ones.
    if not event.after:
        lost = listed([setting_words(name, value) for name, value in event.ignored.items()])
        return Line("tune", f"Kept the stored settings and ignored those passed by the program: {lost}")
    changed = [
        setting_words(name, value, *([event.before[name]] if name in event.before else ()))
        for name, value in event.after.items()
    ]
    return Line("tune", f"{'Changed' if event.before else 'Set'} {listed(changed)}")


# -- the queue -----------------------------------------------------------------------------------


@describe.register
def _(event: MessageAdded, words: Words) -> Line:
    text = words.texts.get(event.content)
    quoted = "something that has been erased since" if text is None else f"“{short(text, SAID)}”"
    # An empty text is known, unlike an erased one; the message may be a call of a tool.
    if text == "":
        quoted = "something without text"
    who = {"user": "The user said", "assistant": "The assistant said", "tool": "A tool answered"}
    pinned = ", pinned: it never leaves the queue" if event.pinned else ""
    begins = who.get(event.role, "The system message is")
    return Line("chat_bubble", f"{begins} {quoted}, {count(event.tokens, 'token')}{pinned}")


@describe.register
def _(event: MemoryStripped, words: Words) -> Line:
    return Line("remove", "Removed memory's own text from a message that repeated it")


@describe.register
def _(event: FlushPlanned, words: Words) -> Line:
    moved = f"Flushed {count(event.messages, 'message')}, {count(event.tokens, 'token')}"
    if event.trigger == "elsewhere":
        return Line("keyboard_tab", f"{moved}: they had left the queue of the store they come from")
    summary = ", ".join(tokens(seq) for seq in expand(event.summary))
    why = {
        "over_budget": f"queue {tokens(event.queue_before)} was above {tokens(int(event.history_budget))}",
        "asked": "flushed by hand",
        "closed": "the session was closed",
        "compacted": f"left out by the agent's compaction{summary and f', whose summary is message {summary}'}",
    }.get(event.trigger, event.trigger)
    # A window may be the only reason, or one beside the size.
    if "window" in event.rules and event.queue_turns is not None:
        window = f"the queue holds {count(event.queue_turns, 'turn')} at most"
        why = window if event.rules == ("window",) else f"{window}, and {why}"
    if "long_turn" in event.rules:
        why += ", and the newest turn alone is too long"
    still = f". Still {tokens(event.over_by)} above it" if event.over_by else ""
    return Line("keyboard_tab", f"{moved}: {why}{still}")


@describe.register
def _(event: QueueReplaced, words: Words) -> Line:
    gone = count(len(expand(event.removed)), "message")
    return Line("swap_horiz", f"Replaced the queue: {gone}, {count(event.tokens, 'token')}, were removed", "loss")


@describe.register
def _(event: QueueRecounted, words: Words) -> Line:
    return Line(
        "calculate", f"Counted the queue again: {tokens(event.tokens_before)} is now {tokens(event.tokens_after)}"
    )


# -- deliveries ----------------------------------------------------------------------------------


@describe.register
def _(event: DeliveryQueued, words: Words) -> Line:
    why = {
        "flush": "they left the queue",
        "turn": "the turn was complete",
        "session_end": "the session was closed",
        "archive": "it was added after they left the queue",
    }.get(event.trigger, event.trigger)
    what = f"{count(len(expand(event.seqs)), 'message')}, {count(event.tokens, 'token')}"
    return Line("outbox", f"Handed {what}, to {short(event.block)}: {why}")


def still_learning(event: DeliveryQueued) -> Line:
    """Line for a delivery that is not done yet."""
    messages = count(len(expand(event.seqs)), "message")
    return Line("schedule", f"{short(event.block)} is learning from {messages}", "waiting")


@describe.register
def _(event: DeliveryDone, words: Words) -> Line:
    tries = f" at try {event.attempt}" if event.attempt > 1 else ""
    what = count(len(event.deliveries), "delivery")
    after = f", before {count(len(event.behind), 'earlier one')}" if event.behind else ""
    return Line("check", f"{short(event.block)} updated{tries} in {seconds(event.seconds)} ({what}{after})")


@describe.register
def _(event: DeliveryFailed, words: Words) -> Line:
    again = ", and will be tried again" if event.retry_in_seconds else ""
    return Line("refresh", f"{short(event.block)} could not be updated{again}: {clause(event.error)}", "waiting")


@describe.register
def _(event: DeliveryParked, words: Words) -> Line:
    given_up = f"given up after {count(event.attempts, 'try')}: {clause(event.error)}"
    return Line("error", f"{short(event.block)} could not be updated, {given_up}", "loss")


@describe.register
def _(event: DeliveryRetried, words: Words) -> Line:
    what = count(len(event.deliveries), "delivery")
    return Line("refresh", f"Asked {short(event.block)} to try {what} again", "waiting")


@describe.register
def _(event: DeliverySkipped, words: Words) -> Line:
    what = count(len(event.deliveries), "delivery")
    return Line("block", f"Gave up {what} to {short(event.block)}: the messages stay in the archive", "loss")


@describe.register
def _(event: NothingLearned, words: Words) -> Line:
    messages: dict[NothingReason, int] = {}
    for code, seqs, _, _ in event.reasons:
        messages[code] = messages.get(code, 0) + len(expand(seqs))
    why = ", ".join(_nothing(code, number) for code, number in messages.items())
    text = f"{short(event.block)} learned nothing from {count(sum(messages.values()), 'message')}: {why}"
    facts = dict.fromkeys(fact for _, _, fact, _ in event.reasons if fact is not None)
    # Each text once, in the order of the reasons.
    own_words = dict.fromkeys(reason_text for _, _, _, reason_text in event.reasons if reason_text)
    details = [
        *(fact_words(fact, words) for fact in facts),
        *(words.texts.get(reason_text, "erased words") for reason_text in own_words),
    ]
    return Line("do_not_disturb_on", text, details=tuple(details))


def _nothing(code: NothingReason, number: int) -> str:
    """Format the number of messages from which nothing was learned for one reason: `2 questions`, `1 known already`."""
    _, phrase = NOTHING[code]
    return f"{tokens(number)} {phrase.format(s='' if number == 1 else 's')}"


# -- replies -------------------------------------------------------------------------------------


@describe.register
def _(event: ReplyStarted, words: Words) -> Line:
    return Line("forum", f"Began a reply with {short(event.model)}")


@describe.register
def _(event: ReplyEnded, words: Words) -> Line:
    if event.outcome == "failed":
        return Line("error", f"The reply failed{because(event.error or '')}", "loss")
    ended = {"done": "is complete", "stopped": "was stopped", "interrupted": "was interrupted"}
    return Line("forum", f"The reply {ended.get(event.outcome, event.outcome)}")
