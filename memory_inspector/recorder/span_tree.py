"""Remember how spans lie in each other. Exporters send a span when it ends: first what is inside, the rest later."""

from collections.abc import Container, Iterator

MAX_SPANS = 20_000
"""Maximum remembered spans; the oldest is forgotten."""

MAX_DEPTH = 100
"""Maximum spans around one that are looked at, and levels inside one; agents nest some ten."""

MAX_LOOKS = 1_000
"""Maximum spans inside one that are looked at."""


class SpanTree:
    """Spans by key (see `Span.key`), with the one around each and the conversation it names. Not thread-safe."""

    def __init__(self) -> None:
        self._around: dict[str, str] = {}
        self._inside: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}

    def add(self, key: str, around: str, name: str | None) -> None:
        """Remember a span; `around`: the key of the one around it, empty for the outermost."""
        if key not in self._around:
            self._around[key] = around
            if around:
                self._inside.setdefault(around, []).append(key)
        if name is not None:
            self._names[key] = name
        while len(self._around) > MAX_SPANS:
            self._forget(next(iter(self._around)))

    def _forget(self, key: str) -> None:
        around = self._around.pop(key)
        self._names.pop(key, None)
        # A parent that never comes must not hold its children for ever.
        siblings = self._inside.get(around, [])
        if key in siblings:
            siblings.remove(key)
        if not siblings:
            self._inside.pop(around, None)

    def around(self, key: str) -> Iterator[str]:
        """Yield the keys of the spans around one, the nearest first; each once, as parents may form a circle."""
        seen = {key}
        while (key := self._around.get(key, "")) and key not in seen and len(seen) <= MAX_DEPTH:
            seen.add(key)
            yield key

    def name(self, key: str) -> str | None:
        """Return the conversation that a span names, or else the nearest around it that names one."""
        return next((self._names[step] for step in (key, *self.around(key)) if step in self._names), None)

    def nearest_inside(self, key: str, among: Container[str]) -> list[str]:
        """Return the spans inside one that are `among` these, without those inside of one that is."""
        result: list[str] = []
        seen, waiting = {key}, [key]
        # A trace may have ten thousand spans, of which most are no calls.
        for _ in range(MAX_LOOKS):
            if not waiting:
                break
            for inner in self._inside.get(waiting.pop(), ()):
                if inner in among:
                    result.append(inner)
                elif inner not in seen and len(seen) < MAX_LOOKS:
                    seen.add(inner)
                    waiting.append(inner)
        return result
