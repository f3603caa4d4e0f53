"""Export a configuration as Python source for LlamaIndex's `Memory`, runnable as pasted.

Settings without a counterpart become notes with their values. Priorities are inverted, as LlamaIndex (up to 0.14.25)
cuts the smallest number first.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memory_core.blocks import FactExtractionMemoryBlock, StaticMemoryBlock, VectorMemoryBlock
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.config import MemoryConfig
from memory_core.formats.llamaindex_message import part_to_llamaindex
from memory_core.messages import FilePart, ImagePart, TextPart
from memory_core.planning.rendering import InsertMethod
from memory_core.tokens import AUDIO_TOKENS, DEFAULT_ENCODING, DOCUMENT_TOKENS, IMAGE_TOKENS, VIDEO_TOKENS
from memory_inspector.files.configuration import PROMPTS, StoredBlock, call

RESULTS = 10
"""Result limit for blocks that return as many as fit, which LlamaIndex does not support."""

WIDTH = 100
"""Maximum characters of a note's line."""

_MODEL = """\
llm = MockLLM(max_tokens=1)  # stands in for your model, e.g. llama_index.llms.openai.OpenAI: it learns nothing
"""

_STORE = '''\
embed_model = MockEmbedding(embed_dim=8)  # stands in for your embedding model: it finds all texts alike


class TextStore(SimpleVectorStore):
    """Vectors with their texts, in memory. Stands in for your vector store: SimpleVectorStore keeps no texts."""

    stores_text: bool = True
    _nodes: dict = PrivateAttr(default_factory=dict)

    def add(self, nodes, **kwargs):
        self._nodes.update((node.node_id, node) for node in nodes)
        return super().add(nodes, **kwargs)

    def query(self, query, **kwargs):
        found = super().query(query, **kwargs)
        found.nodes = [self._nodes[node_id] for node_id in found.ids]
        return found
'''

_SETTINGS: dict[str, tuple[Any, str]] = {
    "when_over": ("return", "LlamaIndex never shortens the queue: a prompt may be over the limit"),
    "split_long_turns": (False, "LlamaIndex keeps a long newest turn whole"),
    "accounting": ("reference", "LlamaIndex counts tool calls and thinking as nothing"),
    "context_window": (None, "LlamaIndex knows the token limit alone"),
    "reply_reserve": (0, "lower token_limit instead"),
    "reserved_tokens": (0, "taken off token_limit here"),
    "queue_turns": (None, "LlamaIndex bounds the queue by tokens alone"),
    "learning_context": (0, "blocks learn there from the flushed messages alone"),
    "delivery_timeout": (None, "put waits there until every block has learned"),
    "delivery_attempts": (None, "what a block fails to learn is lost to it there"),
    "recipe": (None, "a name for these settings"),
    "recipe_parameters": ({}, "what that recipe was given"),
}
"""Settings without a counterpart: LlamaIndex's fixed behaviour as a value (which needs no note) and in words."""

_EVERY_BLOCK: dict[str, tuple[Any, str]] = {
    "deliver_on": ("flush", "blocks learn there when the queue is flushed"),
    "truncation": ("drop", "a block is cut whole there"),
}

_BLOCKS: dict[str, dict[str, tuple[Any, str]]] = {
    "static": {
        "read_only": (True, "no tools edit it there"),
        "limit": (None, "no tools edit it there"),
    },
    "facts": {
        **_EVERY_BLOCK,
        "scope": ("session", "facts are the block object's there, and gone with it"),
        "approval": (False, "facts count at once there"),
        "on_change": ("add", "found facts are only added there"),
        "categories": ([], "facts have no categories there"),
        "show": ("all", "all facts ask for the prompt there"),
        "prompt_share": (None, "priorities alone decide who is cut there"),
        "expire_after_days": (None, "facts do not expire there"),
        "expire_categories": ([], "facts do not expire there"),
        "show_dates": (False, "facts have no dates there"),
        "former_values": ("show", "facts that contradict each other are not marked there"),
    },
    "vector": {
        **_EVERY_BLOCK,
        "similarity_threshold": (None, "scores differ there; see SimilarityPostprocessor"),
        "vector_weight": (None, "the score is the embedding's alone there"),
        "keyword_weight": (0, "there is no keyword search"),
        "neighbour_weight": (0, "the score is the embedding's alone there"),
        "episode_weight": (0, "the score is the embedding's alone there"),
        "speaker_weight": (0, "the score is the embedding's alone there"),
        "date_weight": (0, "the score is the embedding's alone there"),
        "informativeness_weight": (0, "the score is the embedding's alone there"),
        "length_weight": (0, "the score is the embedding's alone there"),
        "postprocessed_by": ([], "give the block its node_postprocessors: they are objects of your program"),
        "unit": ("batch", "what leaves the queue together is stored as one text there"),
        "layout": ("messages", "stored messages stand as elements in the prompt there"),
        "scope": ("session", "what is stored is the block object's there"),
        "former_values": ("show", "former values are not marked there"),
    },
}
"""Block settings without a counterpart, by kind of block."""

_DEPENDENT = {"nearest": ("on_change", "decide"), "top_k": ("show", "relevant")}
"""Settings that matter only if another setting has this value."""


def write_llamaindex_python(config: MemoryConfig, blocks: Iterable[StoredBlock]) -> str:
    """Return a LlamaIndex program that defines `memory`.

    Models and vector store are placeholders that need no key and no network.

    Raises:
        ConfigError: A block's setting is invalid.
    """
    writing = _Writing(config, list(blocks))
    arguments = writing.arguments()
    notes = "\n".join(writing.notes)
    heads = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(writing.imports.items())]
    wiring = [text for text, needed in ((_MODEL, "MockLLM"), (_STORE, "MockEmbedding")) if writing.uses(needed)]
    sections = [
        "# For LlamaIndex (pip install llama-index-core), written by Memory Inspector.",
        notes,
        "\n".join(heads),
        "".join(wiring),
        f"memory = {call('Memory.from_defaults', arguments)}",
    ]
    return "\n\n".join(section for section in sections if section) + "\n" + "".join(writing.afterwards)


class _Writing:
    """Collects a memory's arguments and the notes about them."""

    def __init__(self, config: MemoryConfig, blocks: Sequence[StoredBlock]) -> None:
        self._config = config
        self._blocks = blocks
        self._priorities = _turned(config, blocks)
        self.notes: list[str] = []
        self.afterwards: list[str] = []
        self.imports: dict[str, set[str]] = {}

    def uses(self, name: str) -> bool:
        return any(name in names for names in self.imports.values())

    def arguments(self) -> dict[str, str]:
        """Return the arguments of `Memory.from_defaults` as source."""
        config = self._config
        self._import("llama_index.core.memory", "Memory", "InsertMethod")
        method = "USER" if config.insert_method is InsertMethod.USER else "SYSTEM"
        arguments = {
            "token_limit": repr(max(config.flush_size, config.token_limit - config.reserved_tokens)),
            "chat_history_token_ratio": repr(config.chat_history_token_ratio),
            "token_flush_size": repr(config.flush_size),
            "insert_method": f"InsertMethod.{method}",
        }
        for kind, default in (("image", IMAGE_TOKENS), ("audio", AUDIO_TOKENS), ("video", VIDEO_TOKENS)):
            name = f"{kind}_token_size_estimate"
            if (estimate := getattr(config, name)) != default:
                arguments[name] = repr(estimate)
        if config.document_token_size_estimate != DOCUMENT_TOKENS:  # not an argument of from_defaults
            self.afterwards.append(f"memory.document_token_size_estimate = {config.document_token_size_estimate}\n")
        if config.encoding != DEFAULT_ENCODING:
            self._import("tiktoken", "get_encoding")
            arguments["tokenizer_fn"] = f"get_encoding({config.encoding!r}).encode_ordinary"
        self._note_settings("", config.model_dump(mode="json"), _SETTINGS)
        turned = {old: new for old, new in self._priorities.items() if old != new}
        if turned:
            pairs = ", ".join(f"{old} is {new} there" for old, new in sorted(turned.items()))
            self._note(f"LlamaIndex cuts the smallest priority number first, so priorities are turned round: {pairs}.")
        made = [code for block in self._blocks if (code := self._block(block)) is not None]
        inside = textwrap.indent("".join(f"{code},\n" for code in made), "    ")
        arguments["memory_blocks"] = f"[\n{inside}]" if made else "[]"
        return arguments

    def _block(self, stored: StoredBlock) -> str | None:
        """Return a block as source; None, with a note, without a counterpart."""
        block = stored.make()
        if block is None or block.kind == "custom":
            self._note(f"The block {stored.name!r} is left out: put your own class {stored.type!r} in its place.")
            return None
        if not block.enabled:
            self._note(f"The block {block.name!r} is left out: it is off (enabled=False).")
            return None
        arguments = {"name": repr(block.name)}
        if block.description is not None:
            arguments["description"] = repr(block.description)
        if isinstance(block, StaticMemoryBlock):
            arguments["static_content"] = self._content(block)
        elif isinstance(block, FactExtractionMemoryBlock):
            self._import("llama_index.core.llms", "MockLLM")
            arguments |= {"llm": "llm", "max_facts": repr(block.max_facts)}
            for name in PROMPTS:
                if (prompt := getattr(block, name)) is not None:
                    self._import("llama_index.core.prompts", "PromptTemplate")
                    arguments[name] = f"PromptTemplate({prompt!r})"
        elif isinstance(block, VectorMemoryBlock):
            arguments |= self._search(block)
        else:
            settings = ", ".join(f"{name}={value!r}" for name, value in block.settings().items() if name != "name")
            self._note(f"The block {block.name!r} ({stored.type}) has no counterpart and is left out: {settings}.")
            return None
        # Priority 0 is not cut in either library and stays as it is.
        if block.priority:
            arguments["priority"] = repr(self._priorities[block.priority])
        if not block.accept_short_term_memory:
            arguments["accept_short_term_memory"] = "False"
        self._note_settings(f"{block.name!r}: ", block.settings(), _BLOCKS[block.kind])
        self._import("llama_index.core.memory", type(block).__name__)
        return call(type(block).__name__, arguments)

    def _content(self, block: StaticMemoryBlock) -> str:
        if isinstance(block.static_content, str):
            return repr(block.static_content)
        made = []
        for part in block.static_content:
            if not isinstance(part, TextPart | ImagePart | FilePart):
                self._note(f"{block.name!r}: a part of the type {part.type!r} has no counterpart and is left out.")
                continue
            content = part_to_llamaindex(part)
            name = f"{content.pop('block_type').capitalize()}Block"
            self._import("llama_index.core.llms", name)
            made.append(f"{name}({', '.join(f'{key}={value!r}' for key, value in content.items())})")
        return f"[{', '.join(made)}]"

    def _search(self, block: VectorMemoryBlock) -> dict[str, str]:
        """Return the arguments of a vector block."""
        self._import("llama_index.core", "MockEmbedding")
        self._import("llama_index.core.bridge.pydantic", "PrivateAttr")
        self._import("llama_index.core.vector_stores", "SimpleVectorStore")
        if block.similarity_top_k is None:
            self._note(f"{block.name!r}: similarity_top_k=None (as many as fit) has no counterpart: it is {RESULTS}.")
        if block.retrieval_context_window == 1:
            self._note(f"{block.name!r}: with retrieval_context_window=1 LlamaIndex asks with the whole queue.")
        return {
            "vector_store": "TextStore()",
            "embed_model": "embed_model",
            "similarity_top_k": repr(block.similarity_top_k or RESULTS),
            "retrieval_context_window": repr(block.retrieval_context_window),
        }

    def _note_settings(self, whose: str, settings: Mapping[str, Any], without: Mapping[str, tuple[Any, str]]) -> None:
        """Add a note per reason, listing the settings that it concerns."""
        by_reason: dict[str, list[str]] = {}
        for name, value in settings.items():
            other, needed = _DEPENDENT.get(name, (name, None))
            # A setting with a counterpart equals itself and so gets no note.
            same, reason = without.get(other, (value, ""))
            if value != same if other == name else settings[other] == needed:
                by_reason.setdefault(reason, []).append(f"{name}={value!r}")
        for reason, parts in by_reason.items():
            self._note(f"{whose}{', '.join(parts)} {'has' if len(parts) == 1 else 'have'} no counterpart: {reason}.")

    def _note(self, words: str) -> None:
        self.notes.append(textwrap.fill(words, WIDTH, initial_indent="# note: ", subsequent_indent="#   "))

    def _import(self, module: str, *names: str) -> None:
        self.imports.setdefault(module, set()).update(names)


def _turned(config: MemoryConfig, blocks: Iterable[StoredBlock]) -> dict[int, int]:
    """Map priorities, except 0, to LlamaIndex's inverted order."""
    made: list[BaseMemoryBlock[Any]] = [block for stored in blocks if (block := stored.make()) is not None]
    priorities = sorted({block.priority for block in made if block.priority and block.enabled})
    # The same order as LlamaIndex's.
    if config.truncation_order == "smallest_first":
        return {priority: priority for priority in priorities}
    return dict(zip(priorities, reversed(priorities), strict=True))
