"""One command at work in a process of its own; it knows neither window nor queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from PySide6.QtCore import QObject, QProcess, Signal

from evprof.run.works.work_progress import WorkProgress

KEPT_LINES = 400
"""Of what a command writes the last are kept."""

_CLOSE_MS = 1_500


class WorkProcess(QObject):
    """Starts at once. Its progress comes through standard error; a line to its standard input is a Ctrl-C.

    Signals:
        progressed(object): a WorkProgress.
        said(str): a line for people.
        ended(int): the exit code; it will tell nothing more.
    """

    progressed = Signal(object)
    said = Signal(str)
    ended = Signal(int)

    def __init__(self, argv: Sequence[str], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._parts = {"out": b"", "error": b""}
        self._process = QProcess(self)
        self._process.readyReadStandardError.connect(lambda: self._read("error"))
        self._process.readyReadStandardOutput.connect(lambda: self._read("out"))
        self._process.finished.connect(self._end)
        self._process.errorOccurred.connect(self._fail)
        self._process.start(argv[0], list(argv[1:]))

    def stop(self) -> None:
        """The first call asks it to end and to keep what is done, the second breaks it off."""
        self._process.write(b"stop\n")

    def close(self) -> None:
        """Ends it: it is asked twice, then killed."""
        self.blockSignals(True)
        if self._process.state() != QProcess.ProcessState.NotRunning:
            self._process.closeWriteChannel()
            if not self._process.waitForFinished(_CLOSE_MS):
                self._process.kill()
                self._process.waitForFinished(_CLOSE_MS)

    def _read(self, stream: str) -> None:
        read = self._process.readAllStandardOutput if stream == "out" else self._process.readAllStandardError
        *whole, self._parts[stream] = (self._parts[stream] + bytes(read().data())).split(b"\n")
        for line in whole:
            self._take(line)

    def _take(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip("\r")
        progress = WorkProgress.of_line(line)
        if progress is not None:
            self.progressed.emit(progress)
        elif line.strip():
            self.lines.append(line)
            self.said.emit(line)

    def _end(self, code: int, status: QProcess.ExitStatus) -> None:
        for stream in self._parts:
            self._read(stream)
            self._take(self._parts[stream])
        self.ended.emit(code if status == QProcess.ExitStatus.NormalExit else -1)

    def _fail(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self.lines.append(f"The program cannot be started: {self._process.errorString()}.")
            self.ended.emit(-1)
