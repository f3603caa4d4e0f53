"""Every error the engine raises, as one tree: one class per different reaction of a caller.

    MemoryInspectorError
    ├── ConfigError            a setting is impossible: change it
    ├── MessageError           a message, or another text, cannot be stored: correct it
    ├── FormatError            a file is not in the expected form: correct the named line
    │   └── LimitError             it has too many bytes or items, or takes too long to read
    ├── NotFoundError          no such session, block, fact or turn
    ├── ConflictError          it was changed elsewhere since it was read
    ├── AccessError            this person's role does not allow it, or they are not signed in
    ├── ContextOverflowError   `when_over="raise"` and the context is over the limit
    ├── StoreError             the database cannot be reached or is of a newer version
    ├── VectorIndexError       the vector index cannot be reached
    ├── EmbedderError          texts cannot be embedded
    └── ModelError             a model call failed
        ├── ModelUnreachableError   no answer from the address
        ├── ModelTimeoutError       no answer in time
        ├── ModelKeyError           the key was refused
        ├── ModelRateLimitError     too many requests, or no quota left
        ├── ModelRequestError       the model refused this request (too long, unknown model, ...)
        └── ModelAnswerError        an answer came, but it is empty or not in the requested form

Messages are for people: what is wrong, where, and what to do. They never contain a key.
"""

import re
from pathlib import PureWindowsPath

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""NUL, which PostgreSQL refuses, and unpaired surrogates, which are not text in any encoding."""

MAX_CHARACTERS, MAX_OWN_CHARACTERS = 500, 2_000
"""Maximum characters kept of an error's text: of other exceptions, and of the engine's own."""


class MemoryInspectorError(Exception):
    """Base of every error raised on purpose by `memory_core`."""


def user_message(error: BaseException, *, secret: str = "") -> str:
    """Return the text to show for an error: our own message, or type and text of another exception.

    Always storable and of bounded length, and never raises: other people's exceptions may hold any text, or none.
    `secret` is a key that the text may repeat, and is replaced.
    """
    try:
        text = str(error)
    except BaseException as unreadable:  # other people's `__str__` may raise anything
        text = f"(its text cannot be read: {type(unreadable).__name__})"
    # Before the text is cut: half a key would not be found any more.
    text = text.replace(secret, "[key]") if secret else text
    ours = isinstance(error, MemoryInspectorError)
    # Our own sentences need no type before them; another exception's text may be empty or mean nothing alone.
    text = text[:MAX_OWN_CHARACTERS] if ours else f"{type(error).__name__}: {text}"[:MAX_CHARACTERS]
    return UNSTORABLE.sub("\ufffd", text)


class ConfigError(MemoryInspectorError, ValueError):
    """A setting is impossible. The message shows the setting and its value."""


class MessageError(MemoryInspectorError, ValueError):
    """A message, or another text, cannot be stored."""


class FormatError(MemoryInspectorError, ValueError):
    """A file or text is not in the expected form; none of it was stored."""


class LimitError(FormatError):
    """An input exceeds the limit of bytes, items or seconds for reading it; none of it was stored."""


class NotFoundError(MemoryInspectorError, LookupError):
    """There is no such session, block, fact, delivery or turn."""


class ConflictError(MemoryInspectorError):
    """An item was changed elsewhere since it was read; nothing was overwritten."""


class AccessError(MemoryInspectorError):
    """The person's role does not allow this, or nobody is signed in; nothing was stored."""


class ContextOverflowError(MemoryInspectorError):
    """The context is over the token limit and `when_over` is `"raise"`."""

    def __init__(self, message: str, *, over_by: int) -> None:
        super().__init__(message)
        self.over_by = over_by
        """Tokens above the limit."""


class StoreError(MemoryInspectorError):
    """The database cannot be reached, or was written by a newer version."""


class VectorIndexError(MemoryInspectorError):
    """The vector index cannot be reached; the vectors themselves are in the database."""


class EmbedderError(MemoryInspectorError):
    """Texts cannot be turned into vectors."""


class ModelError(MemoryInspectorError):
    """A model call failed."""


class ModelUnreachableError(ModelError):
    """Nothing answers at the model's address."""


class ModelTimeoutError(ModelError):
    """The model did not answer in time."""


class ModelKeyError(ModelError):
    """The endpoint refused the key."""


class ModelRateLimitError(ModelError):
    """The endpoint refuses more requests for now."""


class ModelRequestError(ModelError):
    """The endpoint refused this request; sending it again unchanged will not help."""


class ModelAnswerError(ModelError):
    """The answer is empty, cut off, or not in the requested form."""


# -- the sentence on a file that cannot be read ---------------------------------------------------


Place = int | str
"""A line of a file, or a path within a single JSON value: `messages[3]`."""


def place_words(place: Place) -> str:
    """Format a place for the middle of a sentence."""
    return f"line {place}" if isinstance(place, int) else place


def problem(filename: str, what: str, *, place: Place | None = None, column: int | None = None) -> FormatError:
    """Build the error for a file: its name, the place, the reason, and that nothing was imported.

    >>> str(problem("a/b.json", "this is a number, not a message.", place=3))
    'b.json, line 3: this is a number, not a message. Nothing was imported.'
    """
    name = PureWindowsPath(filename).name or "The file"
    if place is None:
        return FormatError(f"{name} {what} Nothing was imported.")
    where = place_words(place) if column is None else f"{place_words(place)}, column {column}"
    return FormatError(f"{name}, {where}: {what} Nothing was imported.")
