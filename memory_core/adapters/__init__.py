"""`Memory` behind the memory interfaces of agent frameworks: one module a framework, each an extra of this package."""

from collections.abc import Iterator
from contextlib import contextmanager

from memory_core.errors import ConfigError


@contextmanager
def framework(name: str, extra: str) -> Iterator[None]:
    """Import a framework, or say in one sentence which extra brings it.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"{name} is not installed. Run: pip install 'memory-inspector[{extra}]'") from error
