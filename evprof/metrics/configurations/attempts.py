"""Rows of a suite that were begun more than once: killed, resumed, tried again."""

from __future__ import annotations

from collections.abc import Iterable

from evprof.core.run_log import RunLog


def last_attempts(runs: Iterable[RunLog]) -> list[RunLog]:
    """Runs, of a suite's row that was begun more than once only the last; runs outside suites are all kept."""
    kept: dict[object, RunLog] = {}
    for run in runs:
        info = run.info
        row = (info.cell, info.sample.name, info.sample.prompt, info.repeat, info.role, info.warmup)
        kept[row if info.cell and info.imported is None else info.run_id] = run
    return sorted(kept.values(), key=lambda run: run.run_id)
