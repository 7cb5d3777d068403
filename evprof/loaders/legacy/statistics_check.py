"""A file's own statistics computed again from its rows: with every row, and without those that warmed up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from evprof.loaders.legacy.checks import FileProblems
from evprof.loaders.legacy.reading import Statistic
from evprof.loaders.legacy.rows import LegacyRow

TOLERANCE = 1e-6
"""Share by which a statistic may differ from what its rows give: the files print floats in full."""

WORTH_TELLING = 5e-3
"""Share by which warm-up has to move an average to be told."""


@dataclass
class _Sums:
    """Running sums of one number over rows; shifted by its first value so that a small spread is not lost."""

    count: int = 0
    shift: float = 0.0
    total: float = 0.0
    squares: float = 0.0
    largest: float = -math.inf

    def add(self, value: float) -> None:
        if not self.count:
            self.shift = value
        self.count += 1
        self.total += value - self.shift
        self.squares += (value - self.shift) ** 2
        self.largest = max(self.largest, value)

    @property
    def mean(self) -> float | None:
        return self.shift + self.total / self.count if self.count else None

    def of_kind(self, kind: str) -> float | None:
        if kind == "count":
            return float(self.count)
        if not self.count:
            return None
        if kind == "max":
            return self.largest
        if kind == "sum":
            return self.shift * self.count + self.total
        if kind == "std":
            return math.sqrt(max(0.0, self.squares / self.count - (self.total / self.count) ** 2))
        return self.mean


@dataclass
class Recomputed:
    """Takes rows in; afterwards tells every statistic as its rows give it. `computed` are those of the reader's own."""

    wanted: Mapping[str, Statistic]
    computed: Mapping[str, float] = field(default_factory=dict)
    _all: dict[tuple[str, str], _Sums] = field(default_factory=dict)
    _steady: dict[tuple[str, str], _Sums] = field(default_factory=dict)
    _keys: dict[str, set[str]] = field(default_factory=dict)
    _indexed: int = 0

    def add(self, row: LegacyRow) -> None:
        """One row's values. More may be wanted than of the row before: a file's next benchmark has its own."""
        if len(self.wanted) != self._indexed:
            for statistic in self.wanted.values():
                keys = self._keys.setdefault(statistic.side, set())
                keys.update(key for key in (statistic.key, statistic.over) if key)
            self._indexed = len(self.wanted)
        for key in self._keys.get(row.side, ()):
            value = row.values.get(key)
            if value is None:
                continue
            self._all.setdefault((row.side, key), _Sums()).add(value)
            if not row.is_warmup and (value or not _is_never_zero(key)):
                self._steady.setdefault((row.side, key), _Sums()).add(value)

    def values(self, *, is_steady: bool) -> dict[str, float]:
        """Statistic -> value; when `is_steady` without warm-up rows, and without times and lengths of 0.0, which nobody
        measured. Those over nothing are left out."""
        sums = self._steady if is_steady else self._all
        found = {name: _value(sums, statistic) for name, statistic in self.wanted.items()}
        own = {} if is_steady else dict(self.computed)
        return own | {name: value for name, value in found.items() if value is not None}

    def over_nothing(self, told: Mapping[str, float]) -> set[str]:
        """The statistics of a file that are 0 because no row was measured: times and lengths, and their spreads."""
        steady = self.values(is_steady=True)
        zeros = {name for name, value in told.items() if value == 0.0 and _is_time_average(name)}
        empty = {name for name in zeros if name not in steady}
        spreads = {name.removesuffix(end) + "_std" for name in empty for end in ("_avg", "_mean") if name.endswith(end)}
        return empty | {name for name in spreads if told.get(name) == 0.0}

    def compare(self, told: Mapping[str, float], problems: FileProblems) -> None:
        """Tells what does not agree with the rows, and what warm-up moved."""
        everything, steady = self.values(is_steady=False), self.values(is_steady=True)
        for name, value in told.items():
            own = everything.get(name)
            if own is not None and abs(value - own) > TOLERANCE * max(abs(value), abs(own), 1e-12):
                problems.of_file(f"{name} is {value:.6g} in the file, but its rows give {own:.6g}")
        self._tell_warmup(told, everything, steady, problems)

    def _tell_warmup(
        self, told: Mapping[str, float], everything: dict[str, float], steady: dict[str, float], problems: FileProblems
    ) -> None:
        moved: dict[str, tuple[float, str]] = {}
        for name, statistic in self.wanted.items():
            with_it, without = everything.get(name), steady.get(name)
            if not _is_time_average(name) or name not in told or not with_it or not without:
                continue
            share = with_it / without - 1
            if abs(share) > max(WORTH_TELLING, moved.get(statistic.side, (0.0, ""))[0]):
                moved[statistic.side] = (abs(share), f"{name} is {with_it:.6g} with it, {without:.6g} without")
        for _, sentence in moved.values():
            problems.of_file(f"The file's averages take its warm-up in: {sentence}")


def _is_never_zero(key: str) -> bool:
    """Whether a value of 0 under this key stands for one that is missing."""
    return key.rsplit(".", 1)[-1].endswith(("_time", "_ms", "_length", "_len")) and "overlap" not in key


def _is_time_average(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    return last.endswith(("_time_avg", "_length_avg", "_ms_mean", "_ms")) and "overlap" not in last


def _value(sums: Mapping[tuple[str, str], _Sums], statistic: Statistic) -> float | None:
    own = sums.get((statistic.side, statistic.key), _Sums())
    if statistic.kind != "rate":
        return own.of_kind(statistic.kind)
    over = sums.get((statistic.side, statistic.over), _Sums())
    return own.mean / over.mean if own.mean is not None and over.mean else None
