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
from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TextIO

from PySide6.QtCore import QObject, Qt, QUrl, Signal, qVersion
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QDialog, QPlainTextEdit, QPushButton, QWidget

from evprof.core.errors import UserError
from evprof.core.files.user_folders import log_folder
from evprof.core.protocols import Message
from evprof.core.records import STREAM_OF, SpanRecord
from evprof.core.texts import plain
from evprof.version import __version__
from ui.state.run_controller import RunController
from ui.style.theme import GRID
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.label import Label

_MOST_CHARACTERS = 200_000
_WORDS = (
    "What was measured is kept. The report holds versions, where in the program it happened and the last records, no "
    "picture, event, prompt or answer. Attach it when you tell of the defect."
)


class CrashDialog(QDialog):
    """Shows the report. Does not block the window."""

    def __init__(self, title: str, sentence: str, report: Path | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.report = report
        self.setWindowTitle("A defect of evprof")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setMinimumSize(480, 320)
        self.resize(640, 440)
        self.sentence = in_role(Label(sentence), "bad")
        self._words = in_role(Label(_WORDS), "dim")
        self._place = in_role(Label(str(report or "The report could not be written; copy what stands here.")), "small")
        for label in (self.sentence, self._words, self._place):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.text = QPlainTextEdit(plain(_read(report) or sentence, _MOST_CHARACTERS))
        self.text.setReadOnly(True)
        self.text.setAccessibleName("Report")
        self.copy_button = QPushButton("Copy")
        self.copy_button.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        self.folder_button = QPushButton("Open folder")
        self.folder_button.setEnabled(report is not None)
        self.folder_button.clicked.connect(self._open_folder)
        self.go_on_button = in_role(QPushButton("Go on"), "primary")
        self.go_on_button.setDefault(True)
        self.go_on_button.clicked.connect(self.accept)
        buttons = beside(self.copy_button, self.folder_button, None, self.go_on_button, spacing=GRID)
        head = in_role(Label(title), "title")
        margins = (3 * GRID, 2 * GRID, 3 * GRID, 2 * GRID)
        parts = (head, self.sentence, self._words, (self.text, 1), self._place, buttons)
        stacked(*parts, on=self, margins=margins, spacing=GRID)
        self._others = 0

    def add(self, sentence: str, report: Path | None) -> None:
        self._others += 1
        self.text.appendPlainText(f"\n———\n\n{plain(_read(report) or sentence, _MOST_CHARACTERS)}")
        first = self.sentence.text().partition(" (and ")[0]
        self.sentence.setText(f"{first} (and {self._others} more)")

    def _open_folder(self) -> None:
        if self.report is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self.report.parent)))


def _read(report: Path | None) -> str:
    if report is not None:
        with contextlib.suppress(OSError), report.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_CHARACTERS)
    return ""


_MESSAGES = 20
_SPANS = 20


class LastRecords(QObject):
    """Keeps the last messages by kind and run."""

    def __init__(self, controller: RunController) -> None:
        super().__init__(controller)
        self._controller = controller
        self._messages: deque[str] = deque(maxlen=_MESSAGES)
        controller.message.connect(self._note)

    def _note(self, message: Message) -> None:
        facts = (f"{name} {getattr(message, name)}" for name in ("run_id", "status", "state") if hasattr(message, name))
        self._messages.append(" ".join([type(message).__name__, *facts]))

    def lines(self) -> list[str]:
        """Lines of a report. Called on any thread."""
        controller = self._controller
        found = [f"runs: {len(controller.runs)}, busy: {controller.is_busy}", "last messages:"]
        found += [f"  {text}" for text in list(self._messages)]
        found.append("last intervals:")
        spans = controller.recording.streams[STREAM_OF[SpanRecord]]
        return found + [f"  {row!r}" for row in spans.rows(max(0, len(spans) - _SPANS))]


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

    def __init__(self, window: QWidget, report: Report | None, records: LastRecords) -> None:
        super().__init__(window)
        self._window = window
        self._report = report
        self._records = records
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
            return self._records.lines()
        except Exception as error:  # noqa: BLE001 - a report must come about whatever is broken
            return [f"the last records cannot be told: {type(error).__name__}: {error}"]

    def _catch_of_thread(self, arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            self._catch(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)

    def _show(self, sentence: str, report: Path | None) -> None:
        if self._dialog is not None:
            self._dialog.add(sentence, report)
            return
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
