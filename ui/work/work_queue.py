"""Long work in the order it was asked for: one at a time, and never beside a run that is measured."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, Signal

from evprof.core.errors import CANCELLED
from evprof.run.works.work_form import ON, WorkForm, WorkProgress, Works
from ui.state.run_controller import RunController

WAITING, WORKING, STOPPING, DONE, STOPPED, FAILED = "waiting", "working", "stopping", "done", "stopped", "failed"

_OVER = (DONE, STOPPED, FAILED)

KEPT_LINES = 400

_CLOSE_MS = 1_500


@dataclass(eq=False)
class WorkItem:
    """One piece of work. `sentence` is what it said last, or why it failed."""

    form: WorkForm
    values: Mapping[str, str]
    state: str = WAITING
    progress: WorkProgress | None = None
    sentence: str = ""
    lines: Sequence[str] = field(default=())

    @property
    def title(self) -> str:
        first = next((self.values.get(entry.name, "") for entry in self.form.fields if not entry.option), "")
        return " · ".join(part for part in (self.form.title, first.strip()) if part)

    @property
    def is_over(self) -> bool:
        return self.state in _OVER

    @property
    def made(self) -> Path | None:
        """What came of it and can be opened; None where there is nothing."""
        place = self.form.made(self.values) if self.is_over and self.state != FAILED else None
        return place if place is not None and place.exists() else None

    def told(self) -> str:
        """Its state in a few words: "3 of 8 rows · 40 s left"."""
        if self.state in (WORKING, STOPPING):
            known = self.progress.state if self.progress is not None else self.sentence or "starting"
            return f"stopping · {known}" if self.state == STOPPING else known
        if self.state == STOPPED and self.sentence.startswith(STOPPED):
            return self.sentence
        return self.state if self.state == WAITING else f"{self.state} · {self.sentence}".rstrip(" ·")

    @property
    def again(self) -> Mapping[str, str]:
        return {**self.values, "resume": ON} if self.form.can_resume else self.values


class WorkProcess(QProcess):
    """A command in a process of its own. It reports through its output; a line to its input is a Ctrl-C.

    Signals:
        progressed(object): a WorkProgress.
        said(str): a line for people.
        ended(int): the exit code, -1 for a program that did not start or was killed; the last signal.
    """

    progressed = Signal(object)
    said = Signal(str)
    ended = Signal(int)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        self.readyRead.connect(self._read)
        self.finished.connect(self._finish)
        self.errorOccurred.connect(self._fail)

    def begin(self, argv: Sequence[str]) -> None:
        self.start(argv[0], list(argv[1:]))

    def stop(self) -> None:
        """The first call asks the command to end and to keep its results, the second breaks it off."""
        self.write(b"stop\n")

    def end(self) -> None:
        """Ends it without further signals: it may end by itself before it is killed."""
        self.blockSignals(True)
        self.closeWriteChannel()
        if not self.waitForFinished(_CLOSE_MS):
            self.kill()
            self.waitForFinished(_CLOSE_MS)

    def _read(self) -> None:
        while self.canReadLine():
            self._take(bytes(self.readLine().data()))

    def _take(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        progress = WorkProgress.of_line(line)
        if progress is not None:
            self.progressed.emit(progress)
        elif line.strip():
            self.lines.append(line)
            self.said.emit(line)

    def _finish(self, code: int, status: QProcess.ExitStatus) -> None:
        self._read()
        self._take(bytes(self.readAll().data()))
        self.ended.emit(code if status == QProcess.ExitStatus.NormalExit else -1)

    def _fail(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self._take(f"The program cannot be started: {self.errorString()}.".encode())
            self.ended.emit(-1)


class WorkQueue(QObject):
    """Starts the next piece of work when the engine rests and no run waits; holds the engine back meanwhile.

    Signals:
        changed(): something is to be shown anew.
        ended(object): a WorkItem is over.
    """

    changed = Signal()
    ended = Signal(object)

    def __init__(self, controller: RunController, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self.works: Works | None = None
        self.items: list[WorkItem] = []
        self._process: WorkProcess | None = None
        controller.ticked.connect(self._begin_next)

    @property
    def at_work(self) -> WorkItem | None:
        return next((item for item in self.items if item.state in (WORKING, STOPPING)), None)

    def add(self, form: WorkForm, values: Mapping[str, str]) -> WorkItem:
        item = WorkItem(form, dict(values))
        self.items.append(item)
        self._begin_next()
        self.changed.emit()
        return item

    def stop(self) -> None:
        """Asks what is at work to end and to keep what is done; asked again, it is broken off."""
        item = self.at_work
        if item is not None and self._process is not None:
            item.state = STOPPING
            self._process.stop()
            self.changed.emit()

    def remove(self, item: WorkItem) -> None:
        if item in self.items and item is not self.at_work:
            self.items.remove(item)
            self.changed.emit()

    def go_on(self, item: WorkItem) -> None:
        """Puts what was stopped last, to go on where it was; it stands in the list once."""
        self.remove(item)
        self.add(item.form, item.again)

    def put_first(self, item: WorkItem) -> None:
        if item.state == WAITING:
            self.items.remove(item)
            waiting = (place for place, other in enumerate(self.items) if other.state == WAITING)
            self.items.insert(next(waiting, len(self.items)), item)
            self.changed.emit()

    def close(self) -> None:
        self.items = []
        if self._process is not None:
            self._process.end()
            self._process = None

    def _begin_next(self) -> None:
        controller = self._controller
        if self._process is not None or self.works is None or controller.is_busy or controller.waiting:
            return
        item = next((item for item in self.items if item.state == WAITING), None)
        if item is None:
            return
        controller.hold(True)
        item.state = WORKING
        self._process = WorkProcess(self)
        self._process.progressed.connect(lambda progress: self._progress(item, progress))
        self._process.said.connect(lambda line: self._hear(item, line))
        self._process.ended.connect(lambda code: self._end(item, code))
        self._process.begin(self.works.argv(item.form.argv(item.values)))
        self.changed.emit()

    def _progress(self, item: WorkItem, progress: WorkProgress) -> None:
        item.progress = progress
        self.changed.emit()

    def _hear(self, item: WorkItem, line: str) -> None:
        _, item.sentence = item.form.in_its_words(line.removeprefix("evprof: "))
        self.changed.emit()

    def _end(self, item: WorkItem, code: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        item.lines = list(process.lines)
        item.state = STOPPED if code == CANCELLED or item.state == STOPPING else DONE if code == 0 else FAILED
        if not item.sentence and item.lines:
            item.sentence = item.lines[-1]
        process.deleteLater()
        self._controller.hold(False)
        self.changed.emit()
        self.ended.emit(item)
