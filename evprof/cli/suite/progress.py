"""What a person sees while a suite is measured: warnings and errors are told once for each cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress, time_text
from evprof.core.run_book import RunBook
from evprof.core.run_info import FAILED
from evprof.core.run_log import RunLog
from evprof.metrics.figures.throttling import slowed_down
from evprof.run.suites.plan import SuiteRow


class SuiteProgress(Progress):
    """A Watcher of `evprof.run.suites.suite`."""

    kept = "what was measured"
    line_s = 1.0

    def __init__(self, console: Console, rows: Sequence[SuiteRow], done_before: int) -> None:
        """`rows` are those that are left, `done_before` how many of the plan are done already."""
        super().__init__(console, unit="rows")
        self.start(len(rows) + done_before, done_before)
        self._shown_at = 0.0
        self._left = Counter(row.cell.label for row in rows)
        self._at_once = 0
        self._failures = 0
        self._slowed = 0
        self._pace = SuitePace()
        self._said: set[tuple[str, str]] = set()

    def begin(self, row: SuiteRow, warmup: int) -> None:
        """Shows what is measured."""
        self._at_once += 1
        self._pace.note_places(self._at_once)
        self._title = f"{_title(row)}{' · warm-up first' if warmup else ''}"
        if self._bar is not None:
            self.draw(at_once=True)

    def look(self, book: RunBook) -> None:
        """Draws a few times a second."""
        if self._bar is not None:
            self.draw()

    def end(self, row: SuiteRow, runs: list[RunLog], duration_s: float, warmup: int) -> None:
        """Counts it and says what there is to say."""
        self._pace.note(row.cell.label, duration_s, is_plain=not warmup)
        self._done += 1
        self._at_once -= 1
        self._left[row.cell.label] -= 1
        failed = [run for run in runs if run.info.status == FAILED]
        self._failures += bool(failed)
        for run in runs:
            for sentence in run.info.warnings:
                self._say_once(row, f"warning: {sentence}", row.cell.label)
        if slowed_down(runs):
            self._slowed += 1
            said = "warning: A GPU was slowed down in some rows; their times are not what it can do."
            self._say_once(row, said, row.cell.label)
        for run in failed:
            self._say_once(row, f"{run.info.role} failed: {run.info.error}", _title(row))
        if self._bar is None and self.is_due(at_once=not self._left.total()):
            self.tell("", [self.counts(), _title(row), *self.speed()])

    def lose(self, row: SuiteRow, sentence: str) -> None:
        """A row that is begun again."""
        self._at_once -= 1
        self.say(sentence, is_warning=True)

    def skip(self, row: SuiteRow) -> None:
        """A row less to wait for."""
        self._done += 1
        self._left[row.cell.label] -= 1

    def counts(self) -> str:
        """`12 of 20 rows · 1 failed · 2 slowed down`."""
        known = ((self._failures, "failed"), (self._slowed, "slowed down"))
        return " · ".join([super().counts(), *(f"{count} {word}" for count, word in known if count)])

    def speed(self) -> list[str]:
        """By what rows of the same cells took."""
        left_s = self._pace.left_s(self._left)
        left = "time left unknown" if left_s is None else f"{time_text(left_s)} left"
        return [self._pace.rate_text(), left]

    def _say_once(self, row: SuiteRow, sentence: str, where: str) -> None:
        if (row.cell.label, sentence) not in self._said:
            self._said.add((row.cell.label, sentence))
            self.say(f"{where}: {sentence}", is_warning=True)


class SuitePace:
    """How long rows take, by cell, and so how long the others will; rows with a warm-up count only until others do.

    Several places that measure at once take as long for a row each, and together that part of the time.
    """

    def __init__(self) -> None:
        self._places = 1
        self._plain: dict[str, tuple[int, float]] = {}
        self._first: dict[str, tuple[int, float]] = {}

    def note(self, cell: str, duration_s: float, *, is_plain: bool) -> None:
        """A row of that cell took so long; `is_plain`: without a warm-up."""
        kept = self._plain if is_plain else self._first
        count, total = kept.get(cell, (0, 0.0))
        kept[cell] = count + 1, total + duration_s

    def note_places(self, count: int) -> None:
        """So many rows are measured at once."""
        self._places = max(self._places, count)

    def left_s(self, rows: Mapping[str, int]) -> float | None:
        """Seconds that so many rows of each cell take as the measured ones did; None before any was measured."""
        known = {cell: total / count for found in (self._first, self._plain) for cell, (count, total) in found.items()}
        if not known:
            return None
        typical = sum(known.values()) / len(known)
        return sum(known.get(cell, typical) * count for cell, count in rows.items()) / self._places

    def rate_text(self) -> str:
        """Rows a second, or seconds a row, over all rows so far; empty before the first."""
        listed = [*self._plain.values(), *self._first.values()]
        count, total = sum(entry[0] for entry in listed), sum(entry[1] for entry in listed) / self._places
        if not count or total <= 0:
            return ""
        return f"{count / total:.1f} rows/s" if count >= total else f"{total / count:.1f} s/row"


def _title(row: SuiteRow) -> str:
    half = f" ({row.roles[0]})" if row.is_half else ""
    return f"{row.cell.label}{half} · {row.sample.name} · {row.repeat + 1}"
