"""Whether a machine kept its pace while a suite was measured: totals against the time at which they were measured."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from evprof.core.run_info import REFERENCE
from evprof.core.run_log import RunLog
from evprof.metrics.arithmetic.scaling import FittedLine, fit_line
from evprof.metrics.arithmetic.series import coefficient
from evprof.metrics.configurations.gathering import Configuration, sample_key
from evprof.metrics.figures.stages import END_TO_END, total_ms

LEAST_RUNS = 4
"""Fewer runs tell no trend."""


@dataclass(frozen=True)
class Drift:
    """Totals in ms of one configuration over minutes since its first run, and the line through them.

    `line` gives every sample a level of its own; its slope is in ms per minute, its interval that of runs of which
    neighbours are alike (`series`): a machine's moods are no drift.
    """

    minutes: tuple[float, ...]
    totals_ms: tuple[float, ...]
    line: FittedLine

    @property
    def change(self) -> float:
        """What the line gains from the first run to the last, as a part of the mean."""
        return self.line.change / self.line.mean_y

    @property
    def change_interval(self) -> tuple[float, float] | None:
        """95 % interval of `change`."""
        if self.line.slope_interval is None:
            return None
        low, high = (
            slope * (self.line.high_x - self.line.low_x) / self.line.mean_y for slope in self.line.slope_interval
        )
        return low, high

    @property
    def is_seen(self) -> bool:
        """Whether the trend is more than scatter: its interval leaves 0 out."""
        return self.line.slope_interval is not None and not self.line.holds_zero


def drift_of(column: Configuration, basis: str = END_TO_END) -> Drift | None:
    """The trend of a configuration; None below LEAST_RUNS runs with a total and a time, or when all began at once."""
    found = [
        (began, total, sample_key(run))
        for run in column.runs
        if (began := _began_s(run)) and (total := total_ms(run, basis))
    ]
    if len(found) < LEAST_RUNS:
        return None
    zero = min(began for began, _, _ in found)
    minutes = [(began - zero) / 60 for began, _, _ in found]
    totals = [total for _, total, _ in found]
    line = trend_of(minutes, totals, [key for _, _, key in found])
    return None if line is None else Drift(tuple(minutes), tuple(totals), line)


def trend_of(minutes: Sequence[float], values: Sequence[float], samples: Sequence[Hashable]) -> FittedLine | None:
    """The line through values at their times, in any order, of runs of which neighbours are alike; see `fit_line`."""
    line = fit_line(minutes, values, samples)
    if line is None:
        return None
    order = np.argsort(minutes, kind="stable")
    across = np.asarray(minutes, dtype=np.float64)[order]
    design = np.column_stack((np.ones(len(across)), across - across.mean()))
    up = np.asarray(values, dtype=np.float64)[order]
    return replace(line, slope_interval=coefficient(up, design, 1, [samples[place] for place in order]))


def without_reference(columns: Sequence[Configuration]) -> list[Configuration]:
    """The configurations that are measured for their own sake."""
    return [column for column in columns if column.cell != REFERENCE]


def _began_s(run: RunLog) -> float | None:
    """When a run of ours began, in seconds; an imported run's time is that of its file."""
    if run.info.imported is not None:
        return None
    try:
        return datetime.fromisoformat(run.info.started_at).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
