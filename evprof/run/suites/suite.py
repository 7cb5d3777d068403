"""Measures the rows of a suite, one after the other, into a session that can be continued after any of them.

It asks an engine for one row at a time and reads what became of it. What is measured in which order is `plan`,
what is kept about it `record`; who watches is told through a `SuiteWatcher`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from evprof.core.errors import UserError
from evprof.core.protocols import Engine
from evprof.core.recording import RecordLog
from evprof.core.run_book import RunBook
from evprof.core.run_info import CANCELLED, FAILED
from evprof.core.run_log import RunLog
from evprof.run.noted_baselines import note_baselines
from evprof.run.processes.interrupts import first_interrupt
from evprof.run.processes.process_runner import ProcessRunner
from evprof.run.processes.runner import LocalRunner
from evprof.run.session_writer import SessionWriter
from evprof.run.suites.cooldown import CoolingPause
from evprof.run.suites.plan import INTERLEAVED, SuitePlan, SuiteRow, WarmUps
from evprof.run.suites.record import PATIENCE, SUITE, RowOutcomes
from evprof.run.suites.video_trials import VideoTrials
from evprof.run.works.offers import SUITE_SESSION
from evprof.session.presence import ENDING

ROWS_IN_MEMORY = 100
"""Rows after which what was recorded is freed: it is in the file."""

FLUSH_S = 30.0

FRAMES_FOLDER = "event-frames"
"""Below a suite's folder: drawn for cells whose video model is to see the events."""


class SuiteWatcher(Protocol):
    """Who is told how a suite goes."""

    def begin(self, row: SuiteRow, warmup: int) -> None:
        """A row is measured next, after so many warm-up runs."""

    def look(self, book: RunBook) -> None:
        """Called about twenty times a second while it is."""

    def end(self, row: SuiteRow, runs: list[RunLog], duration_s: float, warmup: int) -> None:
        """It is over, however."""

    def skip(self, row: SuiteRow) -> None:
        """A row is passed over: its cell has failed too often."""

    def say(self, sentence: str) -> None:
        """Something a person should know."""

    def stopping(self) -> None:
        """A stop was heard."""


@dataclass
class SuiteEnd:
    """What became of the rows of this call."""

    measured: int = 0
    failed: int = 0
    is_stopped: bool = False
    problems: list[str] = field(default_factory=list)


class SuiteDriver:
    """Measures what is left of a plan. One call of `run` per driver."""

    def __init__(
        self,
        plan: SuitePlan,
        path: Path,
        make_engine: Callable[[], Engine],
        watcher: SuiteWatcher,
        *,
        progress: RowOutcomes | None = None,
        retry_failed: bool = False,
        rows_in_memory: int = ROWS_IN_MEMORY,
        processes: Sequence[str] = (),
        timeout_s: float | None = None,
        trials: VideoTrials | None = None,
    ) -> None:
        """`progress` knows what the session at `path` holds already; `processes` is the argument list of an engine
        process, for a plan that wants several or a `timeout_s`, after which a row without progress is given up;
        `trials` try videos before rows read them. Raises UserError when the session cannot be written.
        """
        self._plan = plan
        self._path = path
        self._watcher = watcher
        self._trials = trials
        self._progress = progress or RowOutcomes()
        self._retry_failed = retry_failed
        self._rows_in_memory = rows_in_memory
        self._warm_ups = self._cold_start()
        self._session = 0
        self._stop = threading.Event()
        self._end = SuiteEnd()
        self._pause = CoolingPause(plan.spec.cooldown, self._stop, watcher.say)
        self._given_up: dict[str, list[Any]] = {}
        self._book_of(RecordLog())
        self._runner: LocalRunner | ProcessRunner
        if plan.spec.sessions > 1 or timeout_s is not None:
            self._runner = ProcessRunner(processes, self._recording, timeout_s=timeout_s)
        else:
            self._runner = LocalRunner(make_engine, self._recording)

    def _cold_start(self) -> WarmUps:
        return WarmUps(self._plan.spec.warmup, stays_loaded=self._plan.order == INTERLEAVED)

    def left(self) -> list[SuiteRow]:
        """The rows that are to be measured."""
        return [row for row in self._plan.rows if not self._progress.is_done(row, retry_failed=self._retry_failed)]

    def note(self, key: str, value: Any) -> None:
        """Saves a fact of the session."""
        self._writer.note(key, value)

    def run(self, fact: dict[str, Any]) -> SuiteEnd:
        """Measures all that is left; `fact` is the "suite" fact, to which is added what went wrong on the way.

        Raises UserError when the engine cannot be made or the session cannot be written, KeyboardInterrupt at a second
        Ctrl-C. Whatever happens, what was measured is in the session.
        """
        rows = self.left()
        self.note(SUITE, fact)
        if self._retry_failed:
            self._progress.hope_again()
        is_broken_off = False
        try:
            with first_interrupt(self._stop.set):
                for row in self._kept_short(rows):
                    self._take(row)
                    if self._end.is_stopped:
                        break
        except KeyboardInterrupt:
            is_broken_off = True
            raise
        finally:
            if not is_broken_off:
                self._runner.close()
            self._tell_given_up(fact)
            self._close()
        return self._end

    def _close(self) -> None:
        """Closes the session. Raises UserError when something could not be written, unless another error is on its
        way, which then says it."""
        is_failing = sys.exc_info()[0] is not None
        try:
            self._writer.close()
            note_baselines(self._path)
        except UserError:
            if not is_failing:
                raise

    def _kept_short(self, rows: list[SuiteRow]) -> Iterator[SuiteRow]:
        """The rows, with a new Recording every so many: memory must not grow with their number."""
        for number, row in enumerate(rows):
            if number and number % self._rows_in_memory == 0:
                self._writer.close()
                self._book_of(RecordLog())
                self._runner.record_into(self._recording)
            yield row

    def _book_of(self, recording: RecordLog) -> None:
        self._recording = recording
        self._book = RunBook(recording)
        self._writer = SessionWriter(recording, self._path)
        self._next_run_id = self._writer.next_run_id
        self._next_group_id = self._writer.next_group_id

    def _take(self, row: SuiteRow) -> None:
        if self._stop.is_set():
            self._watcher.stopping()
            self._end.is_stopped = True
            return
        error = self._progress.given_up(row)
        if error is not None:
            self._pass_over(row, error)
            return
        self._enter_session(row)
        if self._trials is not None:
            self._trials.try_video(row.sample)
        warmup = self._warm_ups.before(row)
        self._watcher.begin(row, warmup)
        began = time.monotonic()
        if self._end.measured:
            self._pause.rest()
        if self._stop.is_set():
            self._watcher.stopping()
            self._end.is_stopped = True
            return
        runs = self._attempt(row, warmup)
        is_able = not self._end.is_stopped and self._runner.lost is None
        if warmup and is_able and {run.info.role for run in runs} < set(row.roles):
            # An engine may leave it at the warm-up that failed: the row itself has yet to say that it did.
            runs = self._attempt(row, 0)
        self._end.measured += 1
        self._end.failed += any(run.info.status == FAILED for run in runs)
        self._progress.note(run.info for run in runs)
        self._watcher.end(row, runs, time.monotonic() - began, warmup)
        # Nothing is written while the next row is measured, and this one is safe.
        self._save(row)
        self._go_on_with_engine(row)

    def _go_on_with_engine(self, row: SuiteRow) -> None:
        """An engine process that was replaced has cold models. Raises UserError where none can be."""
        if self._runner.lost is not None:
            raise UserError(
                f"The suite stopped at {row.cell.label}: {self._runner.lost} Go on with --resume; that row is measured "
                "again."
            )
        if isinstance(self._runner, ProcessRunner) and self._runner.pid is None:
            self._warm_ups = self._cold_start()

    def _save(self, row: SuiteRow) -> None:
        """Raises UserError when a row that was measured cannot be saved: what follows could not be, either."""
        was_heard = self._writer.flush(FLUSH_S)
        reason = self._writer.refusal if was_heard else f"{self._path} took longer than {FLUSH_S:.0f} s to write to."
        if reason:
            raise UserError(
                f"The suite stopped, because a row could not be saved ({row.cell.label}): {reason} What was measured "
                "before it is kept; free some space, and go on with --resume."
            )

    def _enter_session(self, row: SuiteRow) -> None:
        """Another session's rows want a fresh process, whose models are cold."""
        if row.session == self._session or not isinstance(self._runner, ProcessRunner):
            return
        self._session = row.session
        self._runner.renew()
        self._warm_ups = self._cold_start()
        self._watcher.say(f"session {row.session + 1} of {self._plan.spec.sessions}")

    def _attempt(self, row: SuiteRow, warmup: int) -> list[RunLog]:
        """Measures a row; the runs that count."""
        first = self._next_run_id
        group_id = self._progress.group_of(row) or self._next_group_id
        request = replace(row.request(warmup), first_run_id=first, group_id=group_id)

        def look() -> None:
            self._book.update()
            self._watcher.look(self._book)
            if self._runner.is_stopping:
                self._watcher.stopping()

        try:
            self._runner.run(request, look)
        finally:
            self._book.update()
            made = [run for run_id, run in self._book.runs.items() if run_id >= first]
            self._next_run_id = max([first - 1, *(run.run_id for run in made)]) + 1
            self._next_group_id = max(self._next_group_id, group_id + 1)
        if self._runner.is_stopping or any(run.info.status == CANCELLED for run in made):
            self._end.is_stopped = True
        return [run for run in made if not run.info.warmup]

    def _pass_over(self, row: SuiteRow, error: str) -> None:
        found = self._given_up.setdefault(row.cell.label, [error, 0])
        found[1] += 1
        if found[1] == 1:
            self._watcher.say(
                f"cell '{row.cell.label}' failed {PATIENCE} times in a row with the same error and is not tried any "
                f"more: {error}"
            )
        self._watcher.skip(row)

    def _tell_given_up(self, fact: dict[str, Any]) -> None:
        self._end.problems = [
            f"Cell '{label}' failed {PATIENCE} times in a row ({error.rstrip('.')}); its other {count} "
            f"row{'s were' if count != 1 else ' was'} not tried."
            for label, (error, count) in self._given_up.items()
        ]
        if self._end.problems:
            self.note(SUITE, {**fact, "problems": [*fact.get("problems", []), *self._end.problems]})


def check_folder(folder: Path, *, resumes: bool) -> Path:
    """The session's path below `folder`, which is made unless a suite there is continued.

    Raises UserError for a folder that holds something and is not to be resumed, and for one with nothing to resume.
    """
    path = folder / SUITE_SESSION
    if resumes:
        if not _is_begun(folder, path):
            raise UserError(
                f"--resume: there is no suite in '{folder}' to go on with; leave --resume out to begin one."
            )
        if not path.is_file() or not path.stat().st_size:
            _clear(path)
        return path
    if folder.is_file():
        raise UserError(f"-o: '{folder}' is a file; name a folder.")
    if folder.is_dir() and any(folder.iterdir()):
        way = "add --resume to go on with it, or name" if _is_begun(folder, path) else "name"
        raise UserError(f"-o: '{folder}' is there already and not empty; {way} a new folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"-o: '{folder}' cannot be made ({error.strerror or error}); choose another place.") from None
    return path


def _is_begun(folder: Path, path: Path) -> bool:
    """Whether a suite was begun there, be it that it was killed before its session had a first byte."""
    if path.is_file() and path.stat().st_size:
        return True
    return folder.is_dir() and {*folder.iterdir()} <= {*_files_of(path), folder / FRAMES_FOLDER}


def _clear(path: Path) -> None:
    """Takes away a session without a byte, and what SQLite keeps beside it."""
    for left in _files_of(path):
        left.unlink(missing_ok=True)


def _files_of(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in ("", "-journal", "-wal", "-shm", ENDING)]
