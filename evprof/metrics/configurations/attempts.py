"""Rows of a suite that were begun more than once: killed, resumed, tried again."""

from __future__ import annotations

from collections.abc import Iterable

from evprof.core.run_log import RunLog


def last_attempts(runs: Iterable[RunLog]) -> list[RunLog]:
    """Runs, of a suite's row that was begun more than once only the last; runs outside suites are all kept."""
    return sorted({run.info.row: run for run in runs}.values(), key=lambda run: run.run_id)
