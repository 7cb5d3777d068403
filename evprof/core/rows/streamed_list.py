"""A list that is made while it is read, for documents that are written as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


class StreamedList(list[Any]):
    """Looks like a list of `count` entries to `json.dump`, which reads it once; each is made when its turn comes."""

    def __init__(self, count: int, entries: Callable[[], Iterable[Any]]) -> None:
        super().__init__()
        self._count = count
        self._entries = entries

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries())
