"""Dense lines, stems and bars as pictures of columns: a shape each for every pixel takes most of a frame's time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from evprof.view.decimate import Floats

Bools = npt.NDArray[np.bool_]

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
    held = np.flatnonzero(firsts[1:] > firsts[:-1])
    near = np.minimum(firsts, len(x) - 1)
    # Of a step that stands on a border, the column before it sees the beginning, and the one after it the end.
    before = np.where(x[near] == borders, y[near], at)[1:]
    upper, lower = np.minimum(at[:-1], before), np.maximum(at[:-1], before)
    if len(held):
        starts, seen = firsts[held], y[: firsts[-1]]
        upper[held] = np.minimum(upper[held], np.minimum.reduceat(seen, starts))
        lower[held] = np.maximum(lower[held], np.maximum.reduceat(seen, starts))
    begin, end = borders[1:].searchsorted(x[0], side="right"), borders[:-1].searchsorted(x[-1])
    for edge in (upper, lower):
        edge[:begin] = edge[end:] = np.nan
    return upper - width_px / 2, lower + width_px / 2


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
    # One row more above and below, for what reaches beyond the picture.
    ends = np.maximum(np.fmin(np.array(edges) * per_px, height + 1.0), -1.0).astype(np.float32)
    rows = np.arange(-1, height + 1, dtype=np.int16)[:, None]
    cut = np.floor(np.minimum(ends, np.float32(height)))
    first, last = cut.astype(np.int16)
    shades = _shades(color.rgba())
    is_after = rows >= last
    pixels = np.multiply((rows > first) ^ is_after, shades[255])
    if ground:
        depth = np.clip(np.float32(floor * per_px) - rows, 0, 1, dtype=np.float32) * np.float32(ground)
        pixels += np.multiply(is_after, shades[(depth * 255 + 0.5).astype(np.uint8)])
    # What begins or ends within a pixel's row covers a part of it.
    upper, lower = ends
    share = np.maximum(np.minimum(cut + 1, lower) - np.maximum(cut, upper), 0)
    if ground:
        below = np.maximum(np.minimum(cut + 1, np.float32(floor * per_px)) - np.maximum(cut, lower), 0)
        share += (1 - share) * below * np.float32(ground)
    places = np.arange(len(upper))
    told = shades[(share * 255 + 0.5).astype(np.uint8)]
    pixels[first + 1, places] = told[0]
    pixels[last + 1, places] = told[1]
    image = QImage(pixels[1:].data, len(upper), height, pixels.strides[0], QImage.Format.Format_ARGB32_Premultiplied)
    image.setDevicePixelRatio(per_px)
    painter.drawImage(QPointF(0, 0), image)


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
    paints = np.zeros((4, len(left)))
    for color, own in looks:
        paints[:, 1:][:, own] = np.array([color.blueF(), color.greenF(), color.redF(), 1.0])[:, None]
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
