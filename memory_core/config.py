"""Configuration of one memory, and the settings of a process.

A `MemoryConfig` is frozen and validated when it is made; nothing is clamped. `lab.linting` warns about values that
are possible but odd.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from memory_core.argument_checks import checked_value, nearest, out_of_bounds, shown
from memory_core.errors import ConfigError
from memory_core.planning.context_plan import TruncationOrder, WhenOver
from memory_core.planning.rendering import InsertMethod
from memory_core.tokens import (
    AUDIO_TOKENS,
    DEFAULT_ENCODING,
    DOCUMENT_TOKENS,
    IMAGE_TOKENS,
    VIDEO_TOKENS,
    Accounting,
    TokenCounter,
    is_encoding,
)

_log = logging.getLogger(__name__)

DEFAULT_TOKEN_LIMIT = 30_000
"""Default of `token_limit`, as in LlamaIndex."""

FLUSH_FRACTION = 0.1
"""Default flush size as a fraction of `token_limit`, as LlamaIndex documents it."""


MAX_TOKENS = 1_000_000_000
"""Maximum of settings such as `token_limit`: larger values are typos, and overflow some databases."""

MAX_SECONDS = 1_000_000_000
"""Largest timeout in seconds; Python's locks reject much longer ones."""


LLAMAINDEX_SETTINGS = {
    "table_name": ": all sessions share one set of tables; to keep some apart, give db_schema (PostgreSQL) or another "
    "database_uri",
    "memory_blocks_template": ": the engine lays the blocks out itself, so that each piece of a prompt can be followed "
    "and cut; insert_method says where they stand, and layout of a block how its pieces look",
}
"""Hints on arguments of LlamaIndex's `Memory` that have no counterpart."""


class MemoryConfig(BaseModel):
    """Settings of a session's memory. Names and meanings follow LlamaIndex where it has them.

    Raises:
        ConfigError: a value is impossible; the message shows it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    token_limit: int = Field(default=DEFAULT_TOKEN_LIMIT, ge=1, le=MAX_TOKENS)
    """Maximum tokens of a prompt: queue, blocks and `reserved_tokens` together."""
    chat_history_token_ratio: float = Field(default=0.7, gt=0, le=1)
    """Fraction of `token_limit`, without `reserved_tokens`, above which the queue is flushed."""
    token_flush_size: int | None = Field(default=None, ge=1, le=MAX_TOKENS)
    """Least tokens a flush moves; None: a tenth of the limit."""
    insert_method: InsertMethod = InsertMethod.SYSTEM
    truncation_order: TruncationOrder = "largest_first"
    """Priority that is cut first; `"smallest_first"` is the order of LlamaIndex up to 0.14.25."""
    when_over: WhenOver = "shrink_queue"
    """Action when priority-0 blocks and the queue alone exceed the limit."""
    split_long_turns: bool = True
    """True if a newest turn above the history budget is split: its oldest complete tool steps are flushed."""
    accounting: Accounting = "content"
    encoding: str = DEFAULT_ENCODING
    """tiktoken encoding that counts tokens if no `tokenizer_fn` is given."""
    context_window: int | None = Field(default=None, le=MAX_TOKENS)
    """Context window of the model in tokens; None: unknown."""
    reply_reserve: int = Field(default=0, ge=0, le=MAX_TOKENS)
    """Tokens kept free for the answer inside `context_window`."""
    reserved_tokens: int = Field(default=0, ge=0, le=MAX_TOKENS)
    """Tokens of a prompt that memory does not write: the agent's own system prompt and its definitions of tools.

    Taken off the limit. What an adapter measures in a call replaces it in that call's prompt."""
    image_token_size_estimate: int = Field(default=IMAGE_TOKENS, ge=0, le=MAX_TOKENS)
    audio_token_size_estimate: int = Field(default=AUDIO_TOKENS, ge=0, le=MAX_TOKENS)
    video_token_size_estimate: int = Field(default=VIDEO_TOKENS, ge=0, le=MAX_TOKENS)
    document_token_size_estimate: int = Field(default=DOCUMENT_TOKENS, ge=0, le=MAX_TOKENS)
    delivery_timeout: float = Field(default=20.0, ge=0, le=MAX_SECONDS)
    """Seconds `put` waits for the first attempt of a delivery."""
    delivery_attempts: int = Field(default=5, ge=1, le=MAX_TOKENS)
    """Number of failed attempts after which a delivery is parked."""
    learning_context: int = Field(default=600, ge=0, le=MAX_TOKENS)
    """Maximum tokens of the earlier messages, and again of the known facts, that a learner is shown beside the messages
    that it learns from; 0: it sees these alone."""
    queue_turns: int | None = Field(default=None, ge=1, le=MAX_TOKENS)
    """Maximum number of turns in the queue, the newest included; None: only the tokens of the queue count."""
    recipe: str | None = None
    """Name of the recipe that these settings and the blocks came from (see `memory_core.recipes`); it has no effect."""
    recipe_parameters: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the recipe that differ from its defaults, without texts, which the blocks hold."""

    if not TYPE_CHECKING:  # see `BaseMemoryBlock`

        def __init__(self, **values):
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _impossible(error) from error

    @field_validator("*", mode="before")
    @classmethod
    def _checked_value(cls, value: Any, info: ValidationInfo) -> Any:
        return checked_value(cls, info.field_name or "", value)

    @model_validator(mode="after")
    def _possible_together(self) -> "MemoryConfig":
        if self.token_flush_size is not None:
            # No flush could move more than the whole limit.
            _require(
                self.token_flush_size <= self.token_limit,
                f"token_flush_size must not be above the token limit of {self.token_limit}",
                self.token_flush_size,
            )
        # Names only: the encoding itself is loaded at its first use.
        _require(is_encoding(self.encoding), "encoding must be one that tiktoken knows", self.encoding)
        if self.context_window is not None:
            _require(
                self.context_window > self.reply_reserve,
                f"context_window must be above the reply reserve of {self.reply_reserve}",
                self.context_window,
            )
        return self

    @property
    def limit(self) -> int:
        """Maximum tokens of a prompt: `token_limit`, or `context_window` minus `reply_reserve` if that is less."""
        if self.context_window is None:
            return self.token_limit
        return min(self.token_limit, self.context_window - self.reply_reserve)

    @property
    def room(self) -> int:
        """Maximum tokens of queue and blocks together: `limit` without `reserved_tokens`, at least 0."""
        return max(0, self.limit - self.reserved_tokens)

    @property
    def history_budget(self) -> float:
        """Tokens of the queue above which it is flushed; not rounded, as in LlamaIndex."""
        # From `token_limit`, not from `limit`: a small context window shortens prompts but causes no flush.
        return max(0, self.token_limit - self.reserved_tokens) * self.chat_history_token_ratio

    @property
    def flush_size(self) -> int:
        """Least tokens a flush moves."""
        # At least 1, as a flush of 0 tokens would move nothing for ever.
        return self.token_flush_size or max(1, int(self.token_limit * FLUSH_FRACTION))

    def counting(self, counter: TokenCounter) -> TokenCounter:
        """Return the counter with the flat estimates of this configuration."""
        return counter.with_estimates(
            image=self.image_token_size_estimate,
            audio=self.audio_token_size_estimate,
            video=self.video_token_size_estimate,
            document=self.document_token_size_estimate,
        )

    def changed(self, **values: Any) -> "MemoryConfig":
        """Return the configuration with some values replaced, checked like a new one."""
        # Not `model_copy`, which checks nothing.
        return MemoryConfig(**{**self.model_dump(), **values})


@dataclass(frozen=True, slots=True)
class Settings:
    """Process settings from environment variables (`MEMORY_INSPECTOR_...`)."""

    home: Path | None
    """Folder for the database file and the embedded vector index; None: keep everything in memory."""
    database_url: str | None
    chroma_url: str | None
    chroma_tenants: tuple[str, ...] = ()
    """Tenants of the Chroma server to search for forgotten words, next to the one that the index is in."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        # An empty variable counts as none, as shells and container files easily set one.
        home = environment.get("MEMORY_INSPECTOR_HOME")
        return cls(
            home=Path(home).expanduser() if home else None,
            database_url=environment.get("MEMORY_INSPECTOR_DATABASE_URL") or None,
            chroma_url=environment.get("MEMORY_INSPECTOR_CHROMA_URL") or None,
            chroma_tenants=tuple(environment.get("MEMORY_INSPECTOR_CHROMA_TENANTS", "").replace(",", " ").split()),
        )

    @classmethod
    def of_the_app(cls) -> "Settings":
        """Return the app's settings, which always have a home folder."""
        settings = cls.from_environment()
        return settings if settings.home else replace(settings, home=_folder_of_the_app())

    @property
    def database(self) -> str | None:
        """The database to use: the URL, else a file in the home folder, else None (in memory)."""
        if self.database_url:
            return self.database_url
        return f"sqlite:///{self.home / 'memory.db'}" if self.home else None

    @property
    def index(self) -> str | Path | None:
        """The vector index to use: a Chroma server, else a folder for SQLite; None: that of the database."""
        beside_file = self.home is not None and not str(self.database_url).startswith("postgres")
        return self.chroma_url or (self.home / "chroma" if self.home and beside_file else None)


def _folder_of_the_app() -> Path:
    """Return the app's own folder: in the user's home, or in the working directory where that cannot be written."""
    in_home, here = (folder / ".memory-inspector" for folder in (Path.home(), Path.cwd()))
    # A failure to create the folder is no error yet: the next line checks whether it is writable.
    with suppress(OSError):
        in_home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.access(in_home, os.W_OK):
        return in_home
    _log.warning("%s cannot be written. Data is kept in %s, or where MEMORY_INSPECTOR_HOME says.", in_home, here)
    return here


def _impossible(error: ValidationError) -> ConfigError:
    """Return the error for an impossible setting, as one sentence."""
    # One problem at a time: the first is enough to correct.
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    # An error raised by a validator of this class is a sentence already.
    if isinstance(cause, ConfigError):
        return cause
    name = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        return ConfigError(
            f'there is no setting "{name}"{LLAMAINDEX_SETTINGS.get(name) or nearest(name, MemoryConfig.model_fields)}'
        )
    return ConfigError(
        out_of_bounds(MemoryConfig, error) or f"{name} cannot be {shown(first.get('input'))}: {first['msg']}"
    )


def _require(condition: bool, sentence: str, value: object) -> None:
    if not condition:
        raise ConfigError(f"{sentence}, not {shown(value)}")
