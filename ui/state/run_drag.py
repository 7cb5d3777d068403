"""Runs on their way from the list into a column: what is dragged, and which run that shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QMimeData

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from ui.state.selection import Selection

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
