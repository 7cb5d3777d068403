"""The thread that keeps a Recording on disk: a cursor of its own, a commit every quarter of a second.

A disk that refuses (full, gone) is told as a warning of the run; the rows stay in memory and are written once the disk
takes them. It knows the session file, no engine and no window.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from evprof.core.closing import Closing
from evprof.core.errors import UserError
from evprof.core.messages import EngineChanged, Message, RequestEnded, RunStarted, RunWarned, apply_to_info
from evprof.core.recording import RecordLog
from evprof.core.records import STREAMS
from evprof.core.run_info import RunInfo
from evprof.session.header import is_session
from evprof.session.reading import read_environment
from evprof.session.store import Commit, SampleFile, SessionFile

COMMIT_INTERVAL_S = 0.25

MOST_HASHED_BYTES = 2 << 30
"""Of one input: a second or two of reading. Whoever waits for a session must not wait for a dataset to be read."""


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
        self._file: SessionFile | None = None
        # What nobody has named and nobody has made before is moved when it gets a name; everything else is copied.
        self._is_unnamed = waits_for_run and not self._path.exists()
        self._problem: str | None = None
        self._places = {name: len(recording.streams[name]) if skips_existing else 0 for name in STREAMS}
        self._message_place = recording.message_count if skips_existing else 0
        self._infos: dict[int, RunInfo] = {}
        self._pending = Commit()
        self._facts: dict[str, Any] = {}
        self._dirty: set[int] = set()
        self._untold: list[int] = []
        self._unhashed: list[SampleFile] = []
        if skips_existing:
            self._remember(recording.messages())
            self._forget_news()
        if not waits_for_run:
            self._file = SessionFile(self._path)
        self._saves: deque[tuple[Path, bool, Future[Path]]] = deque()
        self._bell = threading.Condition()
        self._is_closing = False
        self._wishes = 0
        self._granted = 0
        self._thread = threading.Thread(target=self._run, name="evprof-session-writer", daemon=True)
        self._thread.start()

    @property
    def path(self) -> Path:
        """Where the session is, or will be."""
        return self._path

    @property
    def problem(self) -> str | None:
        """Why nothing is being written at present, as a sentence; None while all is well."""
        return self._problem

    @property
    def next_run_id(self) -> int:
        """The number of the next run in this session."""
        in_file = self._file.next_run_id if self._file else 1
        return max([in_file, *(run_id + 1 for run_id in self._infos)])

    @property
    def next_group_id(self) -> int:
        """The number of the next group in this session."""
        in_file = self._file.next_group_id if self._file else 1
        return max([in_file, *(info.group_id + 1 for info in list(self._infos.values()))])

    def note(self, key: str, value: Any) -> None:
        """Saves a fact of the session (plain JSON values) with the next commit, in place of an earlier one."""
        with self._bell:
            self._facts[key] = value

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
        answer: Future[Path] = Future()
        with self._bell:
            self._saves.append((Path(path), overwrites, answer))
            self._bell.notify_all()
        return answer

    def close(self, timeout_s: float = 30.0) -> None:
        """Commits the rest and closes the file. Safe to call twice.

        Raises UserError when something could not be written.
        """
        with self._bell:
            self._is_closing = True
            self._bell.notify_all()
        self._thread.join(timeout_s)
        if self._problem is not None:
            raise UserError(self._problem)

    # From here on the writer's thread.

    def _run(self) -> None:
        is_last = False
        while not is_last:
            with self._bell:
                self._bell.wait_for(
                    lambda: self._is_closing or bool(self._saves) or self._wishes > self._granted, COMMIT_INTERVAL_S
                )
                # Read before the commit: a wish that comes during it is for the next one.
                is_last, wishes = self._is_closing, self._wishes
            self._commit()
            while self._saves:
                self._save(*self._saves.popleft())
            with self._bell:
                self._granted = wishes
                self._bell.notify_all()
        self._close()

    def _commit(self) -> None:
        try:
            news = self._news()
            if not news:
                return
            if self._file is None:
                if not (self._infos or news.facts):
                    return  # an engine that starts is no reason for a file
                self._open()
            if self._file is not None:
                self._file.commit(self._recording.streams, news)
                self._say_where(self._file.note)
        except (sqlite3.Error, OSError, UserError, ValueError, TypeError) as error:
            self._complain(error)
            return
        for name, (_, stop) in news.ranges.items():
            self._places[name] = stop
        with self._bell:
            for key, value in news.facts.items():
                if self._facts.get(key) is value:
                    del self._facts[key]
        self._dirty.clear()
        self._pending = Commit()
        self._problem = None

    def _say_where(self, note: str | None) -> None:
        """Each run says it when its session lies where saving is slow."""
        for run_id in self._untold if note else ():
            self._recording.post(RunWarned(run_id, str(note)))
        self._untold.clear()

    def _open(self) -> None:
        if self._is_unnamed:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = SessionFile(self._path)

    def _forget_news(self) -> None:
        self._dirty.clear()
        self._untold.clear()
        self._unhashed.clear()
        self._pending = Commit()

    def _start_over(self, environment: dict[str, Any] | None) -> None:
        """Makes everything news again, for a file that holds nothing yet."""
        self._places = dict.fromkeys(STREAMS, 0)
        self._message_place = 0
        self._infos.clear()
        self._forget_news()
        self._pending.environment = environment
        self._commit()

    def _news(self) -> Commit:
        """Everything not yet committed; the places move on only when it is."""
        stop = self._recording.message_count
        messages = self._recording.messages(self._message_place, stop)
        self._message_place = stop
        self._remember(messages)
        if any(isinstance(message, RequestEnded) for message in messages):
            self._hash_samples()
        ranges = {
            name: (self._places[name], len(stream))
            for name, stream in self._recording.streams.items()
            if len(stream) > self._places[name]
        }
        infos = [self._infos[run_id] for run_id in sorted(self._dirty)]
        with self._bell:
            facts = dict(self._facts)
        return Commit(ranges, infos, self._pending.samples, self._pending.environment, facts)

    def _remember(self, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, RunStarted):
                # A copy: this one changes with every message, the message's own must not.
                info = message.info.copied()
                self._infos[message.run_id] = info
                self._dirty.add(message.run_id)
                self._note_samples(info)
                self._untold.append(message.run_id)
            elif isinstance(message, EngineChanged):
                self._pending.environment = message.environment or self._pending.environment
            elif (run_id := getattr(message, "run_id", None)) in self._infos and apply_to_info(
                message, self._infos[run_id]
            ):
                self._dirty.add(run_id)

    def _note_samples(self, info: RunInfo) -> None:
        known = info.sample
        if info.imported is not None:
            return  # its files are another machine's
        for kind, path, content_hash in (
            ("events", known.events_path, known.events_hash),
            ("video", known.video_path, known.video_hash),
        ):
            if path is not None:
                sample = SampleFile(info.run_id, kind, path, content_hash)
                self._pending.samples.append(sample)
                if sample.content_hash is None:
                    self._unhashed.append(sample)

    def _hash_samples(self) -> None:
        """Only between requests: reading a large video through would disturb the run that reads it, too."""
        from evprof.loaders.content import content_hash

        for sample in self._unhashed:
            with contextlib.suppress(UserError):  # the file may be gone by now, or too large; then it has no hash
                found = content_hash(sample.path, most_bytes=MOST_HASHED_BYTES)
                self._pending.samples.append(SampleFile(sample.run_id, sample.kind, sample.path, found))
        self._unhashed.clear()

    def _complain(self, error: Exception) -> None:
        reason = error.sentence if isinstance(error, UserError) else f"{self._path} cannot be written: {error}."
        is_new = self._problem is None
        self._problem = f"{reason} What is recorded stays in memory; free some space, or save under another name."
        if is_new and self._infos:
            self._recording.post(RunWarned(max(self._infos), self._problem))

    def _save(self, path: Path, overwrites: bool, answer: Future[Path]) -> None:
        try:
            answer.set_result(self._move_to(path, overwrites))
        except UserError as error:
            answer.set_exception(error)
        except (sqlite3.Error, OSError, ValueError) as error:
            answer.set_exception(UserError(f"The session cannot be saved as {path}: {error}; choose another place."))

    def _move_to(self, path: Path, overwrites: bool) -> Path:
        old = self._path
        if path.exists() and old.exists() and path.samefile(old):
            self._is_unnamed = False
            return path
        if path.exists() and not overwrites:
            raise UserError(f"{path} exists already; choose another name.")
        if not path.parent.is_dir():
            raise UserError(f"The folder {path.parent} does not exist; create it first.")
        if self._file is None:
            # Nothing was written here yet, so everything the recording holds goes there.
            environment = read_environment(old) if old.exists() else None
            path.unlink(missing_ok=True)
            self._file, self._path, self._is_unnamed = SessionFile(path), path, False
            self._start_over(environment)
            return path
        self._file.close()
        self._file = None
        part = path.with_name(f".{path.name}.part")
        try:
            shutil.copyfile(old, part)
            os.replace(part, path)
            self._file, self._path = SessionFile(path), path
        finally:
            part.unlink(missing_ok=True)
            if self._file is None:
                self._file = SessionFile(old)
        if self._is_unnamed and is_session(old):
            old.unlink()
        self._is_unnamed = False
        return path

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except sqlite3.Error as error:
                self._complain(error)
