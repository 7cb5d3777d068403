"""Opens the newest torch trace of the session in TensorBoard, for this machine only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QUrl

from ui.state.outside import open_outside
from ui.state.run_controller import RunController
from ui.state.window_session import WindowSession
from ui.widgets.message_bar import KEPT

if TYPE_CHECKING:
    from evprof.run.tensorboard import TensorBoard
    from ui.window.exporting import Post


class TraceViewer(QObject):
    """At most one TensorBoard at a time; it ends with the window."""

    def __init__(self, session: WindowSession, controller: RunController, post: Post) -> None:
        super().__init__(controller)
        self._session = session
        self._controller = controller
        self._post = post
        self._board: TensorBoard | None = None
        self._is_starting = False

    @property
    def newest(self) -> Path | None:
        """The trace that was made last, or None."""
        # Only of profiled runs the path is asked for: of a stored run it stands in its own row alone.
        infos = (run.info for run in self._controller.runs.values() if run.info.profiled)
        paths = [info.trace_path for info in infos if info.trace_path]
        return Path(paths[-1]) if paths else None

    def folder_for_traces(self) -> Path:
        """Where new traces go: beside a named session, otherwise into the user's data folder."""
        if self._session.path is not None:
            return self._session.path.with_name(f"{self._session.path.stem}-traces")
        from evprof.session.autosave import autosave_folder

        return autosave_folder().with_name("traces")

    def open(self) -> None:
        """Starts TensorBoard in the background and opens its page when it answers."""
        newest = self.newest
        if newest is None:
            self._post("There is no torch trace in this session; switch on Trace and press Run.", "warn")
            return
        if self._is_starting:
            return
        self.close()
        self._is_starting = True
        folder = newest if newest.is_dir() else newest.parent.parent
        self._post("TensorBoard is starting; its page opens when it answers.", "info")
        self._session.in_background(lambda: _start(folder), self._show)

    def _show(self, outcome: object) -> None:
        self._is_starting = False
        if isinstance(outcome, str):
            self._post(outcome)
            return
        self._board = outcome  # type: ignore[assignment]  # the other half of _start's answer
        if self._board is not None:
            open_outside(QUrl(self._board.url))
            self._post(f"TensorBoard answers at {self._board.url}", KEPT)

    def close(self) -> None:
        """Ends TensorBoard."""
        board, self._board = self._board, None
        if board is not None:
            board.close()


def _start(folder: Path) -> TensorBoard | str:
    from evprof.core.errors import UserError
    from evprof.run.tensorboard import open_tensorboard

    try:
        return open_tensorboard(folder)
    except UserError as error:
        return error.sentence
