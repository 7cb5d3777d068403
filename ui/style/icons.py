"""The window's icons: small drawings of ours, tinted with the theme's colours."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

from PySide6.QtCore import QByteArray, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QIconEngine, QImage, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from ui.style.theme import Theme

SIZE = 16


@cache
def _drawing(name: str) -> str:
    import assets

    return (Path(assets.__file__).parent / "icons" / f"{name}.svg").read_text(encoding="utf-8")


def pixmap(name: str, color: QColor, scale: float = 1.0, size: int = SIZE) -> QPixmap:
    """The drawing in one colour, `size` logical px wide, drawn for a screen of `scale`."""
    picture = QPixmap.fromImage(_picture(name, color.name(), size * scale))
    picture.setDevicePixelRatio(scale)
    return picture


@lru_cache(maxsize=500)
def _picture(name: str, color: str, pixels: float) -> QImage:
    """The drawing as it was made last: buttons that change what they say ask for a dozen while a run begins."""
    renderer = QSvgRenderer(QByteArray(_drawing(name).replace("currentColor", color).encode()))
    picture = QImage(round(pixels), round(pixels), QImage.Format.Format_ARGB32_Premultiplied)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    renderer.render(painter, QRectF(0, 0, pixels, pixels))
    painter.end()
    return picture


def icon(name: str, theme: Theme, color: QColor | None = None, size: int = SIZE) -> QIcon:
    """An icon in the text colour (or another), dim when disabled; at most `size` logical px wide.

    It is drawn when it is shown, for the pixels it is shown on, and so never blurred.
    """
    return QIcon(_LateIcon(name, color or theme.text, theme.text_dim, size))


class _LateIcon(QIconEngine):
    """Makes an icon's pictures when they are asked for."""

    def __init__(self, name: str, color: QColor, dim: QColor, size: int) -> None:
        super().__init__()
        self._look = name, color, dim, size
        self._drawn: dict[tuple[int, bool], QPixmap] = {}

    def clone(self) -> QIconEngine:
        return _LateIcon(*self._look)

    def actualSize(self, size: QSize, _mode: QIcon.Mode, _state: QIcon.State) -> QSize:
        edge = min(size.width(), size.height(), self._look[3])
        return QSize(edge, edge)

    def availableSizes(
        self, _mode: QIcon.Mode = QIcon.Mode.Normal, _state: QIcon.State = QIcon.State.Off
    ) -> list[QSize]:
        return [QSize(self._look[3], self._look[3])]

    def pixmap(self, size: QSize, mode: QIcon.Mode, _state: QIcon.State) -> QPixmap:
        name, color, dim, _ = self._look
        edge, is_dim = min(size.width(), size.height()), mode == QIcon.Mode.Disabled
        if (edge, is_dim) not in self._drawn:
            self._drawn[edge, is_dim] = pixmap(name, dim if is_dim else color, size=edge)
        return self._drawn[edge, is_dim]

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:
        scale = painter.device().devicePixelRatio()
        painter.drawPixmap(rect, self.pixmap(rect.size() * scale, mode, state))


def window_icon() -> QIcon:
    """The program's own sign, in its own colours."""
    renderer = QSvgRenderer(QByteArray(_drawing("evprof").encode()))
    found = QIcon()
    for size in (16, 32, 64, 128):
        picture = QPixmap(size, size)
        picture.fill(Qt.GlobalColor.transparent)
        painter = QPainter(picture)
        renderer.render(painter, QRectF(0, 0, size, size))
        painter.end()
        found.addPixmap(picture)
    return found
