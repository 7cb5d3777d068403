"""Joins both clocks: the players stand at the window's moment, and what is selected marks what it was drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from evprof.core.run_log import RunLog
from evprof.view.columns import ShownModel
from ui.columns.model_column import ModelColumn
from ui.players.event_player import EventPlayer
from ui.players.play_clock import PlayClock
from ui.players.scrubber import Scrubber
from ui.state.run_controller import RunController
from ui.state.selection import Chosen, RoundRef, Selection, SpanRef, TimeRange, TokenRef

if TYPE_CHECKING:
    from evprof.metrics.costs.two_clocks import SensedWindow


class ClockLink(QObject):
    """Follows the selection and the players of both columns."""

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
        """Shows from now on how each part of a recording that runs took kept up with it."""
        self._controller = controller
        controller.runs_changed.connect(self._note_runs)

    def _note_runs(self, run_ids: set[int]) -> None:
        if self._controller is not None and any(
            run is not None and run.info.is_over for run in map(self._controller.run, run_ids)
        ):
            self.show_windows()

    def _window(self, run: RunLog, role: str) -> SensedWindow | None:
        """Worked out once for each run that is over."""
        from evprof.metrics.costs.two_clocks import window_of

        known = self._windows.get((run.run_id, role))
        if known is None or known[0] is not run or known[1] != run.version:
            known = self._windows[run.run_id, role] = run, run.version, window_of(run, role)
        return known[2]

    def show_windows(self) -> None:
        """Of either column's recording and model."""
        from evprof.metrics.costs.two_clocks import windows_of

        runs = {} if self._controller is None else self._controller.runs
        for column in self._columns:
            player = column.player
            if isinstance(player, EventPlayer):
                shown = column.column
                player.rate_curve.show_windows([] if shown is None else windows_of(runs.values(), *shown, self._window))

    def show_seen(self, *_: object) -> None:
        """Marks, in either column, the pictures behind what is selected."""
        chosen = self._selection.chosen
        marked = []
        for column in self._columns:
            is_seen = column.column is not None and is_behind(column.column, chosen)
            column.frames.show_seen(is_seen)
            column.player.show_seen(column.pictures.span if is_seen and column.pictures is not None else None)
            marked.append(is_seen)
        self._scrubber.track.show_seen(marked[0], marked[1])


def is_behind(shown: ShownModel, chosen: Chosen | None) -> bool:
    """Whether what is selected is work on a model's pictures, or could have been drawn from them."""
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
