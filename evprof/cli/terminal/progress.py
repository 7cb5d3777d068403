"""What a person sees while a request runs: a bar with rate and time left on a terminal, plain lines elsewhere.

It runs in the process that is being measured, so it draws at most four times a second and only what changed.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

from evprof.cli.terminal.console import Console
from evprof.core.messages import EngineChanged, Message, RunEnded, RunStarted, RunWarned, SetupProgressed
from evprof.core.request import RunRequest
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunBook, RunLog
from evprof.core.units import bytes_text, ms_text
from evprof.metrics.figures.stages import span_ms, wall_ms

REFRESH_S = 0.25


class Bar(Protocol):
    """Where progress is drawn."""

    def show(self, text: str, done: float, total: float | None, unit: str) -> None:
        """What is being done, how far, of how much (None: unknown)."""

    def line(self, text: str) -> None:
        """A line that stays."""

    def close(self) -> None:
        """Takes the bar away."""


class RunProgress:
    """Follows a RunBook and tells a Bar. `update` is called often; it decides itself when to draw."""

    def __init__(self, book: RunBook, request: RunRequest, console: Console) -> None:
        self.environment: dict[str, Any] = {}
        self._book = book
        self._request = request
        self._bar: Bar = TerminalBar() if console.is_terminal else PlainLines(console)
        self._is_terminal = console.is_terminal
        self._told: set[tuple[int, int]] = set()
        self._drawn_at = 0.0
        self._is_stopping = False
        self._loading: SetupProgressed | None = None

    def update(self) -> None:
        """Reads what is new and shows it."""
        messages, changed = self._book.update()
        for message in messages:
            self._tell(message)
        for run_id in changed:
            self._tell_stages(self._book.runs[run_id])
        now = time.monotonic()
        if now - self._drawn_at >= REFRESH_S:
            self._drawn_at = now
            self._draw()

    def tell_stopping(self) -> None:
        """Says, once, that a stop was heard: an import or a long kernel may have to end first."""
        if not self._is_stopping:
            self._is_stopping = True
            self._bar.line("stopping; what was measured is kept (Ctrl-C again ends the program at once)")

    def close(self) -> None:
        """Shows what is left and takes the bar away."""
        self.update()
        self._bar.close()

    def _tell(self, message: Message) -> None:
        match message:
            case RunStarted(run_id=run_id, info=info):
                self._bar.line(f"run {run_id}: {_title(info)} began")
            case RunWarned(run_id=run_id, sentence=sentence):
                self._bar.line(f"run {run_id}: warning: {sentence}")
            case RunEnded(run_id=run_id, status=status, error=error):
                run = self._book.runs[run_id]
                self._tell_stages(run)
                count = len(run.tokens)
                took = f"{count} {'token' if count == 1 else 'tokens'}, {ms_text(wall_ms(run))}"
                self._bar.line(f"run {run_id}: {status}, {took}{f': {error}' if error else ''}")
            case SetupProgressed():
                self._loading = None if 0 < message.total_bytes <= message.done_bytes else message
            case EngineChanged(environment=environment) if environment:
                self.environment = environment

    def _tell_stages(self, run: RunLog) -> None:
        if self._is_terminal:
            return
        for span in run.stages():
            key = (run.run_id, span.span_id)
            if span.is_settled and key not in self._told:
                self._told.add(key)
                self._bar.line(f"run {run.run_id}: {span.role} {span.name} {ms_text(span_ms(span))}")

    def _draw(self) -> None:
        run = next((run for run in reversed(self._book.runs.values()) if not run.info.is_over), None)
        if self._loading is not None:
            done, total = self._loading.done_bytes, self._loading.total_bytes
            self._bar.show(f"loading the {self._loading.role}'s weights", done, total or None, "B")
        elif run is None:
            self._bar.show("starting the engine", 0, None, "")
        else:
            span = run.running_span
            doing = f"{span.role} {span.name}" if span else "between stages"
            total_tokens = self._request.settings.max_new_tokens
            self._bar.show(f"run {run.run_id} · {doing}", len(run.tokens), total_tokens, "tokens")


def _title(info: RunInfo) -> str:
    parts = [info.mode if info.mode == info.role else f"{info.mode}, {info.role}"]
    return ", ".join([*parts, *info.marks, *([f"repeat {info.repeat + 1}"] if info.repeat else [])])


class PlainLines:
    """For logs and pipes: lines as things happen, and loading of weights every tenth."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tenth = -1

    def show(self, text: str, done: float, total: float | None, unit: str) -> None:
        """Only slow loading deserves lines of its own; stages and runs are told when they end."""
        tenth = int(10 * done / total) if unit == "B" and total else -1
        if tenth > self._tenth:
            self._console.note(f"{text}: {bytes_text(done)} of {bytes_text(total)}")
        self._tenth = tenth

    def line(self, text: str) -> None:
        """Prints it."""
        self._console.note(text)

    def close(self) -> None:
        """Nothing to take away."""


class TerminalBar:
    """A bar with rate and time left, by rich, on standard error."""

    def __init__(self) -> None:
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[amount]}", markup=False),
            TimeRemainingColumn(),
            console=RichConsole(stderr=True, highlight=False),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._progress.start()
        self._task = self._progress.add_task("", total=None, amount="")
        self._text = ""

    def show(self, text: str, done: float, total: float | None, unit: str) -> None:
        """Draws the bar; a new text starts a new rate."""
        if text != self._text:
            self._progress.reset(self._task, total=total, description=text)
            self._text = text
        self._progress.update(
            self._task, completed=done, total=total, description=text, amount=self._amount(done, unit)
        )
        self._progress.refresh()

    def line(self, text: str) -> None:
        """Prints a line above the bar."""
        self._progress.console.print(text, markup=False)

    def close(self) -> None:
        """Takes the bar away."""
        self._progress.stop()

    def _amount(self, done: float, unit: str) -> str:
        speed = self._progress.tasks[0].speed
        if unit == "B":
            return f"{bytes_text(done)}{f' · {bytes_text(speed)}/s' if speed else ''}"
        return f"{done:.0f} {unit}{f' · {speed:.1f}/s' if speed else ''}" if unit else ""
