"""Regular expressions that are compiled at their first use.

The offline rules have 150 of them. Compiling all takes 0.1 s, which would delay the app's first page.
"""

import re
from typing import Any, cast


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    r"""Compile a pattern lazily; errors in `text` surface at its first use.

    >>> pattern(r"\d+").findall("3 of 10")
    ['3', '10']
    """
    return cast("re.Pattern[str]", _Pattern(text, flags))


class _Pattern:
    def __init__(self, text: str, flags: int) -> None:
        self._given = (text, flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # `copy` asks for these before any attribute is set
            raise AttributeError(name)
        value = getattr(re.compile(*self._given), name)
        setattr(self, name, value)  # later accesses find it without `__getattr__`
        return value
