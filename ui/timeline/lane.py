"""A lane of the timeline: a name in the gutter and a picture along the shared time axis; painting of dense columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QLineF, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from evprof.view.decimate import Floats
from evprof.view.timescale import Timescale
from ui.style.theme import SMALL_PX
from ui.timeline.scene import GUTTER_PX, Hit, TimelineScene
from ui.widgets.label import elided_text

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


FOLDED_PX = 22
"""Height of a lane that is collapsed to its name."""

FOLD_PX = 14
"""Width of the part of the gutter that collapses and opens a lane."""

_NAME_LEFT = 16

_DEEPEST_PX = 4_000
"""No lane is higher."""

_SMOOTH = QPainter.RenderHint.Antialiasing


class Lane(QWidget):
    """Base of all lanes. Subclasses draw with `paint_canvas` in coordinates that begin right of the gutter."""

    lane_height_px = 48
    """Height, or least height where the lane `grows`."""

    grows = False
    """Whether the lane takes a share of the room that is left."""

    gives_way = False
    """Whether it is collapsed where not all lanes fit, unless the person opened it."""

    is_folded = False
    """Whether only its name is shown."""

    def __init__(self, scene: TimelineScene, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scene = scene
        self.hovered: Hit | None = None
        self.setMouseTracking(True)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        vertical = QSizePolicy.Policy.Expanding if self.grows else QSizePolicy.Policy.Fixed
        self.setSizePolicy(QSizePolicy.Policy.Expanding, vertical)
        self.setMinimumHeight(self.lane_height_px)

    def sizeHint(self) -> QSize:
        """A lane is as high as it asks for and as wide as it may be."""
        return QSize(600, FOLDED_PX if self.is_folded else self.lane_height_px)

    def fold(self, is_folded: bool) -> None:
        """Leaves only the lane's name, or shows all of it again."""
        if is_folded == self.is_folded:
            return
        self.is_folded = is_folded
        is_growing = self.grows and not is_folded
        vertical = QSizePolicy.Policy.Expanding if is_growing else QSizePolicy.Policy.Fixed
        self.setSizePolicy(QSizePolicy.Policy.Expanding, vertical)
        self.setMinimumHeight(FOLDED_PX if is_folded else self.lane_height_px)
        self.updateGeometry()
        self.update()

    @property
    def key(self) -> str:
        """What the person's order of the lanes calls this one."""
        return type(self).__name__.removesuffix("Lane").lower()

    # What subclasses answer.

    def names(self) -> tuple[str, str]:
        """Name and second line in the gutter."""
        raise NotImplementedError

    def is_wanted(self) -> bool:
        """Whether there is anything this lane could ever show for the tracks at hand."""
        return True

    def is_empty(self) -> bool:
        """Whether the tracks at hand have nothing for this lane; it is collapsed then, once no run goes on."""
        return False

    def paint_canvas(self, painter: QPainter, clip: QRectF) -> None:
        """Draws what lies in `clip` (canvas coordinates)."""
        raise NotImplementedError

    def hit(self, pos: QPointF) -> Hit | None:
        """What lies at `pos` (canvas coordinates)."""
        raise NotImplementedError

    def scale_marks(self) -> Sequence[tuple[float, str]]:
        """Heights and texts of the value axis, written at the gutter's right edge."""
        return ()

    def levels_at(self, t_ns: int) -> Sequence[tuple[float, QColor]]:
        """Heights and colours of the lane's lines at a moment, for lanes that have any."""
        return ()

    # What all share.

    def update_canvas(self) -> None:
        self.update(QRect(GUTTER_PX, 0, self.width() - GUTTER_PX, self.height()))

    @property
    def canvas_width(self) -> float:
        return max(1.0, self.width() - GUTTER_PX)

    def canvas_pos(self, pos: QPointF) -> QPointF:
        """Widget to canvas coordinates."""
        return QPointF(pos.x() - GUTTER_PX, pos.y())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paints the part of the lane that Qt asks for."""
        painter = QPainter(self)
        theme, asked = self.scene.theme, event.rect()
        painter.fillRect(asked, theme.panel)
        bottom = self.height() - 1
        if asked.left() < GUTTER_PX:
            self._paint_gutter(painter)
        painter.fillRect(0, bottom, self.width(), 1, theme.line)
        seen = QRectF(asked).intersected(QRectF(GUTTER_PX, 0, self.canvas_width, bottom + 0.5))
        if not seen.isEmpty():
            clip = seen.translated(-GUTTER_PX, 0)
            painter.setClipRect(seen)
            painter.translate(GUTTER_PX, 0)
            self._paint_grid(painter, clip)
            painter.setRenderHint(_SMOOTH)
            if not self.is_folded:
                self.paint_canvas(painter, clip)
        painter.end()

    def _paint_grid(self, painter: QPainter, clip: QRectF) -> None:
        """Lines on whole pixels: they need no smoothing, and with it take twenty times as long."""
        color = self.scene.theme.alpha(self.scene.theme.line, 0.55)
        painter.setPen(color)
        lines, left, right = _grid(self.scene.scale), clip.left(), clip.right()
        if left > 0 or right < self.canvas_width:
            lines = [line for line in lines if left <= line.x1() <= right]
        painter.drawLines(lines)

    def _paint_gutter(self, painter: QPainter) -> None:
        theme = self.scene.theme
        painter.setPen(QPen(theme.line, 1))
        painter.drawLine(QPointF(GUTTER_PX - 0.5, 0), QPointF(GUTTER_PX - 0.5, self.height()))
        self._paint_fold(painter)
        name, second = self.names()
        if self.is_folded:
            painter.setFont(theme.font(SMALL_PX))
            painter.setPen(theme.text_dim)
            self._write(painter, QRectF(_NAME_LEFT, 0, GUTTER_PX - _NAME_LEFT - 8, FOLDED_PX - 1), name)
            return
        marks = self.scale_marks()
        small = theme.font(10.5)
        painter.setFont(small)
        painter.setPen(theme.text_dim)
        taken: list[QRectF] = []
        for y, text in marks:
            width = QFontMetricsF(small).horizontalAdvance(text)
            top = min(max(y - 7.0, 1.0), self.height() - 16.0)
            room = QRectF(GUTTER_PX - 8 - width, top, width, 14)
            painter.drawText(room, Qt.AlignmentFlag.AlignCenter, text)
            taken.append(room)
        lines = ((name, 7.0, theme.font(weight=500), theme.text), (second, 24.0, theme.font(SMALL_PX), theme.text_dim))
        for text, top, font, color in lines:
            room = QRectF(_NAME_LEFT, top, GUTTER_PX - _NAME_LEFT - 8, 17)
            for mark in taken:
                if mark.intersects(room):
                    room.setRight(mark.left() - 6)
            painter.setFont(font)
            painter.setPen(color)
            self._write(painter, room, text)

    def _paint_fold(self, painter: QPainter) -> None:
        """The arrow that collapses and opens the lane; it points at what there is to see."""
        middle = QPointF(7.5, FOLDED_PX / 2 - 0.5 if self.is_folded else 15.5)
        corners = ((-1.5, -3.0), (2.0, 0.0), (-1.5, 3.0)) if self.is_folded else ((-3.0, -1.5), (3.0, -1.5), (0.0, 2.0))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.scene.theme.alpha(self.scene.theme.text_dim, 0.7))
        painter.drawPolygon(QPolygonF([middle + QPointF(x, y) for x, y in corners]))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    @staticmethod
    def _write(painter: QPainter, room: QRectF, text: str) -> None:
        shown = elided_text(QFontMetricsF(painter.font()), text, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)

    def paint_hint(self, painter: QPainter, text: str) -> None:
        """A dim sentence where there is nothing to draw yet."""
        painter.setFont(self.scene.theme.font(SMALL_PX))
        painter.setPen(self.scene.theme.text_dim)
        painter.drawText(
            QRectF(12, 0, self.canvas_width - 24, self.height()),
            Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft,
            text,
        )


def blended(color: QColor, other: QColor, share: float) -> QColor:
    """`color` with `share` of `other` mixed in, opaque."""
    return QColor.fromRgbF(
        color.redF() + (other.redF() - color.redF()) * share,
        color.greenF() + (other.greenF() - color.greenF()) * share,
        color.blueF() + (other.blueF() - color.blueF()) * share,
    )


@lru_cache(maxsize=4)
def _grid(scale: Timescale) -> list[QLineF]:
    """The grid of every lane, worked out once for a picture: what is below a lane is cut off."""
    return [QLineF(x, 0, x, _DEEPEST_PX) for x, _ in ticks_px(scale)]


@lru_cache(maxsize=4)
def ticks_px(scale: Timescale) -> list[tuple[float, str]]:
    """Where the ticks of an axis stand, in px, and how they are written: the same for the axis and for every lane."""
    return [(round(scale.x(t_ns)) + 0.5, text) for t_ns, text in scale.ticks()]
