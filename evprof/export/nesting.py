"""Spreads intervals over as few tracks as needed so that on each of them any two are nested or apart.

Trace viewers draw a thread's slices as a stack; two that overlap without nesting would be drawn wrongly or dropped.
"""

from __future__ import annotations

from collections.abc import Sequence


def nested_tracks(intervals: Sequence[tuple[int, int]]) -> list[int]:
    """The track, from 0, of each (start, end), end >= start; earlier ones in the sequence enclose later equal ones.

    First fit in order of start, longest first. Intervals that nest already all get track 0.
    """
    tracks = [0] * len(intervals)
    open_ends: list[list[int]] = []
    order = sorted(range(len(intervals)), key=lambda place: (intervals[place][0], -intervals[place][1]))
    for place in order:
        start, end = intervals[place]
        tracks[place] = _first_fit(open_ends, start, end)
    return tracks


def _first_fit(open_ends: list[list[int]], start: int, end: int) -> int:
    for track, ends in enumerate(open_ends):
        while ends and ends[-1] <= start:
            ends.pop()
        if not ends or ends[-1] >= end:
            ends.append(end)
            return track
    open_ends.append([end])
    return len(open_ends) - 1
