"""What a line says, and lines that are made when they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

LINE = 28
SECOND_LINE = 16
"""Heights in px."""


@dataclass(frozen=True)
class ListLine:
    """One line. `key` is what a click reports; `icons` stand before `second`, on a line of their own below.

    `role` colours the figure, and the second line too where `second_has_role`. A line with a `fold` ("open" or
    "closed") has others below it, which are `is_inner`. `is_checked` None: it has no box to tick.
    `tells_by_end`: others begin alike, so what is too long is cut in the middle. `badges` are outlined words on the
    second line, as many as have room; `chip` is a word at its end that can be clicked. `spread` stands there where
    there is no chip, else behind the figure, if the name leaves it room. `column`: the letters of the columns that
    show it.
    """

    key: Any
    name: str
    figure: str = ""
    role: str = ""
    second: str = ""
    tip: str = ""
    icons: tuple[str, ...] = ()
    is_live: bool = False
    second_has_role: bool = False
    fold: str = ""
    is_inner: bool = False
    is_checked: bool | None = None
    tells_by_end: bool = False
    badges: tuple[str, ...] = ()
    column: str = ""
    chip: str = ""
    spread: str = ""

    @property
    def has_second(self) -> bool:
        return bool(self.second or self.icons or self.chip or self.spread or self.badges)

    @property
    def words(self) -> str:
        column = f"column {' and '.join(self.column)}" if self.column else ""
        return ", ".join(
            filter(None, (self.name, self.figure, self.spread, *self.badges, self.second, self.chip, column))
        )

    @property
    def height(self) -> int:
        """Height in px."""
        return LINE + (SECOND_LINE if self.has_second else 0)


class PagedLines(Sequence[ListLine]):
    """Lines that are made when they are looked at, for lists of any length; all are as high as two lines."""

    def __init__(self, keys: list[Any], make: Callable[[int], ListLine]) -> None:
        self.keys = keys
        self._make = make

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, place: int) -> ListLine: ...
    @overload
    def __getitem__(self, place: slice) -> list[ListLine]: ...
    def __getitem__(self, place: int | slice) -> ListLine | list[ListLine]:
        if isinstance(place, slice):
            return [self._make(row) for row in range(*place.indices(len(self.keys)))]
        return self._make(place)
