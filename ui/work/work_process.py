"""One command at work in a process of its own; it knows neither window nor queue."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from typing import IO

from PySide6.QtCore import QObject, Qt, Signal

from evprof.run.works.work_form import WorkProgress

KEPT_LINES = 400
"""Of what a command writes the last are kept."""

_CLOSE_S = 1.5

NOT_STARTED = -1
"""In place of the exit code of what could not be started, or was killed."""


class WorkProcess(QObject):
    """Starts at once, with ordinary priority. Its progress comes through standard error; a line to its standard input
    is a Ctrl-C.

    Signals:
        progressed(object): a WorkProgress.
        said(str): a line for people.
        ended(int): the exit code; it will tell nothing more.
    """

    progressed = Signal(object)
    said = Signal(str)
    ended = Signal(int)
    _came = Signal(bytes)
    _gone = Signal(int)

    def __init__(self, argv: Sequence[str], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._process: subprocess.Popen[bytes] | None = None
        self._threads: list[threading.Thread] = []
        self._came.connect(self._take, Qt.ConnectionType.QueuedConnection)
        self._gone.connect(self.ended, Qt.ConnectionType.QueuedConnection)
        try:
            self._process = process = _started(argv)
        except OSError as error:
            self.lines.append(f"The program cannot be started: {error.strerror or error}.")
            self._gone.emit(NOT_STARTED)
            return
        readers = [
            threading.Thread(target=self._read, args=(stream,), name="evprof-work-output", daemon=True)
            for stream in (process.stdout, process.stderr)
            if stream is not None
        ]
        waiting = threading.Thread(target=self._wait, args=(process, readers), name="evprof-work", daemon=True)
        self._threads = [*readers, waiting]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """The first call asks it to end and to keep what is done, the second breaks it off."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(b"stop\n")
                self._process.stdin.flush()

    def close(self) -> None:
        """Ends it: it is asked twice, then killed."""
        self.blockSignals(True)
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for thread in self._threads:
            thread.join(_CLOSE_S)

    # On threads of their own.

    def _read(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError), stream:
            for line in stream:
                self._came.emit(line)

    def _wait(self, process: subprocess.Popen[bytes], readers: Sequence[threading.Thread]) -> None:
        code = process.wait()
        for reader in readers:
            reader.join()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        self._gone.emit(max(NOT_STARTED, code))

    # On the window's.

    def _take(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        progress = WorkProgress.of_line(line)
        if progress is not None:
            self.progressed.emit(progress)
        elif line.strip():
            self.lines.append(line)
            self.said.emit(line)


def _started(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
