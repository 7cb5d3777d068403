"""Files of statistics: no row of them is a run, so what they say stands beside what follows from their own numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from evprof.loaders.legacy.checks import FileProblems, finite
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.reading import Preview, Published, RowReader, StepSeries
from evprof.loaders.legacy.rows import LegacyRow

MOST_STEPS, MOST_SERIES = 5_000, 40
"""Steps that are kept of a series, and series of a file."""


@dataclass(frozen=True)
class StepList:
    """A list whose entries are steps of something: where it stands, of what, and the key that only counts them."""

    place: Place
    axis: str
    counter: str = ""


class SummaryReader(RowReader):
    """The reader of such a file: its statistics, some of them worked out again, and sentences about them."""

    _steps: StepList | None = None

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        self.published, self._sentences = self._summary(preview)
        self._rows: list[object] = []

    def _summary(self, preview: Preview) -> tuple[Published, Sequence[str]]:
        """What the file publishes, and sentences about it."""
        raise NotImplementedError

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        """No runs; steps are kept for `finish`."""
        if self._steps is not None and place == self._steps.place and number < MOST_STEPS:
            self._rows.append(raw)
        return []

    def finish(self) -> None:
        """Tells what the statistics are of."""
        if self._steps is not None:
            self.published.series = series_of(self._steps.axis, columns_of(self._rows, self._steps.counter))
        for sentence in self._sentences:
            self._problems.of_file(sentence)


def known(values: Mapping[str, float | None]) -> dict[str, float]:
    """Those that could be worked out."""
    return {name: value for name, value in values.items() if value is not None}


def ratio(above: object, below: object) -> float | None:
    """One number over another; None unless both are numbers and the second is none of 0."""
    one, other = finite(above), finite(below)
    return None if one is None or not other else one / other


def difference(one: object, other: object) -> float | None:
    """One number less another; None unless both are."""
    first, second = finite(one), finite(other)
    return None if first is None or second is None else first - second


def series_of(axis: str, lists: Mapping[str, object]) -> StepSeries | None:
    """The lists of numbers among these, shortened to what is kept; None without one."""
    values = {
        str(name)[:80]: [finite(entry) for entry in listed[:MOST_STEPS]]
        for name, listed in lists.items()
        if isinstance(listed, list) and any(finite(entry) is not None for entry in listed)
    }
    return StepSeries(axis, dict(list(values.items())[:MOST_SERIES])) if values else None


def columns_of(rows: Iterable[object], counter: str = "") -> dict[str, list[object]]:
    """Rows of numbers as one list per key, without the key that only counts them."""
    listed = [row for row in rows if isinstance(row, dict)]
    keys = dict.fromkeys(chain.from_iterable(listed))
    return {key: [row.get(key) for row in listed] for key in list(keys)[:MOST_SERIES] if key != counter}
