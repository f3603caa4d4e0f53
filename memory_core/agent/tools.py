"""Tools with which an agent edits its own memory: specifications for a model, and their execution.

Names and meanings are those of Letta's server, up to 0.16.8; `pip install letta` brings another program today. Refused
here, and not there: a text above a block's limit, emptying a block, what is there already. A core block is a static
block that an agent may edit; the archive is a facts block that is searched and learns nothing by itself. A call's edit
and its record are one transaction; an impossible call is refused with a sentence for the model, and changes nothing.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.static import StaticMemoryBlock
from memory_core.curation.fact_change_sets import FactChangeSetTransaction
from memory_core.curation.fact_desk import WAITS
from memory_core.curation.settings import agent_may_edit, edit_text
from memory_core.engine.delivery import scope_key
from memory_core.engine.session import SessionBlock
from memory_core.errors import (
    ConfigError,
    ConflictError,
    EmbedderError,
    MessageError,
    ModelError,
    NotFoundError,
    VectorIndexError,
)
from memory_core.events import ToolCalled
from memory_core.memory import Memory
from memory_core.messages import MessageRole, TextPart, ToolCallPart, decode_arguments, seconds_of
from memory_core.models.protocols import ToolSpec
from memory_core.planning.core_memory import END, append, insert, replace, replace_all, rethink, short
from memory_core.planning.curation import ChangeSet, FactDraft
from memory_core.store.message_rows import StoredMessage
from memory_core.store.writing import Writing
from memory_core.vectors.keyword import KeywordIndex

MAX_RESULTS = 50
SHOWN_CHARACTERS = 600
"""Maximum characters of each message in the result of a search."""

MAX_ARCHIVED = 10_000
"""Maximum entries of the archive that a search compares with all of its filters."""

ARCHIVED_CHARACTERS = 4_000
"""Maximum characters of one archived text."""

NAME_CHARACTERS = 64
"""Maximum characters of a tool's name; endpoints reject longer ones."""

RANK_CONSTANT = 60
"""Usual constant k of reciprocal rank fusion; lower values favour the first ranks."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    text: str
    """Text returned to the model."""
    done: bool
    """True if the call was executed; False if it was refused and changed nothing."""
    block: str | None = None
    """Name of the block that the call was about; None if there is none."""


ABOUT_THE_LOOP = frozenset(("request_heartbeat", "thinking", "inner_thoughts"))
"""Arguments that Letta adds to every tool for its loop; all other unknown ones are refused."""


class _Arguments(BaseModel, extra="forbid"):
    """Arguments of a tool."""

    @model_validator(mode="before")
    @classmethod
    def _of_the_tool(cls, values: Any) -> Any:
        return {k: v for k, v in values.items() if k not in ABOUT_THE_LOOP} if isinstance(values, dict) else values


class _Append(_Arguments):
    label: str = Field(description="The block.")
    content: str = Field(description="What to add, as a line of its own.")


class _Replace(_Arguments):
    label: str = Field(description="The block.")
    old_content: str = Field(description="Text of the block, letter by letter.")
    new_content: str = Field(description="What stands there instead; empty to delete it.")


class _ReplaceOnce(_Arguments):
    label: str = Field(description="The block.")
    old_string: str = Field(description="Text of the block, letter by letter; it must be there once.")
    new_string: str = Field(description="What stands there instead; empty to delete it.")


class _Insert(_Arguments):
    label: str = Field(description="The block.")
    new_string: str = Field(description="What to insert, as a line of its own.")
    insert_line: int = Field(END, description="The line after which it goes: 0 for the beginning, -1 for the end.")


class _Rethink(_Arguments):
    label: str = Field(description="The block.")
    new_memory: str = Field(description="The whole new text of the block. What is left out of it is gone.")


class _Tagged(_Arguments):
    @field_validator("tags", mode="before", check_fields=False)
    @classmethod
    def _as_list(cls, value: object) -> object:
        """Return a single tag as a list: models often leave out the brackets."""
        return [value] if isinstance(value, str) else value


class _ArchivalInsert(_Tagged):
    content: str = Field(description="What to keep, understandable by itself.")
    tags: list[str] = Field(default_factory=list, description="Short words to find it by.")


class _ArchivalSearch(_Tagged):
    query: str = Field(description="What to look for, in words.")
    tags: list[str] | None = Field(None, description="Only what has one of these tags.")
    tag_match_mode: Literal["any", "all"] = Field("any", description="all: only what has all of the tags.")
    start_datetime: str | None = Field(None, description="Only what was archived then or later, in ISO 8601.")
    end_datetime: str | None = Field(None, description="Only what was archived until then, that day included.")
    top_k: int = Field(10, ge=1, le=MAX_RESULTS, description="Most results.")


class _ConversationSearch(_Arguments):
    query: str | None = Field(None, description="What to look for, in words; without it, the newest messages.")
    roles: list[Literal["user", "assistant"]] | None = Field(None, description="Only what these said.")
    start_date: str | None = Field(None, description="Only what was said then or later, in ISO 8601.")
    end_date: str | None = Field(None, description="Only what was said until then, that day included.")
    limit: int = Field(5, ge=1, le=MAX_RESULTS, description="Most results.")


_CORE: dict[str, tuple[type[_Arguments], str]] = {
    "core_memory_append": (_Append, "Add a line to a block of your core memory."),
    "core_memory_replace": (
        _Replace,
        "Replace a text wherever it stands in a block of your core memory, or delete it.",
    ),
    "memory_replace": (_ReplaceOnce, "Replace a text that stands once in a block of your core memory, or delete it."),
    "memory_insert": (_Insert, "Insert text at a line of a block of your core memory."),
    "memory_rethink": (_Rethink, "Rewrite a block of your core memory as a whole."),
}
_ARCHIVE: dict[str, tuple[type[_Arguments], str]] = {
    "archival_memory_insert": (_ArchivalInsert, "Keep something in your archive, which is searched and never in view."),
    "archival_memory_search": (_ArchivalSearch, "Search your archive."),
}
_SEARCH: dict[str, tuple[type[_Arguments], str]] = {
    "conversation_search": (_ConversationSearch, "Search what was said earlier in this conversation."),
}
_TOOLS = _CORE | _ARCHIVE | _SEARCH

REFUSED = (ConfigError, MessageError, ConflictError, NotFoundError, EmbedderError, VectorIndexError, ModelError)
"""Errors of a call that are returned to the model as its result; any other is raised to the caller."""


class MemoryTools:
    """The memory tools of one session. Thread-safe."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._session = memory._session

    def specs(self) -> list[ToolSpec]:
        """Return the current tool descriptions for a model; empty if an agent may edit no block."""
        core = [(attached.name, attached.settings, attached.state or "") for attached in self.core_blocks]
        return tool_specs(core, archive=self.archive is not None)

    def tokens(self) -> int:
        """Estimate the tokens of the definitions sent with every prompt; see `definition_tokens`."""
        return definition_tokens(self.specs(), self._memory.session.count_tokens)

    @property
    def core_blocks(self) -> list[SessionBlock]:
        """The blocks that an agent may edit, in their order."""
        return [attached for attached in self._memory.blocks if agent_may_edit(attached)]

    @property
    def archive(self) -> SessionBlock | None:
        """First enabled facts block that learns nothing by itself, which is the archive; None if there is none."""
        results = (
            attached
            for attached in self._memory.blocks
            if isinstance(attached.block, FactExtractionMemoryBlock)
            and attached.settings["enabled"]
            and not attached.settings["accept_short_term_memory"]
        )
        return next(results, None)

    def call(self, call: ToolCallPart | str, /, **arguments: Any) -> ToolResult:
        """Execute a model's call, or a tool by name and arguments.

        No input of a model raises: an invalid call is refused, with a reason for the model, and recorded.

        Raises:
            NotFoundError: the session was deleted.
            StoreError: the database cannot be reached.
        """
        if isinstance(call, str):
            call = ToolCallPart(tool_name=call, tool_kwargs=arguments)
        # Before anything else: a call is recorded whatever becomes of it, and a database takes no surrogates or NULs.
        call = storable(call)
        # Malformed arguments, failed searches and impossible edits all end as a refusal that the model can read.
        try:
            parsed = _read_arguments(call)
            # Searches may call a model, so they run outside the transaction.
            if isinstance(parsed, _ArchivalSearch):
                return self._record_result(call, self._search_archive(parsed))
            if isinstance(parsed, _ConversationSearch):
                return self._record_result(call, self._search_conversation(parsed))
            # The edit and its record in one transaction: neither is there without the other.
            with self._session.changing() as w:
                result = self._insert(w, parsed) if isinstance(parsed, _ArchivalInsert) else self._edit(w, parsed)
                _note(w, call, result)
            return result
        except REFUSED as error:
            return self.refuse(call, str(error))

    def refuse(self, call: ToolCallPart, reason: str) -> ToolResult:
        """Record that a call was not made, and why. Raises the same errors as `call`."""
        call = storable(call)
        # Unparsed arguments stay text; only parsed ones can name the block that was meant.
        label = call.tool_kwargs.get("label") if isinstance(call.tool_kwargs, dict) else None
        meant = self._named(label) if isinstance(label, str) else None
        return self._record_result(call, ToolResult(reason, done=False, block=meant.name if meant else None))

    # -- executing a call -------------------------------------------------------------------------

    def _edit(self, w: Writing, arguments: _Arguments) -> ToolResult:
        change: Callable[[str], str]
        label = self._core(getattr(arguments, "label", ""))
        match arguments:
            case _Append(content=content):
                did, change = "Appended to", lambda text: append(label, text, content)
            case _Replace(old_content=old, new_content=new):
                did, change = "Replaced in", lambda text: replace_all(label, text, old, new)
            case _ReplaceOnce(old_string=old, new_string=new):
                did, change = "Replaced in", lambda text: replace(label, text, old, new)
            case _Insert(new_string=new, insert_line=line):
                did, change = "Inserted into", lambda text: insert(label, text, new, line)
            case _Rethink(new_memory=new):
                did, change = "Rewrote", lambda text: rethink(label, text, new)
            case _:
                raise AssertionError(arguments)
        # `change` gets the text as it is inside the transaction, not as the model read it.
        _, after = edit_text(self._session, w, label, change, "agent")
        # The result states the remaining size, so that the model shortens a block before an edit is refused.
        limit = self._session.block(label).settings["limit"]
        return ToolResult(f"{did} {label}. It has {_characters(len(after), limit)}.", done=True, block=label)

    def _insert(self, w: Writing, arguments: _ArchivalInsert) -> ToolResult:
        archive = self._archive()
        block = archive.block
        assert isinstance(block, FactExtractionMemoryBlock)
        content = " ".join(arguments.content.split())
        if not content:
            raise ConfigError("There is no content to archive. Nothing was changed.")
        if len(content) > ARCHIVED_CHARACTERS:
            raise ConfigError(
                f"The content has {len(content):,} characters; at most {ARCHIVED_CHARACTERS:,} are archived at once. "
                "Nothing was changed. Split it."
            )
        # Tags in first-given order, without repetitions and empty ones.
        tags = tuple(dict.fromkeys(tag for given_tag in arguments.tags if (tag := " ".join(given_tag.split()))))
        asked = w.session.newest_turn  # the turn in which the agent archives it
        sources = ((w.session.id, asked),) if asked is not None else ()
        new = FactDraft(content, topics=tags, sources=sources)
        scope = scope_key(self._session, archive)
        transaction = FactChangeSetTransaction(w, scope, archive.name, "agent", self._session.counter.text)
        transaction.apply(ChangeSet("add", (new,)))
        waits = f" {WAITS}" if block.approval else ""
        return ToolResult(f"Archived in {archive.name}.{waits}", done=True, block=archive.name)

    def _search_archive(self, arguments: _ArchivalSearch) -> ToolResult:
        archive = self._archive()
        query = _asked(arguments.query)
        tags, within = arguments.tags, _between(arguments.start_datetime, arguments.end_datetime)
        hits = self._memory.facts.search(
            query, block=archive.name, top_k=MAX_ARCHIVED, topics=tags, filters={"created_at": within}
        )
        needed = {tag.casefold() for tag in tags or ()} if arguments.tag_match_mode == "all" else set()
        fitting = [hit.fact for hit in hits if needed <= {topic.casefold() for topic in hit.fact.topics}]
        lines = [f"{fact.text}{_tags(fact.topics)}" for fact in fitting[: arguments.top_k]]
        return ToolResult(_listed(lines, "entry", "entries"), done=True, block=archive.name)

    def _search_conversation(self, arguments: _ConversationSearch) -> ToolResult:
        messages = self._conversation(arguments)
        lines = [f"Turn {m.turn}, {m.message.role}: {short(_spoken(m), SHOWN_CHARACTERS)}" for m in messages]
        return ToolResult(_listed(lines, "message", "messages"), done=True)

    def _conversation(self, asked: _ConversationSearch) -> list[StoredMessage]:
        """Return the messages of earlier turns that match, best first; without a query, the newest first."""
        within, roles = _between(asked.start_date, asked.end_date), asked.roles or ("user", "assistant")
        query = None if asked.query is None else _asked(asked.query)
        memory = self._memory
        # The present turn is in the prompt already and would always match best.
        turn = memory.session.status().turns
        with self._session.database.read() as connection:
            withheld = self._session.quarantine(connection).seqs(memory.session_id)
        earlier = (m for m in memory.session.messages() if m.turn < turn and m.seq not in withheld)
        spoken = {m.seq: m for m in earlier if _spoken(m)}
        fitting = {
            seq for seq, m in spoken.items() if m.message.role in roles and within["gte"] <= _time(m) < within["lt"]
        }
        if query is None:
            return [spoken[seq] for seq in sorted(fitting, reverse=True)[: asked.limit]]
        # Cached between calls and updated, so that a long conversation is not indexed anew for every search.
        index = memory.session.services.cached(
            ("conversation", memory.session.database.id, memory.session_id), KeywordIndex
        )
        # Messages that were erased or reset must not be found any more.
        for seq in set(index.numbers()) - spoken.keys():
            index.remove(seq)
        index.add({seq: _spoken(message) for seq, message in spoken.items() if seq not in index})
        rankings = [[hit.number for hit in index.search(query, max(MAX_RESULTS, len(spoken)))]]
        # Keywords miss paraphrases; turns in a vector block are found by meaning as well.
        for attached in memory.blocks:
            if attached.kind == "vector" and attached.block is not None and attached.settings["enabled"]:
                rankings.append(self._recalled(query, attached.name, spoken))
        rankings = [[seq for seq in ranking if seq in fitting] for ranking in rankings]
        return [spoken[seq] for seq in fused(rankings)[: asked.limit]]

    def _recalled(self, query: str, block: str, spoken: Mapping[int, StoredMessage]) -> list[int]:
        """Search a vector block; return the number of the first message of each stored turn above the threshold."""
        search = self._memory.retrieval.search(query, block=block)
        least = search.settings.similarity_threshold
        # Without a match in words or meaning, boosts alone do not make a turn a result.
        found_turns = [one for one in search.found.candidates if one.match > 0 and (least is None or one.score > least)]
        best = [one.number for one in found_turns[:MAX_RESULTS]]
        turns = {turn.number: turn for turn in self._memory.retrieval.stored_turns(block, numbers=best)} if best else {}
        seqs = [[m.seq for m in turns[number].messages if m.seq in spoken] for number in best if number in turns]
        # One message per turn, so that long turns do not fill the results.
        return [unit[0] for unit in seqs if unit]

    # -- finding blocks ---------------------------------------------------------------------------

    def _named(self, label: str) -> SessionBlock | None:
        """Return the block of this name, ignoring case."""
        blocks = self._memory.blocks
        exact = next((attached for attached in blocks if attached.name == label), None)
        alike = [attached for attached in blocks if attached.name.casefold() == label.strip().casefold()]
        return exact or (alike[0] if len(alike) == 1 else None)

    def _core(self, label: str) -> str:
        """Return the name of the core block with this label; the editor checks whether it may be edited."""
        attached = self._named(label)
        if attached is None or not isinstance(attached.block, StaticMemoryBlock) or not attached.settings["enabled"]:
            names = ", ".join(attached.name for attached in self.core_blocks) or "none"
            raise ConfigError(f"There is no block “{short(label, 40)}”. Nothing was changed. Your blocks: {names}.")
        return attached.name

    def _archive(self) -> SessionBlock:
        archive = self.archive
        if archive is None:
            raise ConfigError("This session has no archive.")
        return archive

    def _record_result(self, call: ToolCallPart, result: ToolResult) -> ToolResult:
        with self._session.writing() as w:
            _note(w, call, result)
        return result


def tool_specs(core: Sequence[tuple[str, Mapping[str, Any], str]], *, archive: bool) -> list[ToolSpec]:
    """Return tool descriptions for a model; empty if `core` is.

    `core`: name, settings and text of each block that an agent may edit. `archive`: True if there is an archive.
    """
    if not core:
        return []
    # The labels become an enum, so that endpoints that constrain decoding cannot produce an unknown block.
    labels = [name for name, _, _ in core]
    listed = "Your blocks:\n" + "\n".join(_described(*block) for block in core)
    first, *rest = _CORE.items()
    specs = [_spec(first[0], f"{first[1][1]} {listed}", first[1][0], labels)]
    # Only the first tool lists the blocks: a model reads all definitions, and every prompt pays for them.
    specs += [_spec(name, f"{does} See {first[0]}.", arguments, labels) for name, (arguments, does) in rest]
    others = {**(_ARCHIVE if archive else {}), **_SEARCH}
    return specs + [_spec(name, does, arguments) for name, (arguments, does) in others.items()]


def definition_tokens(specs: Sequence[ToolSpec], count: Callable[[str], int]) -> int:
    """Estimate the tokens that tool definitions, written as JSON, add to every prompt. No token limit includes them."""
    listed = [[spec.name, spec.description, dict(spec.parameters)] for spec in specs]
    return count(json.dumps(listed, ensure_ascii=False)) if listed else 0


def storable(call: ToolCallPart) -> ToolCallPart:
    """Return the call without lone surrogates and with a name of bounded length, so that it can be stored and sent."""
    kwargs: dict[str, Any] | str
    try:
        # JSON text and back: surrogates may be in any nested key or value.
        written = _whole(call.arguments)
        kwargs = written if isinstance(call.tool_kwargs, str) else decode_arguments(written)
    except RecursionError:
        kwargs = "(nested too deeply)"
    id = None if call.tool_call_id is None else _whole(call.tool_call_id)
    return ToolCallPart(tool_call_id=id, tool_name=_whole(call.tool_name)[:NAME_CHARACTERS], tool_kwargs=kwargs)


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def fused(rankings: Sequence[Sequence[int]]) -> list[int]:
    """Merge rankings by reciprocal rank fusion; return the numbers, best first, ties in ascending order."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, number in enumerate(ranking):
            # A sum of reciprocal ranks needs no common scale of keyword and vector scores.
            scores[number] = scores.get(number, 0.0) + 1 / (RANK_CONSTANT + place)
    return sorted(scores, key=lambda number: (-scores[number], number))


def _read_arguments(call: ToolCallPart) -> _Arguments:
    if call.tool_name not in _TOOLS:
        raise ConfigError(f"There is no tool “{short(call.tool_name, 40)}”. The memory tools are: {', '.join(_TOOLS)}.")
    if isinstance(call.tool_kwargs, str):
        raise ConfigError(f"The arguments of {call.tool_name} are not a JSON object. Nothing was done.")
    try:
        return _TOOLS[call.tool_name][0].model_validate(call.tool_kwargs)
    except ValidationError as error:
        # One reason is enough for a second attempt; the URL of pydantic's page would only cost tokens.
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise ConfigError(f"{call.tool_name}: {where}: {first['msg']}. Nothing was done.") from None


def _spec(name: str, description: str, arguments: type[_Arguments], labels: Sequence[str] = ()) -> ToolSpec:
    properties = {}
    for field, schema in arguments.model_json_schema()["properties"].items():
        # Pydantic adds a title that repeats the field's name, and every prompt pays for it.
        schema.pop("title", None)
        properties[field] = schema | ({"enum": list(labels)} if field == "label" else {})
    required = [field for field, info in arguments.model_fields.items() if info.is_required()]
    return ToolSpec(name, description, {"type": "object", "properties": properties, "required": required})


def _described(name: str, settings: Mapping[str, Any], text: str) -> str:
    """Return a core block in a line: `- Human: what you know about the user (84 of 2,000 characters)`."""
    about = f": {' '.join(settings['description'].split())}" if settings["description"] else ""
    return f"- {name}{about} ({_characters(len(text), settings['limit'])})"


def _characters(used: int, limit: int | None) -> str:
    return f"{used:,} characters" if limit is None else f"{used:,} of {limit:,} characters"


def _note(w: Writing, call: ToolCallPart, result: ToolResult) -> None:
    called = ToolCalled(
        tool=call.tool_name,
        block=result.block,
        outcome="done" if result.done else "refused",
        arguments=w.store_text(call.arguments),
        result=w.store_text(result.text),
    )
    w.record(called, actor="agent")


def _spoken(message: StoredMessage) -> str:
    """Return the text of a user or assistant message, without tool calls; empty for other roles."""
    if message.message.role not in (MessageRole.USER, MessageRole.ASSISTANT):
        return ""
    words = " ".join(part.text for part in message.message.parts if isinstance(part, TextPart))
    return " ".join(words.split())


def _between(start: str | None, end: str | None) -> dict[str, float]:
    """Return the times from `start` up to the end of `end` as a filter; a day alone ends with the day.

    Raises:
        ConfigError: one of them is no time.
    """
    times = [seconds_of(text) if text else None for text in (start, end)]
    for text, time in zip((start, end), times, strict=True):
        if text and time is None:
            raise ConfigError(f"“{short(text, 40)}” is no time. Nothing was searched. Write it as 2026-01-15T14:30.")
    first, last = times
    # A minute or a second named as the end is included as a whole, and a day is.
    whole = 86_400 if len(end or "") <= len("2026-01-15") else 60 if len(end or "") <= len("2026-01-15T14:30") else 1
    return {"gte": 0.0 if first is None else first, "lt": inf if last is None else last + whole}


def _time(message: StoredMessage) -> float:
    stated = seconds_of(message.message.additional_kwargs.get("time"))
    return message.at if stated is None else stated


def _asked(query: str) -> str:
    if not query.strip():
        raise ConfigError("There is no query. Nothing was searched.")
    return query.strip()


def _tags(topics: Sequence[str]) -> str:
    return f" [{', '.join(topics)}]" if topics else ""


def _listed(lines: Sequence[str], one: str, several: str) -> str:
    if not lines:
        return f"Found no {one}."
    return "\n".join([f"Found {len(lines)} {one if len(lines) == 1 else several}:", *(f"- {line}" for line in lines)])
