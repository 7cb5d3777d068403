"""Between the engine host and the views: pulls what is new 30 times a second and says which runs changed.

It owns no view and reads no clock of the engine's; a slow window makes it pull less often, and nothing is lost.
"""

from __future__ import annotations

from typing import Protocol

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from evprof.core.recording import Recording
from evprof.core.request import RunRequest
from evprof.core.run_log import RunBook, RunLog

PULL_INTERVAL_MS = 33
"""Time between two looks at the recording: 30 Hz."""


class Host(Protocol):
    """What carries requests out, such as `evprof.run.runner.EngineHost`."""

    @property
    def is_busy(self) -> bool:
        """Whether a request is being carried out."""

    def submit(self, request: RunRequest) -> None:
        """Takes a request; rows and messages appear in the recording."""

    def stop(self) -> None:
        """Asks the running request to end."""

    def close(self) -> None:
        """Ends the engine."""


class RunController(QObject):
    """The runs of the window's session and the one way to start and stop them.

    Signals:
        runs_changed(object): set of ids of runs that have news; at most one per pull.
        message(object): every lifecycle message (evprof.core.messages), in order, after its rows are in the book.
        busy_changed(bool): a request began or ended.
        ticked(): a pull is over, with news or without; what moves with the clock moves now.
        session_replaced(): another recording took the place of the old one; forget every run.
    """

    runs_changed = Signal(object)
    message = Signal(object)
    busy_changed = Signal(bool)
    ticked = Signal()
    session_replaced = Signal()

    def __init__(self, recording: Recording, host: Host | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._host = host
        self._is_busy = False
        self.recording = recording
        self.book = RunBook(recording)
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(PULL_INTERVAL_MS)
        self._timer.timeout.connect(self.pull)

    @property
    def runs(self) -> dict[int, RunLog]:
        """Runs by id, in order of start."""
        return self.book.runs

    def run(self, run_id: int | None) -> RunLog | None:
        """The run of that id, or None."""
        return None if run_id is None else self.book.runs.get(run_id)

    @property
    def is_busy(self) -> bool:
        """Whether a request is being carried out, as of the last pull."""
        return self._is_busy

    @property
    def next_run_id(self) -> int:
        """The first id a new request may use."""
        return max(self.book.runs, default=0) + 1

    @property
    def next_group_id(self) -> int:
        """The group id a new request may use."""
        return max((run.info.group_id for run in self.book.runs.values()), default=0) + 1

    def start(self) -> None:
        """Begins pulling."""
        self._timer.start()

    def attach_host(self, host: Host) -> None:
        """Takes an engine host made after the first paint."""
        self._host = host

    def replace_recording(self, recording: Recording) -> None:
        """Shows another session: everything known of the old one is forgotten."""
        self.recording = recording
        self.book = RunBook(recording)
        self.session_replaced.emit()
        self.pull()

    def pull(self) -> None:
        """Takes in what is new and tells the views. Called by the timer; tests call it themselves."""
        messages, changed = self.book.update()
        if changed:
            self.runs_changed.emit(changed)
        for message in messages:
            self.message.emit(message)
        self._note_busy()
        self.ticked.emit()

    def submit(self, request: RunRequest) -> None:
        """Hands a request to the engine. Raises UserError when the request cannot be carried out."""
        request.validate()
        if self._host is not None:
            self._host.submit(request)
        self._note_busy()

    def stop(self) -> None:
        """Asks the running request to end; its runs become "cancelled"."""
        if self._host is not None:
            self._host.stop()

    def close(self) -> None:
        """Stops pulling and ends the engine."""
        self._timer.stop()
        if self._host is not None:
            self._host.close()
            self._host = None

    def _note_busy(self) -> None:
        is_busy = self._host is not None and self._host.is_busy
        if is_busy != self._is_busy:
            self._is_busy = is_busy
            self.busy_changed.emit(is_busy)
