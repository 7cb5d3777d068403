"""A contrast-threshold event sensor: log intensity in, timed polarity changes out.

An ideal sensor (E. Mueggler et al. 2017; H. Rebecq et al. 2018): a pixel fires each time its log intensity has moved by
the threshold C since its last event. Between two samples log intensity is taken as linear in time, so event times are
exact for such ramps. Shot noise is added apart, in :func:`background`.

Users' videos go through `evprof.loaders.simulation`. This one stays because the bundled models were trained on exactly
what it gives, and that one differs in the last bit: float64 levels, and times rounded up instead of to the nearest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Parallel arrays in time order: pixel x, y; time in microseconds; polarity 1 (brighter) or 0 (darker)."""

    x: NDArray[np.uint16]
    y: NDArray[np.uint16]
    t_us: NDArray[np.int64]
    p: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.t_us)


def simulate(frames: Iterable[tuple[float, NDArray[np.float32]]], threshold: float) -> EventColumns:
    """Events of (time in microseconds, log intensity [H, W]) samples; the first one sets every pixel's reference."""
    pieces: list[EventColumns] = []
    previous_us = 0.0
    previous: NDArray[np.float32] | None = None
    reference: NDArray[np.float32] | None = None
    for time_us, level in frames:
        if previous is None or reference is None:
            reference = level.astype(np.float32, copy=True)
        else:
            pieces.append(_step(reference, previous, level, (previous_us, time_us), threshold))
        previous, previous_us = level, time_us
    return merge(pieces)


def _step(
    reference: NDArray[np.float32],
    previous: NDArray[np.float32],
    level: NDArray[np.float32],
    span_us: tuple[float, float],
    threshold: float,
) -> EventColumns:
    """Events between two samples; moves ``reference`` on by the thresholds crossed."""
    start_us, end_us = span_us
    change = (level - reference) / threshold
    # A change of exactly k thresholds is k events, whatever the last bit of the division says.
    count = np.floor(np.abs(change) + 1e-4).astype(np.int32)
    y, x = np.nonzero(count)
    crossings = count[y, x]
    sign = np.sign(change[y, x]).astype(np.float32)
    owner = np.repeat(np.arange(len(y)), crossings)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(crossings) - crossings, crossings) + 1
    crossed = reference[y, x][owner] + sign[owner] * nth * np.float32(threshold)
    rise = level[y, x] - previous[y, x]
    slope = np.where(rise == 0.0, np.float32(1.0), rise)[owner]
    fraction = np.clip((crossed - previous[y, x][owner]) / slope, 0.0, 1.0)
    time_us = np.rint(start_us + fraction * (end_us - start_us)).astype(np.int64)
    reference[y, x] += sign * crossings * np.float32(threshold)
    return EventColumns(
        x[owner].astype(np.uint16), y[owner].astype(np.uint16), time_us, (sign[owner] > 0).astype(np.uint8)
    )


def background(rng: np.random.Generator, count: int, width: int, height: int, duration_us: int) -> EventColumns:
    """``count`` noise events, uniform over pixels, time and polarity."""
    return EventColumns(
        rng.integers(width, size=count).astype(np.uint16),
        rng.integers(height, size=count).astype(np.uint16),
        rng.integers(duration_us, size=count),
        rng.integers(2, size=count).astype(np.uint8),
    )


def merge(pieces: Iterable[EventColumns]) -> EventColumns:
    """All events in time order; events of one microsecond keep the order they came in."""
    kept = list(pieces)
    if not kept:
        return background(np.random.default_rng(0), 0, 1, 1, 1)
    t_us = np.concatenate([piece.t_us for piece in kept])
    order = np.argsort(t_us, kind="stable")
    x, y, p = (np.concatenate([getattr(piece, name) for piece in kept])[order] for name in ("x", "y", "p"))
    return EventColumns(x, y, t_us[order], p)
