"""Reads other sessions for the comparison and writes comparisons into files, both on threads."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

from evprof.core.errors import UserError
from evprof.core.run_log import RunLog
from evprof.session.header import is_session
from evprof.session.opened import open_session

FORMATS = {
    "csv": ("CSV table…", "CSV (*.csv)"),
    "json": ("JSON…", "JSON (*.json)"),
}
"""What can be written: the menu's words and the file dialog's pattern."""


@dataclass(frozen=True)
class ReadSession:
    """A session of which every run is known. `path` is where it was asked for."""

    path: str
    title: str
    runs: tuple[RunLog, ...]


class SessionShelf(QObject):
    """Sessions as they come.

    Signals:
        came(object): a ReadSession.
        failed(str): a sentence about one that cannot be read.
    """

    came = Signal(object)
    failed = Signal(str)
    _done = Signal(str, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._threads: list[threading.Thread] = []
        self._wanted: set[str] = set()
        self._done.connect(self._tell, Qt.ConnectionType.QueuedConnection)

    @property
    def is_busy(self) -> bool:
        """Whether one is still to come, or to be told as failed."""
        return bool(self._wanted)

    def read(self, path: Path) -> None:
        """Reads a session, or results of other programs; `came` or `failed` tells."""

        def work() -> None:
            try:
                self._done.emit(str(path), read_any(path))
            except UserError as error:
                self._done.emit(str(path), error.sentence)

        if str(path) in self._wanted:
            return
        self._wanted.add(str(path))
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=work, name="evprof-session-shelf", daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait(self, timeout_s: float = 30.0) -> None:
        """Waits for what is being read; who owns the shelf must, before it goes away."""
        for thread in self._threads:
            thread.join(timeout_s)

    def _tell(self, path: str, result: object) -> None:
        self._wanted.discard(path)
        if isinstance(result, ReadSession):
            self.came.emit(result)
        else:
            self.failed.emit(str(result))


def read_any(path: Path) -> ReadSession:
    """A session file, or result files of other programs taken over into a session that is not kept.

    Raises UserError for anything else.
    """
    if is_session(path) or path.suffix.lower() != ".json":
        return _read(path, path)
    from evprof.run.legacy_import import import_files

    with tempfile.TemporaryDirectory(prefix="evprof-import-") as folder:
        session = Path(folder) / f"{path.stem}.evprof"
        import_files([path], session, is_passing=True)
        return _read(session, path)


def _read(session: Path, asked: Path) -> ReadSession:
    return ReadSession(str(asked), asked.name, tuple(open_session(session).runs.values()))


def write_comparison_as(key: str, path: Path, document: Mapping[str, Any]) -> str:
    """Writes a document of `compare_document`; returns a sentence.

    An ending that is missing is added. Raises UserError when the place cannot be written.
    """
    wanted = ".csv" if key == "csv" else ".json"
    place = path if path.suffix.lower() == wanted else path.with_name(path.name + wanted)
    from evprof.export.comparison_tables import write_comparison

    write_comparison(document, place)
    return f"Written: {place}"
