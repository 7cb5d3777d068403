"""The session a window works on: its recording, the file it is saved in, and opening another one.

Everything that touches a disk happens on threads; answers come back as signals on the window's own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Qt, Signal

from evprof.core.errors import UserError
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_log import RunLog
from evprof.session.presence import is_written

if TYPE_CHECKING:
    from concurrent.futures import Future

    from evprof.run.session_writer import SessionWriter


class WindowSession(QObject):
    """One recording at a time and the writer that keeps it on disk.

    `refusal` says in a sentence why the recording may not be changed now, such as a run that goes on; "" if it may.
    `refusal_to_leave` says why no other session may take its place, such as runs that wait for this one.

    Signals:
        leaving(): another session is about to take this one's place.
        opened(object): a session was read; its Recording.
        saved(str): the session lives at that path now.
        failed(str): a sentence about what could not be read or written.
        reading(str, bool): a file is being read, by its name; and whether that begins or ends.
    """

    leaving = Signal()
    opened = Signal(object)
    saved = Signal(str)
    failed = Signal(str)
    reading = Signal(str, bool)
    _called = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.recording = RecordLog()
        self.path: Path | None = None
        self.is_copy = False
        """Whether another evprof writes the file, so that this window holds a copy of what was in it."""

        self.facts: dict[str, Any] = {}
        self.refusal: Callable[[], str] = lambda: ""
        self.refusal_to_leave: Callable[[], str] = lambda: ""
        self._writer: SessionWriter | None = None
        self._readers: list[threading.Thread] = []
        self._is_over = False
        self._asked = self._taken = 0
        """How many sessions were asked for, and which of them is shown."""

        self._called.connect(self._call, Qt.ConnectionType.QueuedConnection)

    @property
    def title(self) -> str:
        name = self.path.name if self.path is not None else "unsaved session (autosaved)"
        return f"{name} (read-only copy)" if self.is_copy else name

    @property
    def file(self) -> Path | None:
        """Where it is kept, autosaved or not; None while nothing is recorded into it."""
        return self.path or (self._writer.path if self._writer is not None else None)

    def begin(self) -> None:
        """Keeps the recording on disk from its first run on: in its own file, or autosaved while it has none."""
        if self._writer is None and not self._is_over:
            self._writer = self._begun()

    def _begun(self) -> SessionWriter:
        from evprof.run.session_writer import SessionWriter
        from evprof.session.autosave import autosave_path

        path = self.path or autosave_path()
        return SessionWriter(self.recording, path, waits_for_run=True, skips_existing=self.path is not None)

    def numbered(self, request: RunRequest, next_run_id: int, next_group_id: int) -> RunRequest:
        """The request with the first numbers that are free both in the window and in the file.

        From here on no other program writes that file. Raises UserError while another evprof does.
        """
        if self._writer is not None:
            try:
                self._writer.claim()
            except UserError as error:
                raise UserError(f"{error.sentence} Save the session under another name (Ctrl+S), then run.") from error
            next_run_id = max(next_run_id, self._writer.next_run_id)
            next_group_id = max(next_group_id, self._writer.next_group_id)
        return replace(request, first_run_id=next_run_id, group_id=next_group_id)

    def read(self, path: Path) -> None:
        """Opens a session and waits for it. Raises UserError; the present session stays then."""
        from evprof.session.opened import open_session

        if refusal := self.refusal_to_leave():
            raise UserError(refusal)
        session = open_session(path)
        self._take(self._ask(), path, session.recording, session.facts)

    def open(self, path: Path) -> None:
        """Opens a session in the background; `opened` or `failed` tells, unless one that was asked for later is there
        before."""
        from evprof.session.autosave import take_up
        from evprof.session.opened import open_session

        asked = self._ask()
        self.reading.emit(path.name, True)

        def work() -> None:
            try:
                take_up(path)
                session = open_session(path)
                _read_ahead(session.runs)
            except UserError as error:
                sentence = error.sentence
                self._called.emit(lambda: self.failed.emit(sentence))
            else:
                self._called.emit(lambda: self._take(asked, path, session.recording, session.facts))
            finally:
                self._called.emit(lambda: self.reading.emit(path.name, False))

        self._start(work, "evprof-session-reader")

    def start_new(self) -> None:
        """An empty session; the one before stays where it was saved."""
        self._take(self._ask(), None, RecordLog())

    def on_disk(self) -> Path:
        """Where the session lies, with everything recorded so far. Waits; raises UserError when it lies nowhere."""
        writer, path = self._writer, self.path
        if writer is not None:
            is_written = writer.flush()
            path = writer.rescue_path or writer.path
            if not is_written or (writer.problem and path == writer.path):
                raise UserError(writer.problem or f"{writer.path} is not written yet; try again in a moment.")
        if path is None or not path.exists():
            raise UserError("The session is not saved in a file yet; save it first (Ctrl+S).")
        return path

    def note(self, key: str, value: Any) -> None:
        """Keeps a fact of the session (plain JSON values) in its file, in place of an earlier one."""
        self.facts[key] = value
        self.begin()
        if self._writer is not None:
            self._writer.note(key, value)

    def _ask(self) -> int:
        self._asked += 1
        return self._asked

    def _take(self, asked: int, path: Path | None, recording: RecordLog, facts: dict[str, Any] | None = None) -> None:
        if asked < self._taken:
            return
        # Asked again here: a run may have begun while the file was read.
        if refusal := self.refusal_to_leave():
            self.failed.emit(refusal)
            return
        self._taken = asked
        self.leaving.emit()
        self.close()
        self.recording, self.path, self.facts = recording, path, dict(facts or {})
        self.is_copy = path is not None and is_written(path)
        self.opened.emit(recording)

    def save_as(self, path: Path) -> None:
        """Gives the session a place and goes on recording there; `saved` or `failed` tells."""
        self.begin()
        if (writer := self._writer) is None:
            return
        future = writer.save_as(path, overwrites=True)
        future.add_done_callback(lambda done: self._called.emit(lambda: self._answer(writer, done)))

    def _answer(self, writer: SessionWriter, done: Future[Path]) -> None:
        error = done.exception()
        if error is None:
            if writer is self._writer:  # else another session has taken its place meanwhile
                self.path, self.is_copy = done.result(), False
            self.saved.emit(str(done.result()))
        elif isinstance(error, UserError):
            self.failed.emit(error.sentence)
        else:
            raise error

    def in_background(
        self, work: Callable[[], Any], then: Callable[[Any], None], refused: Callable[[str], object] | None = None
    ) -> None:
        """Runs `work` on a thread and `then(result)` here; a UserError's sentence goes to `refused`, or is `failed`."""
        tell = refused or self.failed.emit

        def run() -> None:
            try:
                result = work()
            except UserError as error:
                sentence = error.sentence
                self._called.emit(lambda: tell(sentence))
                return
            self._called.emit(lambda: then(result))

        self._start(run, "evprof-window-errand")

    def _start(self, work: Callable[[], None], name: str) -> None:
        self._readers = [thread for thread in self._readers if thread.is_alive()]
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._readers.append(thread)
        thread.start()

    @property
    def is_idle(self) -> bool:
        return not any(thread.is_alive() for thread in self._readers)

    def wait(self, timeout_s: float = 10.0) -> None:
        for thread in self._readers:
            thread.join(timeout_s)

    def close(self) -> None:
        """Commits what is left. A disk that refuses is told with `failed`."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except UserError as error:
                self.failed.emit(error.sentence)

    def end(self) -> None:
        """For a window that closes: the same, and nothing is kept any more."""
        self.close()
        self._is_over = True

    def _call(self, work: Callable[[], None]) -> None:
        work()


def _read_ahead(runs: Mapping[int, RunLog]) -> None:
    """Reads the rows of the runs that will be on show: the window would stand still while it did."""
    from ui.state.cells import newest_pair

    for run_id in newest_pair(runs)[0]:
        if run_id is not None:
            runs[run_id].changed_spans(0)
