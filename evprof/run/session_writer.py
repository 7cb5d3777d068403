"""The thread that keeps a Recording on disk: a cursor of its own, a commit ten times a second.

A disk that refuses (full, gone) is told as a warning of the run. What is recorded goes to the folder of autosaved
sessions then, and to its own file again once that can be written. It knows the session file, no engine and no window.
"""

from __future__ import annotations

import contextlib
import os
import shutil
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
from evprof.session.opened import read_environment
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
        self,
        recording: RecordLog,
        path: Path,
        *,
        waits_for_run: bool = False,
        skips_existing: bool = False,
    ) -> None:
        """Opens `path` at once, or with the first run when `waits_for_run` (then missing folders are made, too).

        `skips_existing`: what the recording holds now is in the file already (it was read from there). Raises UserError
        when the file cannot be opened.
        """
        self._recording = recording
        # What nobody has named and nobody has made before is moved when it gets a name; everything else is copied.
        self._is_unnamed = waits_for_run and not Path(path).exists()
        self._continues = skips_existing and (Path(path).exists() or recording.source is not None)
        self._problem: str | None = None
        self._refusal = ""
        self._facts: dict[str, Any] = {}
        self._lock: Hold | None = None
        self._main = SessionTarget(recording, Path(path), skips_existing=skips_existing)
        self._rescue: SessionTarget | None = None
        self._rescue_tried = -RESCUE_PAUSE_S
        self._is_lost = False
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
        return self._main.path

    @property
    def problem(self) -> str | None:
        """Why nothing is being written at `path` at present, and where instead; None while all is well."""
        return self._problem

    @property
    def refusal(self) -> str | None:
        """Only why, without what becomes of it."""
        return self._refusal if self._problem is not None else None

    @property
    def rescue_path(self) -> Path | None:
        """Where the recording goes while `path` cannot be written; None while it can, or where there is no other."""
        rescue = self._rescue
        return None if rescue is None else rescue.path

    @property
    def next_run_id(self) -> int:
        """The number of the next run in this session; the file's own once it is claimed."""
        in_file = self._main.file.next_run_id if self._main.file else 1
        return max([in_file, *(run_id + 1 for run_id in list(self._main.infos))])

    @property
    def next_group_id(self) -> int:
        in_file = self._main.file.next_group_id if self._main.file else 1
        return max([in_file, *(info.group_id + 1 for info in list(self._main.infos.values()))])

    def claim(self, timeout_s: float = 30.0) -> None:
        """Makes this the one writer of the session from now on, before its first run, and its numbers those of the
        file, if there is one. Waits. Raises UserError while another writes it, and when it cannot be written."""

        def work() -> None:
            if self._main.file is not None:
                return
            if self._main.path.exists():
                self._open()
            elif self._main.path.parent.is_dir():
                self._hold()

        try:
            self._ask(work).result(timeout_s)
        except TimeoutError:
            raise UserError(f"{self.path} does not open; choose another place.") from None

    def note(self, key: str, value: Any) -> None:
        """Saves a fact of the session (plain JSON values) with the next commit, in place of an earlier one."""
        with self._bell:
            self._facts[key] = value
            for target in self._targets():
                target.facts[key] = value

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

    def _targets(self) -> list[SessionTarget]:
        return [target for target in (self._main, self._rescue) if target is not None]

    def _commit(self) -> None:
        """Commits what is new, into the session or, while that cannot be written, into the rescue file."""
        try:
            if self._is_lost:
                raise LostError(self._refusal)
            self._write(self._main)
        except _REFUSALS as error:
            self._is_lost = isinstance(error, LostError)
            self._write_elsewhere(error)
            return
        self._end_rescue()
        self._problem = None

    def _write(self, target: SessionTarget) -> None:
        """Commits what is new to `target`, whose file is made when that includes a run. Raises _REFUSALS."""
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
            self._main.path.parent.mkdir(parents=True, exist_ok=True)
        had_lock = self._lock is not None
        try:
            self._main.open(self._hold())
        finally:
            if self._main.file is None and not had_lock:
                self._let_go()

    def _check_there(self) -> None:
        """Raises LostError where what is to be continued is not there: a new file would hold a part of it."""
        if self._continues and self._main.file is None and not self._main.path.exists():
            raise LostError(f"{self._main.path} was moved, or deleted, since it was opened; open it where it is now.")

    def _hold(self) -> Hold:
        if self._lock is None:
            self._lock = hold(self._main.path)
        return self._lock

    def _let_go(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _write_elsewhere(self, error: Exception) -> None:
        reason = _reason(self._main.path, error)
        try:
            if self._rescue is None and time.monotonic() - self._rescue_tried >= RESCUE_PAUSE_S:
                self._rescue_tried = time.monotonic()
                self._rescue = self._new_rescue()
            if self._rescue is not None:
                self._write(self._rescue)
        except _REFUSALS:
            if not self._is_lost:  # of a lost session the rescue file may hold all there is
                self._end_rescue()
        if self._rescue is not None:
            self._tell(reason, f"What is recorded goes to {self._rescue.path} instead.")
        else:
            self._tell(reason, "What is recorded stays in memory; free some space, or save under another name.")

    def _new_rescue(self) -> SessionTarget:
        path = autosave_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        rescue = SessionTarget(self._recording, path)
        with self._bell:
            rescue.facts = dict(self._facts)
        if self._is_lost and self._main.file is not None:
            with contextlib.suppress(sqlite3.Error, OSError):
                # A deleted file still exists for the process that has it open.
                self._main.file.copy_to(path)
                rescue = self._main.continued_at(path)
        rescue.open(None)
        return rescue

    def _end_rescue(self) -> None:
        rescue, self._rescue = self._rescue, None
        if rescue is not None:
            _close_quietly(rescue)
            _remove_session(rescue.path)

    def _tell(self, reason: str, consequence: str) -> None:
        is_new = self._problem is None
        self._refusal, self._problem = reason, f"{reason} {consequence}"
        if is_new and self._main.infos:
            self._recording.post(RunWarned(max(self._main.infos), self._problem))

    def _move_to(self, path: Path, overwrites: bool) -> Path:
        old = self._main.path
        if path.exists() and old.exists() and path.samefile(old) and not self._is_lost:
            self._is_unnamed = False
            return path
        if path.exists() and not overwrites:
            raise UserError(f"{path} exists already; choose another name.")
        if not path.parent.is_dir():
            raise UserError(f"The folder {path.parent} does not exist; create it first.")
        # Held first: another evprof may be writing what is to be replaced.
        lock = hold(path)
        try:
            source = self._rescue or self._main
            if source is self._main:
                self._check_there()
            if source.file is None and (self._recording.source is None or not old.exists()):
                # Nothing was written here yet, so everything the recording holds goes there.
                environment = read_environment(old) if old.exists() else None
                _remove_session(path)
                self._main.restart(path, environment)
                self._main.open(lock)
            else:
                self._copy(source, path, lock)
        except BaseException:
            lock.release()
            raise
        self._let_go()
        self._lock = lock
        self._is_unnamed = False
        self._commit()
        return path

    def _copy(self, source: SessionTarget, path: Path, lock: Hold) -> None:
        """Puts a copy of the source's file at `path` and makes that the session."""
        part = make_part(path.parent)
        copied = source.continued_at(path)
        try:
            if source.file is None:
                copy_session(source.path, part)
            else:
                _copy_open(source.file, part)
            _remove_logs(path)
            os.replace(part, path)
            copied.open(lock)
        finally:
            part.unlink(missing_ok=True)
        for target in self._targets():
            _close_quietly(target)
        if source is self._rescue or self._is_unnamed:
            _remove_session(source.path)
        self._main, self._rescue, self._is_lost, self._problem = copied, None, False, None

    def _close(self) -> None:
        try:
            for target in self._targets():
                self._close_file(target)
        finally:
            self._let_go()

    def _close_file(self, target: SessionTarget) -> None:
        file = target.file
        if file is None:
            return
        try:
            with contextlib.suppress(*_REFUSALS):  # figures can be read off the rows again
                target.summarize()
            target.file = None
            file.close()
        except sqlite3.Error as error:
            # What was committed lies in its log, and is read from there.
            if self._problem is None:
                self._tell(f"{target.path} was saved, but cannot be closed: {error}.", "Free some space on its disk.")


def _close_quietly(target: SessionTarget) -> None:
    if target.file is not None:
        with contextlib.suppress(sqlite3.Error):
            target.file.close()


def _copy_open(file: SessionFile, part: Path) -> None:
    """A copy of a file that is being written, wherever it lies by now."""
    try:
        file.check_in_place()
    except LostError:
        part.unlink()
        file.copy_to(part)
    else:
        file.fold()
        shutil.copyfile(file.path, part)


def _reason(path: Path, error: Exception) -> str:
    return error.sentence if isinstance(error, UserError) else f"{path} cannot be written: {error}."


def _remove_session(path: Path) -> None:
    path.unlink(missing_ok=True)
    _remove_logs(path)


def _remove_logs(path: Path) -> None:
    """What a killed writer left beside a file belongs to that one, not to the one that takes its place."""
    for ending in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
