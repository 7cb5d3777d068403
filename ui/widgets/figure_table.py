"""A table of figures: names left, numbers right-aligned in their columns, thin lines between groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui.style.theme import GRID, SMALL_PX, Theme, ThemeHolder, dark
from ui.widgets.drawn import Drawn
from ui.widgets.elided import elided_text
from ui.widgets.stage_fill import paint_swatch

ROW = 24
NAME_ROW = 18
"""Height of a name that has a line of its own, above its figures."""

_GAP, _NARROW_GAP, _FEW = 8.0, 6.0, 3
_UNIT_PX, _UNIT_GAP = 10.0, 5.0
_LEAST_COLUMN, _MOST_HEAD = 40.0, 68.0
_KEPT = 200
"""Letters of the texts whose cuts are kept."""


@dataclass(frozen=True)
class TableRow:
    """A name, its unit, and one cell per column. `roles` colour cells: "", "good", "bad", "warn", "dim", "accent".

    `short` says what the name says where that has no room. A `bar` below it is as long as a share of the row, 0 to 1.
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


@dataclass
class _Widths:
    """Widest cell seen of each column; they only grow, so that live figures do not make columns jump."""

    columns: list[float] = field(default_factory=list)

    def note(self, index: int, width: float) -> None:
        while len(self.columns) <= index:
            self.columns.append(0.0)
        self.columns[index] = max(self.columns[index], width)


class _Place(NamedTuple):
    """A row as it stands at the table's width: what it is called there, the room that its figures leave for that, and
    whether it is on one line with them."""

    row: TableRow
    name: str
    room: float
    fits: bool
    top: int

    @property
    def height(self) -> int:
        return ROW if self.fits else NAME_ROW + ROW


def _color(role: str, theme: Theme) -> QColor:
    known = {"good": theme.good, "bad": theme.bad, "warn": theme.warn, "dim": theme.text_dim, "accent": theme.accent}
    return known.get(role, theme.text)


class FigureTable(Drawn):
    """Heads above, rows below; as high as its rows. Ctrl+C copies it as tab-separated text.

    Where a name and its unit do not fit beside the figures, they stand on a line above them.
    """

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None, *, least_px: float = 0.0) -> None:
        """`least_px` is the width of columns whose cells need less, so that tables below one another are in line."""
        super().__init__(themes, parent)
        self._least_px = least_px
        self._heads: tuple[str, ...] = ()
        self._rows: list[TableRow] = []
        self._places: list[_Place] = []
        self._widths = _Widths()
        self._begins_anew = False
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @property
    def rows(self) -> list[TableRow]:
        """What is shown."""
        return list(self._rows)

    @property
    def names(self) -> list[str]:
        """What they are called at this width."""
        return [place.name for place in self._places]

    def reset_widths(self) -> None:
        """Lets columns shrink again, for other runs and for figures that do not change any more."""
        self._widths = _Widths()
        self._begins_anew = True
        self._fit()

    def show_rows(self, rows: Sequence[TableRow], heads: tuple[str, ...] = ()) -> None:
        """Shows rows below optional column heads."""
        begins_anew, self._begins_anew = self._begins_anew or len(heads) != len(self._heads), False
        if list(rows) == self._rows and heads == self._heads:
            return
        before, stood = self._places, (self._heads, list(self._widths.columns))
        if begins_anew:
            self._widths = _Widths()  # what the rows before were as wide as says nothing
        self._rows, self._heads = list(rows), heads
        self.setAccessibleDescription(self.as_text())
        self._fit()
        if len(before) == len(self._places) and stood == (heads, self._widths.columns):
            self._redraw_rows(before)
        else:
            self.update()

    def _redraw_rows(self, before: list[_Place]) -> None:
        """Draws the rows that say something else, where all stand as they stood."""
        for old, new in zip(before, self._places, strict=True):
            if old.height != new.height:
                self.update(0, new.top, self.width(), self.height() - new.top)
                return
            if old.row != new.row:
                self.update(0, new.top, self.width(), new.height)

    def _fit(self) -> None:
        """As high as its rows are at this width."""
        self._measure(self._themes.theme)
        self._places = list(self._placed())
        wanted = self.sizeHint().height()
        if wanted != self.minimumHeight():
            self.setFixedHeight(wanted)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def as_text(self) -> str:
        """Tab-separated lines."""
        lines = [("", *self._heads)] if self._heads else []
        lines += [(f"{row.name} {row.unit}".strip(), *row.cells) for row in self._rows]
        return "\n".join("\t".join(line) for line in lines)

    def sizeHint(self) -> QSize:
        return QSize(240, ROW * bool(self._heads) + sum(place.height for place in self._places))

    def _placed(self) -> Iterator[_Place]:
        """The rows as they stand at this width."""
        top, boxes = ROW * bool(self._heads), self._boxes(0)
        for row in self._rows:
            room = self._room(row, boxes)
            is_cut = row.short and not self._stands(row, row.name, room) and self._stands(row, row.short, room)
            name = row.short if is_cut else row.name
            place = _Place(row, name, room, self._stands(row, name, room) or not any(row.cells), top)
            yield place
            top += place.height

    def _stands(self, row: TableRow, name: str, room: float) -> bool:
        """Whether a name and its unit have room beside the figures."""
        theme = self._themes.theme
        unit = theme.text_width(row.unit, _UNIT_PX) + _UNIT_GAP if row.unit else 0.0
        return theme.text_width(name) + unit <= room

    def _room(self, row: TableRow, boxes: Sequence[QRectF]) -> float:
        """What the figures leave of the width for the name; it may use what the first leaves free of its column."""
        left = float(GRID if row.swatch else 0)
        box, cell = next(((box, cell) for box, cell in zip(boxes, row.cells, strict=False) if cell), (None, ""))
        if box is None:
            return self.width() - left
        free = box.right() - self._themes.theme.text_width(cell) - self._gap
        return max(box.left() - self._gap / 2, free) - left

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme, asked = self._themes.theme, event.region()
        if self._heads:
            painter.setFont(theme.font(SMALL_PX))
            painter.setPen(theme.text_dim)
            self._paint_heads(painter, 0.0)
        for place in self._places:
            if asked.intersects(QRect(0, place.top, self.width(), place.height)):
                if place.row.has_line and place.top:
                    painter.fillRect(QRectF(0, place.top, self.width(), 1), theme.line)
                self._paint_row(painter, place, theme)

    def _paint_heads(self, painter: QPainter, top: float) -> None:
        """Heads end where their column ends and may begin further left, as far as the head before them leaves room."""
        free = 0.0
        for box, head in zip(self._boxes(top), self._heads, strict=False):
            room = int(box.right() - free)
            text = elided_text(painter.fontMetrics(), head, Qt.TextElideMode.ElideRight, room)
            place = QRectF(free, top, room, ROW)
            painter.drawText(place, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
            free = box.right() + self._gap / 2

    def _paint_row(self, painter: QPainter, place: _Place, theme: Theme) -> None:
        """Paints a row."""
        row, fits, top, boxes = place.row, place.fits, float(place.top), self._boxes(place.top)
        left, height = float(GRID if row.swatch else 0), ROW if fits else NAME_ROW
        drop = 0 if fits else 3  # a name above its figures keeps away from the line above
        if row.swatch:
            paint_swatch(painter, theme, row.swatch, QRectF(0, top + drop + height / 2 - 4, 3, 8))
        room = place.room if fits else self.width() - left
        if row.bar is not None:
            bar = QRectF(0, top + (0 if fits else NAME_ROW) + ROW - 3, self.width(), 2)
            painter.fillRect(bar, theme.line)
            bar.setWidth(max(1.0, bar.width() * row.bar))
            painter.fillRect(bar, theme.accent if "accent" in row.roles else theme.text_dim)
        painter.setFont(theme.font())
        painter.setPen(theme.text_dim)
        name = _cut(place.name, room)
        painter.drawText(QRectF(left, top + drop, room, height), Qt.AlignmentFlag.AlignVCenter, name)
        after = left + theme.text_width(name) + _UNIT_GAP
        self._paint_unit(painter, row.unit, QRectF(after, top + drop, 80, height), left + room)
        painter.setFont(theme.font())
        for index, (box, cell) in enumerate(zip(boxes, row.cells, strict=False)):
            role = row.roles[index] if index < len(row.roles) else ""
            painter.setPen(_color(role, theme))
            if not fits:
                box.translate(0, NAME_ROW)
            if box.left() < left:
                box.setLeft(left)
            text = _cut(cell, box.width() + 1)
            painter.drawText(box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)

    def _paint_unit(self, painter: QPainter, unit: str, box: QRectF, end: float) -> None:
        theme = self._themes.theme
        if unit and box.left() + theme.text_width(unit, _UNIT_PX) <= end + 0.5:
            painter.setFont(theme.font(_UNIT_PX))
            painter.setPen(theme.alpha(theme.text_dim, 0.75))
            painter.drawText(box.adjusted(0, 1, 0, 0), Qt.AlignmentFlag.AlignVCenter, unit)

    def _measure(self, theme: Theme) -> None:
        for row in self._rows:
            for index, cell in enumerate(row.cells):
                self._widths.note(index, max(self._least_px, theme.text_width(cell)))
        for index, head in enumerate(self._heads):
            # The first head may hang over to the left, above the names.
            self._widths.note(index, _LEAST_COLUMN if index == 0 else min(_MOST_HEAD, theme.text_width(head, SMALL_PX)))

    @property
    def _gap(self) -> float:
        """Between columns; many stand closer, so that names keep their room beside them."""
        return _GAP if len(self._widths.columns) <= _FEW else _NARROW_GAP

    def _boxes(self, top: float) -> list[QRectF]:
        """The columns' boxes of the row at `top`, right-aligned as a whole."""
        boxes: list[QRectF] = []
        right = float(self.width())
        for width in reversed(self._widths.columns):
            rounded = -(-width // 4) * 4
            boxes.append(QRectF(right - rounded, top, rounded, ROW))
            right -= rounded + self._gap
        return boxes[::-1]

    def tip_at(self, point: QPoint) -> str:
        """The row's tip."""
        tips = (place.row.tip for place in self._places if 0 <= point.y() - place.top < place.height)
        return next(tips, "")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self.as_text())
        else:
            super().keyPressEvent(event)


def _cut(text: str, room: float) -> str:
    """`elided_text` in the table's font; what has the room it had is not measured again with every picture."""
    return (_elided if len(text) <= _KEPT else _elided.__wrapped__)(text, room)


@lru_cache(maxsize=1_000)
def _elided(text: str, room: float) -> str:
    # Both themes write with the same fonts.
    return elided_text(QFontMetricsF(dark().font()), text, Qt.TextElideMode.ElideRight, room)
