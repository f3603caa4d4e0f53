"""Chat turns as background work: a message and its reply, or a step of a recorded conversation.

No Streamlit: pages only follow. Every write carries an id made from the turn, so that doing a turn
again after a crash adds nothing that is there already.
"""

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from memory_core import ChatMessage, Memory, MessageRole, ModelError
from memory_core.agent import loop
from memory_core.events import MessageAdded, ReplyEnded, ReplyStarted
from memory_core.messages import message_text
from memory_core.models.offline.responder import OfflineResponder
from memory_core.models.protocols import ChatModel
from memory_inspector.reading.forgotten import forgotten
from memory_inspector.server.jobs import Job, Reveal, Stop
from memory_inspector.wording.event_sentences.event_words import words_in_log
from memory_inspector.wording.story import STORY_KINDS, happened, passages

STEP_SECONDS = 0.4
"""Pause, in seconds, between the stages of a single turn, so that each can be seen."""

LINE_SECONDS = 1.0
"""Seconds from one line of a turn's story to the next while a recording plays at 1 ×."""

READ_CHARACTERS = 30
"""Number of characters of a message that a viewer reads per second at 1 ×."""

LONGEST_READING_SECONDS = 12.0
"""Maximum seconds for reading one message at 1 ×."""

PAUSE_SECONDS = 0.1
"""Interval, in seconds, at which a pause checks whether the pace was changed."""

FORESEEN, AT_ONCE = 96, 32
"""Number of a recording's messages prepared ahead of playing them, and their number per batch."""

TURN, RETRIED, STEP, PLAY = "turn-", "+", "step-", "play-"
"""Prefixes of job ids; the id of a retried reply ends with `RETRIED`."""


def builds_prompts(job: Job) -> bool:
    """Tell whether this job plays or answers turns, each of which gets a prompt."""
    return job.id.startswith((TURN, STEP, PLAY)) or job.id.endswith(RETRIED)


def answers(job: Job) -> bool:
    """Tell whether this job generates a reply to a typed message."""
    return job.id.startswith(TURN) or job.id.endswith(RETRIED)


PLAYED = "rules-"
"""Prefix of the ids of the rules' messages during playback; they must not be counted among the recording's own."""

ASKED = "-user"
"""Suffix of the id of a message typed here that awaits a reply; the rest is the turn's id."""


def send(job: Job, memory: Memory, model: ChatModel, turn_id: str, text: str) -> None:
    """Store a user message and generate a reply; none if only rules could write it, but the agent has a model."""
    job.add_progress("Storing your message")
    _put(memory, ChatMessage(role="user", content=text), turn_id + ASKED)
    if not (model.offline and agents_model(memory)):
        answer(job, memory, model, turn_id)


def agents_model(memory: Memory) -> str | None:
    """Name of the model with which an agent's program learns in this session; None if only the app learns in it."""
    return next((block.learner for block in memory.blocks if block.learner is not None), None)


def answer(job: Job, memory: Memory, model: ChatModel, turn_id: str) -> None:
    """Generate a reply to the latest message; its text is streamed through the job.

    In a session whose blocks an agent may edit, the model is offered the tools to do so. If stopped, the partial reply
    is kept. If the model fails, no text is kept, but the effects of its tool calls are.

    Raises:
        ModelError: the model failed; the message is kept and can be answered again.
    """
    # 1. Record the start first: a reply without an end is then known as interrupted after a crash.
    newest = memory.session.messages(last=1)
    memory.log.record(ReplyStarted(reply=turn_id, seq=newest[-1].seq if newest else 0, model=model.name))
    watch = loop.ReplyCallbacks(job.add_text, job.add_progress, job.cancel.is_set)
    try:
        reply = loop.reply(memory, model, turn_id, watch)
    # 2. Record the failure too, so that a later process can say why the message has no answer.
    except ModelError as error:
        memory.log.record(ReplyEnded(reply=turn_id, outcome="failed", error=str(error)))
        raise
    memory.log.record(ReplyEnded(reply=turn_id, outcome="stopped" if reply.stopped else "done"))


def _put(memory: Memory, message: ChatMessage, message_id: str) -> None:
    loop.put(memory, [message], [message_id])


def play(
    job: Job,
    memory: Memory,
    *,
    turns: int | None,
    pace: float,
    stops_after: int | None = None,
    reveal: Reveal | None = None,
) -> None:
    """Continue playing a recording, for `turns` turns or (None) to its end, until asked to pause.

    In a session whose blocks an agent may edit, the offline rules edit them after each user message, since the recorded
    answers were made without this memory.

    `pace` is the job's initial pace: 1 is the speed for watching, 2 twice as fast, 0 without pauses. What each message
    causes is shown after it, in the order of the log; without `turns`, it is left long enough to be read, and its
    effects are shown line by line. Playing then ends behind an answer that admits not to know what was said before, and
    with `stops_after` in the middle of a turn where something is flushed, learned, recalled or cut for the first time
    after that turn; to go on, pass the `reveal` of the job that ended so.
    """
    watched = turns is None
    job.pace, job.watched = pace, watched and pace > 0
    played, recording = 0, memory.session.recording()
    foreseen = recording.played if recording else 0
    if reveal is not None and not _tell(job, memory, replace(reveal, held=None), stops_after, watched):
        return
    while recording is not None and recording.next_turn and (turns is None or played < turns):
        if job.cancel.is_set():
            return
        turn = recording.next_turn
        # 1. Prepare what comes next while this turn is watched; embedding takes longest.
        while foreseen < min(recording.played + FORESEEN, len(recording.messages)):
            memory.session.foresee(recording.messages[foreseen : foreseen + AT_ONCE])
            foreseen += AT_ONCE
        job.add_progress(f"Playing message {recording.played + 1} of {len(recording.messages)}")
        # 2. Put the turn's messages as an agent would, with a prompt before each first answer.
        for offset, message in enumerate(turn):
            asks, ends = message.role is MessageRole.USER, offset == len(turn) - 1
            # Nothing that the message causes is shown before its time.
            reveal = _show(job, Reveal(memory.log.history().position))
            # An id made from the place in the recording: playing again after a crash stores nothing twice.
            message_id = recording.message_id(recording.played + offset)
            _put(memory, message, message_id)
            added = [r.position for r in memory.log.history().after(reveal.position) if r.kind == MessageAdded.kind]
            reveal = _show(job, Reveal(next(iter(added), reveal.position)))
            # A put waits for learning only briefly; waiting to its end gives one log on every machine.
            if memory.session.services.extractor.offline:
                memory.deliver()
            job.add_progress("A message was stored")
            # 3. Recorded answers know nothing of this memory, so rules edit its blocks in their place.
            if asks and memory.blocks.editable_by_agents:
                loop.act(memory, OfflineResponder(), f"{PLAYED}{message_id}")
                job.add_progress("Memory was edited by rules, not by a model")
            if asks and not ends and turn[offset + 1].role is MessageRole.ASSISTANT:
                memory.build_context()
                job.add_progress("The prompt was built")
            # 4. The message alone is shown first: the queue is seen above its line before it is flushed.
            if asks or ends:
                _pause(job, reading_seconds(message) if watched else STEP_SECONDS)
            if not _tell(job, memory, reveal, stops_after, watched):
                return
        played, recording = played + 1, replace(recording, played=recording.played + len(turn))
        replied = turn[-1].role is MessageRole.ASSISTANT
        missed = forgotten(memory, last=1) if watched and replied and job.pace > 0 else None
        if missed is not None and _stop(job, memory, Stop("forgotten", forgotten=missed)):
            return


def reading_seconds(message: ChatMessage) -> float:
    """Seconds for which a message is shown before playing goes on, at 1 ×."""
    return min(len(message_text(message)) / READ_CHARACTERS, LONGEST_READING_SECONDS)


def _show(job: Job, reveal: Reveal) -> Reveal:
    """Show this moment, or the end of the log if nobody watches any more."""
    job.reveal = reveal if job.pace > 0 and not job.cancel.is_set() else None
    return reveal


def _stop(job: Job, memory: Memory, stop: Stop, reveal: Reveal | None = None) -> bool:
    """Stop at a moment, by default the present; return False if nobody watches any more."""
    newest = memory.log.history().position
    watched = job.pace > 0 and not job.cancel.is_set()
    job.reveal = replace(reveal or Reveal(newest), held=stop, until=newest) if watched else None
    return watched


def _tell(job: Job, memory: Memory, reveal: Reveal, stops_after: int | None, watched: bool) -> bool:
    """Show what followed a moment, line by line if `watched`, otherwise stage by stage; return False at a stop.

    With its first line, a stage is shown everywhere: the log up to the beginning of the next one.
    """
    if job.pace == 0 or job.cancel.is_set():
        job.reveal = None
        return True
    history = memory.log.history()
    turn, newest = history.latest_turn, history.position
    events = memory.events(turn=turn, kinds=STORY_KINDS)
    story = passages(events, words_in_log(memory, events))
    # With several prompts in a turn, a stage may have begun before the one that is told ahead of it.
    begun = (max(passage.begins, following.begins - 1) for passage, following in pairwise(story))
    ends = [*accumulate(begun, max, initial=reveal.position)][1:]
    # A stage stops playing only the first time that it happens after that turn, which may not be the first of all.
    before = [] if stops_after is None else [r for r in memory.events(kinds=STORY_KINDS) if r.turn < turn]
    stops = happened(events) - happened([r for r in before if r.turn > (stops_after or 0)])
    shown, lines = reveal.lines, 0
    if shown is None:
        shown = sum(len(passage.lines) for passage in story if passage.begins <= reveal.position)
    for passage, end in zip(story, [*ends, newest], strict=False):
        first, lines = max(lines, shown) + 1, lines + len(passage.lines)
        for line in range(first if watched else max(first, lines), lines + 1):
            reveal = _show(job, Reveal(end, line))
            _pause(job, LINE_SECONDS if watched else STEP_SECONDS)
        if lines > shown and stops_after is not None and passage.stage in stops:
            stop = Stop(passage.stage, first=passage.stage not in happened(before))
            if _stop(job, memory, stop, reveal):
                return False
    _show(job, Reveal(newest))
    return True


def _pause(job: Job, seconds: float) -> None:
    """Wait for this many seconds at pace 1, or until cancelled; a change of pace takes effect at once."""
    remaining = seconds
    while remaining > 0 and job.pace > 0:
        # In short steps, as the pace may change while this waits.
        waited = min(remaining, PAUSE_SECONDS * job.pace)
        if job.cancel.wait(waited / job.pace):
            return
        remaining -= waited


INTERRUPTED, NOT_ASKED = "interrupted", "not asked"


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A reply that was started and not finished."""

    reply: str
    reason: str
    """`INTERRUPTED` (the process ended), `NOT_ASKED` (it is left to an agent), or the error as a sentence."""


def unanswered(memory: Memory, *, running: bool) -> Unanswered | None:
    """The unfinished or failed reply to the newest message; None if there is none, or while one is being generated."""
    if running:
        return None
    last = memory.session.messages(last=1)
    asked = _asked(last[-1].id) if last else None
    if asked is None:
        return None
    events = memory.events(kinds=("reply_started", "reply_ended"), limit=1, newest_first=True)
    newest = events[0].event if events else None
    # The newest recorded reply belongs to an earlier message.
    if not (isinstance(newest, ReplyStarted | ReplyEnded) and newest.reply.startswith(asked)):
        return Unanswered(
            asked, INTERRUPTED if agents_model(memory) is None else NOT_ASKED
        )  # the reply was never started
    if isinstance(newest, ReplyStarted):
        return Unanswered(newest.reply, INTERRUPTED)
    if isinstance(newest, ReplyEnded) and newest.outcome == "failed":
        return Unanswered(newest.reply, newest.error or "The reply failed.")
    return None


def _asked(message_id: str) -> str | None:
    """Id of the turn that lacks a reply if this message is its last: typed, or a model's tool message; else None."""
    if message_id.endswith(ASKED):
        return message_id.removesuffix(ASKED)
    reply, step, _ = message_id.rpartition(loop.STEP)
    return reply.rstrip("+") if step and not reply.startswith(PLAYED) else None
