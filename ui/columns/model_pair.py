"""Both models side by side on one grid, with one scrubber under both inputs."""

from __future__ import annotations

from PySide6.QtCore import QSettings, QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QWidget

from evprof.core.protocols import Clock, monotonic_ns
from evprof.core.records import DRAFT, TARGET
from evprof.core.sample import Sample
from evprof.view.columns import ShownModel, headers_of
from ui.columns.model_column import ModelColumn
from ui.players.look_choice import LookChoice
from ui.players.play_clock import PlayClock
from ui.players.scrubber import Scrubber
from ui.state.selection import Selection
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role
from ui.widgets.panel_parts import say, sentence

_LOW_PX = 640
"""In a window lower than this, not all rows have the height they ask for."""


class ModelPair(QWidget):
    """Left the event model (A), right the video model (B). Rows line up whatever each column holds.

    Signals:
        failed(str): an input cannot be shown; a sentence.
        sample_shown(): the inputs of another sample, or run, are on show.
    """

    failed = Signal(str)
    sample_shown = Signal()

    def __init__(
        self,
        selection: Selection,
        themes: ThemeHolder,
        settings: QSettings | None = None,
        *,
        clock: Clock = monotonic_ns,
    ) -> None:
        """`settings` remember how events are drawn; None: nothing is remembered. A running stage ends at `clock`."""
        super().__init__()
        self.setProperty("role", "panel")
        self.clock = PlayClock(self)
        self.look = LookChoice(settings, self)
        self.left = ModelColumn(DRAFT, selection, themes, self.clock, look=self.look, moment=clock)
        self.right = ModelColumn(TARGET, selection, themes, self.clock, look=self.look, moment=clock)
        self.scrubber = Scrubber(themes, self.clock)
        self.why = sentence("")
        self.why.setAccessibleName("Why one takes longer")
        for column in (self.left, self.right):
            for player in column.players:
                player.failed.connect(self.failed)
        self._current = selection.current
        grid = self._grid = QGridLayout(self)
        grid.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        grid.setHorizontalSpacing(2 * GRID)
        grid.setVerticalSpacing(GRID)
        grid.addWidget(in_role(QFrame(), "vrule"), 0, 1, 2, 1)
        grid.addWidget(in_role(QFrame(), "vrule"), 4, 1, 5, 1)
        for place, column in ((0, self.left), (2, self.right)):
            above = (column.head, column.input)
            below = (column.strip, column.counters, column.failure, column.answer, column.expected)
            for row, part in (*enumerate(above), *enumerate(below, 4)):
                grid.addWidget(part, row, place)
            grid.setColumnStretch(place, 1)
        grid.addWidget(self.scrubber, 2, 0, 1, 3)
        grid.addWidget(self.why, 3, 0, 1, 3)
        grid.setRowStretch(7, 1)
        self._set_low(False)

    def _set_low(self, is_low: bool) -> None:
        for column in (self.left, self.right):
            column.set_low(is_low)
        self._grid.setRowMinimumHeight(7, 40 if is_low else 72)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._set_low(self.window().height() < _LOW_PX)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()

    def minimumSizeHint(self) -> QSize:
        least = super().minimumSizeHint()
        return QSize(least.width(), max(least.height(), self._grid.minimumHeightForWidth(self.width())))

    def show_columns(self, a: ShownModel | None, b: ShownModel | None) -> None:
        """Shows a pair of columns, as `evprof.view.columns.columns_of` gives them."""
        for column, header in zip((self.left, self.right), headers_of(a, b), strict=True):
            column.head.set_header(header)
        # Before a run there is nothing but the inputs to look at: they get what frames and text will take.
        is_alone = a is None and b is None
        for column in (self.left, self.right):
            column.set_alone(is_alone)
        self._grid.setRowStretch(1, 4 if is_alone else 0)
        self.left.explain_absence(b)
        self.right.explain_absence(a)
        self.left.show_column(a, self._sample_beside(b))
        self.right.show_column(b, self._sample_beside(a))
        self.scrubber.track.show_moments(self.left.pictures, self.right.pictures)
        self.sample_shown.emit()

    def explain(self, why: str) -> None:
        """Says why one model takes longer than the other, above the answers."""
        say(self.why, why)

    @property
    def shown_sample(self) -> Sample:
        """Whose inputs are on show: a run's, or those of the sample to run next."""
        return self._sample_beside(self.right.column or self.left.column)

    def _sample_beside(self, other: ShownModel | None) -> Sample:
        """The sample of a column without a run: the other column's run had it, or it is the one to run next."""
        return self._current.now.sample if other is None else other.run.info.sample

    @property
    def is_idle(self) -> bool:
        return not any(player.is_waiting for column in (self.left, self.right) for player in column.players)

    def refresh(self) -> None:
        """Follows both runs: at most once per pull of the controller."""
        self.left.refresh()
        self.right.refresh()
        self.scrubber.track.update()

    def set_measuring(self, is_measuring: bool) -> None:
        self.clock.set_suspended(is_measuring)

    def close_feeds(self) -> None:
        self.left.close()
        self.right.close()
