"""Progress of a command: a bar with rate and time left on a terminal, plain lines elsewhere.

It runs in the process that is being measured, so it draws at most four times a second.
"""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.core.protocols import Closing
from evprof.core.units import bytes_text
from evprof.run.processes.interrupts import stop_flag
from evprof.run.works.work_form import WorkProgress

REFRESH_S = 0.25


class Progress(Closing):
    """Counts one kind of thing up to a total (None: unknown). A context manager, so that the bar goes away.

    Subclasses are listeners of the work. `kept` is what remains after a stop; without a terminal there is a line every
    `line_s` seconds.
    """

    kept = "what is done"
    line_s = 5.0

    def __init__(self, console: Console, title: str = "", unit: str = "") -> None:
        self._console = console
        self._bar = _Bar(console) if console.is_terminal or console.is_followed else None
        self._title, self._unit = title, unit
        self._total: int | None = 0
        self._before = self._done = 0
        self._began = self._shown_at = time.monotonic()
        self._is_stopping = False

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def start(self, total: int | None, before: int = 0) -> None:
        """Begins to count to `total`; `before` are done already."""
        self._total, self._before, self._done = total, before, 0
        self._began = self._shown_at = time.monotonic()

    def turn_to(self, title: str, unit: str, total: int | None) -> None:
        """Counts something else from now on, unless it is counted already."""
        if (title, unit, total) != (self._title, self._unit, self._total):
            self._title, self._unit = title, unit
            self.start(total)

    def reach(self, done: int, note: str = "") -> None:
        """Sets the count, without those done before; `note` stands beside it."""
        self._done = done
        self.draw(note, at_once=self._total is not None and self._before + done >= self._total)

    def advance(self, note: str = "") -> None:
        self.reach(self._done + 1, note)

    def draw(self, note: str = "", *, at_once: bool = False) -> None:
        if self.is_due(at_once=at_once):
            self.tell(self._title, [self.counts(), *self.speed(), note])

    def is_due(self, *, at_once: bool = False) -> bool:
        """Whether to draw the bar or to write a line now; True starts the time to the next."""
        now = time.monotonic()
        if now - self._shown_at < (self.line_s if self._bar is None else REFRESH_S) and not at_once:
            return False
        self._shown_at = now
        return True

    def tell(self, title: str, parts: list[str]) -> None:
        """Draws the bar, or writes a line: a title and the parts of the count."""
        text = " · ".join(part for part in parts if part)
        if self._bar is None:
            self.say(f"{title}: {text}" if title else text)
        else:
            self._bar.show(WorkProgress(title, self._before + self._done, self._total, text))

    def counts(self) -> str:
        """`12 of 20 files`; "" before the first where the total is unknown."""
        if self._total is None and not self._done:
            return ""
        at = self._amount(self._before + self._done)
        return f"{at}{'' if self._total is None else f' of {self._amount(self._total)}'} {self._unit}".rstrip()

    def speed(self) -> list[str]:
        if not self._done:
            return []
        speed = self._done / max(time.monotonic() - self._began, 1e-6)
        rate = bytes_text(speed) if self._unit == "" else f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}"
        if self._total is None:
            return [f"{rate}/s"]
        return [f"{rate}/s", f"{time_text((self._total - self._before - self._done) / speed)} left"]

    def say(self, sentence: str, *, is_warning: bool = False) -> None:
        if self._bar is None:
            (self._console.warn if is_warning else self._console.note)(sentence)
        else:
            self._bar.line(sentence)

    def stopping(self) -> None:
        """Says once that a stop is under way: an import or a long kernel may have to end first."""
        if not self._is_stopping:
            self._is_stopping = True
            self.say(f"stopping; {self.kept} is kept (Ctrl-C again ends the program at once)")

    def until_stopped(self) -> AbstractContextManager[threading.Event]:
        """A flag that the first Ctrl-C sets, which is reported."""
        return stop_flag(self.stopping)

    def _amount(self, count: int) -> str:
        """A number of things, or of bytes where they have no unit."""
        return f"{count:,}" if self._unit else bytes_text(count)


def time_text(seconds: float) -> str:
    """ "12 s", "3 min 20 s", "2 h 05 min"."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


class _Bar:
    """A bar of rich on standard error, with the count and the current work; a following program gets lines instead."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Any = None
        if console.is_followed:
            return
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._progress = RichProgress(
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
        self._task = self._progress.add_task("", total=None, state="")

    def show(self, progress: WorkProgress) -> None:
        if self._progress is None:
            self._console.follow(progress.line())
            return
        self._progress.update(
            self._task, completed=progress.done, total=progress.total, description=progress.title, state=progress.state
        )
        self._progress.refresh()

    def line(self, text: str) -> None:
        if self._progress is None:
            self._console.note(text)
        else:
            self._progress.console.print(text, markup=False)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
