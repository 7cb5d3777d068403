"""The panel of spans: every measured interval of the shown runs as a line that sorts, filters and copies."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from PySide6.QtCore import QItemSelectionModel, QSize, Qt
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QPushButton

from evprof.core.units import ms_text
from evprof.view.lanes import Floats, Ints
from evprof.view.span_lines import SpanLines, span_lines
from ui.run_facts.run_text import NOTHING
from ui.state.selection import SpanRef
from ui.style.theme import GRID, ThemeHolder
from ui.timeline.stage_lane import color_name
from ui.widgets.boxes import in_role, stacked
from ui.widgets.following import FollowingPanel
from ui.widgets.panel_parts import EmptyState
from ui.widgets.record_table import RecordModel, RecordTable, hide_columns

_LEAST_PX = {1: 640, 2: 520, 3: 580, 6: 460}
"""Stage, model, run and time of its own are hidden in tables narrower than this."""


@dataclass(frozen=True, eq=False)
class SpanColumn:
    """A column of all spans: numbers, or with `words` codes of texts. A record is a place in `values`."""

    head: str
    key: str
    tip: str
    values: Ints | Floats
    write: Callable[[float], str] = str
    words: tuple[str, ...] = ()

    @property
    def is_text(self) -> bool:
        return bool(self.words)

    def text(self, place: int) -> str:
        value = self.values[place]
        if self.words:
            return self.words[int(value)]
        return NOTHING if np.isnan(value) else self.write(float(value))

    def plain(self, place: int) -> Any:
        """The value for a file: a text, a number, or nothing."""
        value = self.values[place]
        return self.words[int(value)] if self.words else "" if np.isnan(value) else f"{value:.15g}"


class SpanModel(RecordModel):
    """Spans by their places; words are compared once each and columns sorted as arrays."""

    themes: ThemeHolder

    def data(self, index: Any, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The colour of the stage stands before the name."""
        if role != Qt.ItemDataRole.DecorationRole or index.column():
            return super().data(index, role)
        span, stage = (self.columns[column].text(self.records[index.row()]) for column in (0, 1))
        return self.themes.theme.stage(color_name(span, stage))

    def matching(self, columns: Sequence[Any]) -> Any:
        fits = np.zeros(len(self._all), dtype=bool)
        for column in columns:
            if column.is_text:
                fits |= np.array([self._word in word.casefold() for word in column.words])[column.values]
        return np.flatnonzero(fits)

    def ordered(self, records: Any, column: Any, *, is_down: bool) -> Any:
        values = column.values[records]
        if column.is_text:
            values = np.argsort(np.argsort(column.words, kind="stable"))[values]
        return records[np.argsort(-values if is_down else values, kind="stable")]

    def as_csv(self) -> str:
        """All lines as they stand, with numbers in full."""
        out = io.StringIO()
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow([column.key for column in self.columns])
        lines.writerows([column.plain(place) for column in self.columns] for place in self.records)
        return out.getvalue()


class SpanPanel(FollowingPanel):
    """Follows the shown runs and the selected span; a line selects its span."""

    is_slow = True

    def make_views(self, themes: ThemeHolder) -> None:
        empty = EmptyState(
            "No spans yet",
            "Every measured interval of the shown runs appears here: stages and their parts, with start, duration, "
            "time of their own and tokens. Run a sample, or choose a run in the list.",
        )
        self.copy = in_role(QPushButton("Copy as CSV"), "link")
        self.copy.setCursor(Qt.CursorShape.PointingHandCursor)
        self.copy.setToolTip("Copies the lines that are shown, in their order; times in ms")
        self.copy.clicked.connect(self.copy_csv)
        self.lines = span_lines(())
        self.table = RecordTable("Spans", _columns(self.lines), self.copy, empty=empty, model=SpanModel)
        self.model: SpanModel = self.table.model  # type: ignore[assignment]  # made as one
        self.model.themes = themes
        self.table.view.setIconSize(QSize(4, 12))
        stacked((self.table, 1), on=self, margins=(2 * GRID, GRID, GRID, GRID))
        self._known: object = None
        self._is_marking = False
        self.table.view.selectionModel().currentRowChanged.connect(self._pick)
        self.model.modelAboutToBeReset.connect(partial(setattr, self, "_is_marking", True))
        self.model.modelReset.connect(self._mark)
        self._selection.chosen_changed.connect(self._mark)

    def show_runs(self) -> None:
        """Reads the spans again where there are more, or more is known of them."""
        runs = list(dict.fromkeys(shown.run for _, shown in self.shown_models()))
        known = tuple((id(run), run.version) for run in runs)
        if known == self._known:
            return
        self._known = known
        self.lines = span_lines(runs)
        self.table.show_records(range(len(self.lines.ids)), _columns(self.lines))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        hide_columns(self.table.view, _LEAST_PX)

    def copy_csv(self) -> None:
        QGuiApplication.clipboard().setText(self.model.as_csv())

    def _pick(self, index: Any, _before: object) -> None:
        if index.isValid() and not self._is_marking:
            place = self.model.records[index.row()]
            self._selection.select(SpanRef(int(self.lines.run_ids[place]), int(self.lines.ids[place])))

    def _mark(self, *_: object) -> None:
        """Marks the line of the selected span, and brings it into view."""
        chosen, view = self._selection.span, self.table.view
        rows = np.zeros(0, dtype=np.int64)
        if chosen is not None and len(self.model.records):
            is_own = (self.lines.run_ids == chosen.run_id) & (self.lines.ids == chosen.span_id)
            rows = np.flatnonzero(is_own[np.asarray(self.model.records)])
        self._is_marking = True
        if not len(rows):
            view.selectionModel().clear()
        elif view.currentIndex().row() != rows[0] or not view.selectionModel().hasSelection():
            flags = QItemSelectionModel.SelectionFlag
            index = self.model.index(int(rows[0]), 0)
            view.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
            view.scrollTo(index)
        self._is_marking = False


def _columns(lines: SpanLines) -> list[Any]:
    own = "duration without the parts inside, overlaps once"
    handled = "visual tokens of vision, the prompt's of prefill, the answer's of decode and of each verification"
    words, roles = lines.words or ("",), lines.role_words or ("",)
    return [
        SpanColumn("span", "span", "a stage or a part of one", lines.names, words=words),
        SpanColumn("stage", "stage", "the stage that it is, or that it is a part of", lines.stages, words=words),
        SpanColumn("model", "role", "draft or target", lines.roles, words=roles),
        SpanColumn("run", "run", "number of the run", lines.run_ids, "{:.0f}".format),
        SpanColumn("start", "start_ms", "from the run's zero", lines.starts, "{:,.2f} ms".format),
        SpanColumn("duration", "duration_ms", "from its start to its end", lines.durations, ms_text),
        SpanColumn("self", "self_ms", own, lines.own, ms_text),
        SpanColumn("tokens", "tokens", handled, lines.tokens, "{:,.0f}".format),
    ]
