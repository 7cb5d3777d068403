"""Rows of a suite that were begun more than once: killed, resumed, tried again."""

from __future__ import annotations

from collections.abc import Iterable

from evprof.core.run_log import RunLog


def row_of(run: RunLog) -> object:
    """Which row of its suite a run is; runs of other origins are rows of their own."""
    info = run.info
    if not info.cell or info.imported is not None:
        return info.run_id
    return (info.cell, info.sample.name, info.sample.prompt, info.repeat, info.role, info.warmup)


def last_attempts(runs: Iterable[RunLog]) -> list[RunLog]:
    """Runs, of a suite's row that was begun more than once only the last; runs outside suites are all kept."""
    return sorted({row_of(run): run for run in runs}.values(), key=lambda run: run.run_id)
