"""Where the person was: views, selections and runs, to go back to and forward again."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import QObject, QTimer

from evprof.view.columns import RunPair
from ui.state.selection import Chosen, Selection, TimeRange

SETTLED_MS = 400
"""A view that lasts this long is one the person was at; those passed on the way to it are not kept."""

MOST_STEPS = 200

NOTHING: RunPair = (None, None)


class _Stand(NamedTuple):
    runs: RunPair
    cell: str
    view: TimeRange | None
    chosen: tuple[type | None, Chosen | None]


class ViewHistory(QObject):
    """Notes where the selection stands once it rests."""

    def __init__(
        self, selection: Selection, has_run: Callable[[int], bool] = lambda _: True, parent: QObject | None = None
    ) -> None:
        """`has_run` tells whether a run is there: what was seen of one that is deleted is passed over."""
        super().__init__(parent)
        self._selection = selection
        self._has_run = has_run
        self._stands: list[_Stand] = [self._now()]
        self._place = 0
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(SETTLED_MS)
        self._rest.timeout.connect(self.note)
        for signal in (selection.chosen_changed, selection.view_range_changed, selection.runs_changed):
            signal.connect(self._begin)

    def _begin(self, *_: object) -> None:
        self._rest.start()

    def _now(self) -> _Stand:
        chosen = self._selection.chosen
        # Tuples of two kinds may be equal.
        kind = None if chosen is None else type(chosen)
        return _Stand(self._selection.runs, self._selection.cell, self._selection.view_range, (kind, chosen))

    def note(self) -> None:
        """Keeps where the selection stands now; what lay ahead is let go."""
        self._rest.stop()
        now = self._now()
        if now == self._stands[self._place]:
            return
        if self._stands == [self._stands[0]._replace(runs=NOTHING)]:
            self._stands = [now]  # from what a session shows first there is no way back to the empty window before it
            return
        self._stands = [*self._stands[: self._place + 1], now][-MOST_STEPS:]
        self._place = len(self._stands) - 1

    def back(self) -> None:
        """To where the person was before."""
        self._go(-1)

    def forward(self) -> None:
        """To where the person came back from."""
        self._go(+1)

    def _go(self, by: int) -> None:
        self.note()
        place = self._place + by
        while 0 <= place < len(self._stands) and not self._is_there(self._stands[place]):
            place += by
        if not 0 <= place < len(self._stands):
            return
        self._place = place
        stand = self._stands[place]
        self._selection.set_runs(*stand.runs, cell=stand.cell)
        self._selection.set_view_range(stand.view)
        self._selection.select(stand.chosen[1])
        # Choosing may move the view: the view that was kept is the one to see.
        self._selection.set_view_range(stand.view)
        self._rest.stop()

    def _is_there(self, stand: _Stand) -> bool:
        return stand.runs == NOTHING or any(run_id is not None and self._has_run(run_id) for run_id in stand.runs)

    def forget(self) -> None:
        """Another session: there is no way back into the one before."""
        self._rest.stop()
        self._stands, self._place = [self._now()], 0
