"""Files of statistics: no row of them is a run, so what they say stands beside what follows from their own numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evprof.loaders.legacy.checks import FileProblems, finite
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.reading import Preview, Published, RowReader
from evprof.loaders.legacy.rows import LegacyRow

MOST_STEPS = 5_000
"""Steps that are kept of a series."""


class SummaryReader(RowReader):
    """The reader of such a file: its statistics, some of them worked out again, and sentences about them."""

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        self.published, self._sentences = self._summary(preview)

    def _summary(self, preview: Preview) -> tuple[Published, Sequence[str]]:
        """What the file publishes, and sentences about it."""
        raise NotImplementedError

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        """No runs."""
        return []

    def finish(self) -> None:
        """Adds the sentences about the statistics to the file's problems."""
        for sentence in self._sentences:
            self._problems.of_file(sentence)


def known(values: Mapping[str, float | None]) -> dict[str, float]:
    """Those that could be worked out."""
    return {name: value for name, value in values.items() if value is not None}


def ratio(above: object, below: object) -> float | None:
    """One number over another; None unless both are numbers and the second is none of 0."""
    one, other = finite(above), finite(below)
    return None if one is None or not other else one / other
