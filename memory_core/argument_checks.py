"""Validate constructor arguments early, with actionable messages.

Without these checks, an object that is not a model would fail only at the first flush, long after it was passed.
"""

import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import getattr_static
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from memory_core.errors import ConfigError
from memory_core.models.protocols import ChatModel, Embedder, FactExtractor, RelationExtractor, Summariser
from memory_core.vectors.vector_index import VectorIndex

_WORDS = {
    ChatModel: ("a chat model", "OpenAIChat"),
    FactExtractor: ("an extractor of facts", ""),
    RelationExtractor: ("an extractor of relations", ""),
    Summariser: ("a summariser", ""),
    Embedder: ("an embedding model", "OpenAIEmbedder"),
    VectorIndex: ("a vector index", ""),
}
"""Name of each protocol in error messages, and the class that wraps a model name; empty if there is none."""


def coerce_to_protocol(name: str, value: Any, *kinds: Any) -> Any:
    """Return the value of the argument `name` if it implements one of the protocols `kinds`; None stays None.

    LlamaIndex models are wrapped. Errors show only the class of an object, and no text that looks like an API key.

    Raises:
        ConfigError: the value implements none of the protocols.
    """
    # 1. Accept None and objects with all members of a protocol. A class has the members too, but is no instance.
    fit = _wrapped(value)
    if value is None or (not isinstance(value, type) and any(not _missing(fit, kind) for kind in kinds)):
        return fit
    # 2. Say what is wrong in the most likely cases: a model's name instead of a model, a class instead of an object.
    wanted = " or ".join(_WORDS[kind][0] for kind in kinds)
    if isinstance(value, str):
        maker = next((_WORDS[kind][1] for kind in kinds if _WORDS[kind][1]), "")
        # A long run of letters and digits is a key rather than the name of a model.
        shown = f'"{value[:60]}"' if not re.search(r"[A-Za-z0-9]{16}", value) else "that was passed"
        hint = f": {maker}({shown}) makes one of a name" if maker and shown.startswith('"') else ""
        raise ConfigError(f"{name} must be {wanted}, not the text {shown}{hint}")
    cls = value if isinstance(value, type) else type(value)
    if isinstance(value, type):
        raise ConfigError(f"{name} must be {wanted}, not the class {cls.__name__}: give an object of it")
    missing = ", ".join(_missing(fit, kinds[0]))
    # 3. Otherwise name the missing members. The module distinguishes classes of the same name in several libraries.
    full_name = cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"
    raise ConfigError(f"{name} must be {wanted}, not {full_name}: it has no {missing}")


def _wrapped(value: Any) -> Any:
    """Wrap a LlamaIndex model in a protocol of this package; return any other value unchanged."""
    # While the library is not imported, no object of it can exist, so it need not be imported here.
    if "llama_index" not in sys.modules:
        return value
    from memory_core.models.llamaindex_models import wrapped

    return wrapped(value)


def prompt_text(value: Any, *variables: str) -> str | None:
    """Return a prompt, given as text or LlamaIndex template, as text with `{variable}` placeholders; None stays None.

    >>> prompt_text("Not again: {{ existing_facts }}", "existing_facts")
    'Not again: {existing_facts}'

    Raises:
        ValueError: the prompt is neither text nor a template, or is empty.
    """
    if "llama_index" in sys.modules:
        from memory_core.models.llamaindex_models import template_text

        value = template_text(value, variables)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ValueError("a prompt must be a text, or a prompt template of LlamaIndex, and not be empty")
    # Templates in Jinja's style have two braces; prompts here have one.
    return value and re.sub(rf"\{{\{{\s*({'|'.join(variables)})\s*\}}\}}", r"{\1}", value)


def _missing(value: Any, kind: type) -> list[str]:
    """Return the protocol members that a value lacks, without running its properties: reading `dimensions` of an
    embedding model may call its endpoint."""
    # Base protocols first, so that members are named in the order in which they are declared.
    members = (name for base in reversed(kind.__mro__) for name in vars(base) if not name.startswith("_"))
    return [name for name in members if not _has(value, name)]


def _has(value: Any, name: str) -> bool:
    # Looked up without running properties.
    if getattr_static(value, name, None) is not None:
        return True
    # A wrapper with `__getattr__` has no members of its own, so the attribute must be read.
    return hasattr(type(value), "__getattr__") and getattr(value, name, None) is not None


def nearest(name: str, names: Collection[str]) -> str:
    """Return a hint such as `: did you mean "priority"?` for a misspelt name; empty if no name is similar.

    >>> nearest("priorty", ["name", "priority"]), nearest("colour", ["name", "priority"])
    (': did you mean "priority"?', '')
    """
    # 0.7 lets one or two wrong letters through.
    near = get_close_matches(name, names, n=1, cutoff=0.7)
    return f': did you mean "{near[0]}"?' if near else ""


def checked_value(model: type[BaseModel], name: str, value: Any) -> Any:
    """Return the value of a field that is a number, or True or False; other fields are left to pydantic.

    Pydantic takes `True` and `"10"` for numbers, and 1 and `"no"` for True and False.

    Raises:
        ConfigError: the value is of another type.
    """
    annotation = model.model_fields[name].annotation
    # `int | None` has types as its parts, as has `list[bool]`, whose values are lists.
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    types = [part for part in parts if part is not type(None)]
    truth, number = types == [bool], bool(types) and all(part in (int, float) for part in types)
    fits = isinstance(value, bool) if truth else not isinstance(value, bool | str)
    if (truth or number) and value is not None and not fits:
        wanted = "True or False" if truth else "a number"
        raise ConfigError(f"{name} must be {wanted}, not {shown(value)}")
    return value


@dataclass(frozen=True, slots=True)
class Bounds:
    """Smallest and largest value of a setting, as its field declares them (`Field(ge=..., gt=..., le=...)`)."""

    least: float | None
    above: float | None
    """Exclusive lower bound; `least` is inclusive."""
    most: float | None

    def __str__(self) -> str:
        limits = (("at least", self.least), ("above", self.above), ("at most", self.most))
        return " and ".join(f"{word} {value:,}" for word, value in limits if value is not None)


def bounds(model: type[BaseModel], field: str) -> Bounds:
    """Return the bounds of a model's field; None for each bound that the field does not declare."""
    values: dict[str, float] = {}
    for rule in model.model_fields[field].metadata:
        values |= {name: value for name in ("ge", "gt", "le") if (value := getattr(rule, name, None)) is not None}
    return Bounds(values.get("ge"), values.get("gt"), values.get("le"))


def out_of_bounds(model: type[BaseModel], error: ValidationError) -> str | None:
    """Return, e.g., `top_k must be at least 1, not 0` if the first validation error is a violated bound, else None."""
    # Leave out the URL of pydantic's documentation, which is never shown.
    first = error.errors(include_url=False)[0]
    if first["type"] not in ("greater_than_equal", "greater_than", "less_than_equal"):
        return None
    name = str(first["loc"][0])
    return f"{name} must be {bounds(model, name)}, not {shown(first['input'])}"


def shown(value: Any) -> str:
    """Format a value for a sentence; a number too long to read is only described."""
    # Python itself refuses to format a number of thousands of digits.
    return "a number that long" if isinstance(value, int) and value.bit_length() > 64 else repr(value)
