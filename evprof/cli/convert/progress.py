"""What a person sees while recordings are converted: a bar with rate and time left on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

from evprof.cli.suite.progress import time_text
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import REFRESH_S, Bar, PlainLines, TerminalBar
from evprof.run.conversion.step import Step
from evprof.run.conversion.workers import Outcome

LINE_S = 2.0
STEP_LINE_S = 5.0


class ConvertProgress:
    """Watches one conversion, or those of a list. A context manager, so that the bar goes away."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._bar: Bar = TerminalBar() if console.is_terminal else PlainLines(console)
        self._tasks = 1
        self._before = self._done = self._failed = 0
        self._began = time.monotonic()
        self._drawn_at = self._lined_at = 0.0
        self._is_stopping = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def begin(self, tasks: int, done_before: int) -> None:
        """Says how much there is to do."""
        self._tasks, self._before = tasks, done_before
        self._began = time.monotonic()
        done = f", {done_before:,} of them done" if done_before else ""
        self._bar.line(f"{self._title}: {tasks:,} file{'s' * (tasks != 1)} to write{done}")

    def look(self, steps: Sequence[Step]) -> None:
        """Draws a few times a second."""
        now = time.monotonic()
        if not self._console.is_terminal:
            if self._tasks == 1 and steps:
                self._tell_step(steps[0], now)
            return
        if now - self._drawn_at < REFRESH_S:
            return
        self._drawn_at = now
        if self._tasks == 1 and steps:
            step = steps[0]
            self._bar.show(self._title, step.done, step.total, step.unit or "")
        else:
            self._bar.show(f"{self._title}{self._failures()}", self._before + self._done, self._tasks, "files")

    def _tell_step(self, step: Step, now: float) -> None:
        """A line now and then about one long conversion."""
        if now - max(self._lined_at, self._began) < STEP_LINE_S or not step.done:
            return
        self._lined_at = now
        speed = step.done / (now - self._began)
        parts = [f"{step.done:,}{f' of {step.total:,}' if step.total else ''} {step.unit}", f"{speed:,.0f}/s"]
        if step.total:
            parts.append(f"{time_text((step.total - step.done) / speed)} left")
        self._bar.line(f"{self._title}: {' · '.join(parts)}")

    def end(self, outcome: Outcome) -> None:
        """Counts it; what failed is told at once."""
        self._done += 1
        if outcome.error is not None:
            self._failed += 1
            self._bar.line(f"failed: {outcome.error}")
        now = time.monotonic()
        left = self._tasks - self._before - self._done
        if not self._console.is_terminal and self._tasks > 1 and (now - self._lined_at >= LINE_S or not left):
            self._lined_at = now
            speed = self._done / max(now - self._began, 1e-6)
            count = f"{self._before + self._done:,} of {self._tasks:,} files"
            self._bar.line(f"{count}{self._failures()} · {speed:.1f} files/s · {time_text(left / speed)} left")

    def stopping(self) -> None:
        """Says, once, that a stop was heard."""
        if not self._is_stopping:
            self._is_stopping = True
            self._bar.line("stopping; what was finished is kept (Ctrl-C again ends the program at once)")

    def _failures(self) -> str:
        return f" · {self._failed:,} failed" if self._failed else ""
