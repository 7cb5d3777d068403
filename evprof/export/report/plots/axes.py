"""Scales of plots: from values to positions, with ticks at round values; linear and logarithmic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

_LARGE = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Axis:
    """Values `low`…`high` laid over `start`…`end` px (which may run backwards). `is_whole`: between whole numbers there
    is nothing, such as between places in a draft."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False
    is_whole: bool = False

    def at(self, value: float) -> float:
        """Position of a value. What a logarithm does not know lies at the start."""
        if self.is_log:
            if value <= 0:
                return self.start
            share = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, spacing_px: float) -> list[float]:
        """Round values at least about `spacing_px` apart, within the axis."""
        most = max(2, int(abs(self.end - self.start) / spacing_px))
        found = _log_ticks(self.low, self.high, most) if self.is_log else linear_ticks(self.low, self.high, most)
        whole = [value for value in found if value == int(value)]
        if self.is_whole and len(whole) > 1:
            found = whole
        slack = 1e-9 * (self.high - self.low)
        return [value for value in found if self.low - slack <= value <= self.high + slack]


def fitted_axis(
    values: Iterable[float], start: float, end: float, is_log: bool = False, from_zero: bool = True
) -> Axis:
    """An axis over all finite `values` with a little room; a linear one begins at 0 when none is below.

    `from_zero` False lets it begin at the smallest.
    """
    known = [value for value in values if math.isfinite(value) and (value > 0 or not is_log)]
    if not known:
        return Axis(1.0, 10.0, start, end, True) if is_log else Axis(0.0, 1.0, start, end)
    low, high = min(known), max(known)
    if is_log:
        room = max((high / low) ** 0.06, 1.15)
        return Axis(low / room, high * room, start, end, True)
    if from_zero and low >= 0:
        low = 0.0
    room = 0.06 * (high - low) or abs(high) * 0.1 or 1.0
    is_whole = all(value == int(value) for value in known)
    return Axis(low if low == 0 else low - room, high + room, start, end, is_whole=is_whole)


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 × a power of ten in low…high, at most about `most`."""
    step = round_step((high - low) / most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Without the last digits that multiplying leaves: 3 · 0.1 is 0.30000000000000004.
    digits = 2 - math.floor(math.log10(step))
    # Where a step is hardly more than the last digit of its values, two ticks may be one.
    return list(dict.fromkeys(round(count * step, digits) for count in range(first, last + 1)))


def round_step(at_least: float) -> float:
    """The smallest of 1, 2, 5 × a power of ten that is at least `at_least`."""
    if not 1e-300 < at_least < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(at_least))
    return next(leading * power for leading in (1.0, 2.0, 5.0, 10.0, 20.0) if leading * power >= at_least * (1 - 1e-9))


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for leadings in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        found = [leading * 10.0**power for power in range(first, last + 1) for leading in leadings]
        inside = [value for value in found if low <= value <= high]
        if len(inside) <= most:
            # Within less than a decade even 1, 2, 5 may leave nothing to read off.
            return inside if len(inside) >= 2 else linear_ticks(low, high, most)
    stride = math.ceil((last - first) / most)
    return [10.0**power for power in range(first, last + 1, max(1, stride))]


def tick_texts(values: list[float]) -> list[str]:
    """How ticks are written: all with the digits that the closest two need, large ones as 10k, 2M, 3G."""
    if not values:
        return []
    largest = max(map(abs, values))
    short = [tick_text(value, 1000 if largest >= 10_000 else 10_000) for value in values]
    steps = [abs(after - before) for before, after in pairwise(values) if after != before]
    is_even = not steps or max(steps) < 1.5 * min(steps)
    if is_even and largest < 10_000:
        step = min(steps, default=largest or 1.0)
        digits = min(9, max(0, -math.floor(math.log10(step) + 1e-9))) if step else 0
        return [f"{value:.{digits}f}" for value in values]
    # Far from zero a shortened value may be that of its neighbour, too.
    return short if len(set(short)) == len(short) else [f"{value:,.12g}" for value in values]


def tick_text(value: float, short_from: float = 10_000) -> str:
    """One value, shortly: `0.05`, `200`, `10k`, `2M`; thousands as k from `short_from` on."""
    for size, letter in _LARGE:
        if abs(value) >= max(size, short_from):
            return f"{value / size:g}{letter}"
    return f"{value:g}"
