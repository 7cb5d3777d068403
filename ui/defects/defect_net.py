"""Catches what nobody expected, on any thread: a report on disk, a dialog, and the window goes on."""

from __future__ import annotations

import logging
import re
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QObject, Qt, Signal, qVersion
from PySide6.QtWidgets import QWidget

from evprof.core.errors import UserError
from ui.defects.crash_dialog import CrashDialog
from ui.defects.last_records import LastRecords

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
        """Stops catching."""
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
