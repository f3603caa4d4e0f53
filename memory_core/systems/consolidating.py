"""`ConsolidatingMemory`: facts that stay few and current, under the names of Mem0.

Mem0 1.x decides on every found fact, as here; Mem0 2.x only adds, as `on_change="add"` does.

    memory = ConsolidatingMemory(user_id="ada")
    memory.add("I like dark mode.")
    memory.add("I prefer dark mode in every app.")
    [hit.fact.text for hit in memory.search("which theme?")]

A thin layer over `Memory` with one facts block that decides: each new fact is compared with the nearest known facts,
and is added, updates one, deletes one, or changes nothing. Every decision is an event, every version is kept.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from memory_core.blocks.fact_search import THRESHOLD, FactHit, fits
from memory_core.curation.fact_desk import Curation
from memory_core.errors import ConfigError, MessageError, ModelError, NotFoundError
from memory_core.events import EventRecord, FactsExtracted, expand
from memory_core.formats.any_message import as_messages
from memory_core.history.learned_slices import adds_fact, decides_on_fact, rewords_fact
from memory_core.memory import Memory, Receipt
from memory_core.messages import ChatMessage, MessageRole, message_text
from memory_core.models.protocols import ChatModel
from memory_core.planning import curation
from memory_core.planning.consolidation import category_among
from memory_core.planning.fact_merging import Fact, FactRevision, same_words
from memory_core.recipes import CATEGORIES
from memory_core.services import Services
from memory_core.systems.named import accepts, check_user, with_id

DELETED = "deleted"

T = TypeVar("T")
_OWNER = ": facts belong to the user or session that the object is made for"
_NOT_MEANT = {
    "agent_id": _OWNER,
    "run_id": _OWNER,
    "expiration_date": ": the setting expire_after_days of the block retires facts",
    "show_expired": ": ask for retired facts with filters={'state': 'retired'}",
    "timestamp": ": a message has a time of its own",
    "reference_date": "",
    "memory_type": "",
    "prompt": ": the setting fact_extraction_prompt_template of the block takes one",
    "rerank": ": there is one ranking",
    "explain": ": each result has its scores",
}
"""Arguments of Mem0 2.x that mean nothing here, and what to do instead."""

Messages = str | ChatMessage | Mapping[str, Any] | Sequence[ChatMessage | Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """Outcome for one found fact."""

    event: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    id: int | None
    """Id of the fact; None if another found fact of the same batch says the same."""
    text: str
    """The fact's text; of a deleted fact, its last."""
    previous: str | None = None
    """Text before an update; None for other events."""


class Results(list[T]):
    """A list that is Mem0's answer, too: `results["results"]` has each item as a dictionary with Mem0's keys."""

    def __getitem__(self, key: Any) -> Any:
        return [_mem0(item) for item in self] if key == "results" else super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key == "results" else default

    def __contains__(self, key: object) -> bool:
        return key == "results" or super().__contains__(key)


class ConsolidatingMemory:
    """Facts of a user, or of a session without a user. With `chat` a model finds them and decides; without, rules do.

    Methods take the arguments of Mem0 2.2 as well: `user_id=` and `filters={"user_id": ...}`, which must be this
    user, `memory_id=`, `metadata=`, `top_k=` and `limit=`. What means nothing here is refused in a sentence.

    >>> memory = ConsolidatingMemory(user_id="ada")
    >>> [change.event for change in memory.add("I like dark mode.")]
    ['ADD']
    >>> [(change.event, change.text) for change in memory.add("I prefer dark mode in every app.")]
    [('UPDATE', 'The user prefers dark mode in every app')]
    >>> [fact.text for fact in memory.get_all()]
    ['The user prefers dark mode in every app']
    """

    def __init__(
        self,
        user_id: str | None = None,
        session_id: str | None = None,
        *,
        database_uri: str | None = None,
        categories: Sequence[str] = CATEGORIES,
        on_change: Literal["decide", "add"] = "decide",
        chat: ChatModel | None = None,
        services: Services | None = None,
        **settings: Any,
    ) -> None:
        """Create a session, or open it if it exists in the database.

        Each fact gets one of the `categories`. `on_change="add"` compares nothing, as Mem0 2.x does: contradictions
        stand side by side, the earlier one marked. `settings` are those of `MemoryConfig`.

        Raises:
            ConfigError: a setting is impossible, or the session is another user's.
            StoreError: the database cannot be reached.
        """
        memory = Memory.from_recipe(
            "consolidating",
            session_id,
            user_id,
            categories=tuple(categories),
            scope="user" if user_id else "session",
            on_change=on_change,
            chat=chat,
            services=services,
            database_uri=database_uri,
            **settings,
        )
        self._take(memory, memory.blocks[0].name)

    @classmethod
    def over(cls, memory: Memory, block: str | None = None) -> "ConsolidatingMemory":
        """Wrap one of the facts blocks of an existing memory, by default the first that decides on found facts.

        Raises:
            NotFoundError: there is no such block, or no facts block at all.
            ConfigError: the block holds no facts.
        """
        facts = [attached for attached in memory.blocks if attached.kind == "facts"]
        # A block that only adds would have these methods too, but no decisions.
        facts.sort(key=lambda attached: attached.settings["on_change"] != "decide")
        if block is None and not facts:
            raise NotFoundError("This memory has no block that holds facts.")
        self = cls.__new__(cls)
        self._take(memory, facts[0].name if block is None else block)
        # Raises now if the named block holds no facts, instead of at the first change.
        self._desk()
        return self

    def _take(self, memory: Memory, block: str) -> None:
        self.memory = memory
        """The `Memory` behind this object, with its contexts, events and settings."""
        self.block = block

    @property
    def categories(self) -> tuple[str, ...]:
        """Categories that facts are assigned to."""
        return tuple(self.memory.blocks.settings(self.block)["categories"])

    # -- learning ---------------------------------------------------------------------------------

    @accepts(_NOT_MEANT)
    def add(
        self,
        messages: Messages,
        *,
        infer: bool = True,
        categories: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Results[MemoryChange]:
        """Learn from messages now, and return the outcome of each found fact.

        The messages become a turn of the session, so that every fact names its source. `infer=False` keeps each message
        word for word as a fact instead, and compares nothing. `categories` replace the block's categories for these
        facts, and `metadata` is stored with them.

        A block that does not learn each turn (`deliver_on`) learns later; the result is then empty.

        Raises:
            MessageError: there is no text, or a message cannot be stored.
            ModelError: the model failed; the messages are kept, and learned from at the next attempt.
        """
        given_messages = _messages(messages)
        # Checked before anything is stored: a turn without text would stay in the session for nothing.
        if not any(message_text(message).strip() for message in given_messages):
            raise MessageError("There is no text to learn from.")
        if not infer:
            return Results(change for message in given_messages for change in self._keep(message, categories, metadata))
        # The changes of this call are read from the log after this position.
        before = self.memory.session.status().position
        receipt = self.memory.put_messages(given_messages, end_turn=True)
        check_learned(self.memory, self.block, receipt)
        changes = self._changes(self.memory.events(before, block=self.block), set(receipt.seqs))
        # The extractor knows only the block's categories, so those of this call are set afterwards.
        if categories is not None or metadata is not None:
            self._label([change.id for change in changes if change.event in ("ADD", "UPDATE")], categories, metadata)
        return Results(changes)

    @accepts(_NOT_MEANT, memory_id="id", data="text")
    def update(self, id: int | str, text: str | None = None, *, metadata: Mapping[str, Any] | None = None) -> Fact:
        """Reword a fact (None: the text stays) or replace its metadata, and return it.

        Raises:
            NotFoundError: there is no such fact.
            MessageError: the text is empty, or another fact has it already.
        """
        fact = self.get(id)
        wished = fact.text if text is None else " ".join(text.split())
        # The same words again are no change, and no version.
        if wished != fact.text or (metadata is not None and metadata != fact.metadata):
            self._desk().apply(curation.edit(fact, wished, metadata))
        return self.get(fact.id)

    @accepts(memory_id="id")
    def delete(self, id: int | str) -> None:
        """Retire a fact: searches no longer find it, and its history stays.

        Raises:
            NotFoundError: there is no such fact.
        """
        self._desk().apply(curation.retire([self.get(id)], DELETED))

    @accepts(_NOT_MEANT)
    def delete_all(self) -> int:
        """Retire all facts, in one step that can be undone; return their number."""
        facts = self.get_all()
        if facts:
            self._desk().apply(curation.retire(facts, DELETED))
        return len(facts)

    def reset(self) -> None:
        """Erase the session's messages and all facts, a user's from all sessions, with their words."""
        self.memory.reset(user_memory=True)
        self.memory.facts.erase_all()

    # -- finding ----------------------------------------------------------------------------------

    @accepts(_NOT_MEANT, limit="top_k")
    def search(
        self,
        query: str,
        *,
        top_k: int = 20,
        threshold: float = THRESHOLD,
        categories: Collection[str] | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> Results[FactHit]:
        """Return the facts that fit a question, best first, with their scores. See `Memory.facts.search`.

        Raises:
            ConfigError: a filter is unknown, a number impossible, or the facts are another user's.
        """
        wanted = self._filters(filters)
        hits = self.memory.facts.search(
            query, block=self.block, top_k=top_k, threshold=threshold, categories=categories, filters=wanted
        )
        return Results(hits)

    @accepts(memory_id="id")
    def get(self, id: int | str) -> Fact:
        """Return an active fact.

        Raises:
            NotFoundError: no active fact has this id.
        """
        return self._fact(id, self.memory.facts.read(self.block))

    @accepts(_NOT_MEANT, top_k="limit")
    def get_all(
        self,
        *,
        categories: Collection[str] | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Results[Fact]:
        """Return the active facts that pass the filters, oldest first; at most `limit`.

        Raises:
            ConfigError: a filter is unknown, a number impossible, or the facts are another user's.
        """
        wanted = self._filters(filters)
        if limit is not None and limit < 0:
            raise ConfigError(f"limit must be at least 0, not {limit}")
        if categories is not None:
            wanted["category"] = list(categories)
        # A filter by state asks for retired facts, too.
        states = None if "state" in wanted else ("active",)
        facts = [fact for fact in self.memory.facts.read(self.block, states=states) if fits(fact, wanted)]
        return Results(facts[:limit])

    @accepts(memory_id="id")
    def history(self, id: int | str) -> list[FactRevision]:
        """Return all states of a fact, oldest first, with author and reason of each change; deleted facts too.

        Raises:
            NotFoundError: no fact ever had this id, or it was erased.
        """
        return self.memory.facts.history(self._fact(id, self.memory.facts.read(self.block, states=None)))

    # -- inside -----------------------------------------------------------------------------------

    def _desk(self) -> Curation:
        return self.memory.facts.desk(self.block)

    def _filters(self, filters: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the filters without that for the user, who is checked."""
        wanted = dict(filters or {})
        check_user(self.memory, wanted.pop("user_id", None))
        return wanted

    @staticmethod
    def _fact(id: int | str, facts: Iterable[Fact]) -> Fact:
        found_fact = with_id(facts, id)
        if found_fact is None:
            raise NotFoundError(f"There is no fact with the id {id}.")
        return found_fact

    def _keep(
        self, message: ChatMessage, categories: Sequence[str] | None, metadata: Mapping[str, Any] | None
    ) -> list[MemoryChange]:
        """Store a message word for word as a fact, unless a fact has these words already; return the outcome."""
        text = " ".join(message_text(message).split())
        # Instructions to the model are no facts about the user.
        if not text or message.role is MessageRole.SYSTEM:
            return []
        known_fact = next((fact for fact in self.get_all() if same_words(fact.text) == same_words(text)), None)
        if known_fact is not None:
            return [MemoryChange("NONE", known_fact.id, known_fact.text)]
        # The message's own words decide on the category; nothing has classified them yet.
        category = category_among("other", text, self.categories if categories is None else categories)
        applied = self._desk().apply(curation.add(text, category=category, metadata=metadata))
        return [MemoryChange("ADD", applied.ids("fact")[0], text)]

    def _label(
        self, ids: Sequence[int | None], categories: Sequence[str] | None, metadata: Mapping[str, Any] | None
    ) -> None:
        # With approval switched on, new facts are still proposals.
        facts = [fact for fact in self.memory.facts.read(self.block, states=("active", "proposed")) if fact.id in ids]
        steps = []
        for fact in facts:
            wished = fact.category if categories is None else category_among(fact.category, fact.text, categories)
            if wished != fact.category:
                steps.append(curation.label([fact], wished))
            if metadata and (new := {**fact.metadata, **metadata}) != fact.metadata:
                steps.append(curation.edit(fact, fact.text, new))
        if steps:
            self._desk().apply(curation.together("label", *steps))

    def _changes(self, records: Sequence[EventRecord], seqs: set[int]) -> list[MemoryChange]:
        """Return the outcomes for the facts found in these messages, in order."""
        events = [record.event for record in records]
        # All texts in one read: a long run decides on hundreds of facts.
        hashes = [e.content for e in events if decides_on_fact(e) or adds_fact(e)]
        hashes += [text for e in events if rewords_fact(e) for text in (e.before, e.after)]
        words = self.memory.log.texts(hashes)
        texts = {fact.id: fact.text for fact in self.memory.facts.read(self.block, states=None)}
        changes: list[MemoryChange] = []
        ours, decides = False, any(map(decides_on_fact, events))
        for event in events:
            # A delivery that had waited may be learned in the same call, from other messages.
            if isinstance(event, FactsExtracted):
                ours = bool(seqs & set(expand(event.seqs)))
            elif decides_on_fact(event) or (adds_fact(event) and not decides):
                ours = bool(seqs & set(expand(event.sources)))
            if not ours:
                continue
            if decides_on_fact(event):
                if event.decision == "delete" and event.fact is not None:
                    changes.append(MemoryChange("DELETE", event.fact, texts.get(event.fact, "")))
                elif event.decision == "none":
                    fact_text = words.get(event.content, "") if event.fact is None else texts.get(event.fact, "")
                    changes.append(MemoryChange("NONE", event.fact, fact_text))
            elif adds_fact(event) and event.origin == "extracted":
                changes.append(MemoryChange("ADD", event.fact, words.get(event.content, "")))
            elif rewords_fact(event):
                changes.append(
                    MemoryChange("UPDATE", event.fact, words.get(event.after, ""), words.get(event.before, ""))
                )
        return changes


def _mem0(item: Any) -> dict[str, Any]:
    """Return a result with Mem0's keys; its ids are texts."""
    if isinstance(item, MemoryChange):
        id = None if item.id is None else str(item.id)
        return {"id": id, "memory": item.text, "event": item.event, "previous_memory": item.previous}
    fact = item.fact if isinstance(item, FactHit) else item
    times = (datetime.fromtimestamp(at, UTC).isoformat() for at in (fact.created_at, fact.updated_at))
    entry = {"id": fact.key or str(fact.id), "memory": fact.text, "metadata": dict(fact.metadata)}
    entry |= dict(zip(("created_at", "updated_at"), times, strict=True))
    return {**entry, "score": item.score} if isinstance(item, FactHit) else entry


def check_learned(memory: Memory, block: str, receipt: Receipt) -> None:
    """Check that a block that learns each turn has learned from the messages of a put, whatever became of others.

    Raises:
        ModelError: it has not; the messages are kept.
    """
    for waiting in memory.session.deliveries(states=("pending", "parked")) if receipt.seqs else ():
        if waiting.block == block and waiting.first_seq <= receipt.seqs[-1] and waiting.last_seq >= receipt.seqs[0]:
            served = receipt.served.get(block)
            why = waiting.error or (served and served.error) or "The model has not answered in time."
            raise ModelError(f"Nothing was learned yet: {why} The messages are kept, and learned from later.")


def _messages(value: Messages) -> list[ChatMessage]:
    if isinstance(value, str):
        return [ChatMessage(role=MessageRole.USER, content=value)]
    one = isinstance(value, ChatMessage | Mapping)
    listed: list[Any] = [value] if one else list(value)
    # Tool calls and results too: they are part of a turn, and a model sees them as context.
    return [message for item in listed for message in as_messages(_with_role(item))]


def _with_role(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return item
    if not isinstance(item.get("content"), str | list | None):
        raise MessageError("the content of a message must be text, or a list of parts")
    return {"role": MessageRole.USER, **item}
