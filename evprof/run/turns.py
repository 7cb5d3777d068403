"""The schedule of runs that are compared: turns, each with every configuration once, in an order drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from evprof.core.run_info import Turn

T = TypeVar("T")


class TurnSchedule:
    """Numbers the turns of one series, and draws the order of each."""

    def __init__(self, order: random.Random | None = None) -> None:
        """`order` draws the orders and the name of the series."""
        self._order = order or random.Random()
        self.start = Turn(f"{self._order.getrandbits(64):016x}", 0, 0)
        self._number = 0

    def draw(self, configurations: Sequence[T], runs: Callable[[T], int] = lambda _: 1) -> Iterator[tuple[Turn, T]]:
        """The next turn: each configuration with the place of its first run; `runs` gives its number of runs."""
        drawn = self._order.sample(configurations, len(configurations))
        number, place = self._number, 0
        self._number += 1
        for configuration in drawn:
            yield replace(self.start, number=number, place=place), configuration
            place += runs(configuration)
