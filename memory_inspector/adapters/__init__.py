"""`Memory` adapters for agent frameworks, one module per framework; each is an optional extra of this package."""

from collections.abc import Iterator
from contextlib import contextmanager

from memory_core.errors import ConfigError


@contextmanager
def framework(name: str, extra: str) -> Iterator[None]:
    """Guard the imports of a framework: if it is missing, name the extra that installs it.

    Raises:
        ConfigError: The framework is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"{name} is not installed. Run: pip install 'memory-inspector[{extra}]'") from error
