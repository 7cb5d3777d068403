"""Reports unexpected errors of any thread and hard crashes: a file, a dialog, and the window goes on."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import platform
import re
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TextIO

from PySide6.QtCore import QObject, Qt, QUrl, Signal, qVersion
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QMessageBox, QWidget

from evprof.core.errors import UserError
from evprof.core.files.user_folders import log_folder
from evprof.core.records import STREAM_OF, SpanRecord
from evprof.core.texts import plain
from evprof.version import __version__
from ui.state.run_controller import RunController

_MOST_CHARACTERS = 200_000
_WORDS = (
    "What was measured is kept. The report holds versions, where in the program it happened and the last records, no "
    "picture, event, prompt or answer. Attach it when you tell of the defect."
)


class CrashDialog(QMessageBox):
    """Shows a report. Does not block the window."""

    def __init__(self, title: str, sentence: str, report: Path | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.report = report
        self.setModal(False)
        self.setWindowTitle("A defect of evprof")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(f"{title}\n\n{plain(sentence)}")
        self.setInformativeText(f"{_WORDS}\n\n{report or 'The report could not be written; copy the details.'}")
        self.setDetailedText(plain(_read(report) or sentence, _MOST_CHARACTERS))
        self.go_on_button = self.addButton("Go on", QMessageBox.ButtonRole.AcceptRole)
        self.setDefaultButton(self.go_on_button)
        if report is not None:
            folder = QUrl.fromLocalFile(str(report.parent))
            button = self.addButton("Open folder", QMessageBox.ButtonRole.ActionRole)
            button.clicked.connect(lambda: QDesktopServices.openUrl(folder))


def _read(report: Path | None) -> str:
    if report is not None:
        with contextlib.suppress(OSError), report.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_CHARACTERS)
    return ""


_SPANS = 20


def last_records(controller: RunController) -> list[str]:
    """Lines of a report: the last intervals. Called on any thread."""
    spans = controller.recording.streams[STREAM_OF[SpanRecord]]
    rows = spans.rows(max(0, len(spans) - _SPANS))
    head = f"runs: {len(controller.runs)}, busy: {controller.is_busy}"
    return [head, "last intervals:", *(f"  {row!r}" for row in rows)]


logger = logging.getLogger(__name__)

_WAY = re.compile(r"(Error calling Python override of [\w:]+\(\): )+")
"""What PySide puts before what went wrong, once for every call between it and Qt; the report keeps it."""

Report = Callable[[BaseException, str, Sequence[str]], Path | None]
"""Writes a report about what was being done, with further lines; returns where it is."""


class DefectNet(QObject):
    """Tells every defect once: one that comes with every drawing must fill neither the disk nor the screen.

    What a person can put right, such as a session that was moved while it is on show, is no defect.

    Signals:
        refused(str): what that is, in a sentence; emitted from any thread.
        caught(str, object): a sentence about a defect, and the report (None: there is none); emitted from any thread.
    """

    refused = Signal(str)
    caught = Signal(str, object)

    def __init__(self, window: QWidget, report: Report | None, controller: RunController) -> None:
        super().__init__(window)
        self._window = window
        self._report = report
        self._controller = controller
        self._seen: Counter[str] = Counter()
        self._dialog: CrashDialog | None = None
        self._hooks = (sys.excepthook, threading.excepthook)
        self.caught.connect(self._show, Qt.ConnectionType.QueuedConnection)

    def spread(self) -> None:
        """Begins to catch."""
        sys.excepthook = self._catch
        threading.excepthook = self._catch_of_thread

    def fold(self) -> None:
        sys.excepthook, threading.excepthook = self._hooks

    def _catch(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, KeyboardInterrupt):
            self._hooks[0](kind, error, trace)
            return
        if isinstance(error, UserError):
            self.refused.emit(error.sentence)
            return
        where = "".join(traceback.format_tb(trace))
        self._seen[where] += 1
        if self._seen[where] > 1:
            return
        logger.error("unexpected", exc_info=(kind, error, trace))
        path = None
        if self._report is not None:
            path = self._report(error, "the window", [f"Qt {qVersion()}", *self._lines()])
        self.caught.emit(f"{type(error).__name__}: {_WAY.sub('', str(error))}", path)

    def _lines(self) -> list[str]:
        try:
            return last_records(self._controller)
        except Exception as error:  # noqa: BLE001 - a report must come about whatever is broken
            return [f"the last records cannot be told: {type(error).__name__}: {error}"]

    def _catch_of_thread(self, arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            self._catch(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)

    def _show(self, sentence: str, report: Path | None) -> None:
        if self._dialog is None:  # The reports of further defects are in the same folder.
            self._dialog = CrashDialog("evprof met a defect of its own and goes on", sentence, report, self._window)
            self._dialog.finished.connect(self._forget)
            self._dialog.show()

    def _forget(self, _: int) -> None:
        self._dialog = None


_MARK = "threads as it ended:"
_PREFIX = "window-"
_LARGEST_BYTES = 1 << 20


class FaultFile:
    """The file of this window; without a folder that takes it there is none."""

    def __init__(self) -> None:
        self._file: TextIO | None = None
        self._path = log_folder() / f"{_PREFIX}{os.getpid()}.txt"

    def open(self) -> None:
        """Begins to wait for a crash."""
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w", encoding="utf-8")
            when = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
            self._file.write(
                f"evprof {__version__}, Python {platform.python_version()}, {sys.platform}\n"
                f"doing: the window, begun {when}\n{_MARK}\n"
            )
            self._file.flush()
            faulthandler.enable(self._file, all_threads=True)

    def close(self) -> None:
        if self._file is not None:
            faulthandler.disable()
            if sys.__stderr__ is not None:
                with contextlib.suppress(ValueError, OSError):  # there is no such stream in a program without console
                    faulthandler.enable(sys.__stderr__)
            self._file.close()
            self._file = None
            with contextlib.suppress(OSError):
                self._path.unlink()


def crashed_windows() -> list[Path]:
    """Reports of windows that crashed, the newest first, each told once; files that say nothing are removed."""
    import psutil  # takes longer than the window's start may

    found = []
    for path in sorted(log_folder().glob(f"{_PREFIX}*.txt")):
        with contextlib.suppress(OSError, ValueError):
            if psutil.pid_exists(int(path.stem.removeprefix(_PREFIX))) or path.stat().st_size > _LARGEST_BYTES:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            if text.partition(_MARK)[2].strip():
                told = path.with_name(f"crash-{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y%m%d-%H%M%S}-w.txt")
                path.replace(told)
                found.append(told)
            else:
                path.unlink()
    return found[::-1]
