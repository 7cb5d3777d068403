"""A lane of the timeline: a name in the gutter and a picture along the shared time axis; painting of dense columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QEvent, QLineF, QPoint, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QPaintEvent, QPixmap, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from evprof.view.decimate import Floats
from evprof.view.labels import widest_that_fits
from evprof.view.timescale import Timescale
from ui.style.theme import SMALL_PX
from ui.timeline.scene import GUTTER_PX, Hit, TimelineScene
from ui.widgets.drawn import show_tip
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
    per_px, shades, known = pixels_per_px(painter), _shades(color.rgba()), ~np.isnan(edges[0])
    if not known.any():
        return
    rows = np.arange(np.ceil(height_px * per_px), dtype=np.float32)[:, None]
    top, bottom = np.nan_to_num(edges * per_px, nan=height_px * per_px).astype(np.float32)
    is_ground = (rows >= bottom) & (rows < floor * per_px)
    pixels = np.where(is_ground, shades[round(255 * ground)], np.uint32(0))
    first, last = max(0, int(top.min())), int(np.ceil(bottom[known].max()))
    line = shades[(_covered(rows[first:last], top, bottom) * 255 + 0.5).astype(np.uint8)]
    np.maximum(pixels[first:last], line, out=pixels[first:last])  # the opacity is in the highest bits
    image = _image(pixels)
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

_NAME_LEFT, _TWO_LINES_PX = 16, 41
_SCALE_PX = 10.5

_DEEPEST_PX = 4_000
"""No lane is higher."""


class Lane(QWidget):
    """Base of all lanes. Subclasses draw with `paint_canvas` in coordinates that begin right of the gutter."""

    lane_height_px = 48
    """Height, or least height where the lane `grows`."""

    grows = False
    """Whether the lane takes a share of the room that is left."""

    is_folded = False
    """Whether only its name is shown."""

    is_timed = True
    """Whether its picture lies along the time axis, whose grid is behind it then."""

    tip = ""
    """What the lane shows and in which unit, for the tool tip of its name."""

    def __init__(self, scene: TimelineScene) -> None:
        super().__init__()
        self.scene = scene
        self._written: object = None
        """The gutter as it was painted last."""

        self._paints = 0
        self._picture: QPixmap | None = None
        """How often the canvas was painted since it changed, and its picture."""

        self.setMouseTracking(True)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self._set_height()

    def _set_height(self) -> None:
        is_growing = self.grows and not self.is_folded
        vertical = QSizePolicy.Policy.Expanding if is_growing else QSizePolicy.Policy.Fixed
        self.setSizePolicy(QSizePolicy.Policy.Expanding, vertical)
        self.setMinimumHeight(FOLDED_PX if self.is_folded else self.lane_height_px)

    def sizeHint(self) -> QSize:
        return QSize(600, FOLDED_PX if self.is_folded else self.lane_height_px)

    def fold(self, is_folded: bool) -> None:
        """Shows only the lane's name, or all of it."""
        if is_folded != self.is_folded:
            self.is_folded = is_folded
            self._set_height()
            self.updateGeometry()
            self.refresh()

    @property
    def key(self) -> str:
        """The name of the lane in the settings."""
        return type(self).__name__.removesuffix("Lane").lower()

    # What subclasses answer.

    def names(self) -> tuple[str, str]:
        """Name and second line in the gutter."""
        raise NotImplementedError

    def is_wanted(self) -> bool:
        """Whether the shown runs have, or may get, rows for this lane."""
        return True

    def paint_canvas(self, painter: QPainter) -> None:
        """Draws the whole canvas, from its left end on."""
        raise NotImplementedError

    def hit(self, pos: QPointF) -> Hit | None:
        """What lies at `pos` (canvas coordinates)."""
        raise NotImplementedError

    def reading(self, t_ns: int) -> str | None:
        """The value under the pointer with its unit, `NOTHING` where there is none; None: the lane has no values."""
        return None

    def scale_marks(self) -> Sequence[tuple[float, str]]:
        """Heights and texts of the value axis, written at the gutter's right edge."""
        return ()

    # What all share.

    def refresh(self) -> None:
        """Paints the canvas again, and the gutter where it says something else by now."""
        self._paints, self._picture = 0, None
        if not self.isHidden():
            left = GUTTER_PX if self._gutter() == self._written else 0
            self.update(QRect(left, 0, self.width() - left, self.height()))

    def refresh_reading(self) -> None:
        """Paints the gutter again where the value under the pointer is another one."""
        if not self.isHidden() and self._gutter() != self._written:
            self.update(0, 0, GUTTER_PX, self.height())

    def _gutter(self) -> tuple[object, tuple[str, str], str | None, Sequence[tuple[float, str]]]:
        """All that the gutter's picture depends on, beside the lane's size: names, the pointer's value, the axis."""
        at_px = self.scene.pointer_px
        read = None if at_px is None else self.reading(self.scene.scale.t(at_px))
        return self.scene.theme, self.names(), read, () if self.is_folded else self.scale_marks()

    def event(self, event: QEvent) -> bool:
        return show_tip(event, self, self._tip_at) or super().event(event)

    def _tip_at(self, point: QPoint) -> str:
        if point.x() >= GUTTER_PX or not self.tip:
            return ""
        name = ": ".join(filter(None, self.names()))
        return f"{name}\n{self.tip}\nA click {'opens' if self.is_folded else 'collapses'} the lane."

    @property
    def canvas_width(self) -> float:
        return max(1.0, self.width() - GUTTER_PX)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme, asked = self.scene.theme, event.rect()
        painter.fillRect(asked, theme.panel)
        bottom = self.height() - 1
        if asked.left() < GUTTER_PX:
            self._paint_gutter(painter)
        painter.fillRect(0, bottom, self.width(), 1, theme.line)
        seen = QRectF(asked).intersected(QRectF(GUTTER_PX, 0, self.canvas_width, bottom + 0.5))
        if not seen.isEmpty():
            painter.setClipRect(seen)
            painter.translate(GUTTER_PX, 0)
            self._paint_seen(painter)
        painter.end()

    def _paint_seen(self, painter: QPainter) -> None:
        """Paints the canvas, from the second time on from a picture: the pointer uncovers it again and again."""
        self._paints += 1
        per_px, size = pixels_per_px(painter), QSize(round(self.canvas_width), self.height() - 1)
        if self._paints == 2 or (self._picture is not None and self._picture.size() != size * per_px):
            self._picture = QPixmap(size * per_px)
            self._picture.setDevicePixelRatio(per_px)
            self._picture.fill(self.scene.theme.panel)
            whole = QPainter(self._picture)
            self._paint_on_grid(whole)
            whole.end()
        if self._picture is None:
            self._paint_on_grid(painter)
        else:
            painter.drawPixmap(QPointF(0, 0), self._picture)

    def _paint_on_grid(self, painter: QPainter) -> None:
        painter.setPen(self.scene.theme.alpha(self.scene.theme.line, 0.55))
        if self.is_timed:
            painter.drawLines(_grid(self.scene.scale))
        if not self.is_folded:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            self.paint_canvas(painter)

    def _paint_gutter(self, painter: QPainter) -> None:
        """The arrow that collapses the lane, its names, and the value axis."""
        theme = self.scene.theme
        self._written = _, (name, second), read, marks = self._gutter()
        painter.fillRect(GUTTER_PX - 1, 0, 1, self.height(), theme.line)
        painter.setPen(theme.text_dim)
        taken = []
        for y, text in marks:
            width = theme.text_width(text, _SCALE_PX)
            room = QRectF(GUTTER_PX - 8 - width, min(max(y - 7.0, 1.0), self.height() - 16.0), width, 14)
            theme.write(painter, room, text, _SCALE_PX)
            taken.append(room)
        value, small = theme.font(SMALL_PX, 500), theme.font(SMALL_PX)
        lines = [(name, 7.0, theme.font(weight=500), theme.text)]
        lines += [(second, 24.0, small, theme.text_dim) if read is None else (read, 24.0, value, theme.accent)]
        if self.is_folded:
            lines = [(name, 2.0, small, theme.text_dim)]
        if read is not None and self.height() < _TWO_LINES_PX:
            lines = [(f"{name} · {read}", lines[0][1], value, theme.accent)]
        for text, top, font, color in lines:
            room = QRectF(_NAME_LEFT, top, GUTTER_PX - _NAME_LEFT - 8, 17)
            for mark in taken:
                if mark.intersects(room):
                    room.setRight(mark.left() - 6)
            painter.setFont(font)
            painter.setPen(color)
            shown = elided_text(QFontMetricsF(font), text, Qt.TextElideMode.ElideRight, room.width())
            painter.drawText(room, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)
        middle = QPointF(7.5, FOLDED_PX / 2 - 0.5 if self.is_folded else 15.5)
        corners = ((-1.5, -3.0), (2.0, 0.0), (-1.5, 3.0)) if self.is_folded else ((-3.0, -1.5), (3.0, -1.5), (0.0, 2.0))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.alpha(theme.text_dim, 0.7))
        painter.drawPolygon(QPolygonF([middle + QPointF(x, y) for x, y in corners]))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def paint_hint(self, painter: QPainter, text: str) -> None:
        """A dim sentence where there is nothing to draw yet."""
        painter.setPen(self.scene.theme.text_dim)
        room = QRectF(12, 0, self.canvas_width - 24, self.height())
        self.scene.theme.write(painter, room, text, SMALL_PX)

    def write_inside(self, painter: QPainter, room: QRectF, wordings: list[str], size_px: float) -> str:
        """Writes the longest wording that fits into the visible part of `room`, and returns it."""
        theme = self.scene.theme
        visible = room.intersected(QRectF(0, room.top(), self.canvas_width, room.height()))
        text = widest_that_fits(wordings, visible.width() - 12, partial(theme.text_width, size_px=size_px, weight=600))
        theme.write(painter, visible.adjusted(6, -1, -6, -1), text, size_px, 600)
        return text


def blended(color: QColor, other: QColor, share: float) -> QColor:
    """`color` with `share` of `other` mixed in, opaque."""
    return QColor.fromRgbF(
        color.redF() + (other.redF() - color.redF()) * share,
        color.greenF() + (other.greenF() - color.greenF()) * share,
        color.blueF() + (other.blueF() - color.blueF()) * share,
    )


@lru_cache(maxsize=4)
def _grid(scale: Timescale) -> list[QLineF]:
    """The grid of every lane; Qt clips what is below a lane."""
    return [QLineF(x, 0, x, _DEEPEST_PX) for x, _ in ticks_px(scale)]


@lru_cache(maxsize=4)
def ticks_px(scale: Timescale) -> list[tuple[float, str]]:
    """Positions in px and texts of an axis' ticks, equal for the axis and for every lane."""
    return [(round(scale.x(t_ns)) + 0.5, text) for t_ns, text in scale.ticks()]
