"""Draws an SVG as PNG in several sizes: python draw_icons.py ICON.svg HICOLOR SIZE ..."""

from __future__ import annotations

import sys

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer


def main(icon: str, hicolor: str, sizes: list[int]) -> None:
    """Writes SIZExSIZE/apps/evprof.png and the same as the icon of a session file."""
    application = QGuiApplication([])
    renderer = QSvgRenderer(icon)
    for size in sizes:
        image = QImage(size, size, QImage.Format.Format_ARGB32)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        renderer.render(painter)
        painter.end()
        for place in ("apps/evprof", "mimetypes/application-x-evprof"):
            if not image.save(f"{hicolor}/{size}x{size}/{place}.png"):
                raise SystemExit(f"{hicolor}/{size}x{size}/{place}.png could not be written")
    application.quit()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [int(word) for word in sys.argv[3:]])
