"""A table of figures: names left, numbers right-aligned in their columns, thin lines between groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from PySide6.QtCore import QPoint, QRectF, QSize, Qt
from PySide6.QtGui import (
    QFontMetricsF,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui.style.theme import BASE_PX, GRID, SMALL_PX, ThemeHolder
from ui.widgets.drawn import Drawn
from ui.widgets.elided import elided_text
from ui.widgets.stage_fill import paint_swatch

ROW = 24
NAME_ROW = 18
"""Height of a name that stands above its figures."""

_GAP, _NARROW_GAP, _FEW = 8.0, 6.0, 3
_UNIT_PX, _UNIT_GAP = 10.0, 5.0
_LEAST_COLUMN, _MOST_HEAD = 40.0, 68.0
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True)
class TableRow:
    """A name, its unit, and one cell per column. `roles` colour cells: "", "good", "bad", "warn", "dim", "accent".

    `short` replaces a name that has no room. A `bar` below the row is as long as this share of it, 0 to 1.
    """

    name: str
    cells: tuple[str, ...]
    unit: str = ""
    roles: tuple[str, ...] = ()
    tip: str = ""
    has_line: bool = True
    swatch: str = ""
    bar: float | None = None
    short: str = ""


class _Place(NamedTuple):
    """A row at the table's width: its name there, the room for the name, and whether both share a line."""

    row: TableRow
    name: str
    room: float
    fits: bool
    top: int

    @property
    def height(self) -> int:
        return ROW if self.fits else NAME_ROW + ROW


class FigureTable(Drawn):
    """Heads above, rows below; as high as its rows. Ctrl+C copies it as tab-separated text.

    A name and its unit that do not fit beside the figures stand on a line above them. Columns only grow, so that live
    figures do not make them jump.
    """

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None, *, least_px: float = 0.0) -> None:
        """`least_px` is the least width of columns, so that tables below one another are in line."""
        super().__init__(themes, parent)
        self._least_px = least_px
        self._heads: tuple[str, ...] = ()
        self._rows: list[TableRow] = []
        self._places: list[_Place] = []
        self._widths: list[float] = []
        self._begins_anew = False
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @property
    def rows(self) -> list[TableRow]:
        return list(self._rows)

    @property
    def names(self) -> list[str]:
        return [place.name for place in self._places]

    def reset_widths(self) -> None:
        """Lets columns shrink again, for other runs and for figures that do not change any more."""
        self._begins_anew = True
        self._fit()

    def show_rows(self, rows: Sequence[TableRow], heads: tuple[str, ...] = ()) -> None:
        if list(rows) == self._rows and heads == self._heads:
            self._begins_anew = False
            return
        if len(heads) != len(self._heads):
            self._begins_anew = True
        self._rows, self._heads = list(rows), heads
        self.setAccessibleDescription(self.as_text())
        self._fit()
        self._begins_anew = False
        self.update()

    def as_text(self) -> str:
        lines = [("", *self._heads)] if self._heads else []
        lines += [(f"{row.name} {row.unit}".strip(), *row.cells) for row in self._rows]
        return "\n".join("\t".join(line) for line in lines)

    def sizeHint(self) -> QSize:
        return QSize(240, ROW * bool(self._heads) + sum(place.height for place in self._places))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Measures columns, places rows, and takes their height."""
        theme = self._themes.theme
        # The first head may hang over to the left, above the names.
        heads = [min(_MOST_HEAD, theme.text_width(head, SMALL_PX)) for head in self._heads]
        widths = [_LEAST_COLUMN if place == 0 else head for place, head in enumerate(heads)]
        for row in self._rows:
            widths += [0.0] * (len(row.cells) - len(widths))
            for place, cell in enumerate(row.cells):
                widths[place] = max(widths[place], self._least_px, theme.text_width(cell))
        if not self._begins_anew:
            widths = [max(pair) for pair in zip_longest(widths, self._widths, fillvalue=0.0)]
        self._widths = widths
        self._places, top, boxes = [], ROW * bool(self._heads), self._boxes(0)
        for row in self._rows:
            room = self._room(row, boxes)
            is_short = bool(row.short) and not self._has_room(row.name, row.unit, room)
            name = row.short if is_short and self._has_room(row.short, row.unit, room) else row.name
            fits = self._has_room(name, row.unit, room) or not any(row.cells)
            self._places.append(_Place(row, name, room, fits, top))
            top += self._places[-1].height
        if (wanted := self.sizeHint().height()) != self.minimumHeight():
            self.setFixedHeight(wanted)

    def _has_room(self, name: str, unit: str, room: float) -> bool:
        theme = self._themes.theme
        return theme.text_width(name) + (theme.text_width(unit, _UNIT_PX) + _UNIT_GAP if unit else 0.0) <= room

    def _room(self, row: TableRow, boxes: Sequence[QRectF]) -> float:
        """The width that the figures leave for the name, with the free part of the first figure's column."""
        left = float(GRID if row.swatch else 0)
        for box, cell in zip(boxes, row.cells, strict=False):
            if cell:
                free = box.right() - self._themes.theme.text_width(cell) - self._gap
                return max(box.left() - self._gap / 2, free) - left
        return self.width() - left

    @property
    def _gap(self) -> float:
        """Between columns; many stand closer, so that names keep their room."""
        return _GAP if len(self._widths) <= _FEW else _NARROW_GAP

    def _boxes(self, top: float) -> list[QRectF]:
        """The columns' boxes of the row at `top`, right-aligned as a whole."""
        boxes: list[QRectF] = []
        right = float(self.width())
        for width in reversed(self._widths):
            rounded = -(-width // 4) * 4
            boxes.append(QRectF(right - rounded, top, rounded, ROW))
            right -= rounded + self._gap
        return boxes[::-1]

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter, theme = QPainter(self), self._themes.theme
        painter.setPen(theme.text_dim)
        free = 0.0
        # Heads end where their column ends, and begin as far left as the head before leaves room.
        for box, head in zip(self._boxes(0.0), self._heads, strict=False):
            self._write(painter, QRectF(free, 0, box.right() - free, ROW), head, SMALL_PX, _RIGHT)
            free = box.right() + self._gap / 2
        for place in self._places:
            if place.row.has_line and place.top:
                painter.fillRect(QRectF(0, place.top, self.width(), 1), theme.line)
            self._paint_row(painter, place)

    def _paint_row(self, painter: QPainter, place: _Place) -> None:
        theme, row, fits, top = self._themes.theme, place.row, place.fits, float(place.top)
        left, height = float(GRID if row.swatch else 0), ROW if fits else NAME_ROW
        figures_top = top if fits else top + NAME_ROW
        name_top = top if fits else top + 3  # keeps away from the line above
        if row.swatch:
            paint_swatch(painter, theme, row.swatch, QRectF(0, name_top + height / 2 - 4, 3, 8))
        if row.bar is not None:
            bar = QRectF(0, figures_top + ROW - 3, self.width(), 2)
            painter.fillRect(bar, theme.line)
            bar.setWidth(max(1.0, bar.width() * row.bar))
            painter.fillRect(bar, theme.accent if "accent" in row.roles else theme.text_dim)
        room = place.room if fits else self.width() - left
        painter.setPen(theme.text_dim)
        name = self._write(painter, QRectF(left, name_top, room, height), place.name)
        after = left + theme.text_width(name) + _UNIT_GAP
        if row.unit and after + theme.text_width(row.unit, _UNIT_PX) <= left + room + 0.5:
            painter.setPen(theme.alpha(theme.text_dim, 0.75))
            self._write(painter, QRectF(after, name_top + 1, 80, height), row.unit, _UNIT_PX)
        colors = {
            "good": theme.good,
            "bad": theme.bad,
            "warn": theme.warn,
            "dim": theme.text_dim,
            "accent": theme.accent,
        }
        roles = (*row.roles, *[""] * len(row.cells))
        for box, cell, role in zip(self._boxes(figures_top), row.cells, roles, strict=False):
            painter.setPen(colors.get(role, theme.text))
            box.setLeft(max(box.left(), left))
            self._write(painter, box.adjusted(-1, 0, 0, 0), cell, BASE_PX, _RIGHT)

    def _write(
        self,
        painter: QPainter,
        box: QRectF,
        text: str,
        size_px: float = BASE_PX,
        flags: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignVCenter,
    ) -> str:
        """Writes a text, cut to the box, and returns what was written."""
        font = self._themes.theme.font(size_px)
        painter.setFont(font)
        if self._themes.theme.text_width(text, size_px) > box.width() or not text.isprintable():
            text = elided_text(QFontMetricsF(font), text, Qt.TextElideMode.ElideRight, box.width())
        painter.drawText(box, flags, text)
        return text

    def tip_at(self, point: QPoint) -> str:
        tips = (place.row.tip for place in self._places if 0 <= point.y() - place.top < place.height)
        return next(tips, "")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self.as_text())
        else:
            super().keyPressEvent(event)
