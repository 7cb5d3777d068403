"""Energy over time from samples of a counter that goes up in steps, or of power; and the energy of a window of it.

Between two steps the energy is interpolated. What is shorter than a step is not known, and neither is what lies further
from the samples than a step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evprof.core.units import NS_PER_S

Interval = tuple[int, int]
"""Half-open [start, end) in ns."""


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The union as intervals that do not touch, in order; empty and backward ones are nothing."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def by_sharers(named: Iterable[tuple[str, Interval]]) -> dict[frozenset[str], list[Interval]]:
    """Who -> the time that was theirs alone: the union of all intervals, cut where somebody begins or ends."""
    listed = [(name, interval) for name, interval in named if interval[1] > interval[0]]
    edges = sorted({edge for _, interval in listed for edge in interval})
    found: dict[frozenset[str], list[Interval]] = {}
    for start, end in itertools.pairwise(edges):
        if names := frozenset(name for name, (low, high) in listed if low <= start and end <= high):
            found.setdefault(names, []).append((start, end))
    return {names: merged(parts) for names, parts in found.items()}


FINEST_NS = NS_PER_S // 10
"""No finer than this, however close two samples lie: devices are read ten times a second, and GPUs' counters go up
every 20 to 100 ms."""

LONGEST_GAP_NS = NS_PER_S
"""Power is integrated across gaps up to this long; a counter knows what happened in longer ones."""

_UJ_PER_J = 1_000_000
_SLOPE_STEPS, _REACH_STEPS = 3, 2


@dataclass(frozen=True)
class _Piece:
    """Samples without a break: `times_ns` where the energy `joules` is known, both rising; at least two."""

    times_ns: npt.NDArray[np.int64]
    joules: npt.NDArray[np.float64]

    @property
    def step_ns(self) -> int:
        return max(FINEST_NS, int(np.median(np.diff(self.times_ns))))

    def holds(self, window: Interval) -> bool:
        """Whether the window lies among the points, or so near that the next step was not to be seen yet."""
        reach = _REACH_STEPS * self.step_ns
        return bool(self.times_ns[0] - reach <= window[0] and window[1] <= self.times_ns[-1] + reach)

    def resolution_ns(self, window: Interval) -> int:
        """The shortest window that can be told, here: the usual step, or a longer one in which the window begins or
        ends."""
        gaps = np.diff(self.times_ns)
        places = np.searchsorted(self.times_ns, window, side="right") - 1
        return max(self.step_ns, *(int(gaps[min(max(place, 0), len(gaps) - 1)]) for place in places))

    def at(self, t_ns: int) -> float:
        """Energy in J at a moment: between two points, or beyond the first or last as the nearest steps go on."""
        times, joules = self.times_ns, self.joules
        if t_ns < times[0]:
            other = min(int(np.searchsorted(times, times[0] + _SLOPE_STEPS * self.step_ns)), len(times) - 1)
            return float(joules[0] - self._slope(0, other) * float(times[0] - t_ns))
        if t_ns > times[-1]:
            other = max(int(np.searchsorted(times, times[-1] - _SLOPE_STEPS * self.step_ns, side="right")) - 1, 0)
            return float(joules[-1] + self._slope(other, len(times) - 1) * float(t_ns - times[-1]))
        return float(np.interp(float(t_ns - times[0]), (times - times[0]).astype(float), joules))

    def _slope(self, first: int, last: int) -> float:
        return float(self.joules[last] - self.joules[first]) / float(self.times_ns[last] - self.times_ns[first])


class EnergyCurve:
    def __init__(self, pieces: Iterable[_Piece]) -> None:
        self._pieces = list(pieces)

    @classmethod
    def of_counter(cls, times_ns: Sequence[int], counts_uj: Sequence[int]) -> EnergyCurve:
        """From a counter in µJ, read at `times_ns`, each later than the last. Where it goes back it was begun again: a
        break."""
        times, counts = np.asarray(times_ns, dtype=np.int64), np.asarray(counts_uj, dtype=np.int64)
        breaks = np.flatnonzero(np.diff(counts) < 0) + 1
        pieces = []
        for its_times, its_counts in zip(np.split(times, breaks), np.split(counts, breaks), strict=True):
            is_new = np.concatenate(([True], np.diff(its_counts) > 0))[: len(its_counts)]
            pieces.append((its_times[is_new], (its_counts[is_new] - its_counts[:1]) / _UJ_PER_J))
        return cls(_Piece(*piece) for piece in pieces if len(piece[0]) > 1)

    @classmethod
    def of_power(cls, times_ns: Sequence[int], power_mw: Sequence[int]) -> EnergyCurve:
        """From power in mW, read at `times_ns`, each later than the last, by the trapezoidal rule; a gap of more than a
        second is a break."""
        times, watts = np.asarray(times_ns, dtype=np.int64), np.asarray(power_mw, dtype=np.float64) / 1000
        breaks = np.flatnonzero(np.diff(times) > LONGEST_GAP_NS) + 1
        pieces = []
        for its_times, its_watts in zip(np.split(times, breaks), np.split(watts, breaks), strict=True):
            if len(its_times) > 1:
                joules = np.diff(its_times) / NS_PER_S * (its_watts[1:] + its_watts[:-1]) / 2
                pieces.append(_Piece(its_times, np.concatenate(([0.0], np.cumsum(joules)))))
        return cls(pieces)

    def energy_j(self, windows: Iterable[Interval]) -> float | None:
        """Energy in J of windows [start, end) in ns, overlaps once.

        None where samples are missing, for no time at all, and when the windows are shorter than as many steps.
        """
        told = [(window, self._piece_of(window)) for window in merged(windows)]
        pieces = [(window, piece) for window, piece in told if piece is not None]
        if not told or len(pieces) < len(told):
            return None
        needed = sum(piece.resolution_ns(window) for window, piece in pieces)
        if sum(end - start for (start, end), _ in pieces) < needed:
            return None
        return sum(piece.at(window[1]) - piece.at(window[0]) for window, piece in pieces)

    def resolution_ns(self, window: Interval) -> int | None:
        """The shortest window that can be told about here; None where samples are missing."""
        piece = self._piece_of(window)
        return None if piece is None else piece.resolution_ns(window)

    def _piece_of(self, window: Interval) -> _Piece | None:
        return next((piece for piece in self._pieces if piece.holds(window)), None)
