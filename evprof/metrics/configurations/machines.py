"""On which machine runs were made, and which runs of two sides one machine made for both."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from evprof.core.run_info import PLACE, RunInfo

T = TypeVar("T")

_TOLD_BY = (PLACE, "processor", "device", "cpus")


def machine_of(info: RunInfo) -> str:
    """What a run tells of its machine: its name where a suite had several, processor, device, number of processors.

    "" where it tells none of them.
    """
    return " · ".join(str(told) for key in _TOLD_BY if (told := info.environment.get(key)) is not None)


def on_common_machines(
    one: Iterable[T], two: Iterable[T], machine: Callable[[T], str], sample: Callable[[T], Hashable]
) -> tuple[list[T], list[T]]:
    """Those of both sides whose machine measured their sample for both: pairs are then within a machine.

    Everything where all are of one machine, and where no machine measured a sample for both.
    """
    sides = list(one), list(two)
    if len({machine(entry) for side in sides for entry in side}) > 1:
        first, second = ({(machine(entry), sample(entry)) for entry in side} for side in sides)
        if both := first & second:
            kept = [[entry for entry in side if (machine(entry), sample(entry)) in both] for side in sides]
            return kept[0], kept[1]
    return sides
