"""Dense lines, stems and bars as pictures of columns: a shape each for every pixel takes most of a frame's time."""

from __future__ import annotations

from collections.abc import Sequence

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
    # Of a step that stands on a border, the column before it sees the beginning, and the one after it the end.
    firsts = np.minimum(np.searchsorted(x, borders), len(x) - 1)
    before = np.where(x[firsts] == borders, y[firsts], at)
    upper, lower = np.minimum(at[:-1], before[1:]), np.maximum(at[:-1], before[1:])
    column = np.floor(x * per_px)
    is_seen = (column >= 0) & (column < columns)
    column, level = column[is_seen].astype(np.int64), y[is_seen]
    if len(column):
        firsts = np.flatnonzero(np.diff(column, prepend=-1))
        held = column[firsts]
        upper[held] = np.minimum(upper[held], np.minimum.reduceat(level, firsts))
        lower[held] = np.maximum(lower[held], np.maximum.reduceat(level, firsts))
    is_beside = (borders[1:] <= x[0]) | (borders[:-1] >= x[-1])
    upper[is_beside] = lower[is_beside] = np.nan
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
    upper, lower = (np.nan_to_num(edge * per_px, nan=height + 1.0).astype(np.float32) for edge in edges)
    row = np.arange(height, dtype=np.float32)[:, None]
    share = np.clip(np.minimum(row + 1, lower) - np.maximum(row, upper), 0, 1)
    if ground:
        below = np.clip(np.minimum(row + 1, np.float32(floor * per_px)) - np.maximum(row, lower), 0, 1)
        share += (1 - share) * below * np.float32(ground)
    pixels = np.take(_shades(color), (share * 255 + 0.5).astype(np.uint8))
    image = QImage(pixels.data, pixels.shape[1], height, pixels.strides[0], QImage.Format.Format_ARGB32_Premultiplied)
    image.setDevicePixelRatio(per_px)
    painter.drawImage(QPointF(0, 0), image)


def paint_bars(
    painter: QPainter, x0: Floats, widths: Floats, looks: Sequence[tuple[QColor, Bools]], room: QRectF
) -> None:
    """Bars in order of their left edges (px), over the height of `room`, each as far as the next one begins; `looks`
    are colours with the bars that have them."""
    per_px = pixels_per_px(painter)
    widths = np.minimum(widths, np.diff(x0, append=np.inf))
    borders = room.left() + np.arange(int(np.ceil(room.width() * per_px)) + 1) / per_px
    row = np.zeros((len(borders) - 1, 4))
    for color, own in looks:
        if not own.any():
            continue
        edges = np.stack([x0[own], x0[own] + widths[own]], axis=1).ravel()
        covered = np.repeat(np.cumsum(widths[own]), 2)
        covered[0::2] -= widths[own]
        share = np.diff(np.interp(borders, edges, covered)) * per_px
        row += share[:, None] * np.array([color.blueF(), color.greenF(), color.redF(), 1.0])
    pixels = np.round(np.clip(row, 0, 1) * 255).astype(np.uint8)
    image = QImage(pixels.data, len(pixels), 1, pixels.nbytes, QImage.Format.Format_ARGB32_Premultiplied)
    painter.drawImage(QRectF(room.left(), room.top(), len(pixels) / per_px, room.height()), image)


def _shades(color: QColor) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """The colour at each of 256 opacities, as premultiplied pixels."""
    alpha = np.arange(256) * color.alphaF()
    parts = ((1.0, 24), (color.redF(), 16), (color.greenF(), 8), (color.blueF(), 0))
    told = sum(np.round(alpha * part).astype(np.uint32) << np.uint32(shift) for part, shift in parts)
    return np.asarray(told, dtype=np.uint32)
