"""The one selection and the one zoom of the window: every view reads and writes them.

It holds plain values; the RunController has the run of an id.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from PySide6.QtCore import QObject, Signal

from evprof.view.alignment import RunAlignment
from evprof.view.columns import RunPair
from ui.state.current import NO_RUNS, CurrentState


class TimeRange(NamedTuple):
    """A stretch of time on the axis, in ns from run A's zero; run B may be moved on it. start_ns <= end_ns."""

    start_ns: int
    end_ns: int


class SpanRef(NamedTuple):
    """One measured interval of one run."""

    run_id: int
    span_id: int


class RoundRef(NamedTuple):
    """One round of speculation of one run; `drafted` is the place in the answer of a rejected token of it that was
    pointed at."""

    run_id: int
    round_index: int
    drafted: int | None = None


class TokenRef(NamedTuple):
    """One place in the answer of one run."""

    run_id: int
    position: int


Chosen = TimeRange | SpanRef | RoundRef | TokenRef


__all__ = ["Chosen", "RoundRef", "Selection", "SpanRef", "TimeRange", "TokenRef"]


_Kind = TypeVar("_Kind", TimeRange, SpanRef, RoundRef, TokenRef)


class Selection(QObject):
    """What the person points at: one thing or nothing; which runs are shown; how far the view is zoomed in.

    Signals:
        chosen_changed(object): the Chosen value, or None.
        runs_changed(object): the RunPair in the two columns, or the cell that was chosen.
        view_range_changed(object): the visible TimeRange, or None while everything is shown.
        alignment_changed(object): the RunAlignment of the two runs.
        offset_changed(object): how far run B is moved on the axis now, in ns.

    Each is emitted once per change and never for a value that is already set.
    """

    chosen_changed = Signal(object)
    runs_changed = Signal(object)
    view_range_changed = Signal(object)
    alignment_changed = Signal(object)
    offset_changed = Signal(object)

    def __init__(self, parent: QObject | None = None, current: CurrentState | None = None) -> None:
        """`current` holds the runs."""
        super().__init__(parent)
        self.current = current or CurrentState()
        self.current.listeners.append(self._take_current)
        self._chosen: Chosen | None = None
        self._shown: tuple[RunPair, str] = NO_RUNS, ""
        """The runs and the cell that were signalled last."""

        self._view_range: TimeRange | None = None
        self._alignment = RunAlignment()
        self._offset_ns = 0

    @property
    def chosen(self) -> Chosen | None:
        return self._chosen

    @property
    def time_range(self) -> TimeRange | None:
        """The selected range; None where something else or nothing is selected."""
        return self._as(TimeRange)

    @property
    def span(self) -> SpanRef | None:
        """The selected span; None where something else or nothing is selected."""
        return self._as(SpanRef)

    @property
    def round(self) -> RoundRef | None:
        """The selected round; None where something else or nothing is selected."""
        return self._as(RoundRef)

    @property
    def token(self) -> TokenRef | None:
        """The selected token; None where something else or nothing is selected."""
        return self._as(TokenRef)

    def _as(self, kind: type[_Kind]) -> _Kind | None:
        return self._chosen if isinstance(self._chosen, kind) else None

    @property
    def runs(self) -> RunPair:
        return self.current.now.runs

    @property
    def cell(self) -> str:
        """The cell of a suite or an import that was chosen; "" where single runs were."""
        return self.current.now.cell

    @property
    def of_cells(self) -> bool:
        """Whether the runs in the columns stand for all runs of their cells."""
        return bool(self.cell)

    @property
    def view_range(self) -> TimeRange | None:
        """The visible range in ns from the run's zero; None means "all of it, and follow while it grows"."""
        return self._view_range

    def select(self, value: Chosen | None) -> None:
        """Selects one thing instead of what was selected before (a range with its ends in either order), or nothing."""
        if isinstance(value, TimeRange):
            value = _ordered(value)
        # Tuples of two kinds may be equal: a span is never a token.
        if (type(value), value) != (type(self._chosen), self._chosen):
            self._chosen = value
            self.chosen_changed.emit(value)

    def set_runs(self, a: int | None, b: int | None, *, cell: str = "") -> None:
        """Puts runs into the two columns; with a `cell` they stand for all runs like them."""
        self.current.show_runs((a, b), cell)

    def _take_current(self) -> None:
        """Signals other runs. What was selected inside the former ones is let go first."""
        if (self.runs, self.cell) == self._shown:
            return
        self._shown = self.runs, self.cell
        if isinstance(self._chosen, SpanRef | RoundRef | TokenRef) and self._chosen.run_id not in self.runs:
            self.select(None)
        self.runs_changed.emit(self.runs)

    def set_view_range(self, value: tuple[int, int] | None) -> None:
        """Zooms to a range (ends in either order), or to everything."""
        wanted = None if value is None else _ordered(value)
        if wanted != self._view_range:
            self._view_range = wanted
            self.view_range_changed.emit(wanted)

    @property
    def alignment(self) -> RunAlignment:
        return self._alignment

    def set_alignment(self, value: RunAlignment) -> None:
        """Aligns the two runs otherwise; the timeline works out the offset."""
        if value != self._alignment:
            self._alignment = value
            self.alignment_changed.emit(value)

    @property
    def offset_ns(self) -> int:
        """How far run B is moved on the axis: what lies at t on it happened at t - offset_ns from B's zero."""
        return self._offset_ns

    def set_offset(self, offset_ns: int) -> None:
        """For who works the offset out."""
        if offset_ns != self._offset_ns:
            self._offset_ns = offset_ns
            self.offset_changed.emit(offset_ns)

    def clear(self) -> None:
        self.select(None)


def _ordered(value: tuple[int, int]) -> TimeRange:
    return TimeRange(min(value), max(value))
