"""How much fresh processes differ from each other, and runs of one process: variance components.

One-way analysis of variance with random effects (Searle, Casella & McCulloch, Variance Components, 1992, chapter 3):
the mean square between processes holds the variance within them and n0 times the variance between.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from evprof.core.run_log import RunLog
from evprof.metrics.estimates.estimates import ProcessSpread


@dataclass(frozen=True)
class Components:
    """Standard deviations of process levels, and of runs around the level of theirs, as parts of the mean.

    None where there are too few: two processes, and two runs of one. `means` is the standard deviation of the process
    means as they are, which holds some of what runs scatter by and is never too small; `degrees` are those of it.
    """

    mean: float
    between: float | None
    within: float | None
    means: float | None
    degrees: int


def components(groups: Iterable[Sequence[float]]) -> Components | None:
    """Of the values of each process; None over nothing, or where their mean is not positive."""
    listed = [list(group) for group in groups if group]
    everything = [value for group in listed for value in group]
    if not everything or (mean := fmean(everything)) <= 0:
        return None
    count, processes = len(everything), len(listed)
    spread = sum((value - fmean(group)) ** 2 for group in listed for value in group)
    within = spread / (count - processes) if count > processes else None
    between = None
    if processes > 1:
        square = sum(len(group) * (fmean(group) - mean) ** 2 for group in listed) / (processes - 1)
        typical = (count - sum(len(group) ** 2 for group in listed) / count) / (processes - 1)
        # Without repeats the two cannot be told apart, and all of it counts as between.
        between = math.sqrt(max(0.0, square - (within or 0.0)) / typical) / mean
    means = stdev(map(fmean, listed)) / mean if processes > 1 else None
    return Components(mean, between, None if within is None else math.sqrt(within) / mean, means, processes - 1)


def read_repeatability(noted: Iterable[Any], run: RunLog) -> ProcessSpread | None:
    """What notes called "repeatability" say of the machine, device and dtype of a run, the last of them; None where
    they say nothing."""
    found, model = None, run.info.models.get(run.info.role)
    if model is None or run.info.imported is not None:
        return None
    wanted = (run.info.environment.get("device"), model.device, model.dtype)
    for entry in (entry for notes in noted if isinstance(notes, list) for entry in notes):
        if not isinstance(entry, dict) or tuple(entry.get(key) for key in _PLACE) != wanted:
            continue
        spread, degrees = _number(entry.get("relative_sd")), entry.get("degrees")
        if spread is not None and 0 <= spread < 10 and isinstance(degrees, int) and 0 < degrees < 1 << 31:
            found = ProcessSpread(spread, degrees)
    return found


_PLACE = ("machine", "device", "dtype")


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None
