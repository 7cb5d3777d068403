"""Contenders that take turns: one run after another in random order, so that the machine's unrest falls on all alike.

It knows nothing of models: a contender is something that can be called and returns what its turn took.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evprof.core.protocols import monotonic_ns
from evprof.core.units import NS_PER_MS, NS_PER_S
from evprof.run.turns import TurnSchedule


class UnavailableError(Exception):
    """A contender that this machine or this version of a library cannot run; says why in a sentence."""


@dataclass(frozen=True)
class EngineTurn:
    """One prefill and the decoding after it: times, and the ids that came, the prefill's own among them."""

    prefill_ns: int
    decode_ns: int
    ids: tuple[int, ...]


Runner = Callable[[], EngineTurn]
"""Takes a turn; raises UnavailableError when it cannot, now or any more."""


@dataclass
class ContenderTurns:
    name: str
    turns: dict[int, EngineTurn] = field(default_factory=dict)
    preparation_s: float = 0.0
    spent_s: float = 0.0
    reason: str | None = None

    @property
    def is_measured(self) -> bool:
        return bool(self.turns)

    def token_ms(self) -> list[float]:
        return [turn.decode_ns / NS_PER_MS / max(len(turn.ids) - 1, 1) for turn in self.turns.values()]

    def prefill_ms(self) -> list[float]:
        return [turn.prefill_ns / NS_PER_MS for turn in self.turns.values()]


def spread_of(name: str, values: Sequence[float]) -> dict[str, float | None]:
    """Median and quartiles of values under a name; None without values."""
    low, median, high = np.percentile(values, [25, 50, 75]).tolist() if values else (None, None, None)
    return {name: median, f"{name}_low": low, f"{name}_high": high}


def take_turns(
    runners: Mapping[str, Callable[[], Runner]],
    rounds: int,
    *,
    limit_s: float,
    seed: int = 0,
    note: Callable[[str], None] = lambda _: None,
    clock: Callable[[], int] = monotonic_ns,
) -> dict[str, ContenderTurns]:
    """Prepares every contender (an uncounted turn), then plays `rounds` rounds in random order. A contender stops when
    it fails or has spent `limit_s` seconds."""
    found = {name: ContenderTurns(name) for name in runners}
    ready: dict[str, Runner] = {}
    for name, make in runners.items():
        note(f"engine: preparing {name}")
        runner = _prepare(make, found[name], limit_s, clock)
        if runner is not None:
            ready[name] = runner
    schedule = TurnSchedule(random.Random(seed))
    for index in range(rounds):
        names = [name for name in ready if found[name].reason is None and found[name].spent_s < limit_s]
        for _, name in schedule.draw(names):
            began_ns = clock()
            try:
                found[name].turns[index] = ready[name]()
            except UnavailableError as error:
                found[name].reason = str(error)
            found[name].spent_s += (clock() - began_ns) / NS_PER_S
        step = max(1, rounds // 5)
        if (index + 1) % step == 0 and index + 1 < rounds:
            left_s = sum(series.spent_s for series in found.values()) / (index + 1) * (rounds - index - 1)
            note(f"engine: {index + 1} of {rounds} rounds, about {left_s:.0f} s left")
    return found


def _prepare(
    make: Callable[[], Runner], series: ContenderTurns, limit_s: float, clock: Callable[[], int]
) -> Runner | None:
    began_ns = clock()
    try:
        runner = make()
        runner()
    except UnavailableError as error:
        series.reason = str(error)
        return None
    series.preparation_s = (clock() - began_ns) / NS_PER_S
    if series.preparation_s > limit_s:
        series.reason = f"preparing it took {series.preparation_s:.0f} s, more than the limit of {limit_s:.0f} s"
        return None
    return runner


def paired_ratios(above: ContenderTurns, below: ContenderTurns, quantity: Callable[[EngineTurn], float]) -> list[float]:
    shared = sorted(above.turns.keys() & below.turns.keys())
    return [quantity(above.turns[index]) / quantity(below.turns[index]) for index in shared]


def decode_ns(turn: EngineTurn) -> float:
    return turn.decode_ns / max(len(turn.ids) - 1, 1)


def prefill_ns(turn: EngineTurn) -> float:
    return float(turn.prefill_ns)


def agreement(series: ContenderTurns, reference: ContenderTurns) -> float | None:
    """Share of positions at which the ids equal those of the reference's first turn, in the worst turn; None without
    both."""
    if not series.is_measured or not reference.is_measured:
        return None
    expected = next(iter(reference.turns.values())).ids
    return min(_share_equal(turn.ids, expected) for turn in series.turns.values())


def _share_equal(ids: Sequence[int], expected: Sequence[int]) -> float:
    count = max(len(ids), len(expected))
    return sum(one == other for one, other in zip(ids, expected, strict=False)) / count if count else 1.0
