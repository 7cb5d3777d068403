"""How computing keeps up with sensing: compute time per sensor time, as a curve over a run; arithmetic alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evprof.view.lanes import Floats, Ints

KEEPS_UP = 1.0
"""Above it, work on what was sensed takes longer than sensing it did: a program that goes on like this falls behind."""


class FactorCurve(NamedTuple):
    """Straight lines between moments (ns, ascending) and the compute time so far for each unit of sensor time."""

    times: Ints
    factors: Floats

    @property
    def last(self) -> float:
        """What it came to; 0 before anything was computed."""
        return float(self.factors[-1]) if len(self.factors) else 0.0

    def at(self, t_ns: float) -> float:
        """The factor at a moment; 0 before the first."""
        return float(np.interp(t_ns, self.times, self.factors, left=0.0)) if len(self.times) else 0.0

    def falls_behind_ns(self) -> float | None:
        """The moment at which the factor passes KEEPS_UP; None where it never does."""
        above = np.flatnonzero(self.factors > KEEPS_UP)
        if not len(above):
            return None
        place = int(above[0])
        before, after = self.factors[place - 1], self.factors[place]
        share = (KEEPS_UP - before) / (after - before)
        return float(self.times[place - 1] + share * (self.times[place] - self.times[place - 1]))


def factor_curve(starts: npt.ArrayLike, ends: npt.ArrayLike, sensor_us: int) -> FactorCurve:
    """The curve of work that was done in the intervals [start, end) ns on `sensor_us` (> 0) of sensor time.

    Time that several intervals cover counts once; between them the factor stays.
    """
    merged: list[list[int]] = []
    pairs = zip(np.asarray(starts, dtype=np.int64).tolist(), np.asarray(ends, dtype=np.int64).tolist(), strict=True)
    for start, end in sorted(pairs):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    if not merged:
        return FactorCurve(np.empty(0, dtype=np.int64), np.empty(0))
    times = np.array(merged, dtype=np.int64)
    done = np.cumsum(times[:, 1] - times[:, 0])
    factors = np.stack([done - (times[:, 1] - times[:, 0]), done], axis=1).reshape(-1) / (sensor_us * 1000)
    return FactorCurve(times.reshape(-1), factors)
