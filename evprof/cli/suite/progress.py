"""What a person sees while a suite is measured: a bar with rate and time left on a terminal, plain lines elsewhere.

Warnings and errors are told once for each cell; at most one plain line a second.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.core.run_info import FAILED
from evprof.core.run_log import RunBook, RunLog
from evprof.run.suites.plan import Row

REFRESH_S = 0.25
LINE_S = 1.0


class SuiteProgress:
    """A Watcher of `evprof.run.suites.suite`. Use as a context, so that the bar goes away."""

    def __init__(self, console: Console, rows: Sequence[Row], done_before: int) -> None:
        """`rows` are those that are left, `done_before` how many of the plan are done already."""
        self._console = console
        self._left = [row.cell.label for row in rows]
        self._next = 0
        self._before = done_before
        self._total = len(rows) + done_before
        self._failures = 0
        self._pace = Pace()
        self._row: Row | None = None
        self._note = ""
        self._said: set[tuple[str, str]] = set()
        self._lined_at = self._drawn_at = 0.0
        self._is_stopping = False
        self._bar: _Bar | None = _Bar() if console.is_terminal else None

    def __enter__(self) -> SuiteProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def begin(self, row: Row, warmup: int) -> None:
        """Shows what is measured."""
        self._row, self._note = row, " · warm-up first" if warmup else ""
        self._draw(0.0)

    def look(self, book: RunBook) -> None:
        """Draws a few times a second."""
        now = time.monotonic()
        if self._bar is not None and now - self._drawn_at >= REFRESH_S:
            self._draw(now)

    def end(self, row: Row, runs: list[RunLog], duration_s: float, warmup: int) -> None:
        """Counts it and says what there is to say."""
        self._pace.note(row.cell.label, duration_s, is_plain=not warmup)
        self._next += 1
        failed = [run for run in runs if run.info.status == FAILED]
        self._failures += bool(failed)
        for run in runs:
            for sentence in run.info.warnings:
                self._say_once(row, f"warning: {sentence}", row.cell.label)
        for run in failed:
            self._say_once(row, f"{run.info.role} failed: {run.info.error}", _title(row))
        now = time.monotonic()
        if self._bar is None and (now - self._lined_at >= LINE_S or not self._remaining):
            self._lined_at = now
            self._console.note(f"{self._counts()} · {_title(row)} · {self._speed()}")

    def skip(self, row: Row) -> None:
        """A row less to wait for."""
        self._next += 1

    def say(self, sentence: str) -> None:
        """A line that stays."""
        if self._bar is not None:
            self._bar.line(sentence)
        else:
            self._console.note(sentence)

    def stopping(self) -> None:
        """Says, once, that a stop was heard."""
        if not self._is_stopping:
            self._is_stopping = True
            self.say("stopping; what was measured is kept (Ctrl-C again ends the program at once)")

    def _say_once(self, row: Row, sentence: str, where: str) -> None:
        if (row.cell.label, sentence) not in self._said:
            self._said.add((row.cell.label, sentence))
            self.say(f"{where}: {sentence}")

    @property
    def _remaining(self) -> list[str]:
        return self._left[self._next :]

    def _counts(self) -> str:
        failures = f" · {self._failures} failed" if self._failures else ""
        return f"{self._before + self._next} of {self._total} rows{failures}"

    def _speed(self) -> str:
        left_s = self._pace.left_s(self._remaining)
        parts = [self._pace.rate_text(), f"{time_text(left_s)} left" if left_s is not None else "time left unknown"]
        return " · ".join(part for part in parts if part)

    def _draw(self, now: float) -> None:
        self._drawn_at = now
        if self._bar is not None and self._row is not None:
            done = self._before + self._next
            self._bar.show(f"{_title(self._row)}{self._note}", done, self._total, f"{self._counts()} · {self._speed()}")


class Pace:
    """How long rows take, by cell, and so how long the others will; rows with a warm-up count only until others do."""

    def __init__(self) -> None:
        self._plain: dict[str, tuple[int, float]] = {}
        self._first: dict[str, tuple[int, float]] = {}

    def note(self, cell: str, duration_s: float, *, is_plain: bool) -> None:
        """A row of that cell took so long; `is_plain`: without a warm-up."""
        kept = self._plain if is_plain else self._first
        count, total = kept.get(cell, (0, 0.0))
        kept[cell] = count + 1, total + duration_s

    def left_s(self, cells: Sequence[str]) -> float | None:
        """Seconds that rows of these cells take as the measured ones did; None before any was measured."""
        known = {cell: total / count for found in (self._first, self._plain) for cell, (count, total) in found.items()}
        if not known:
            return None
        typical = sum(known.values()) / len(known)
        return sum(known.get(cell, typical) for cell in cells)

    def rate_text(self) -> str:
        """Rows a second, or seconds a row, over all rows so far; empty before the first."""
        listed = [*self._plain.values(), *self._first.values()]
        count, total = sum(entry[0] for entry in listed), sum(entry[1] for entry in listed)
        if not count or total <= 0:
            return ""
        return f"{count / total:.1f} rows/s" if count >= total else f"{total / count:.1f} s/row"


def time_text(seconds: float) -> str:
    """ "12 s", "3 min 20 s", "2 h 05 min"."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def _title(row: Row) -> str:
    half = f" ({row.roles[0]})" if row.is_half else ""
    return f"{row.cell.label}{half} · {row.sample.name} · {row.repeat + 1}"


class _Bar:
    """Two lines by rich on standard error: what is measured, and how far it is."""

    def __init__(self) -> None:
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, Progress, TextColumn

        self._progress = Progress(
            BarColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            TextColumn("{task.description}", markup=False),
            console=RichConsole(stderr=True, highlight=False),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._progress.start()
        self._task: Any = self._progress.add_task("", total=None, state="")

    def show(self, text: str, done: int, total: int, state: str) -> None:
        """Draws it."""
        self._progress.update(self._task, completed=done, total=total, description=text, state=state)
        self._progress.refresh()

    def line(self, text: str) -> None:
        """A line above the bar."""
        self._progress.console.print(text, markup=False)

    def close(self) -> None:
        """Takes the bar away."""
        self._progress.stop()
