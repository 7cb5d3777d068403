"""Both models side by side on one grid, with one scrubber under both inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QSettings, QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QWidget

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.view.columns import ShownModel, headers_of
from ui.columns.model_column import ModelColumn
from ui.columns.token_text import TextLook
from ui.players.event_player import EventPlayer
from ui.players.look_choice import LookChoice
from ui.players.play_clock import PlayClock
from ui.players.scrubber import Scrubber
from ui.state.run_controller import RunController
from ui.state.selection import Chosen, RoundRef, Selection, SpanRef, TimeRange, TokenRef
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role

if TYPE_CHECKING:
    from evprof.metrics.costs.two_clocks import SensedWindow

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
        parent: QWidget | None = None,
    ) -> None:
        """`settings` remember how events and answers are drawn; None: nothing is remembered."""
        super().__init__(parent)
        self.setProperty("role", "panel")
        self.clock = PlayClock(self)
        self.look = LookChoice(settings, self)
        self.text_look = TextLook(settings, self)
        self.left = ModelColumn(DRAFT, selection, themes, self.clock, look=self.look, text_look=self.text_look)
        self.right = ModelColumn(TARGET, selection, themes, self.clock, look=self.look, text_look=self.text_look)
        self.scrubber = Scrubber(themes, self.clock)
        for column in (self.left, self.right):
            for player in column.players:
                player.failed.connect(self.failed)
        self.link = ClockLink(selection, self.clock, self.left, self.right, self.scrubber)
        self._sample: Sample | None = None
        grid = self._grid = QGridLayout(self)
        grid.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        grid.setHorizontalSpacing(2 * GRID)
        grid.setVerticalSpacing(GRID)
        divider = in_role(QFrame(), "vrule")
        grid.addWidget(divider, 0, 1, 2, 1)
        lower = in_role(QFrame(), "vrule")
        grid.addWidget(lower, 3, 1, 5, 1)
        for place, column in ((0, self.left), (2, self.right)):
            grid.addWidget(column.head, 0, place)
            grid.addWidget(column.input, 1, place)
            grid.addWidget(column.strip, 3, place)
            grid.addWidget(column.counters, 4, place)
            grid.addWidget(column.failure, 5, place)
            grid.addWidget(column.answer, 6, place)
            grid.addWidget(column.expected, 7, place)
            grid.setColumnStretch(place, 1)
        grid.addWidget(self.scrubber, 2, 0, 1, 3)
        grid.setRowStretch(6, 1)
        self._set_low(False)

    def _set_low(self, is_low: bool) -> None:
        for column in (self.left, self.right):
            column.set_low(is_low)
        self._grid.setRowMinimumHeight(6, 40 if is_low else 72)

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
        self._give_room(is_alone=a is None and b is None)
        self.left.explain_absence(b)
        self.right.explain_absence(a)
        self.left.show_column(a, self._sample_beside(b))
        self.right.show_column(b, self._sample_beside(a))
        self.scrubber.track.show_moments(self.left.pictures, self.right.pictures)
        self.link.show_seen()
        self.link.show_windows()
        self.sample_shown.emit()

    def _give_room(self, *, is_alone: bool) -> None:
        """Before a run there is nothing but the inputs to look at: they get what frames and text will take."""
        for column in (self.left, self.right):
            column.set_alone(is_alone)
        self._grid.setRowStretch(1, 4 if is_alone else 0)

    @property
    def shown_sample(self) -> Sample | None:
        """Whose inputs are on show: a run's, or those of the sample to run next."""
        column = self.left.column or self.right.column
        return self._sample if column is None else column.run.info.sample

    def keep_sample(self, sample: Sample) -> None:
        """The sample to run next changed, and its files did not."""
        self._sample = sample

    def _sample_beside(self, other: ShownModel | None) -> Sample | None:
        """The sample of a column without a run: the other column's run had it, or it is the one to run next."""
        return self._sample if other is None else other.run.info.sample

    @property
    def is_idle(self) -> bool:
        return not any(player.is_waiting for column in (self.left, self.right) for player in column.players)

    def show_sample(self, sample: Sample | None) -> None:
        """Shows the inputs of a sample that no run has used yet; text and figures stay empty."""
        self._sample = sample
        self.show_columns(None, None)

    def refresh(self) -> None:
        """Follows both runs: at most once per pull of the controller."""
        self.left.refresh()
        self.right.refresh()
        self.scrubber.track.update()

    def set_measuring(self, is_measuring: bool) -> None:
        self.clock.set_suspended(is_measuring)

    def close_feeds(self) -> None:
        """Ends the players' threads."""
        self.left.close()
        self.right.close()


class ClockLink(QObject):
    """Joins the sample's clock and the runs: the players and the selection share a moment, and the pictures behind the
    selection are marked."""

    def __init__(
        self, selection: Selection, clock: PlayClock, left: ModelColumn, right: ModelColumn, scrubber: Scrubber
    ) -> None:
        super().__init__(clock)
        self._selection = selection
        self._columns = left, right
        self._scrubber = scrubber
        self._controller: RunController | None = None
        self._windows: dict[tuple[int, str], tuple[RunLog, int, SensedWindow | None]] = {}
        clock.position_changed.connect(selection.set_moment)
        selection.moment_changed.connect(clock.seek)
        selection.chosen_changed.connect(self.show_seen)

    def watch(self, controller: RunController) -> None:
        """From now on shows which parts of a recording runs took, and whether they kept up with it."""
        self._controller = controller
        controller.runs_changed.connect(self._note_runs)

    def _note_runs(self, run_ids: set[int]) -> None:
        runs = () if self._controller is None else map(self._controller.run, run_ids)
        if any(run is not None and run.info.is_over for run in runs):
            self.show_windows()

    def _window(self, run: RunLog, role: str) -> SensedWindow | None:
        from evprof.metrics.costs.two_clocks import window_of

        known = self._windows.get((run.run_id, role))
        if known is None or known[0] is not run or known[1] != run.version:
            known = self._windows[run.run_id, role] = run, run.version, window_of(run, role)
        return known[2]

    def show_windows(self) -> None:
        from evprof.metrics.costs.two_clocks import windows_of

        runs = {} if self._controller is None else self._controller.runs
        for column in self._columns:
            player, shown = column.player, column.column
            if isinstance(player, EventPlayer):
                player.rate_curve.show_windows([] if shown is None else windows_of(runs.values(), *shown, self._window))

    def show_seen(self, *_: object) -> None:
        """Marks the pictures behind the selection in either column."""
        marked = []
        for column in self._columns:
            is_seen = column.column is not None and is_behind(column.column, self._selection.chosen)
            column.frames.show_seen(is_seen)
            column.player.show_seen(column.pictures.span if is_seen and column.pictures is not None else None)
            marked.append(is_seen)
        self._scrubber.track.show_seen(marked[0], marked[1])


def is_behind(shown: ShownModel, chosen: Chosen | None) -> bool:
    """Whether the selection is work on a model's pictures, or could be derived from them."""
    from evprof.metrics.costs.two_clocks import roles_of_range, roles_of_round, roles_of_span, roles_of_token

    run, role = shown
    match chosen:
        case TimeRange(start_ns, end_ns) if run.info.start_ns is not None:
            return role in roles_of_range(run, run.info.start_ns + start_ns, run.info.start_ns + end_ns)
        case SpanRef(run.run_id, span_id):
            return role in roles_of_span(run, span_id)
        case RoundRef(run.run_id, round_index):
            return role in roles_of_round(run, round_index)
        case TokenRef(run.run_id, position):
            return role in roles_of_token(run, position)
    return False
