"""The runs of a recording that is complete."""

from __future__ import annotations

from evprof.core.recording import RecordLog
from evprof.core.run_book import RunBook
from evprof.core.run_log import RunLog


def saved_runs(recording: RecordLog) -> list[RunLog]:
    """In order of their numbers."""
    book = RunBook(recording)
    book.update()
    return [book.runs[run_id] for run_id in sorted(book.runs)]
