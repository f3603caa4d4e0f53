"""`ConsolidatingMemory`: facts that stay few and current, under Mem0's names.

    memory = ConsolidatingMemory(user_id="ada")
    memory.add("I like dark mode.")
    memory.add("I prefer dark mode in every app.")
    [hit.fact.text for hit in memory.search("which theme?")]

A thin layer over `Memory` with one facts block that decides: each new fact is compared with the nearest known facts,
and is added, updates one, deletes one, or changes nothing. Every decision is an event, every version is kept.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memory_core.blocks.fact_search import THRESHOLD, FactHit, fits
from memory_core.curation.fact_desk import Curation
from memory_core.errors import ConfigError, MessageError, ModelError, NotFoundError
from memory_core.events import EventRecord, FactsExtracted, expand
from memory_core.history.slices.fact_slice import adds_fact, decides_on_fact, rewords_fact
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole, message_text
from memory_core.models.protocols import ChatModel
from memory_core.planning import curation
from memory_core.planning.consolidation import category_among
from memory_core.planning.fact_merging import Fact, same_words
from memory_core.recipes import CATEGORIES
from memory_core.services import Services
from memory_core.store.fact_rows import FactRevision

DELETED = "deleted"

Messages = str | ChatMessage | Mapping[str, Any] | Sequence[ChatMessage | Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Change:
    """Outcome for one found fact."""

    event: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    id: int | None
    """Id of the fact; None if another found fact of the same batch says the same."""
    text: str
    """The fact's text; of a deleted fact, its last."""
    previous: str | None = None
    """Text before an update; None for other events."""


class ConsolidatingMemory:
    """Facts of a user, or of a session without a user. With `chat` a model finds them and decides; without, rules do.

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
        chat: ChatModel | None = None,
        services: Services | None = None,
        **settings: Any,
    ) -> None:
        """Create a session, or open it if it exists in the database.

        Each fact gets one of the `categories`; `settings` are those of `MemoryConfig`.

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

    def add(self, messages: Messages, *, infer: bool = True, categories: Sequence[str] | None = None) -> list[Change]:
        """Learn from messages now, and return the outcome of each found fact.

        The messages become a turn of the session, so that every fact names its source. `infer=False` keeps each message
        word for word as a fact instead, and compares nothing. `categories` replace the block's categories for these
        facts.

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
            return [change for message in given_messages for change in self._keep(message, categories)]
        # The changes of this call are read from the log after this position.
        before = self.memory.session.status().position
        receipt = self.memory.put_messages(given_messages, end_turn=True)
        served = receipt.served.get(self.block)
        if served is not None and served.outcome != "done":
            why = served.error or "The model has not answered in time."
            raise ModelError(f"Nothing was learned yet: {why} The messages are kept, and learned from later.")
        changes = self._changes(self.memory.events(before, block=self.block), set(receipt.seqs))
        # The extractor knows only the block's categories, so those of this call are set afterwards.
        if categories is not None:
            self._label([change.id for change in changes if change.event in ("ADD", "UPDATE")], categories)
        return changes

    def update(self, id: int, text: str) -> Fact:
        """Reword a fact, and return it.

        Raises:
            NotFoundError: there is no such fact.
            MessageError: the text is empty, or another fact has it already.
        """
        fact = self.get(id)
        # The same words again are no change, and no version.
        if " ".join(text.split()) != fact.text:
            self._desk().apply(curation.edit(fact, text))
        return self.get(id)

    def delete(self, id: int) -> None:
        """Retire a fact: searches no longer find it, and its history stays.

        Raises:
            NotFoundError: there is no such fact.
        """
        self._desk().apply(curation.retire([self.get(id)], DELETED))

    def delete_all(self) -> int:
        """Retire all facts, in one step that can be undone; return their number."""
        facts = self.get_all()
        if facts:
            self._desk().apply(curation.retire(facts, DELETED))
        return len(facts)

    # -- finding ----------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        top_k: int = 20,
        threshold: float = THRESHOLD,
        categories: Collection[str] | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> list[FactHit]:
        """Return the facts that fit a question, best first, with their scores. See `Memory.facts.search`.

        Raises:
            ConfigError: a filter is unknown, or a number impossible.
        """
        return self.memory.facts.search(
            query, block=self.block, top_k=top_k, threshold=threshold, categories=categories, filters=filters
        )

    def get(self, id: int) -> Fact:
        """Return an active fact.

        Raises:
            NotFoundError: no active fact has this id.
        """
        return self._fact(id, self.memory.facts.read(self.block))

    def get_all(
        self,
        *,
        categories: Collection[str] | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> list[Fact]:
        """Return the active facts that pass the filters, oldest first; at most `limit`.

        Raises:
            ConfigError: a filter is unknown.
        """
        wanted = dict(filters or {})
        if categories is not None:
            wanted["category"] = list(categories)
        # A filter by state asks for retired facts, too.
        states = None if "state" in wanted else ("active",)
        return [fact for fact in self.memory.facts.read(self.block, states=states) if fits(fact, wanted)][:limit]

    def history(self, id: int) -> list[FactRevision]:
        """Return all states of a fact, oldest first, with author and reason of each change; deleted facts too.

        Raises:
            NotFoundError: no fact ever had this id, or it was erased.
        """
        return self.memory.facts.history(self._fact(id, self.memory.facts.read(self.block, states=None)))

    # -- inside -----------------------------------------------------------------------------------

    def _desk(self) -> Curation:
        return self.memory.facts.desk(self.block)

    @staticmethod
    def _fact(id: int, facts: Iterable[Fact]) -> Fact:
        found_fact = next((fact for fact in facts if fact.id == id), None)
        if found_fact is None:
            raise NotFoundError(f"There is no fact with the id {id}.")
        return found_fact

    def _keep(self, message: ChatMessage, categories: Sequence[str] | None) -> list[Change]:
        """Store a message word for word as a fact, unless a fact has these words already; return the outcome."""
        text = " ".join(message_text(message).split())
        # Instructions to the model are no facts about the user.
        if not text or message.role is MessageRole.SYSTEM:
            return []
        known_fact = next((fact for fact in self.get_all() if same_words(fact.text) == same_words(text)), None)
        if known_fact is not None:
            return [Change("NONE", known_fact.id, known_fact.text)]
        # The message's own words decide on the category; nothing has classified them yet.
        category = category_among("other", text, self.categories if categories is None else categories)
        applied = self._desk().apply(curation.add(text, category=category))
        return [Change("ADD", applied.ids("fact")[0], text)]

    def _label(self, ids: Sequence[int | None], categories: Sequence[str]) -> None:
        # With approval switched on, new facts are still proposals.
        facts = [fact for fact in self.memory.facts.read(self.block, states=("active", "proposed")) if fact.id in ids]
        wished = [(fact, category_among(fact.category, fact.text, categories)) for fact in facts]
        steps = [curation.label([fact], category) for fact, category in wished if category != fact.category]
        if steps:
            self._desk().apply(curation.together("label", *steps))

    def _changes(self, records: Sequence[EventRecord], seqs: set[int]) -> list[Change]:
        """Return the outcomes for the facts found in these messages, in order."""
        events = [record.event for record in records]
        # All texts in one read: a long run decides on hundreds of facts.
        hashes = [e.content for e in events if decides_on_fact(e) or adds_fact(e)]
        hashes += [text for e in events if rewords_fact(e) for text in (e.before, e.after)]
        words = self.memory.log.texts(hashes)
        texts = {fact.id: fact.text for fact in self.memory.facts.read(self.block, states=None)}
        changes: list[Change] = []
        ours = False
        for event in events:
            if isinstance(event, FactsExtracted):
                # A delivery that had waited may be learned in the same call, from other messages.
                ours = bool(seqs & set(expand(event.seqs)))
            elif not ours:
                continue
            elif decides_on_fact(event):
                if event.decision == "delete" and event.fact is not None:
                    changes.append(Change("DELETE", event.fact, texts.get(event.fact, "")))
                elif event.decision == "none":
                    fact_text = words.get(event.content, "") if event.fact is None else texts.get(event.fact, "")
                    changes.append(Change("NONE", event.fact, fact_text))
            elif adds_fact(event) and event.origin == "extracted":
                changes.append(Change("ADD", event.fact, words.get(event.content, "")))
            elif rewords_fact(event):
                changes.append(Change("UPDATE", event.fact, words.get(event.after, ""), words.get(event.before, "")))
        return changes


def _messages(value: Messages) -> list[ChatMessage]:
    if isinstance(value, str):
        return [ChatMessage(role=MessageRole.USER, content=value)]
    one = isinstance(value, ChatMessage | Mapping)
    listed: list[Any] = [value] if one else list(value)
    return [_message(item) for item in listed]


def _message(value: Any) -> ChatMessage:
    if isinstance(value, ChatMessage):
        return value
    if not isinstance(value, Mapping) or not isinstance(value.get("content"), str):
        raise MessageError("a message must be a ChatMessage, or a dict with role and content")
    role = value.get("role", "user")
    try:
        return ChatMessage(role=MessageRole(role), content=value["content"])
    except ValueError:
        raise ConfigError(f"a role must be one of {', '.join(MessageRole)}, not {role!r}") from None
