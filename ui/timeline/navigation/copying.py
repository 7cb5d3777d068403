"""What the timeline shows, for the clipboard: figures as text, CSV or Markdown, the lanes as a picture."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from PySide6.QtCore import QByteArray, QMimeData, QPoint
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtWidgets import QWidget

from evprof.core.safe_text import one_line
from ui.timeline.lane_turns import end_turns

Line = Sequence[str]
"""The cells of a line; the first line of a table names its columns."""

FORMATS = ("text", "CSV", "Markdown")
"""What figures can be copied as."""

_GROUPED = re.compile(r"^[-−+]?\d{1,3}(,\d{3})+\b")
"""A figure with commas between its thousands, which a program that reads CSV takes for a text."""


def table_text(lines: Sequence[Line], form: str) -> str:
    """Lines in one of FORMATS; what a session says is neither markup nor a formula in them."""
    # Imported when first used: none of it may hold up the first paint.
    if form == "CSV":
        import csv

        from evprof.export.tables import plain_row

        out = io.StringIO()
        rows = [plain_row({str(place): _ungrouped(cell) for place, cell in enumerate(line)}) for line in lines]
        csv.writer(out, lineterminator="\n").writerows(row.values() for row in rows)
        return out.getvalue()
    if form == "Markdown":
        from evprof.export.report.markdown import escaped

        head, *rest = ([escaped(cell) for cell in line] for line in lines)
        marks = ["---", *("---:" for _ in head[1:])]
        return "".join(f"| {' | '.join(line)} |\n" for line in (head, marks, *rest))
    return "".join("\t".join(map(one_line, line)) + "\n" for line in lines)


def _ungrouped(cell: str) -> str:
    return _GROUPED.sub(lambda figure: figure[0].replace(",", ""), cell)


def copy_table(lines: Sequence[Line], form: str) -> None:
    """Puts figures on the clipboard."""
    QGuiApplication.clipboard().setText(table_text(lines, form))


def copy_picture(widget: QWidget, form: str) -> None:
    """Puts a picture of a widget on the clipboard: `form` is PNG or SVG, which is there as text, too."""
    if form == "PNG":
        QGuiApplication.clipboard().setImage(picture_of(widget))
        return
    drawn = svg_of(widget)
    data = QMimeData()
    data.setData("image/svg+xml", drawn)
    data.setText(drawn.toStdString())
    QGuiApplication.clipboard().setMimeData(data)


def picture_of(widget: QWidget) -> QImage:
    """As it looks now, twice as fine as on a plain screen: such pictures end up on paper."""
    end_turns(widget)
    image = QImage(widget.size() * 2, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(2.0)
    image.fill(widget.palette().window().color())
    painter = QPainter(image)
    widget.render(painter, QPoint())
    painter.end()
    return image


def svg_of(widget: QWidget) -> QByteArray:
    """The same in lines and letters."""
    from PySide6.QtCore import QBuffer, QIODevice
    from PySide6.QtSvg import QSvgGenerator

    end_turns(widget)
    drawn = QByteArray()
    buffer = QBuffer(drawn)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(widget.size())
    generator.setViewBox(widget.rect())
    painter = QPainter(generator)
    widget.render(painter, QPoint())
    painter.end()
    return drawn
