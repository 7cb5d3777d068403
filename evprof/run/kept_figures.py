"""What a session keeps of runs that have ended beside their rows, worked out of those rows as a reader would."""

from __future__ import annotations

from collections.abc import Iterable

from evprof.core.recording import RecordLog
from evprof.core.rows.row_block import blocks_by_run
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.session.plausible import has_impossible_numbers
from evprof.session.summary_writing import KeptFigures
from evprof.session.validation import readable


def runs_of(recording: RecordLog, infos: Iterable[RunInfo]) -> list[RunLog]:
    """Runs with all their rows."""
    runs = {info.run_id: RunLog(info) for info in infos}
    for stream in recording.streams.values():
        for run_id, block in blocks_by_run(stream, 0, len(stream)):
            runs[run_id].take(*block)
    return list(runs.values())


def kept_figures(runs: Iterable[RunLog]) -> dict[int, KeptFigures]:
    """By run. Of what was not reported as expected no figure is made, as no reader would make one.

    The facts of the runs become those that a reader knows.
    """
    from evprof.metrics.run_summary import COLUMNS, summary_of

    kept: dict[int, KeptFigures] = {}
    for run in runs:
        if (info := readable(run.info)) is not None and not has_impossible_numbers(run):
            run.info = info
            kept[run.run_id] = KeptFigures(info, summary_of(run), COLUMNS, is_read=True)
    return kept
