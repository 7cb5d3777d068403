"""A recording without a camera, made as moving edges leave it: bursts of neighbours in a row, with noise between."""

from __future__ import annotations

import numpy as np

from evprof.core.events import EventArray

WIDTH, HEIGHT = 640, 480
SPAN_US = 9_720_000
"""Of 10 million events: about a million a second."""

_BURST_SHARE = 0.8
_SHORTEST, _LONGEST = 8, 48


def moving_edges(count: int, seed: int = 7) -> EventArray:
    """`count` events in time order, 80 % of them in bursts of 8 to 47 neighbours that share time, row and polarity.

    The rate is always that of 10 million events in 9.72 s. The same arguments give the same events.
    """
    chance = np.random.default_rng(seed)
    span_us = max(1, SPAN_US * count // 10_000_000)
    in_bursts = int(count * _BURST_SHARE)
    lengths = chance.integers(_SHORTEST, _LONGEST, in_bursts // _SHORTEST + 1)
    bursts = int(np.searchsorted(np.cumsum(lengths), in_bursts)) + 1
    lengths = lengths[:bursts]
    place = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)

    def column(burst_limit: int, limit: int, *, is_place_added: bool = False) -> np.ndarray:
        of_bursts = np.repeat(chance.integers(0, burst_limit, bursts), lengths)
        if is_place_added:
            of_bursts += place
        return np.concatenate((of_bursts[:in_bursts], chance.integers(0, limit, count - in_bursts)))

    t_us = column(span_us, span_us)
    x = column(WIDTH - _LONGEST, WIDTH, is_place_added=True)
    y, p = column(HEIGHT, HEIGHT), column(2, 2)
    order = np.argsort(t_us, kind="stable")
    return EventArray(x[order].astype(np.uint16), y[order].astype(np.uint16), t_us[order], p[order].astype(np.uint8))
