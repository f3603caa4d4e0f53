"""Prompts of calls as they were sent, where a session's file has them. Pure.

A program may store each request by the hashes of its messages: so many of an earlier request, and those that follow.
The items of a window are put in this order. Where a message is also a record, the record's item stands for it, as it
names who wrote it; what only a request has becomes an item of its own, and what no request has is not sent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from memory_inspector.coding.transcript import Request, TranscriptItem

Piece = int | TranscriptItem
"""A place among a window's items, or an item that has none yet."""


@dataclass(slots=True)
class StoredPrompts:
    """Requests of a file, and their messages by hash; beginnings that requests share are held once."""

    requests: dict[str, Request] = field(default_factory=dict)
    messages: dict[str, tuple[TranscriptItem, ...]] = field(default_factory=dict)

    def hashes(self, request: Request) -> list[str]:
        """Return the hash of a request's frame and of its messages, in order; an empty one if its base is missing."""
        later = [request]
        # A damaged file may have requests that are based on each other.
        while (base := self.requests.get(later[-1].base)) and len(later) <= len(self.requests):
            later.append(base)
        hashes = [""] if later[-1].base else []
        for one in reversed(later):
            del hashes[one.keep :]
            hashes += one.tail
        return [request.frame, *([""] if later[-1].base else []), *hashes]


class PromptReading:
    """Reads the prompts of a window's calls, one after the other."""

    def __init__(self, stored: StoredPrompts, whole: Callable[[TranscriptItem], str]) -> None:
        self._stored, self._whole = stored, whole
        self._before: Request | None = None
        self._places: list[list[int]] = []  # of the items of each message, the frame first
        self._gap: int | None = None  # place of the first message, or frame, that is not in the file
        self._unmatched: list[int] = []  # places of items that no request has had since

    def put_in_order(
        self, request: Request, items: list[TranscriptItem], start: int, cleared: dict[int, int]
    ) -> int | None:
        """Sort the items from `start` on as a request has them; return the number sent, None if it is not whole.

        `items` before `start` were sent by earlier calls, but for those in `cleared`; what the request leaves out
        of them is added there. If a message is not in the file, all items count as sent.
        """
        before = self._before
        goes_on = before is not None and (request.base, request.frame) == (before.id, before.frame)
        if goes_on and (self._gap is None or self._gap <= request.keep):
            # It goes on from the request before: only what it drops and adds is looked at.
            hashes: Sequence[str] = request.tail
            dropped = [place for places in self._places[request.keep + 1 :] for place in places] + self._unmatched
            del self._places[request.keep + 1 :]
        else:
            hashes = self._stored.hashes(request)
            dropped, self._places, self._gap = [place for place in range(start) if place not in cleared], [], None
        messages = [self._stored.messages.get(hash) for hash in hashes]
        if self._gap is None and None in messages:
            self._gap = len(self._places) + messages.index(None)
        self._before = request
        pieces_by_message = self._pieces(
            [message or () for message in messages], items, [*dropped, *range(start, len(items))]
        )
        order: list[TranscriptItem] = []
        moved: set[int] = set()
        for pieces in pieces_by_message:
            places = []
            for piece in pieces:
                if isinstance(piece, int) and piece < start:
                    places.append(piece)
                    continue
                if isinstance(piece, int):
                    moved.add(piece)
                places.append(start + len(order))
                order.append(items[piece] if isinstance(piece, int) else piece)
            self._places.append(places)
        items[start:] = [*order, *(item for place, item in enumerate(items[start:], start) if place not in moved)]
        still = {piece for pieces in pieces_by_message for piece in pieces if isinstance(piece, int)}
        if self._gap is not None:
            rest = range(start + len(order), len(items))
            self._unmatched = [*(place for place in dropped if place not in still), *rest]
            return None
        # What it left out of the earlier items is not sent from here on.
        self._unmatched = []
        cleared.update((place, start + 1) for place in dropped if place not in still)
        return start + len(order)

    def _pieces(
        self, messages: Sequence[Sequence[TranscriptItem]], items: Sequence[TranscriptItem], places: Sequence[int]
    ) -> list[list[Piece]]:
        """Return the pieces of each message: places that have its texts, as far as there are any."""
        free: dict[tuple[str, int, str], list[int]] = {}
        for place in reversed(places):
            free.setdefault(items[place].key, []).append(place)
        same = [[some.pop() if (some := free.get(one.key)) else one for one in message] for message in messages]
        # The program joins several of its own texts to one, and may add words around them.
        unmatched = sorted(
            place for some in free.values() for place in some if items[place].kind in ("user", "injected")
        )
        return [[part for piece in pieces for part in self._parts(piece, items, unmatched)] for pieces in same]

    def _parts(self, piece: Piece, items: Sequence[TranscriptItem], unmatched: list[int]) -> list[Piece]:
        """Return the places whose texts a sent text has, and what is between them; those are `unmatched` no more."""
        if isinstance(piece, int) or piece.kind != "injected":
            return [piece]
        parts: list[int | str] = [self._whole(piece)]
        for place in list(unmatched):
            text = self._whole(items[place])
            for number, part in enumerate(parts):
                if isinstance(part, str) and text and text in part:
                    before, _, after = part.partition(text)
                    parts[number : number + 1] = before, place, after
                    unmatched.remove(place)
                    break
        if len(parts) == 1:
            return [piece]
        words = (part if isinstance(part, int) else part.strip() for part in parts)
        return [replace(piece, text=w, characters=len(w)) if isinstance(w, str) else w for w in words if w != ""]
