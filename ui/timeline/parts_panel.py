"""The panel *Where time goes*: all runs of each shown configuration as one picture, with runs to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QResizeEvent
from PySide6.QtWidgets import QStyledItemDelegate, QTableWidget, QTableWidgetItem

from evprof.core.run_log import RunLog
from evprof.core.texts import one_line, plain
from evprof.core.units import count_text, ms_text
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.configurations.parts import PERCENTS, MeanPart, mean_parts
from evprof.view.columns import pair_for
from evprof.view.labels import model_title, stage_title, stages_in
from ui.state.newest_errand import NewestErrand
from ui.state.run_following import put_run
from ui.style.theme import GRID, ThemeHolder
from ui.timeline.delta_lane import configuration_like
from ui.timeline.stage_lane import color_name
from ui.widgets.boxes import stacked
from ui.widgets.figure_table import stage_brush
from ui.widgets.following import FollowingPanel
from ui.widgets.panel_parts import EmptyState, sentence
from ui.widgets.record_table import hide_columns, text_table

_BAR, _SPREAD, _FIRST_PICK = 1, 3, 4
_BAR_PX = 12.0
_LINE = Qt.ItemDataRole.UserRole

_WHAT = (
    "Bars are means; lines are 25 to 75 % (of fewer than four runs, all) and 5 to 95 % of the runs. Parallel stages "
    "count in full. A click shows the run at a percentile; on a bar, the median one."
)


class _Line(NamedTuple):
    """A row: a part of the runs of a side, and the length of the scale; without a part, the head of a model."""

    side: int
    part: MeanPart | None
    longest_ms: float = 0.0
    role: str = ""


class _BarDelegate(QStyledItemDelegate):
    """Draws the mean as a bar in its stage's colour, a line from the 5th to the 95th percentile, and the spread."""

    def __init__(self, themes: ThemeHolder, parent: QTableWidget) -> None:
        super().__init__(parent)
        self._themes = themes

    def paint(self, painter: QPainter, option: Any, index: Any) -> None:
        super().paint(painter, option, index)
        line, theme = index.data(_LINE), self._themes.theme
        if not isinstance(line, _Line) or line.part is None:
            return
        key, room = line.part.key, QRectF(option.rect).adjusted(2, 0, -GRID, 0)
        name = key.name if stages_in(key.name) else color_name(key.name, key.parent)
        scale, middle = room.width() / line.longest_ms, room.center().y()
        bar = QRectF(room.left(), middle - _BAR_PX / 2, max(1.0, line.part.mean_ms * scale), _BAR_PX)
        painter.fillRect(bar, stage_brush(theme, name, bar) if key.role else theme.alpha(theme.text_dim, 0.5))
        ends = line.part.at(PERCENTS[0])[0], line.part.at(PERCENTS[-1])[0]
        for (low, high), height in ((ends, 1.0), (line.part.spread_ms, 3.0)):
            box = QRectF(room.left() + low * scale, middle - height / 2, max(1.0, (high - low) * scale), height)
            painter.fillRect(box.adjusted(-1, -1, 1, 1), theme.alpha(theme.panel, 0.7))
            painter.fillRect(box, theme.text)


class PartsPanel(FollowingPanel):
    """Follows the shown configurations: two where A and B are two runs."""

    is_slow = True
    follows_all_runs = True

    def make_views(self, themes: ThemeHolder) -> None:
        self.empty = EmptyState(
            "No finished runs yet",
            "All runs of a configuration appear here as one picture: the mean time of each stage, how far the runs "
            "differ, and a short, a middle and a long run to look at. Run a sample some times.",
        )
        self.note = sentence()
        self.note.setText(_WHAT)
        heads = ["part", "", "mean", "25 – 75 %", *(f"{p} %" for p in PERCENTS)]
        self.table = text_table("Where time goes", heads, (_BAR,))
        self.table.setItemDelegateForColumn(_BAR, _BarDelegate(themes, self.table))
        if (name := self.table.horizontalHeaderItem(0)) is not None:
            name.setTextAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.table.cellClicked.connect(self._pick)
        self.table.cellActivated.connect(self._pick)
        stacked(self.empty, (self.table, 1), self.note, on=self, margins=(2 * GRID, GRID, GRID, GRID), spacing=GRID)
        self._known: object = None
        self._lines: list[_Line] = []
        self._parts: object = None
        self._sides: list[tuple[int, Sequence[RunLog]]] = []
        self.errand = NewestErrand("evprof-parts", self)
        self.errand.done.connect(self._show)
        themes.changed.connect(lambda: self._show(self._parts))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        hide_columns(self.table, {_SPREAD: 600})

    @property
    def is_busy(self) -> bool:
        return self.errand.is_busy

    def finish(self) -> None:
        self.errand.wait()

    def show_runs(self) -> None:
        """Works the parts out again where other runs are shown or more of their configurations are over."""
        self._sides = self._configurations()
        known = tuple((side, *((id(run), run.version) for run in runs)) for side, runs in self._sides)
        if known != self._known:
            self._known, sides = known, [runs for _, runs in self._sides]
            self.errand.begin(lambda: list(map(mean_parts, sides)), sum(map(len, sides)))
        self._mark_shown()

    def _configurations(self) -> list[tuple[int, Sequence[RunLog]]]:
        """The side (0: A, 1: B) and the runs of each configuration; one where a run fills both columns."""
        found: dict[object, tuple[int, Sequence[RunLog]]] = {}
        for side, run_id in enumerate(self._selection.runs):
            like = configuration_like(self._controller.runs, run_id, of_cell=self._selection.of_cells)
            if like is not None:
                found.setdefault(like.run_id, (side, like.runs))
        return list(found.values())

    def _show(self, listed: object) -> None:
        self._parts = listed
        parts: list[list[MeanPart]] = listed if isinstance(listed, list) else []
        every = [part for side in parts for part in side]
        longest = max((max(part.mean_ms, part.at(PERCENTS[-1])[0]) for part in every), default=0.0) or 1.0
        for view in (self.empty, self.table, self.note):
            view.setVisible(bool(self._sides) != (view is self.empty))
        self._lines = []
        for side, entries in enumerate(parts):
            role = ""
            for part in entries:
                if part.key.role not in ("", role):
                    role = part.key.role
                    self._lines.append(_Line(side, None, role=role))
                self._lines.append(_Line(side, part, longest))
        self.table.clearSpans()
        self.table.setRowCount(len(self._lines))
        for row, line in enumerate(self._lines):
            texts = [self._head(line)] if line.part is None else _texts(line.part)
            if line.part is None:
                self.table.setSpan(row, 0, 1, self.table.columnCount())
            for column, text in enumerate(texts):
                self.table.setItem(row, column, self._item(line, column, text))
        self._mark_shown()

    def _head(self, line: _Line) -> str:
        """`A · EventGPT · draft · means of 10 runs`."""
        side, runs = self._sides[line.side]
        letter = ["AB"[side]] if len(self._sides) > 1 else []
        title, count = model_title(runs[0], line.role), count_text(len(runs), "run")
        return " · ".join([*letter, title, line.role, mode_of(runs[0].info.mode).title, f"means of {count}"])

    def _item(self, line: _Line, column: int, text: str) -> QTableWidgetItem:
        indent = "    " if line.part is not None and line.part.key.parent and not column else ""
        item = QTableWidgetItem(indent + one_line(text))
        item.setData(_LINE, line)
        if line.part is None:
            item.setFlags(Qt.ItemFlag.NoItemFlags)
            item.setFont(self._themes.theme.font(weight=600))
            item.setForeground(self._themes.theme.text)
        elif column > _BAR:
            item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        if line.part is not None:
            percent = PERCENTS[column - _FIRST_PICK] if column >= _FIRST_PICK else 50
            ms, run_id = line.part.at(percent)
            item.setToolTip(plain(f"{percent} % of the runs take at most {ms_text(ms)}: run {run_id}"))
        return item

    def _mark_shown(self) -> None:
        """Colours the runs that are shown; the others look like what can be clicked."""
        theme = self._themes.theme
        for row, line in enumerate(self._lines):
            for column, percent in enumerate(PERCENTS, _FIRST_PICK):
                item = self.table.item(row, column)
                if item is not None and line.part is not None:
                    is_shown = line.part.at(percent)[1] in self._selection.runs
                    item.setForeground(theme.text if is_shown else theme.accent)

    def _pick(self, row: int, column: int) -> None:
        """Shows the run at a percentile of a part in the place of the one that stood for it; its mate comes with it."""
        side, part = self._lines[row].side, self._lines[row].part
        if part is None:
            return
        runs, selection = self._controller.runs, self._selection
        run_id = part.at(PERCENTS[column - _FIRST_PICK] if column >= _FIRST_PICK else 50)[1]
        place = self._sides[side][0]
        shown = selection.runs[place]
        if shown is not None and pair_for(runs, shown) == selection.runs:
            selection.set_runs(*pair_for(runs, run_id), cell=selection.cell)
        else:
            put_run(selection, runs, [run_id], place, of_cell=selection.of_cells)


def _texts(part: MeanPart) -> list[str]:
    low, high = part.spread_ms
    picks = [f"run {part.at(percent)[1]}" for percent in PERCENTS]
    return [stage_title(part.key.name), "", ms_text(part.mean_ms), f"{ms_text(low)} – {ms_text(high)}", *picks]
