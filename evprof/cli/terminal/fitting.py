"""Lines and tables in the width of a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import fill

Piece = tuple[str, str]
"""A text and its style as rich names it, "" for none."""

Cell = Piece | str

GAP = "  "

_LEAST = 16
"""Letters that a name keeps."""


def piece(cell: Cell) -> Piece:
    """A cell with its style."""
    return (cell, "") if isinstance(cell, str) else cell


def widths_of(lines: Sequence[Sequence[Cell]]) -> list[int]:
    """How many letters each column of a table takes."""
    return [max(len(piece(line[place])[0]) for line in lines) for place in range(len(lines[0]))]


def total_width(lines: Sequence[Sequence[Cell]]) -> int:
    """How many letters a line of a table takes."""
    return _width(widths_of(lines))


def _width(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def folded(text: str, width: int) -> str:
    """A line in lines of `width`: what is too long goes on below where its last column that begins in it does, or, if
    that leaves it less than half of the room, stands below the line as a whole."""
    if len(text) <= width:
        return text
    lead = len(text) - len(text.lstrip())
    gaps = [gap for gap in re.finditer(r"(?<=\S) {2,}(?=\S)", text) if gap.start() <= width]
    last = gaps[-1].end() if gaps else lead + len(GAP)
    if width // 2 < last and len(head := text[:last].rstrip()) <= width:
        indent = " " * (lead + 2 * len(GAP))
        return f"{head}\n{_filled(indent + text[last:], width, indent)}"
    return _filled(text, width, " " * (last if last <= width // 2 else lead + len(GAP)))


def _filled(text: str, width: int, indent: str) -> str:
    return fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def fitted(lines: Sequence[Sequence[Cell]], names: int, width: int) -> list[list[list[Cell]]]:
    """A table as one that `width` holds, or as several below one another that all begin with the first `names` columns.

    The longest names are shortened first, as far as they stay names, and apart from each other.
    """
    widths = widths_of(lines)
    most = width - len(GAP) - max(widths[names:], default=0)
    for least in (_LEAST, max(_LEAST, width // 3)):  # where not all columns go into one table, names may take more
        leasts = [_telling([piece(line[place])[0] for line in lines], least, most) for place in range(names)]
        kept = _narrowed(widths, names, width, leasts)
        if _width(kept) <= width:
            break
    table = [[_cut(cell, room) for cell, room in zip(line, kept, strict=True)] for line in lines]
    tables, taken = [], list(range(names))
    for place in range(names, len(kept)):
        if len(taken) > names and _width([kept[at] for at in (*taken, place)]) > width:
            tables.append(taken)
            taken = list(range(names))
        taken.append(place)
    return [[[line[at] for at in places] for line in table] for places in (*tables, taken)]


def _telling(texts: Sequence[str], least: int, most: int) -> int:
    """The fewest letters from `least` to `most` that leave different names different; `least` where none do."""
    different = set(texts)
    for room in range(least, most + 1):
        if len({_shortened(text, room) for text in different}) == len(different):
            return room
    return least


def _narrowed(widths: Sequence[int], names: int, width: int, leasts: Sequence[int]) -> list[int]:
    """The widths with the longest names made shorter, none below its least, until a line of `width` holds them. The
    first of several is what a row is called by, and stays."""
    kept = list(widths)
    places = range(1 if names > 1 else 0, names)
    while _width(kept) > width and (long := [place for place in places if kept[place] > leasts[place]]):
        kept[max(long, key=kept.__getitem__)] -= 1
    return kept


def _cut(cell: Cell, room: int) -> Cell:
    text, style = piece(cell)
    return cell if len(text) <= room else (_shortened(text, room), style)


def _shortened(text: str, room: int) -> str:
    """Without its middle, where it has no room: names often begin or end alike."""
    if len(text) <= room:
        return text
    tail = room // 3
    return f"{text[: room - tail - 1]}…{text[len(text) - tail :]}"
