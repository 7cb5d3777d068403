"""The one selection and the one zoom of the window: every view reads it, every view writes it.

It holds plain values and knows neither runs nor widgets; who needs the run behind an id asks the RunController.
"""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from evprof.view.columns import RunPair

TimeRange = tuple[int, int]
"""start_ns, end_ns relative to a run's zero (runs side by side are aligned there); start_ns <= end_ns."""


class SpanRef(NamedTuple):
    """One measured interval of one run."""

    run_id: int
    span_id: int


class TokenRef(NamedTuple):
    """One place in the answer of one run."""

    run_id: int
    position: int


class Selection(QObject):
    """What the person points at.

    Signals:
        time_range_changed(object): the selected TimeRange, or None.
        span_changed(object): the selected SpanRef, or None.
        token_changed(object): the selected TokenRef, or None.
        runs_changed(object): the RunPair in the two columns, or the cell that was chosen.
        view_range_changed(object): the visible TimeRange, or None while everything is shown.

    Each is emitted once per change and never for a value that is already set.
    """

    time_range_changed = Signal(object)
    span_changed = Signal(object)
    token_changed = Signal(object)
    runs_changed = Signal(object)
    view_range_changed = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._time_range: TimeRange | None = None
        self._span: SpanRef | None = None
        self._token: TokenRef | None = None
        self._runs: RunPair = (None, None)
        self._cell = ""
        self._view_range: TimeRange | None = None

    @property
    def time_range(self) -> TimeRange | None:
        """The selected range in ns from the run's zero, or None."""
        return self._time_range

    @property
    def span(self) -> SpanRef | None:
        """The selected span, or None."""
        return self._span

    @property
    def token(self) -> TokenRef | None:
        """The selected token, or None."""
        return self._token

    @property
    def runs(self) -> RunPair:
        """Run ids of the two columns."""
        return self._runs

    @property
    def cell(self) -> str:
        """The cell of a suite or an import that was chosen; "" where single runs were."""
        return self._cell

    @property
    def of_cells(self) -> bool:
        """Whether the runs in the columns stand for all runs of their cells."""
        return bool(self._cell)

    @property
    def view_range(self) -> TimeRange | None:
        """The visible range in ns from the run's zero; None means "all of it, and follow while it grows"."""
        return self._view_range

    def set_time_range(self, value: TimeRange | None) -> None:
        """Selects a range (ends in either order), or nothing."""
        value = _ordered(value)
        if value != self._time_range:
            self._time_range = value
            self.time_range_changed.emit(value)

    def set_span(self, value: tuple[int, int] | None) -> None:
        """Selects a span by (run_id, span_id), or nothing."""
        wanted = None if value is None else SpanRef(*value)
        if wanted != self._span:
            self._span = wanted
            self.span_changed.emit(wanted)

    def set_token(self, value: tuple[int, int] | None) -> None:
        """Selects a token by (run_id, position), or nothing."""
        wanted = None if value is None else TokenRef(*value)
        if wanted != self._token:
            self._token = wanted
            self.token_changed.emit(wanted)

    def set_runs(self, a: int | None, b: int | None, *, cell: str = "") -> None:
        """Puts runs into the two columns; with a `cell` they stand for all runs like them.

        What was selected inside other runs is let go first.
        """
        if ((a, b), cell) == (self._runs, self._cell):
            return
        if self._span is not None and self._span.run_id not in (a, b):
            self.set_span(None)
        if self._token is not None and self._token.run_id not in (a, b):
            self.set_token(None)
        self._runs, self._cell = (a, b), cell
        self.runs_changed.emit(self._runs)

    def set_view_range(self, value: TimeRange | None) -> None:
        """Zooms to a range (ends in either order), or to everything."""
        value = _ordered(value)
        if value != self._view_range:
            self._view_range = value
            self.view_range_changed.emit(value)

    def clear(self) -> None:
        """Lets go of range, span and token; columns and zoom stay."""
        self.set_time_range(None)
        self.set_span(None)
        self.set_token(None)


def _ordered(value: TimeRange | None) -> TimeRange | None:
    return None if value is None else (min(value), max(value))
