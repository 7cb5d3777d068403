"""Power over time of one device, ready to draw."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evprof.core.records import PowerRecord

_MW_PER_W = 1000


def power_line(records: Sequence[PowerRecord]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Moments in ns and watts of one device: each value holds until the next moment.

    The power that the device tells, else the mean between two steps of its energy counter. Empty where neither is
    known.
    """
    told = [record for record in records if record.power_mw >= 0]
    if told:
        watts = np.array([record.power_mw for record in told], dtype=np.float64) / _MW_PER_W
        return np.array([record.t_ns for record in told], dtype=np.int64), watts
    counted = [record for record in records if record.energy_uj >= 0]
    steps = [now for before, now in itertools.pairwise(counted) if now.energy_uj != before.energy_uj]
    points = [*counted[:1], *steps]
    times = np.array([point.t_ns for point in points], dtype=np.int64)
    energies = np.array([point.energy_uj for point in points], dtype=np.float64)
    if len(points) < 2:
        return times[:0], energies[:0]
    # µJ by ns are kilowatts.
    watts = np.diff(energies) / np.maximum(np.diff(times), 1) * 1000
    is_forward = watts >= 0  # a counter that was begun again
    return times[:-1][is_forward], watts[is_forward]
