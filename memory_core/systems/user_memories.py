"""`UserMemories`: facts about a user, shared by all their sessions, under Agno's names.

    memories = UserMemories("ada", "monday")
    memories.add_run("My name is Ada and I prefer tea.", "Noted.")
    [fact.text for fact in UserMemories("ada", "tuesday").get_user_memories()]

A thin layer over `Memory` with the recipe `user_memories`: facts are learned at the end of a run and compared
with known ones. They are added, update or delete a known fact, or change nothing; every decision is an event.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from memory_core.curation.fact_desk import Curation
from memory_core.engine.session import SessionBlock
from memory_core.errors import ConfigError, MessageError, NotFoundError
from memory_core.events import Actor, EventRecord, FactsExtracted, ProposalRefused, expand
from memory_core.formats.any_message import as_messages
from memory_core.history.learned_slices import adds_fact, decides_on_fact
from memory_core.memory import Memory, Receipt
from memory_core.messages import ChatMessage, MessageRole, independent
from memory_core.models.protocols import ChatModel
from memory_core.planning import curation
from memory_core.planning.curation import FactDraft
from memory_core.planning.fact_merging import Fact
from memory_core.services import Services
from memory_core.systems.consolidating import check_learned
from memory_core.systems.named import accepts, with_id

RetrievalMethod = Literal["last_n", "first_n", "semantic", "agentic"]

Messages = str | ChatMessage | Sequence[ChatMessage]

FITTING = 20
"""Maximum memories of a semantic search without a `limit`."""


@dataclass(frozen=True, slots=True)
class MemoryAct:
    """Outcome for one fact found about the user."""

    act: Literal["add", "update", "delete", "none", "refuse"]
    """`none`: known already; `refuse`: proposed by the model, but invalid."""
    text: str
    """Text of the fact, or the reason of a refusal; empty if the text was erased since."""
    memory: int | None
    """Id of the memory that was added, updated, deleted or said again; None if there is none."""
    rule: str
    """Rule that decided; `model` if a model did."""


class UserMemories:
    """Memories of one user, seen from one session; never those of another user.

    A run is a turn: a user message and the answer to it. Only the user's own words are learned. With `chat` a model
    learns, with one call for each run, one more if a found fact is near a known one, and one for the session's
    summary. Without it the offline rules learn.

    Methods take the arguments of Agno 3.1's `MemoryManager` as well: `message=`, `memory=` (a text, or an object of
    Agno's `UserMemory`), `memory_id=`, and `user_id=`, which must be this user.
    """

    def __init__(
        self,
        user_id: str,
        session_id: str | None = None,
        *,
        database_uri: str | None = None,
        chat: ChatModel | None = None,
        services: Services | None = None,
        enabled: bool | None = None,
        summaries: bool = True,
        **settings: Any,
    ) -> None:
        """Create a session of the user, or open it if it exists in the database.

        `enabled` switches learning and reading in this session; None leaves it as it is, on at first. `summaries`: True
        if the session keeps a summary. `settings` are those of `MemoryConfig`.

        Raises:
            ConfigError: there is no user, the session is another user's, or a setting is impossible.
            StoreError: the database cannot be reached.
        """
        if not user_id.strip():
            raise ConfigError(f"user memories belong to somebody: give a user_id, not {user_id!r}")
        self.memory = Memory.from_recipe(
            "user_memories",
            session_id,
            user_id,
            chat=chat,
            services=services,
            database_uri=database_uri,
            summaries=summaries,
            **settings,
        )
        """The `Memory` behind this object, with its contexts, events and settings."""
        # Joining a session must not switch on what a person switched off.
        if enabled is not None and enabled != self.enabled:
            self.enabled = enabled

    @property
    def user_id(self) -> str:
        return str(self.memory.session.user_id)

    @property
    def session_id(self) -> str:
        return self.memory.session_id

    @property
    def enabled(self) -> bool:
        """True if memory is on. If off, nothing is learned from this session, and no memory is read in it.

        Stored memories stay, and can be deleted.
        """
        return bool(self._facts.settings["enabled"])

    @enabled.setter
    def enabled(self, on: bool) -> None:
        facts = self._facts
        summaries = [attached for attached in self.memory.blocks if attached.kind == "summary"]
        # In one transaction: half switched off would still learn or still be read.
        self.memory.blocks.configure_all({attached.name: {"enabled": on} for attached in (facts, *summaries)})

    # -- runs -------------------------------------------------------------------------------------

    def add_run(self, messages: Messages, response: str | ChatMessage | None = None) -> Receipt:
        """Append a run: the user's message and the answer, or all its messages in order; then learn from it.

        A failing model never makes a run fail: deliveries stay due (`memory.session.deliveries()`).

        Raises:
            MessageError: the run has no user message or several, or cannot be stored.
            StoreError: the database cannot be reached.
        """
        run = _messages(messages)
        if response is not None:
            run.append(_message(response, MessageRole.ASSISTANT))
        # Turns begin at user messages: with two, a run would be two turns.
        users = sum(message.role is MessageRole.USER for message in run)
        if users != 1:
            raise MessageError(f"a run is one user message and what answers it: this has {users or 'no'} user messages")
        return self.memory.put_messages(run, end_turn=True)

    def get_messages_from_last_n_runs(
        self, n: int | None = None, skip_role: MessageRole | str | None = None
    ) -> list[ChatMessage]:
        """Return the messages of the newest `n` runs (None: all), oldest first, without those of the role `skip_role`.

        Messages in quarantine are left out.

        Raises:
            ConfigError: `n` is below 1, or there is no such role.
        """
        if n is not None and n < 1:
            raise ConfigError(f"n must be at least 1 run, not {n}")
        skipped = None if skip_role is None else _role(skip_role)
        withheld = self.memory.session.withheld().seqs(self.memory.session_id)
        stored = [message for message in self.memory.session.messages() if message.seq not in withheld]
        runs = sorted({message.turn for message in stored if message.turn})
        # System messages belong to no turn, and thus to no run.
        wanted = set(runs if n is None else runs[-n:])
        return [
            independent(stored_message.message)
            for stored_message in stored
            if stored_message.turn in wanted and stored_message.message.role != skipped
        ]

    # -- facts about the user --------------------------------------------------------------------

    @accepts()
    def get_user_memories(self) -> list[Fact]:
        """Return the facts about the user, oldest first; none while user memories are switched off."""
        return self.memory.facts.read(self._facts.name) if self.enabled else []

    @accepts(memory_id="id")
    def get_user_memory(self, id: int | str) -> Fact | None:
        """Return the memory with this id, or with this id of the program's own; None if there is none."""
        return with_id(self.get_user_memories(), id)

    @accepts()
    def search_user_memories(
        self, query: str | None = None, limit: int | None = None, retrieval_method: RetrievalMethod | None = None
    ) -> list[Fact]:
        """Return memories of the user; empty while memory is switched off.

        `last_n` (the default) and `first_n`: the `limit` memories changed last or first, oldest first. `semantic`:
        those that fit `query`, best first, at most 20 without a `limit`. `agentic`, with which Agno has a model choose,
        is the same search: no model is called.

        Raises:
            ConfigError: there is no such method, `limit` is below 1, or `semantic` has no query.
        """
        retrieval_method = retrieval_method or "last_n"
        if retrieval_method not in get_args(RetrievalMethod):
            methods = ", ".join(get_args(RetrievalMethod))
            raise ConfigError(f"retrieval_method must be one of {methods}, not {retrieval_method!r}")
        if limit is not None and limit < 1:
            raise ConfigError(f"limit must be at least 1 memory, not {limit}")
        if retrieval_method in ("semantic", "agentic"):
            if not (query or "").strip():
                raise ConfigError("a semantic search needs a query: what should the memories be about?")
            # After the checks of arguments, so that wrong ones are refused whether memory is on or off.
            if not self.enabled:
                return []
            hits = self.memory.facts.search(query or "", block=self._facts.name, top_k=limit or FITTING)
            return [hit.fact for hit in hits]
        # The id breaks ties between memories that changed at the same time.
        memories = sorted(self.get_user_memories(), key=lambda fact: (fact.updated_at, fact.id))
        if limit is None:
            return memories
        return memories[-limit:] if retrieval_method == "last_n" else memories[:limit]

    @accepts(memory="text")
    def add_user_memory(
        self, text: Any, topics: Iterable[str] | None = None, *, memory_id: str | None = None, actor: Actor = "user"
    ) -> Fact:
        """Add a memory in exactly these words. With an id of the program's own, what had that id is replaced.

        Raises:
            MessageError: the text is empty, or another memory has it already.
            ConfigError: user memories are switched off, or these are another user's.
        """
        self._check_on()
        text, topics, memory_id = _content(text, topics, memory_id)
        if memory_id is not None:
            self._desk().put({memory_id: FactDraft(text, topics=tuple(topics or ()))}, actor=actor)
            return self._memory(memory_id, waiting=True)
        applied = self._desk().apply(curation.add(text, topics=tuple(topics or ())), actor=actor)
        return self._memory(applied.ids("fact")[0], waiting=True)

    @accepts(memory_id="id", memory="text")
    def replace_user_memory(
        self, id: int | str, text: Any, topics: Iterable[str] | None = None, *, actor: Actor = "user"
    ) -> Fact:
        """Replace a memory's text, and its topics unless they are None. The change can be undone.

        Where a person must approve an agent's edits, the memory stays, and the returned one waits for approval.

        Raises:
            NotFoundError: the user has no such memory.
            MessageError: the text is empty, or another memory has it already.
            ConfigError: user memories are switched off, or these are another user's.
        """
        self._check_on()
        fact = self._memory(id)
        text, topics, _ = _content(text, topics, None)
        # The same words again are no change, and no version.
        changes = [curation.edit(fact, text)] if " ".join(text.split()) != fact.text else []
        # Text and topics in one change, so that one undo takes both back.
        wished = fact.topics if topics is None else tuple(topics)
        if wished != fact.topics:
            changes.append(curation.label([fact], topics=wished))
        if changes:
            applied = self._desk().apply(curation.together("edit", *changes), actor=actor)
            return self._memory(applied.ids("fact")[0], waiting=True)
        return fact

    @accepts(memory_id="id")
    def delete_user_memory(
        self, id: int | str, *, reason: str = "", erase: bool = False, actor: Actor = "user"
    ) -> None:
        """Retire a memory: no prompt and no search has it, and it can be restored.

        `erase` deletes it with its text instead.

        Raises:
            NotFoundError: the user has no such memory.
        """
        fact = self._memory(id)
        if erase:
            self._desk().erase([fact], actor=actor)
        else:
            self._desk().apply(curation.retire([fact], reason), actor=actor)

    @accepts()
    def clear_user_memories(self, *, actor: Actor = "user") -> None:
        """Retire all memories, each with its own event; each can be restored."""
        for fact in self.get_user_memories():
            self.delete_user_memory(fact.id, actor=actor)

    @accepts(message="messages")
    def create_user_memories(self, messages: Messages) -> list[MemoryAct]:
        """Learn from messages now, and return the outcome of each found fact.

        The messages become a run of the session, so that every memory has its source.

        Raises:
            MessageError: there is no user message among them, or one cannot be stored.
            ModelError: the model failed; the messages are kept, and learned from when it answers.
            ConfigError: user memories are switched off.
        """
        self._check_on()
        run = _messages(messages)
        # Without the user's own words nothing could be learned, yet the run would be stored.
        if not any(message.role is MessageRole.USER for message in run):
            raise MessageError("only the user's own words become memories: there is no user message here")
        name = self._facts.name
        # The decisions of this call are read from the log after this position.
        before = self.memory.session.status().position
        receipt = self.memory.put_messages(run, end_turn=True)
        # The run is stored by now: only learning can have failed, and it is tried again later.
        check_learned(self.memory, name, receipt)
        acts = _acts(self.memory.events(before, block=name), set(receipt.seqs))
        words = self.memory.log.texts(act.text for act in acts if act.act != "refuse")
        return [act if act.act == "refuse" else replace(act, text=words.get(act.text, "")) for act in acts]

    # -- the session's summary --------------------------------------------------------------------

    def create_session_summary(self) -> str:
        """Rewrite the session's summary from its runs, and return it. Every run updates it, too.

        Raises:
            NotFoundError: there is no run yet, or the session keeps no summary.
            ModelError: the model failed; the former summary stays.
            ConfigError: user memories are switched off.
        """
        self._check_on()
        return self.memory.blocks.summary(self._summary.name).rewrite(from_messages=True).text

    def get_session_summary(self) -> str:
        """Return the session's summary; empty before the first run, and while it is switched off.

        Raises:
            NotFoundError: the session keeps no summary.
        """
        name = self._summary.name
        return self.memory.blocks.summary(name).state().text if self.enabled else ""

    # -- the same for async code ------------------------------------------------------------------

    async def aadd_run(self, messages: Messages, response: str | ChatMessage | None = None) -> Receipt:
        return await asyncio.to_thread(self.add_run, messages, response)

    async def acreate_user_memories(self, *given: Any, **named: Any) -> list[MemoryAct]:
        return await asyncio.to_thread(self.create_user_memories, *given, **named)

    async def acreate_session_summary(self) -> str:
        return await asyncio.to_thread(self.create_session_summary)

    # -- inside -----------------------------------------------------------------------------------

    @property
    def _facts(self) -> SessionBlock:
        """The block of the user's memories, as it is stored now."""
        return self._block("facts", "The block of the user's memories was removed from this session.")

    @property
    def _summary(self) -> SessionBlock:
        return self._block("summary", "This session keeps no summary: it was made without, or its block was removed.")

    def _block(self, kind: str, missing: str) -> SessionBlock:
        # The app may have removed or renamed the block meanwhile.
        self.memory.session.refresh()
        for attached in self.memory.blocks:
            if attached.kind == kind and (kind != "facts" or attached.settings["scope"] == "user"):
                return attached
        raise NotFoundError(missing)

    def _desk(self) -> Curation:
        return self.memory.facts.desk(self._facts.name)

    def _memory(self, id: int | str, *, waiting: bool = False) -> Fact:
        states = ("active", "proposed") if waiting else ("active",)
        found_fact = with_id(self.memory.facts.read(self._facts.name, states=states), id)
        if found_fact is None:
            raise NotFoundError(f"This user has no memory with the id {id}.")
        return found_fact

    def _check_on(self) -> None:
        if not self.enabled:
            raise ConfigError("User memories are switched off in this session: nothing was stored or learned.")


def _content(
    given: Any, topics: Iterable[str] | None, memory_id: str | None
) -> tuple[str, Iterable[str] | None, str | None]:
    """Return text, topics and id of a memory, given as text or as an object of Agno's `UserMemory`."""
    if isinstance(topics, str):
        raise ConfigError(f"topics must be a list of texts, not {topics!r}: a user is named by user_id")
    if isinstance(given, str):
        return given, topics, memory_id
    if not isinstance(getattr(given, "memory", None), str):
        raise MessageError(f"a memory must be a text, or an object of Agno's UserMemory, not {type(given).__name__}")
    return given.memory, given.topics if topics is None else topics, memory_id or given.memory_id


def _messages(value: Messages) -> list[ChatMessage]:
    several = [_message(value, MessageRole.USER)] if isinstance(value, str | ChatMessage) else value
    messages = [message for given_message in several for message in as_messages(given_message)]
    for message in messages:
        message.to_json()  # refused before anything is stored
    return messages


def _message(value: str | ChatMessage, role: MessageRole) -> ChatMessage:
    return ChatMessage(role=role, content=value) if isinstance(value, str) else value


def _role(name: MessageRole | str) -> MessageRole:
    try:
        return MessageRole(name)
    except ValueError:
        raise ConfigError(f"skip_role must be one of {', '.join(MessageRole)}, not {name!r}") from None


def _acts(records: Iterable[EventRecord], seqs: set[int]) -> list[MemoryAct]:
    """Return the decisions on the facts found in these messages, in order; `text` is still a hash."""
    acts: list[MemoryAct] = []
    ours = False
    for event in (record.event for record in records):
        if isinstance(event, FactsExtracted):
            ours = bool(seqs & set(expand(event.seqs)))
        elif isinstance(event, ProposalRefused) and ours:
            # One event counts all refusals with the same reason.
            acts += [MemoryAct("refuse", event.reason, None, "model")] * event.number
        elif decides_on_fact(event) and seqs & set(expand(event.sources)):
            acts.append(MemoryAct(event.decision, event.content, event.fact, event.rule))
        # The fact's id is known only once it is added, right after its decision.
        elif (
            adds_fact(event)
            and seqs & set(expand(event.sources))
            and acts
            and acts[-1].act == "add"
            and acts[-1].memory is None
        ):
            acts[-1] = replace(acts[-1], memory=event.fact)
    return acts
