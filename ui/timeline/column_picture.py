"""Dense lines, stems and bars as pictures of columns: a shape each for every pixel takes most of a frame's time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from evprof.view.decimate import Floats
from evprof.view.painted_row import CHANNELS, Colors

Bools: TypeAlias = "npt.NDArray[np.bool_]"
Pixels: TypeAlias = "npt.NDArray[np.uint32]"

Places: TypeAlias = "npt.NDArray[np.intp]"
Singles: TypeAlias = "npt.NDArray[np.float32]"

Edges: TypeAlias = Floats
"""Upper and lower end (px, downwards) of what is painted in each column of the device's pixels, a row each; NaN:
nothing is."""

_Rooms: TypeAlias = tuple[Pixels, Pixels, Pixels, Bools, Bools]

_MOST_SHAPES = 64
"""Sizes of pictures whose room is kept as it was cut."""


def pixels_per_px(painter: QPainter) -> float:
    """Pixels per logical px of what is painted on, which a widget that is drawn into a picture does not know."""
    return painter.deviceTransform().m11()


def stem_edges(x: Floats, tops: Floats, floor: float, columns: int, per_px: float) -> Edges:
    """Stems of 1 px from `floor` up, their left edges at `x`."""
    edges = np.full((2, columns), np.nan)
    thick = max(1, round(per_px))
    left = np.rint(x * per_px).astype(np.intp)
    for beside in range(thick):
        at = left + beside
        is_seen = (at >= 0) & (at < columns)
        at = at[is_seen]
        edges[0, at], edges[1, at] = tops[is_seen], floor
    return edges


def wide_stem_edges(
    stems: tuple[Floats, Floats, float], floor: float, columns: int, per_px: float
) -> tuple[Edges, Floats]:
    """Stems from `floor` up: their left edges, upper ends, and how wide they are (px); with how much of each column
    lies in one. They do not lie in one another."""
    left, tops, width = stems
    edges, covered, left = np.full((2, columns), np.nan), np.zeros(columns), left * per_px
    at = np.floor(left)[:, None] + np.arange(int(np.ceil(width * per_px)) + 1)
    share = np.minimum(at + 1, (left + width * per_px)[:, None]) - np.maximum(at, left[:, None])
    is_seen = (share > 0) & (at >= 0) & (at < columns)
    places = at[is_seen].astype(np.intp)
    edges[0, places], edges[1, places] = np.broadcast_to(tops[:, None], at.shape)[is_seen], floor
    covered[places] = share[is_seen]
    return edges, covered


def paint_columns(
    painter: QPainter,
    edges: Edges,
    height_px: float,
    color: QColor,
    *,
    ground: float = 0.0,
    floor: float = 0.0,
    covered: Floats | None = None,
) -> None:
    """Paints what the columns hold from (0, 0) on, smoothed along y; below it, down to `floor`, the share `ground` of
    the colour. Where there is no ground, `covered` says how much of each column's width is painted."""
    per_px = pixels_per_px(painter)
    height = int(np.ceil(height_px * per_px))
    ends = np.fmin(edges if per_px == 1 else edges * per_px, height + 1.0, dtype=np.float32)
    np.maximum(ends, -1.0, out=ends)
    cut = np.floor(np.minimum(ends, height))
    # Rows are counted from 1 on, so that small numbers do: -1 becomes 0.
    kind = np.dtype(np.uint8 if height < 255 else np.int16)
    first, last = (cut + 1).astype(kind)
    seen = (first <= height).nonzero()[0]
    if not len(seen):
        return
    # Only the rows between the highest and the lowest end are different from column to column.
    begin, end = int(seen[0]), int(seen[-1]) + 1
    lowest = last if len(seen) == len(last) else last[seen]
    low, high = max(0, int(np.minimum.reduce(first)) - 1), min(int(np.maximum.reduce(lowest)), height)
    depth = floor * per_px
    if ground and end - begin == len(seen):
        _paint_ground(painter, (begin, end), (max(high, 0), min(depth, height)), per_px, (color, ground))
    elif ground:
        high = height
    if high <= low:
        return
    rows, shades = np.arange(low + 1, high + 1, dtype=kind)[:, None], _shades(color.rgba())
    room, pixels, below, is_line, is_after = _ROOM.arrays(len(rows), len(first))
    np.greater_equal(rows, last, out=is_after)
    np.not_equal(np.greater(rows, first, out=is_line), is_after, out=is_line)
    whole = 255 if covered is None else (covered * 255 + 0.5).astype(np.uint8)
    np.multiply(is_line, shades[whole], out=pixels)
    if ground:
        opacity: Any = ground * 255 + 0.5
        if depth < high:
            opacity = np.clip(np.float32(depth + 1) - rows, 0, 1, dtype=np.float32) * np.float32(ground * 255) + 0.5
        np.multiply(is_after, shades[np.asarray(opacity, dtype=np.uint8)], out=below)
        np.add(pixels, below, out=pixels)
    shares = _coverage(ends, cut, depth, ground)
    if covered is not None:
        shares *= covered.astype(np.float32)
    room[_places(cut, low, high)] = shades[(shares * 255 + 0.5).astype(np.uint8)]
    image = _image(pixels)
    image.setDevicePixelRatio(per_px)
    painter.drawImage(QPointF(0, low / per_px), image)


def _places(cut: Singles, low: int, high: int) -> Places:
    """Of the pixels in which columns begin and end, the numbers; those of the row above `low` are the first."""
    at = np.minimum(cut, high).astype(np.intp)
    at -= low - 1
    at *= cut.shape[1]
    at += _numbers(cut.shape[1])
    return at


def _coverage(ends: Singles, cut: Singles, depth: float, ground: float) -> Singles:
    """How much of these pixels is covered; the share `ground` below the line, down to `depth`."""
    (upper, lower), after = ends, cut + 1
    share = np.empty_like(cut)
    np.subtract(np.minimum(after[0], lower), upper, out=share[0])
    np.subtract(lower, np.maximum(cut[1], upper), out=share[1])
    if ground:
        np.minimum(after, depth, out=after)
        after -= lower
        np.maximum(after, 0, out=after)
        after *= 1 - share
        after *= ground
        share += after
    return share


@lru_cache(maxsize=4)
def _numbers(count: int) -> Places:
    """0, 1, 2 …"""
    return np.arange(count)


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

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Rooms] = {}

    @cached_property
    def _pixels(self) -> Pixels:
        return np.empty((2, 0), dtype=np.uint32)  # not at once: the window's start does without numpy

    @cached_property
    def _truths(self) -> Bools:
        return np.empty((2, 0), dtype=np.bool_)

    def arrays(self, rows: int, columns: int) -> _Rooms:
        """Two arrays of pixels and two of truths, of what was there before. The first lies within a longer one, told
        before it: a row more on both sides takes what ends beyond the picture."""
        if (rows, columns) not in self._known:
            count = (rows + 2) * columns
            if self._pixels.shape[1] < count or len(self._known) == _MOST_SHAPES:
                self._known.clear()
            if self._pixels.shape[1] < count:
                self._pixels, self._truths = np.empty((2, count), dtype=np.uint32), np.empty((2, count), dtype=np.bool_)
            inner = slice(columns, count - columns)
            parts = (part[inner].reshape(rows, columns) for part in (*self._pixels, *self._truths))
            self._known[rows, columns] = self._pixels[0][:count], *parts
        return self._known[rows, columns]


_ROOM = _Room()


def paint_ticks(painter: QPainter, x: Floats, color: QColor, room: QRectF) -> None:
    """Lines of 1 px over the height of `room`, each on the pixels nearest to its place `x` (px)."""
    per_px = pixels_per_px(painter)
    columns = np.zeros((int(np.ceil(room.width() * per_px)), CHANNELS), dtype=np.float32)
    left = np.rint((x - 0.5) * per_px).astype(np.intp)
    for beside in range(max(1, round(per_px))):
        at = left + beside
        columns[at[(at >= 0) & (at < len(columns))]] = channels([color]) * color.alphaF()
    paint_colors(painter, columns, room)


def channels(colors: Sequence[QColor]) -> Colors:
    """The colours as `PaintedRow` takes them."""
    parts = [(color.blue(), color.green(), color.red(), 255) for color in colors]
    return np.array(parts, dtype=np.uint8).reshape(-1, CHANNELS)


def paint_colors(painter: QPainter, columns: Singles, room: QRectF) -> None:
    """Columns of pixels in a colour each (see `PaintedRow`) from the left end of `room` on, over its height."""
    per_px, rows = pixels_per_px(painter), room.height() * pixels_per_px(painter)
    pixels: Pixels = np.minimum(np.maximum(columns + 0.5, 0), 255).astype(np.uint8).view(np.uint32).reshape(1, -1)
    if rows % 1 == 0 and room.top() * per_px % 1 == 0:
        pixels = np.repeat(pixels, int(rows), axis=0)
        image = _image(pixels)
        image.setDevicePixelRatio(per_px)
        painter.drawImage(room.topLeft(), image)
        return
    painter.drawImage(QRectF(room.left(), room.top(), pixels.shape[1] / per_px, room.height()), _image(pixels))


def _image(pixels: Pixels) -> QImage:
    """Premultiplied pixels, a row each, as a picture that lives as long as they do."""
    height, width = pixels.shape
    return QImage(pixels.data, width, height, pixels.strides[0], QImage.Format.Format_ARGB32_Premultiplied)


@lru_cache(maxsize=64)
def _shades(rgba: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """A colour at each of 256 opacities, as premultiplied pixels."""
    color = QColor.fromRgba(rgba)
    alpha = np.arange(256) * color.alphaF()
    parts = ((1.0, 24), (color.redF(), 16), (color.greenF(), 8), (color.blueF(), 0))
    told = sum(np.round(alpha * part).astype(np.uint32) << np.uint32(shift) for part, shift in parts)
    return np.asarray(told, dtype=np.uint32)
