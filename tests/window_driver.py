"""What tests do to a window: drop files, start an engine, read the message bar."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QApplication

from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.run.processes.engine_host import EngineHost
from scripted_process import engine_argv
from ui.window.main_window import MainWindow


class IdleHost:
    """An engine that is busy with its first request for ever."""

    is_busy = False

    def submit(self, request: RunRequest) -> None:
        self.is_busy = True

    def stop(self) -> None: ...

    def attach(self, recording: RecordLog) -> None: ...

    def close(self) -> None: ...


def dragged(*paths: Path | str) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return data


def drop(window: MainWindow, *paths: Path | str) -> None:
    """Drops files on a window, as a file manager does, and waits until they are read."""
    data = dragged(*paths)  # an event does not keep it alive
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    window.dropEvent(QDropEvent(QPointF(400, 300), Qt.DropAction.CopyAction, data, left, none))
    while window.opener.is_busy:
        QApplication.processEvents()


def start_engine(window: MainWindow, speed: float = 200.0, argv: Sequence[str] = ()) -> EngineHost:
    """Gives a window an engine process; without `argv` one that plays its script at a speed."""
    hosts: list[EngineHost] = []

    def make_host(recording: RecordLog) -> EngineHost:
        hosts.append(EngineHost(argv or engine_argv(f"script:{speed:g}"), recording))
        hosts[-1].start()
        return hosts[-1]

    window.start_engine(make_host)
    return hosts[-1]


def sentences(window: MainWindow) -> list[str]:
    """Takes every sentence from the message bar, the shown one first."""
    found = []
    while window.messages.shown is not None:
        found.append(window.messages.shown.sentence)
        window.messages.dismiss()
    return found
