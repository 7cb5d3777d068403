"""Writes what the window holds into files, in the background, and says where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog, QWidget

from evprof.core.errors import UserError
from evprof.core.run_log import RunLog
from ui.settings.tool_buttons import EXPORTS
from ui.state.run_controller import RunController
from ui.state.window_session import WindowSession
from ui.timeline.lane_turns import grabbed
from ui.window.picture_file import save_picture

Post = Callable[..., None]


class Exporting(QObject):
    """Asks where to, then writes. A refusal is told by the session's `failed`."""

    def __init__(self, session: WindowSession, controller: RunController, window: QWidget, post: Post) -> None:
        super().__init__(window)
        self._session = session
        self._controller = controller
        self._window = window
        self._post = post

    def ask(self, kind: str) -> None:
        """Lets the person choose a place for a key of EXPORTS, and writes it."""
        _, title, name, pattern = EXPORTS[kind]
        stem = self._session.path.stem if self._session.path is not None else Path(name).stem
        start = str(Path.home() / f"{stem}{Path(name).suffix}")
        path, _ = QFileDialog.getSaveFileName(self._window, title, start, pattern)
        if path:
            self.write(kind, Path(path))

    def write(self, kind: str, path: Path) -> None:
        """Writes `kind` to `path`; an existing file there is replaced."""
        if kind == "session":
            self._session.save_as(path if path.suffix else path.with_suffix(".evprof"))
            return
        if kind == "screenshot":
            self._picture(path if path.suffix else path.with_suffix(".png"))
            return
        runs = list(self._controller.runs.values())
        if not runs:
            self._post("There is nothing to export yet; run something, or open a session.", "warn")
            return
        if self._controller.is_busy:
            self._post("A run is going on; export when it has ended.", "warn")
            return
        session = self._session.path or Path()
        self._session.in_background(lambda: _written(kind, session, runs, path), self._say_written)

    def _picture(self, path: Path) -> None:
        try:
            is_saved = save_picture(grabbed(self._window), path)
        except UserError as error:
            self._post(error.sentence)
            return
        if is_saved:
            self._say_written(path)
        else:
            self._post(f"The picture {path} cannot be written; check the folder and the free space.")

    def _say_written(self, path: object) -> None:
        self._post(f"Written: {path}", "info")


def _written(kind: str, session: Path, runs: list[RunLog], path: Path) -> Path:
    from evprof.export.files import write_export
    from evprof.export.report.data import Source

    write_export([Source(session, runs)], kind, path)
    return path
