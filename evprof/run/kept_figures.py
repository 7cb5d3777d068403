"""The figures that a session stores with runs that have ended, computed from their rows as a reader would."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evprof.core.recording import RecordLog
from evprof.core.rows.blocks import blocks_by_run
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.session.validation import has_impossible_numbers, readable


def runs_of(recording: RecordLog, infos: Iterable[RunInfo]) -> list[RunLog]:
    runs = {info.run_id: RunLog(info) for info in infos}
    for stream in recording.streams.values():
        for run_id, block in blocks_by_run(stream, 0, len(stream)):
            runs[run_id].take(*block)
    return list(runs.values())


def kept_figures(runs: Iterable[RunLog]) -> dict[int, dict[str, Any]]:
    """By run; without runs whose facts or rows no reader would accept.

    The facts of the runs become those that a reader knows.
    """
    from evprof.metrics.run_summary import summary_of

    kept: dict[int, dict[str, Any]] = {}
    for run in runs:
        if (info := readable(run.info)) is not None and not has_impossible_numbers(run):
            run.info = info
            kept[run.run_id] = summary_of(run)
    return kept
