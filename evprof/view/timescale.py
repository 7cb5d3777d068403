"""Where a moment lies on the screen and back, and which moments deserve a tick; no widget is known here.

Times are ns relative to a run's zero, positions are logical px from the left end of the drawing area.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from evprof.core.units import NS_PER_MS, NS_PER_S

MIN_SPAN_NS = 1_000
"""Closest zoom: one µs across the view."""

LIVE_HEADROOM = 1.35
"""How far beyond its content a live view reaches when it has to grow: it grows seldom, and bars grow in place."""

_US, _MS, _S = 1_000, NS_PER_MS, NS_PER_S


@dataclass(frozen=True)
class Timescale:
    """A visible time range laid over `width_px` logical px. `end_ns` > `start_ns`."""

    start_ns: int
    end_ns: int
    width_px: float

    @property
    def span_ns(self) -> int:
        return self.end_ns - self.start_ns

    @cached_property
    def ns_per_px(self) -> float:
        """Time under one logical px; every picture asks for it many times."""
        return self.span_ns / max(self.width_px, 1.0)

    def x(self, t_ns: float) -> float:
        """Position of a moment; may lie outside the drawing area."""
        return (t_ns - self.start_ns) / self.ns_per_px

    def t(self, x_px: float) -> int:
        return round(self.start_ns + x_px * self.ns_per_px)

    def zoomed(self, factor: float, at_px: float, *, longest_ns: int | None = None) -> Timescale:
        """Shows 1/`factor` as much time; the moment under `at_px` stays where it is unless a limit is reached."""
        span = self.span_ns / factor
        span = max(float(MIN_SPAN_NS), span if longest_ns is None else min(span, float(longest_ns)))
        share = at_px / max(self.width_px, 1.0)
        start = self.t(at_px) - span * share
        return Timescale(round(start), round(start) + round(span), self.width_px)

    def panned(self, by_px: float) -> Timescale:
        """The same length of time, `by_px` further to the right."""
        shift = round(by_px * self.ns_per_px)
        return Timescale(self.start_ns + shift, self.end_ns + shift, self.width_px)

    def within(self, extent: tuple[int, int]) -> Timescale:
        """The same length of time moved so that at least a fifth of it lies inside `extent`."""
        margin = self.span_ns // 5
        low = extent[0] - self.span_ns + margin
        high = extent[1] - margin
        start = min(max(self.start_ns, low), max(high, low))
        return Timescale(start, start + self.span_ns, self.width_px)

    def ticks(self, spacing_px: float = 88.0) -> list[tuple[int, str]]:
        """Moments at a round step about `spacing_px` apart and how to write them; see `tick_step`."""
        step = tick_step(self.ns_per_px * spacing_px)
        first = math.ceil(self.start_ns / step) * step
        return [(t_ns, tick_text(t_ns, step)) for t_ns in range(first, self.end_ns + 1, step)]


def tick_step(at_least_ns: float) -> int:
    """The smallest of 1, 2, 5 × a power of ten that is at least `at_least_ns` ns."""
    power = 10 ** max(0, math.floor(math.log10(max(at_least_ns, 1.0))))
    for leading in (1, 2, 5, 10):
        if leading * power >= at_least_ns:
            return int(leading * power)
    return int(20 * power)


def tick_text(t_ns: int, step_ns: int) -> str:
    """A tick's moment without its unit, in the unit `tick_unit(step_ns)` with the digits the step needs."""
    unit = {"ns": 1, "µs": _US, "ms": _MS, "s": _S}[tick_unit(step_ns)]
    digits = 0
    while step_ns * 10**digits % unit and digits < 9:
        digits += 1
    return f"{t_ns / unit:.{digits}f}".replace("-0", "0") if t_ns == 0 else f"{t_ns / unit:.{digits}f}"


def tick_unit(step_ns: int) -> str:
    """Unit of the axis: ms down to steps of 10 µs, µs below; s from steps of one second."""
    if step_ns >= _S:
        return "s"
    return "ms" if step_ns >= 10 * _US else "µs"


def fitted(extent: tuple[int, int], width_px: float) -> Timescale:
    """Everything of `extent` with a 1.5 % margin at both ends; a millisecond where there is nothing."""
    start, end = extent
    length = max(end - start, NS_PER_MS)
    margin = round(length * 0.015)
    return Timescale(start - margin, start + length + margin, width_px)


def followed(previous: Timescale | None, extent: tuple[int, int], width_px: float) -> Timescale:
    """The view of a run that is still going: kept as it is while the content fits, widened in large steps otherwise."""
    if (
        previous is not None
        and previous.width_px == width_px
        and previous.start_ns <= extent[0]
        and extent[1] <= previous.start_ns + 0.97 * previous.span_ns
        and extent[1] - extent[0] >= 0.35 * previous.span_ns
    ):
        return previous
    length = max(extent[1] - extent[0], 20 * NS_PER_MS)
    return fitted((extent[0], extent[0] + round(length * LIVE_HEADROOM)), width_px)


def around(chosen: tuple[int, int], view: tuple[int, int]) -> tuple[int, int] | None:
    """Where a zoomed view has to move for a range to be seen; None where it is seen already."""
    if view[0] <= chosen[0] and chosen[1] <= view[1]:
        return None
    length = max(view[1] - view[0], 2 * (chosen[1] - chosen[0]))
    middle = (chosen[0] + chosen[1]) // 2
    return middle - length // 2, middle + length // 2


def shows_enough(view: tuple[int, int], extent: tuple[int, int]) -> bool:
    """Whether a view that was chosen over other runs still shows something of these: a tenth of it, or all of them."""
    common = min(view[1], extent[1]) - max(view[0], extent[0])
    return common > 0 and 10 * common >= min(view[1] - view[0], extent[1] - extent[0])


def time_text(t_ns: float, resolution_ns: float = 0.0) -> str:
    """A moment or length in ms with as many digits as `resolution_ns` makes meaningful (0: µs): "66.215 ms"."""
    if abs(t_ns) >= 10 * _S:
        return f"{t_ns / _S:.{_digits(resolution_ns / _S)}f} s"
    return f"{t_ns / _MS:.{_digits(resolution_ns / _MS)}f} ms"


def _digits(resolution: float) -> int:
    if resolution <= 0:
        return 3
    return min(3, max(0, math.ceil(-math.log10(resolution))))
