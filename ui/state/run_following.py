"""Keeps the columns on what is going on: new runs come into view until the person looks at another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QMimeData, QObject

from evprof.core.protocols import Message, RequestEnded, RunStarted
from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.view.columns import RunPair, pair_for
from ui.state.cells import newest_pair, typical_repeat
from ui.state.run_controller import RunController
from ui.state.selection import Selection

_NOWHERE: RunPair = (-1, -1)
"""Where no columns ever are."""


class RunFollowing(QObject):
    """Chooses the runs in the columns when nobody else does."""

    def __init__(self, controller: RunController, selection: Selection) -> None:
        super().__init__(controller)
        self._controller = controller
        self._selection = selection
        self._chosen: RunPair = (None, None)
        self._begun: int | None = None
        self._has_ended = False
        controller.message.connect(self._take)
        controller.ticked.connect(self._follow)
        controller.session_replaced.connect(self._forget)

    @property
    def is_on(self) -> bool:
        """Whether the columns still are where they were put last."""
        return self._selection.runs == self._chosen

    def begin(self) -> None:
        """The next run comes into view, whatever is shown now."""
        self._chosen = self._selection.runs

    def stay(self, *_: object) -> None:
        """The columns stay where they are when the next run begins."""
        self._chosen = _NOWHERE

    def show_run(self, run_id: int) -> None:
        """Puts a run, with its other half if it has one, into the columns."""
        if run_id in self._controller.runs:
            self._selection.set_runs(*pair_for(self._controller.runs, run_id))

    def show_last(self) -> None:
        """Puts the newest run that is no warm-up and no trace into the columns."""
        pair, cell = newest_pair(self._controller.runs)
        if pair != (None, None):
            self._show(pair, cell)

    def _put(self, run_id: int) -> None:
        self._show(pair_for(self._controller.runs, run_id))

    def _show(self, pair: RunPair, cell: str = "") -> None:
        self._chosen = pair
        if pair != self._selection.runs:
            self._selection.set_view_range(None)
            self._selection.set_runs(*pair, cell=cell)

    def _take(self, message: Message) -> None:
        self._has_ended = isinstance(message, RequestEnded)
        if isinstance(message, RunStarted) and not message.info.is_over:
            self._begun = message.run_id

    def _follow(self) -> None:
        """Of all runs that began since the last pull only the newest comes into view; of repeats that ended the one of
        median total."""
        begun, self._begun = self._begun, None
        has_ended, self._has_ended = self._has_ended, False
        runs = self._controller.runs
        shown = next((runs[one] for one in self._selection.runs if one is not None and one in runs), None)
        if begun is not None and begun in runs and self.is_on:
            self._put(begun)
        elif has_ended and self.is_on and shown is not None and not shown.info.cell:
            group = shown.info.group_id
            self._put(typical_repeat(runs, [run_id for run_id, run in runs.items() if run.info.group_id == group]))

    def _forget(self) -> None:
        self._chosen = (None, None)


RUN_MIME = "application/x-evprof-runs"
"""What is dragged: numbers of runs with commas between them."""


def dragged(run_ids: Sequence[int]) -> QMimeData:
    data = QMimeData()
    data.setData(RUN_MIME, ",".join(map(str, run_ids)).encode())
    return data


def runs_dragged(data: QMimeData) -> tuple[int, ...]:
    """The runs that are dragged; () for anything else."""
    text = bytes(data.data(RUN_MIME).data()).decode("ascii", "replace")
    return tuple(int(part) for part in text.split(",") if part.isdecimal() and len(part) < 19)


def matching(runs: Mapping[int, RunLog], run_ids: Sequence[int], beside: int | None) -> int | None:
    """Of the runs of one line the one to show beside another: of the same role; else the target's, or the last."""
    found = [runs[run_id] for run_id in run_ids if run_id in runs]
    other = None if beside is None else runs.get(beside)
    for role in ([other.info.role] if other is not None else []) + [TARGET, DRAFT]:
        mates = [run.run_id for run in found if run.info.role == role]
        if mates:
            return mates[-1]
    return None


def put_run(
    selection: Selection, runs: Mapping[int, RunLog], run_ids: Sequence[int], side: int, *, of_cell: bool
) -> None:
    """Puts a run of one line into column A (0) or B (1) and leaves the other column as it is.

    The two halves of a run that fills both columns make way together, and no run stands in both beside itself: the
    other column stays empty then.
    `of_cell`: the run stands for its cell, as the one beside it does.
    """
    pair = selection.runs
    beside = pair[1 - side] if pair[0] != pair[1] else None
    run_id = matching(runs, run_ids, pair[1 - side])
    if run_id is not None:
        beside = None if beside == run_id else beside
        cell = runs[run_id].info.cell if of_cell else ""
        selection.set_runs(*((run_id, beside) if side == 0 else (beside, run_id)), cell=cell)
