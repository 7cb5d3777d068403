"""Painting of columns of pixels: one picture in place of a shape for every pixel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from evprof.view.decimate import Floats

Shades: TypeAlias = "npt.NDArray[np.uint32]"


def pixels_per_px(painter: QPainter) -> float:
    """Device pixels per logical px of the painted surface."""
    return painter.deviceTransform().m11()


def palette_of(colors: Sequence[QColor]) -> Floats:
    """Colours [count, 4] as `paint_row` takes them: blue, green, red and opacity, 0 to 255."""
    return np.array([(c.blue(), c.green(), c.red(), 255) for c in colors], dtype=np.float64).reshape(-1, 4)


def paint_row(painter: QPainter, colors: Floats, room: QRectF) -> None:
    """Paints columns [count, 4] (premultiplied, see `palette_of`) from the left end of `room` on, over its height."""
    pixels = np.clip(colors + 0.5, 0, 255).astype(np.uint8)
    width = len(pixels) / pixels_per_px(painter)
    painter.drawImage(QRectF(room.left(), room.top(), width, room.height()), _image(pixels.view(np.uint32).T))


def paint_bands(
    painter: QPainter, edges: Floats, color: QColor, height_px: float, *, ground: float = 0.0, floor: float = 0.0
) -> None:
    """Paints each column from `edges[0]` down to `edges[1]` (px), smoothed along y; NaN: nothing.

    Below the band, down to `floor`, `ground` is the opacity of the colour.
    """
    per_px = pixels_per_px(painter)
    rows = np.arange(np.ceil(height_px * per_px), dtype=np.float32)[:, None]
    top, bottom = np.nan_to_num(edges * per_px, nan=height_px * per_px + floor * per_px).astype(np.float32)
    opacity = _covered(rows, top, bottom)
    if ground:
        opacity += np.float32(ground) * _covered(rows, bottom, np.float32(floor * per_px))
    image = _image(_shades(color.rgba())[(opacity * 255 + 0.5).astype(np.uint8)])
    image.setDevicePixelRatio(per_px)
    painter.drawImage(QPointF(0, 0), image)


def _covered(rows: Any, top: Any, bottom: Any) -> npt.NDArray[np.float32]:
    """How much of each pixel lies between `top` and `bottom`."""
    share: npt.NDArray[np.float32] = np.minimum(rows + 1, bottom) - np.maximum(rows, top)
    return np.clip(share, 0, 1, out=share)


def _image(pixels: Shades) -> QImage:
    """Premultiplied pixels [rows, columns] as a picture that owns its memory."""
    pixels = np.ascontiguousarray(pixels)
    height, width = pixels.shape
    return QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_ARGB32_Premultiplied).copy()


@lru_cache(maxsize=64)
def _shades(rgba: int) -> Shades:
    """A colour at each of 256 opacities, as premultiplied pixels."""
    color = QColor.fromRgba(rgba)
    alpha = np.arange(256) * color.alphaF()
    channels = ((1.0, 24), (color.redF(), 16), (color.greenF(), 8), (color.blueF(), 0))
    shades = np.zeros(256, dtype=np.uint32)
    for share, shift in channels:
        shades |= np.round(alpha * share).astype(np.uint32) << np.uint32(shift)
    return shades
