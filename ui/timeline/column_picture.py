"""Dense lines, stems and bars as pictures of columns: a shape each for every pixel takes most of a frame's time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from evprof.view.decimate import Floats

Bools: TypeAlias = "npt.NDArray[np.bool_]"
Pixels: TypeAlias = "npt.NDArray[np.uint32]"

Edges = tuple[Floats, Floats]
"""Upper and lower end (px, downwards) of what is painted in each column of the device's pixels; NaN: nothing is."""


def pixels_per_px(painter: QPainter) -> float:
    """Pixels per logical px of what is painted on, which a widget that is drawn into a picture does not know."""
    return painter.deviceTransform().m11()


def line_edges(x: Floats, y: Floats, columns: int, per_px: float, width_px: float) -> Edges:
    """What a line of `width_px` through points (px, by x) covers of each column, 1 / `per_px` px wide."""
    borders = np.arange(columns + 1) / per_px
    at = np.interp(borders, x, y)
    # The points of a column, from its left border on: some columns have none.
    firsts = x.searchsorted(borders)
    held = (firsts[1:] > firsts[:-1]).nonzero()[0]
    near = np.minimum(firsts, len(x) - 1)
    # Of a step that stands on a border, the column before it sees the beginning, and the one after it the end.
    before = np.where(x[near] == borders, y[near], at)[1:]
    upper, lower = np.minimum(at[:-1], before), np.maximum(at[:-1], before)
    if len(held):
        starts, seen = firsts[held], y[: firsts[-1]]
        upper[held] = np.minimum(upper[held], np.minimum.reduceat(seen, starts))
        lower[held] = np.maximum(lower[held], np.maximum.reduceat(seen, starts))
    begin, end = borders[1:].searchsorted(x[0], side="right"), borders[:-1].searchsorted(x[-1])
    upper -= width_px / 2
    lower += width_px / 2
    for edge in (upper, lower):
        edge[:begin] = edge[end:] = np.nan
    return upper, lower


def pixel_edges(line: tuple[Floats, Floats], end: float, columns: int, per_px: float, width_px: float) -> Edges | None:
    """`line_edges` of a line (x, y) with two points on each whole px, whose last height holds until `end`; None where
    it has others, or none on some px, or pixels are no whole part of a px."""
    x, y = line
    parts = round(per_px)
    if parts != per_px or len(x) % 2:
        return None
    left = 2 * int(x[::2].searchsorted(0.0))
    at, first, second = x[left::2], y[left::2], y[left + 1 :: 2]
    if not len(at) or (left and at[0] != 0) or at[-1] - at[0] != len(at) - 1:
        return None
    after = np.concatenate([first[1:], second[-1:]])
    edges = np.empty((2, columns))
    begin, stop = min(int(at[0]) * parts, columns), min(int(at[0] + len(at)) * parts, columns)
    for part in range(parts):
        here = second + (after - second) * (part / parts) if part else second
        there = after if part + 1 == parts else second + (after - second) * ((part + 1) / parts)
        held = edges[:, begin + part : stop : parts]
        for extreme, found in zip((np.minimum, np.maximum), held, strict=True):
            lines = extreme(here, there)
            found[:] = (lines if part else extreme(lines, first))[: len(found)]
    edges[:, stop:] = second[-1]
    edges[0] -= width_px / 2
    edges[1] += width_px / 2
    edges[:, :begin] = edges[:, max(0, int(np.ceil(max(end, float(at[-1])) * per_px))) :] = np.nan
    return edges[0], edges[1]


def stem_edges(x: Floats, tops: Floats, floor: float, columns: int, per_px: float) -> Edges:
    """Stems of 1 px from `floor` up, their left edges at `x`."""
    upper = np.full(columns, np.nan)
    thick = max(1, round(per_px))
    left = np.round(x * per_px).astype(np.int64)
    for beside in range(thick):
        is_seen = (left + beside >= 0) & (left + beside < columns)
        upper[left[is_seen] + beside] = tops[is_seen]
    return upper, np.where(np.isnan(upper), np.nan, floor)


def paint_columns(
    painter: QPainter, edges: Edges, height_px: float, color: QColor, *, ground: float = 0.0, floor: float = 0.0
) -> None:
    """Paints what the columns hold from (0, 0) on, smoothed along y; below it, down to `floor`, the share `ground` of
    the colour."""
    per_px = pixels_per_px(painter)
    height = int(np.ceil(height_px * per_px))
    ends = np.maximum(np.fmin(np.array(edges) * per_px, height + 1.0), -1.0).astype(np.float32)
    cut = np.floor(np.minimum(ends, np.float32(height)))
    first, last = cut.astype(np.int16)
    seen = (first < height).nonzero()[0]
    if not len(seen):
        return
    # Only the rows between the highest and the lowest end are different from column to column.
    begin, end = int(seen[0]), int(seen[-1]) + 1
    lowest = last if len(seen) == len(last) else last[seen]
    low, high = max(0, int(first.min())), min(int(lowest.max()) + 1, height)
    depth = floor * per_px
    if ground and end - begin == len(seen):
        _paint_ground(painter, (begin, end), (max(high, 0), min(depth, height)), per_px, (color, ground))
    elif ground:
        high = height
    if high <= low:
        return
    rows, shades = np.arange(low, high, dtype=np.int16)[:, None], _shades(color.rgba())
    # One row more on both sides takes what ends beyond the picture.
    room = _ROOM.arrays(len(rows) + 2, len(first))
    pixels, below, is_line, is_after = (kept[1:-1] for kept in room)
    np.greater_equal(rows, last, out=is_after)
    np.bitwise_xor(np.greater(rows, first, out=is_line), is_after, out=is_line)
    np.multiply(is_line, shades[255], out=pixels)
    if ground:
        opacity = np.clip(np.float32(depth) - rows, 0, 1, dtype=np.float32) * np.float32(ground * 255) + 0.5
        np.multiply(is_after, shades[opacity.astype(np.uint8)], out=below)
        np.add(pixels, below, out=pixels)
    # What begins or ends within a pixel's row covers a part of it.
    upper, lower = ends
    share = np.maximum(np.minimum(cut + 1, lower) - np.maximum(cut, upper), 0)
    if ground:
        beneath = np.maximum(np.minimum(cut + 1, np.float32(depth)) - np.maximum(cut, lower), 0)
        share += (1 - share) * beneath * np.float32(ground)
    at = np.clip(cut, low - 1, high, dtype=np.float64) - (low - 1)
    places = (at * len(first) + np.arange(len(first))).astype(np.intp)
    room[0].reshape(-1)[places] = shades[(share * 255 + 0.5).astype(np.uint8)]
    image = QImage(pixels.data, len(first), len(rows), pixels.strides[0], QImage.Format.Format_ARGB32_Premultiplied)
    image.setDevicePixelRatio(per_px)
    painter.drawImage(QPointF(0, low / per_px), image)


def _paint_ground(
    painter: QPainter,
    columns: tuple[int, int],
    rows: tuple[int, float],
    per_px: float,
    look: tuple[QColor, float],
) -> None:
    """The ground where it is the same in all columns, down to a part of its last row; all in the device's pixels."""
    (begin, end), (top, bottom), (color, ground) = columns, rows, look
    whole = int(bottom)
    for first, last, share in ((top, whole, 1.0), (max(whole, top), max(whole, top) + 1, bottom - max(whole, top))):
        if last > first and share > 0:
            softened = QColor(color)
            softened.setAlpha(int(ground * share * 255 + 0.5))
            room = QRectF(begin / per_px, first / per_px, (end - begin) / per_px, (last - first) / per_px)
            painter.fillRect(room, softened)


class _Room(threading.local):
    """Memory that pictures are worked out in, used again: as much of it anew for each takes longer than the work."""

    @cached_property
    def _pixels(self) -> Pixels:
        return np.empty((2, 0), dtype=np.uint32)

    @cached_property
    def _truths(self) -> Bools:
        return np.empty((2, 0), dtype=np.bool_)

    def arrays(self, rows: int, columns: int) -> tuple[Pixels, Pixels, Bools, Bools]:
        """Two arrays of pixels and two of truths, of what was there before."""
        count = rows * columns
        if self._pixels.shape[1] < count:
            self._pixels, self._truths = np.empty((2, count), dtype=np.uint32), np.empty((2, count), dtype=np.bool_)
        shape = rows, columns
        (one, other), (here, there) = (kept[:, :count] for kept in (self._pixels, self._truths))
        return one.reshape(shape), other.reshape(shape), here.reshape(shape), there.reshape(shape)


_ROOM = _Room()


def paint_bars(
    painter: QPainter, x0: Floats, widths: Floats, looks: Sequence[tuple[QColor, Bools]], room: QRectF
) -> None:
    """Bars in order of their left edges (px), over the height of `room`, each as far as the next one begins; `looks`
    are colours with the bars that have them."""
    per_px = pixels_per_px(painter)
    # Before the first bar there is one of no width, so that each border lies in a bar or right of one.
    left, wide = np.zeros(len(x0) + 1), np.zeros(len(x0) + 1)
    left[1:], wide[1:] = x0, widths
    np.minimum(wide[1:-1], x0[1:] - x0[:-1], out=wide[1:-1])
    palette, look_of = np.zeros((4, len(looks) + 1)), np.zeros(len(left), dtype=np.intp)
    for place, (color, own) in enumerate(looks, start=1):
        palette[:, place] = color.blueF(), color.greenF(), color.redF(), 1.0
        look_of[1:][own] = place
    paints = palette.take(look_of, axis=1)
    borders = room.left() + np.arange(int(np.ceil(room.width() * per_px)) + 1) / per_px
    at = x0.searchsorted(borders, side="right")
    # How much of each colour lies left of a border: that of all bars up to its own, less what of that is right of it.
    over = wide[at] - np.minimum(borders - left[at], wide[at])
    painted = np.cumsum(wide * paints, axis=1).take(at, axis=1) - over * paints.take(at, axis=1)
    shares = np.minimum(np.maximum(painted[:, 1:] - painted[:, :-1], 0) * per_px, 1)
    pixels = np.empty((len(borders) - 1, 4), dtype=np.uint8)
    pixels.T[...] = np.rint(shares * 255)
    image = QImage(pixels.data, len(pixels), 1, pixels.nbytes, QImage.Format.Format_ARGB32_Premultiplied)
    painter.drawImage(QRectF(room.left(), room.top(), len(pixels) / per_px, room.height()), image)


@lru_cache(maxsize=64)
def _shades(rgba: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """A colour at each of 256 opacities, as premultiplied pixels."""
    color = QColor.fromRgba(rgba)
    alpha = np.arange(256) * color.alphaF()
    parts = ((1.0, 24), (color.redF(), 16), (color.greenF(), 8), (color.blueF(), 0))
    told = sum(np.round(alpha * part).astype(np.uint32) << np.uint32(shift) for part, shift in parts)
    return np.asarray(told, dtype=np.uint32)
