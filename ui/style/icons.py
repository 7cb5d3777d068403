"""The window's icons: small drawings of ours, tinted with the theme's colours."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QColor, QGuiApplication, QIcon, QImage, QPainter, QPixmap
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
    """An icon in the text colour (or another), dim when disabled, for every screen there is and for pictures at 200 %.

    Shown at its own `size` it is never scaled, and so never blurred.
    """
    found = QIcon()
    for scale in sorted({1.0, 2.0, *(screen.devicePixelRatio() for screen in QGuiApplication.screens())}):
        found.addPixmap(pixmap(name, color or theme.text, scale, size), QIcon.Mode.Normal)
        found.addPixmap(pixmap(name, theme.text_dim, scale, size), QIcon.Mode.Disabled)
    return found


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
