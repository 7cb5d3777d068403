"""What a person sees while a request runs: its runs, stages and warnings as they happen, and how far it is."""

from __future__ import annotations

from typing import Any

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.messages import SILENT, EngineChanged, Message, RunEnded, RunStarted, RunWarned, SetupProgressed
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.run_info import RunInfo
from evprof.core.units import bytes_text, ms_text
from evprof.metrics.figures.stages import wall_ms

_LONG_BYTES = 256 << 20
"""Weights of less are there before a line about them is read."""


class RunProgress(Progress):
    """Follows a RunBook. `update` is called often; it decides itself when to draw.

    Without a terminal runs are told when they begin and end, and every tenth of loading that takes long.
    """

    kept = "what was measured"

    def __init__(self, book: RunBook, request: RunRequest, console: Console) -> None:
        super().__init__(console)
        self.environment: dict[str, Any] = {}
        self._book = book
        self._request = request
        self._tenth = -1
        self._loading: SetupProgressed | None = None

    def update(self) -> None:
        """Reads what is new and shows it."""
        messages, _ = self._book.update()
        for message in messages:
            self._hear(message)
        if self._bar is None:
            self._tell_loading()
        else:
            self._draw()

    def close(self) -> None:
        """Shows what is left and takes the bar away."""
        self.update()
        self.__exit__(None, None, None)

    def _hear(self, message: Message) -> None:
        match message:
            case RunStarted(run_id=run_id, info=info) if not self._console.is_brief:
                self.say(f"run {run_id}: {_title(info)} began")
            case RunWarned(run_id=run_id, sentence=sentence):
                self.say(f"run {run_id}: warning: {sentence}", is_warning=True)
            case RunEnded(run_id=run_id, status=status, error=error) if not self._console.is_brief:
                run = self._book.runs[run_id]
                count = len(run.tokens)
                took = f"{count} {'token' if count == 1 else 'tokens'}, {ms_text(wall_ms(run))}"
                self.say(f"run {run_id}: {status}, {took}{f': {error}' if error else ''}")
            case SetupProgressed():
                self._loading = None if 0 < message.total_bytes <= message.done_bytes else message
            case EngineChanged(state=state, sentence=sentence) if state == SILENT:
                self.say(f"{sentence} Ctrl-C stops it; a second Ctrl-C ends the program at once.")
            case EngineChanged(environment=environment) if environment:
                self.environment = environment

    def _tell_loading(self) -> None:
        found = self._loading
        takes_long = found is not None and found.total_bytes >= _LONG_BYTES
        tenth = 10 * found.done_bytes // found.total_bytes if found is not None and takes_long else -1
        if found is not None and tenth > self._tenth:
            done, total = bytes_text(found.done_bytes), bytes_text(found.total_bytes)
            self.say(f"loading the {found.role}'s weights: {done} of {total}")
        self._tenth = tenth

    def _draw(self) -> None:
        run = next((run for run in reversed(list(self._book.runs.values())) if not run.info.is_over), None)
        if self._loading is not None:
            title, unit = f"loading the {self._loading.role}'s weights", ""
            done, total = self._loading.done_bytes, self._loading.total_bytes or None
        elif run is None:
            title, unit, done, total = "starting the engine", "steps", 0, None
        else:
            span = run.running_span
            title = f"run {run.run_id} · {f'{span.role} {span.name}' if span else 'between stages'}"
            unit, done, total = "tokens", len(run.tokens), self._request.settings.max_new_tokens
        self.turn_to(title, unit, total)
        self.reach(done)


def _title(info: RunInfo) -> str:
    parts = [info.mode if info.mode == info.role else f"{info.mode}, {info.role}"]
    return ", ".join([*parts, *info.marks, *([f"repeat {info.repeat + 1}"] if info.repeat else [])])
