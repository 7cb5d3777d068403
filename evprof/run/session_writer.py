"""The thread that keeps a Recording on disk: a cursor of its own, a commit ten times a second.

A disk that refuses (full, gone) is a warning of the run. The session then goes on among the autosaved ones.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.files.whole_file import make_part
from evprof.core.protocols import Closing, RunWarned
from evprof.core.recording import RecordLog
from evprof.run.session_target import SessionTarget
from evprof.session.autosave import autosave_path
from evprof.session.opening import copy_session
from evprof.session.presence import Hold, hold
from evprof.session.store import LostError, SessionFile

COMMIT_INTERVAL_S = 0.1
"""What a killed program loses at most, but for what its commit takes and what the engine's pipe holds."""

RESCUE_PAUSE_S = 2.0
"""Between two attempts to find another place, where there was none."""

_REFUSALS = (sqlite3.Error, OSError, UserError, ValueError, TypeError)


class SessionWriter(Closing):
    """Writes `recording` to `path` until closed. All methods may be called from any thread, and return at once or wait
    as they say."""

    def __init__(
        self, recording: RecordLog, path: Path, *, waits_for_run: bool = False, skips_existing: bool = False
    ) -> None:
        """Opens `path` at once, or with the first run when `waits_for_run` (then missing folders are made, too).

        `skips_existing`: what the recording holds now is in the file already (it was read from there). Raises UserError
        when the file cannot be opened.
        """
        self._recording = recording
        self._path = Path(path)
        # A session without a name that is new is moved when it gets one; every other is copied.
        self._is_unnamed = waits_for_run and not self._path.exists()
        self._continues = skips_existing and (self._path.exists() or recording.source is not None)
        self._problem: str | None = None
        self._refusal = ""
        self._facts: dict[str, Any] = {}
        self._lock: Hold | None = None
        self._target = SessionTarget(recording, self._path, skips_existing=skips_existing)
        self._rescue_tried = -RESCUE_PAUSE_S
        if not waits_for_run:
            self._open()
        self._errands: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._bell = threading.Condition()
        self._is_closing = False
        self._wishes = 0
        self._granted = 0
        self._thread = threading.Thread(target=self._run, name="evprof-session-writer", daemon=True)
        self._thread.start()

    @property
    def path(self) -> Path:
        return self._path

    @property
    def problem(self) -> str | None:
        """Why nothing is being written at `path`, and where instead; None while all is well."""
        return self._problem

    @property
    def refusal(self) -> str | None:
        """Only why, without what becomes of it."""
        return self._refusal if self._problem is not None else None

    @property
    def rescue_path(self) -> Path | None:
        """Where the recording goes since `path` could not be written; None where that did not happen."""
        return None if self._target.path == self._path else self._target.path

    @property
    def next_run_id(self) -> int:
        """The number of the next run in this session; the file's own once it is claimed."""
        in_file = self._target.file.next_run_id if self._target.file else 1
        return max([in_file, *(run_id + 1 for run_id in list(self._target.infos))])

    @property
    def next_group_id(self) -> int:
        in_file = self._target.file.next_group_id if self._target.file else 1
        return max([in_file, *(info.group_id + 1 for info in list(self._target.infos.values()))])

    def claim(self, timeout_s: float = 30.0) -> None:
        """Makes this the one writer of the session from now on, before its first run, and its numbers those of the
        file, if there is one. Waits. Raises UserError while another writes it, and when it cannot be written."""

        def work() -> None:
            if self._target.file is not None:
                return
            if self._path.exists():
                self._open()
            elif self._path.parent.is_dir():
                self._hold()

        try:
            self._ask(work).result(timeout_s)
        except TimeoutError:
            raise UserError(f"{self.path} does not open; choose another place.") from None

    def note(self, key: str, value: Any) -> None:
        """Saves a fact of the session (plain JSON values) with the next commit, in place of an earlier one."""
        with self._bell:
            self._facts[key] = self._target.facts[key] = value

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Waits until everything recorded so far was committed (or refused: see `problem`). False when time ran out."""
        with self._bell:
            self._wishes += 1
            wish = self._wishes
            self._bell.notify_all()
            return self._bell.wait_for(lambda: self._granted >= wish, timeout_s)

    def save_as(self, path: Path, *, overwrites: bool = False) -> Future[Path]:
        """Moves an unnamed session to `path`, or copies a named one there, and goes on recording into it.

        The answer comes in the Future: the path, or UserError; the session stays where it was in that case.
        """

        def work() -> Path:
            try:
                return self._move_to(Path(path), overwrites)
            except (sqlite3.Error, OSError, ValueError) as error:
                raise UserError(f"The session cannot be saved as {path}: {error}; choose another place.") from error

        return self._ask(work)

    def close(self, timeout_s: float = 30.0) -> None:
        """Commits the rest and closes the file. Safe to call twice.

        Raises UserError when something could not be written where it belongs; the sentence says where it is.
        """
        with self._bell:
            self._is_closing = True
            self._bell.notify_all()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise UserError(f"{self.path} is still being written after {timeout_s:.0f} s; its disk does not answer.")
        if self._problem is not None:
            raise UserError(self._problem)

    def _ask(self, work: Callable[[], Any]) -> Future[Any]:
        answer: Future[Any] = Future()
        with self._bell:
            self._errands.append((work, answer))
            self._bell.notify_all()
        return answer

    # From here on the writer's thread.

    def _run(self) -> None:
        is_last = False
        while not is_last:
            with self._bell:
                self._bell.wait_for(
                    lambda: self._is_closing or bool(self._errands) or self._wishes > self._granted, COMMIT_INTERVAL_S
                )
                # Read before the commit: a wish that comes during it is for the next one.
                is_last, wishes = self._is_closing, self._wishes
            self._commit()
            while self._errands:
                work, answer = self._errands.popleft()
                try:
                    answer.set_result(work())
                except _REFUSALS as error:
                    answer.set_exception(error)
            with self._bell:
                self._granted = wishes
                self._bell.notify_all()
        self._close()

    def _commit(self) -> None:
        """Commits what is new, into the session or, once that cannot be written, among the autosaved ones."""
        try:
            self._write()
            if self.rescue_path is None:
                self._problem = None
        except _REFUSALS as error:
            self._write_elsewhere(error)

    def _write(self) -> None:
        """Commits what is new; the file is made when that includes a run. Raises _REFUSALS."""
        target = self._target
        with self._bell:
            news = target.look()
        if not news:
            return
        if target.file is None:
            if not (target.infos or news.facts):
                return  # an engine that starts is no reason for a file
            self._open()
        target.commit(news)
        with self._bell:
            for key, value in news.facts.items():
                if target.facts.get(key) is value:
                    del target.facts[key]

    def _open(self) -> None:
        self._check_there()
        if self._is_unnamed:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        had_lock = self._lock is not None
        try:
            self._target.open(self._hold())
        finally:
            if self._target.file is None and not had_lock:
                self._let_go()

    def _check_there(self) -> None:
        """Raises LostError where what is to be continued is not there: a new file would hold a part of it."""
        if self._continues and self._target.file is None and not self._path.exists():
            raise LostError(f"{self._path} was moved, or deleted, since it was opened; open it where it is now.")

    def _hold(self) -> Hold:
        if self._lock is None:
            self._lock = hold(self._path)
        return self._lock

    def _let_go(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _write_elsewhere(self, error: Exception) -> None:
        """Goes on among the autosaved sessions for good, or says that what is recorded stays in memory."""
        consequence = "What is recorded stays in memory; free some space, or save under another name."
        reason = error.sentence if isinstance(error, UserError) else f"{self._target.path} cannot be written: {error}."
        if time.monotonic() - self._rescue_tried >= RESCUE_PAUSE_S and self.rescue_path is None:
            self._rescue_tried = time.monotonic()
            with contextlib.suppress(*_REFUSALS):
                self._rescue(is_lost=isinstance(error, LostError))
                consequence = f"What is recorded goes to {self._target.path} instead."
        is_new = self._problem is None
        if is_new or self.rescue_path is not None:
            self._refusal, self._problem = reason, f"{reason} {consequence}"
        if is_new and self._target.infos:
            self._recording.post(RunWarned(max(self._target.infos), self._problem or ""))

    def _rescue(self, *, is_lost: bool) -> None:
        """Writes all that there is into a new session. Raises _REFUSALS, and changes nothing then."""
        old, path = self._target, autosave_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            if is_lost and old.file is not None:
                # A deleted file still exists for the process that has it open.
                old.file.copy_to(path)
                self._reopen(path, None)
                with contextlib.suppress(*_REFUSALS):
                    self._write()
                return
            target = SessionTarget(self._recording, path)
            with self._bell:
                target.facts, self._target = dict(self._facts), target
            target.open(None)
            self._write()
            _close_quietly(old.file)
        except _REFUSALS:
            if self._target is not old:
                _close_quietly(self._target.file)
                self._target = old
            _remove_session(path)
            raise

    def _reopen(self, path: Path, lock: Hold | None) -> None:
        """Goes on in a copy of the file that lies at `path`. Raises UserError, and changes nothing then."""
        target = self._target
        old, before, target.path = target.file, target.path, path
        try:
            target.open(lock)
        except UserError:
            target.path = before
            raise
        _close_quietly(old)

    def _move_to(self, path: Path, overwrites: bool) -> Path:
        old = self._target.path
        if path.exists() and old.exists() and path.samefile(old):
            self._is_unnamed = False
            return path
        if path.exists() and not overwrites:
            raise UserError(f"{path} exists already; choose another name.")
        if not path.parent.is_dir():
            raise UserError(f"The folder {path.parent} does not exist; create it first.")
        is_moved = self._is_unnamed or self.rescue_path is not None
        # Held first: another evprof may be writing what is to be replaced.
        lock = hold(path)
        try:
            self._check_there()
            self._copy_to(path, lock)
        except BaseException:
            lock.release()
            raise
        if is_moved and old != path:
            _remove_session(old)
        self._let_go()
        self._lock, self._path = lock, path
        self._is_unnamed, self._problem = False, None
        self._commit()
        return path

    def _copy_to(self, path: Path, lock: Hold) -> None:
        """Puts what was written so far at `path` and makes that the session."""
        file, source = self._target.file, self._target.path
        if file is None and not source.exists():
            _remove_session(path)
            self._reopen(path, lock)
            return
        part = make_part(path.parent)
        try:
            if file is None:
                copy_session(source, part)
            else:
                part.unlink()
                file.copy_to(part)
            _remove_logs(path)
            os.replace(part, path)
            self._reopen(path, lock)
        finally:
            part.unlink(missing_ok=True)

    def _close(self) -> None:
        target, file = self._target, self._target.file
        try:
            if file is not None:
                with contextlib.suppress(*_REFUSALS):  # figures can be read off the rows again
                    target.summarize()
                target.file = None
                file.close()
        except sqlite3.Error as error:
            # What was committed lies in its log, and is read from there.
            if self._problem is None:
                self._problem = f"{target.path} was saved, but cannot be closed: {error}. Free some space on its disk."
        finally:
            self._let_go()


def _close_quietly(file: SessionFile | None) -> None:
    if file is not None:
        with contextlib.suppress(sqlite3.Error):
            file.close()


def _remove_session(path: Path) -> None:
    path.unlink(missing_ok=True)
    _remove_logs(path)


def _remove_logs(path: Path) -> None:
    """What a killed writer left beside a file belongs to that one, not to the one that takes its place."""
    for ending in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
