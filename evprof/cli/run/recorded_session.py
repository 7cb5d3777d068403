"""A session file being written while requests are carried out, with their progress."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.cli.terminal import program
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress, time_text
from evprof.core.errors import CANCELLED as CANCELLED_CODE
from evprof.core.errors import FAILURE, UsageError, UserError
from evprof.core.installation import missing_package
from evprof.core.protocols import (
    Engine,
    EngineChanged,
    Message,
    RunEnded,
    RunStarted,
    RunWarned,
    SetupProgressed,
    monotonic_ns,
)
from evprof.core.recording import RecordLog
from evprof.core.records import BatchRow
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, RunInfo
from evprof.core.run_log import RunBook, RunLog
from evprof.core.units import count_text, ms_from_ns, ms_text
from evprof.metrics.figures.stages import wall_ms
from evprof.run.processes.interrupts import stop_flag
from evprof.run.processes.runner import LocalRunner, ProcessRunner
from evprof.run.requests import requests_in_turns

SHORT_S = 10.0
"""Of shorter measurements nothing is said beforehand."""


class RunProgress(Progress):
    """Follows a RunBook; `update` is called often and decides itself when to draw."""

    kept = "what was measured"

    def __init__(self, book: RunBook, request: RunRequest, console: Console) -> None:
        super().__init__(console)
        self.environment: dict[str, Any] = {}
        self._book = book
        self._request = request
        self._loading: SetupProgressed | None = None

    def update(self) -> None:
        messages, _ = self._book.update()
        for message in messages:
            self._show(message)
        run = next((run for run in reversed(list(self._book.runs.values())) if not run.info.is_over), None)
        if self._loading is not None:
            title, unit = f"loading the {self._loading.role}'s weights", ""
            done, total = self._loading.done_bytes, self._loading.total_bytes or None
        elif run is None:
            if self._book.runs:
                return  # the next one begins at once
            title, unit, done, total = "starting the engine", "steps", 0, None
        else:
            span = run.running_span
            title = f"run {run.run_id} · {f'{span.role} {span.name}' if span else 'between stages'}"
            unit, done, total = "tokens", len(run.tokens), self._request.settings.max_new_tokens
        self.turn_to(title, unit, total)
        self._done = done
        self.draw()

    def close(self) -> None:
        self.update()
        super().close()

    def _show(self, message: Message) -> None:
        match message:
            case RunStarted(run_id=run_id, info=info) if not self._console.is_brief:
                self.say(f"run {run_id}: {_title(info)} began")
            case RunWarned(run_id=run_id, sentence=sentence):
                self.say(f"run {run_id}: warning: {sentence}", is_warning=True)
            case RunEnded(run_id=run_id, status=status, error=error) if not self._console.is_brief:
                run = self._book.runs[run_id]
                took = f"{count_text(len(run.tokens), 'token')}, {ms_text(wall_ms(run))}"
                self.say(f"run {run_id}: {status}, {took}{f': {error}' if error else ''}")
            case SetupProgressed():
                self._loading = None if 0 < message.total_bytes <= message.done_bytes else message
            case EngineChanged(environment=environment) if environment:
                self.environment = environment


def _title(info: RunInfo) -> str:
    parts = [info.mode if info.mode == info.role else f"{info.mode}, {info.role}"]
    return ", ".join([*parts, *info.marks, *([f"repeat {info.repeat + 1}"] if info.repeat else [])])


def make_engine() -> Engine:
    """The engine of this process, imported when it is needed: that takes seconds. Raises UserError without torch."""
    # The profiler's library reads this variable when it is loaded; it would write "USDT: ... profiler_start" otherwise.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    began_ns = monotonic_ns()
    try:
        from engines.engine import LocalEngine
    except ModuleNotFoundError as error:
        if (error.name or "engines").partition(".")[0] == "engines":
            raise
        raise UserError(missing_package(str(error.name))) from None

    return LocalEngine(import_ms=ms_from_ns(monotonic_ns() - began_ns))


class RecordedSession:
    """A context: on leaving, in any case, what was recorded is in the file and the file is closed."""

    def __init__(
        self,
        path: Path,
        console: Console,
        engine: Callable[[], Engine] | None = None,
        *,
        processes: int = 1,
        timeout_s: float | None = None,
        is_apart: bool = False,
    ) -> None:
        """`path`: a new file, or a session to append to; `processes`: fresh engine processes, one after the other, that
        each get all requests; `timeout_s`: an engine process without progress for so long is ended; `is_apart`: the
        engine has a process of its own in any case. Raises UserError for any other file.
        """
        from evprof.run.session_writer import SessionWriter

        check_place(path)
        self.path = path
        self.problem: str | None = None
        self.is_stopped = False
        self.environment: dict[str, Any] = {}
        self.recording = RecordLog()
        self.book = RunBook(self.recording)
        self._console = console
        # A new file only comes with its first run: a request that cannot start leaves nothing behind.
        self._writer = SessionWriter(self.recording, path, waits_for_run=not path.exists())
        self._next_run_id = self._writer.next_run_id
        self._next_group_id = self._writer.next_group_id
        self._processes = processes
        self._runner: LocalRunner | ProcessRunner
        if is_apart or processes > 1 or timeout_s is not None:
            self._runner = ProcessRunner(program.engine_argv(), self.recording, timeout_s=timeout_s)
        else:
            self._runner = LocalRunner(engine or make_engine, self.recording)

    def __enter__(self) -> RecordedSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None or not issubclass(kind, KeyboardInterrupt):
                self._runner.close()
        finally:
            try:
                self._writer.close()
            except UserError as error:
                # The runs are still in memory: they are printed, and the exit code tells.
                self.problem = error.sentence

    def run(self, *requests: RunRequest) -> None:
        """Carries one request out, or several in turns, in every engine process, with progress shown.

        A request with a run that failed leaves the turns.
        """
        with stop_flag() as stop:
            for number in range(self._processes):
                if self._processes > 1 and isinstance(self._runner, ProcessRunner):
                    self._runner.renew()
                    self._console.note(f"process {number + 1} of {self._processes}")
                self._run_all(requests_in_turns(requests) if len(requests) > 1 else requests, number, stop)
                self.is_stopped = stop.is_set() or self._runner.is_stopping
                if self.is_stopped:
                    break
        self._next_group_id += len(requests)

    def _run_all(self, requests: Sequence[RunRequest], number: int, stop: threading.Event) -> None:
        """The requests in one engine process, which has that number."""
        repeats = max(request.first_repeat + request.repeat for request in requests)
        failed: set[int] = set()
        began_s = time.monotonic()
        for request in requests:
            if stop.is_set() or self._runner.is_stopping:
                return
            if not number and request.turn and request.repeat and not request.turn.place:
                if request.turn.number == 1:
                    self._say_time_left(repeats, time.monotonic() - began_s)
                began_s = time.monotonic()
            if request.group_id in failed:
                continue
            group_id = self._next_group_id + request.group_id - 1
            first_repeat = request.first_repeat + number * repeats
            runs = self._run(replace(request, group_id=group_id, first_repeat=first_repeat))
            if any(run.info.status == FAILED for run in runs):
                failed.add(request.group_id)

    def _say_time_left(self, turns: int, turn_s: float) -> None:
        left_s = turn_s * (turns * self._processes - 1)
        if left_s >= SHORT_S:
            apart = f" in each of {self._processes} processes" if self._processes > 1 else ""
            self._console.note(f"{turns} turns{apart}: about {time_text(left_s)} left")

    def _run(self, request: RunRequest) -> list[RunLog]:
        numbered = replace(request, first_run_id=self._next_run_id)
        progress = RunProgress(self.book, numbered, self._console)

        def look() -> None:
            progress.update()
            if self._runner.is_stopping:
                progress.stopping()

        try:
            self._runner.run(numbered, look)
        finally:
            progress.close()
            self.environment = progress.environment or self.environment
            self._next_run_id = max([self._next_run_id - 1, *self.book.runs]) + 1
        return [run for run_id, run in self.book.runs.items() if run_id >= numbered.first_run_id]

    def saved(self) -> list[RunLog]:
        """Every run of the file, those of earlier commands too; those in memory when nothing could be saved.

        To be asked after leaving.
        """
        return list(self.book.runs.values()) if self.problem or not self.book.runs else read_runs(str(self.path))


@contextmanager
def reserved_place(path: Path) -> Iterator[None]:
    """Inside, no other evprof writes the session at `path`. Raises UserError when one does, and like `check_place`."""
    from evprof.session.presence import reserved

    check_place(path)
    with reserved(path):
        yield


def check_place(path: Path) -> None:
    """Raises UserError unless a session can be made at `path` or continued there."""
    from evprof.session.opening import is_session

    folder = path.absolute().parent
    try:
        path.stat()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UserError(f"-o: '{path}' cannot be used ({error.strerror}); choose another name.") from None
    if path.is_dir() or (path.exists() and not is_session(path)):
        raise UserError(f"-o: '{path}' exists and is no session, so no run can be added to it; name a new file.")
    if not path.exists() and path.suffix.lower() != ".evprof":
        raise UsageError(f"-o: a session's name ends in .evprof; name it '{path.stem}.evprof'.")
    if not folder.is_dir():
        raise UserError(f"-o: there is no folder '{folder}'; make it first.")
    # SQLite keeps its log beside the file, so the folder counts even where the file is there already.
    for place in (folder, path) if path.exists() else (folder,):
        if not os.access(place, os.W_OK):
            raise UserError(f"-o: '{place}' may not be written to; name a file in another folder.")


def read_runs(path: str) -> list[RunLog]:
    """Runs of a session file. Raises UserError for anything else."""
    from evprof.session.opened import open_session

    return list(open_session(Path(path)).runs.values())


def default_session_path() -> Path:
    from evprof.session.autosave import autosave_path

    path = autosave_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"No session can be saved in {path.parent} ({reason}); name one with -o.") from None
    return path


def tidy_autosaved(console: Console) -> None:
    """Clears old autosaved sessions away, and says which programs ended without closing theirs."""
    from evprof.session.autosave import abandoned, clear_away, told, told_removal

    for sentence in (told_removal(clear_away()), told(abandoned())):
        if sentence:
            console.note(sentence)


def note_models(session: RecordedSession, requests: Sequence[RunRequest]) -> None:
    """Adds what the models that ran are built of to the session, for its reports. After leaving the session."""
    ran = {run.info.role for run in session.book.runs.values() if run.info.status == FINISHED}
    choices = dict.fromkeys(
        choice
        for request in requests
        for role in request.roles
        if role in ran and (choice := request.choice_of(role)) is not None
    )
    # Without torch nothing but a script ran here, whose models have no shape.
    if not choices or session.problem or "torch" not in sys.modules:
        return
    from engines.suites.facts import model_facts
    from evprof.session.facts import add_facts

    add_facts(session.path, {"models": model_facts(choices, requests[0].settings)})


def conclude(
    session: RecordedSession,
    console: Console,
    batches: Sequence[BatchRow] = (),
    tell: Callable[..., None] | None = None,
) -> int:
    """Prints what this command's requests left, as it was saved, and where; returns the exit code.

    `tell` prints the runs in place of `print_runs`.
    """
    from evprof.cli.run.text import print_batches, print_runs
    from evprof.metrics.document import session_document

    known = session.saved()
    runs = [run for run in known if run.run_id in session.book.runs]
    if console.is_json:
        console.document(session_document(runs, session.environment or None, known, batches))
    else:
        (tell or print_runs)(runs, console, known)
        print_batches(batches, console)
    if session.problem:
        console.warn(f"evprof: {session.problem}")
        return FAILURE
    console.note(f"session saved: {session.path}")
    return CANCELLED_CODE if session.is_stopped else exit_code(runs)


def exit_code(runs: list[RunLog]) -> int:
    statuses = {run.info.status for run in runs}
    if CANCELLED in statuses:
        return CANCELLED_CODE
    return 0 if statuses == {FINISHED} else FAILURE
