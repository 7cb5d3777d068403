"""Intervals of time: their union, and who shares which part of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

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
