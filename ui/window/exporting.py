"""Imports results of other programs, and writes sessions, exports, reports and pictures in the background."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QByteArray, QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QImage, QImageWriter
from PySide6.QtWidgets import QFileDialog, QWidget

from evprof.core.errors import UserError
from evprof.core.files.whole_file import whole_path
from evprof.core.run_log import RunLog
from evprof.core.units import count_text
from ui.settings.tool_buttons import EXPORTS
from ui.state.run_controller import RunController
from ui.state.window_session import WindowSession
from ui.widgets.message_bar import MessageBar
from ui.widgets.text_dialogs import ProblemsDialog
from ui.window.activity import Activity

_REPORTS = "Web page (*.html);;Markdown (*.md)"
_MOST_TOLD = 2
"""Problems of imported files that are told at once."""


def save_picture(picture: QImage, out: Path) -> None:
    """Writes a PNG. Raises UserError when that fails, and where a session lies at `out`."""
    try:
        with whole_path(out) as unfinished:
            if not QImageWriter(str(unfinished), QByteArray(b"png")).write(picture):
                raise OSError("Qt cannot write it")
    except OSError as error:
        raise UserError(f"The picture {out} cannot be written; check the folder and the free space.") from error


class Exporting(QObject):
    """Asks where to, then writes. A refusal is told by the session's `failed`."""

    def __init__(
        self, session: WindowSession, controller: RunController, window: QWidget, post: Callable[..., None]
    ) -> None:
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
            save_picture(self._window.grab().toImage(), path)
        except UserError as error:
            self._post(error.sentence)
        else:
            self._say_written(path)

    def _say_written(self, path: Path) -> None:
        self._post(f"Written: {path}", "info", "Open folder", partial(_show_file, path.parent))


def _show_file(path: Path) -> None:
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))


def _written(kind: str, session: Path, runs: list[RunLog], path: Path) -> Path:
    from evprof.export.files import write_export
    from evprof.export.report.data import Source

    write_export([Source(session, runs)], kind, path)
    return path


class Results(QObject):
    """Import and report; what comes of it, and what is refused, is told in the message bar."""

    _progressed = Signal(str, str)

    def __init__(self, session: WindowSession, window: QWidget, messages: MessageBar, activity: Activity) -> None:
        super().__init__(window)
        self._activity = activity
        self._progressed.connect(activity.update)
        self._session = session
        self._window = window
        self._messages = messages
        self._post = messages.post

    def browse(self) -> None:
        pattern = "Results (*.json *.jsonl);;All files (*)"
        if paths := QFileDialog.getOpenFileNames(self._window, "Import results", "", pattern)[0]:
            self.take([Path(path) for path in paths])

    def take(self, paths: Sequence[Path], *, waits: bool = False) -> None:
        """Makes a session of result files and opens it. `waits`: before returning, and not kept (pictures).

        Raises UserError with `waits`; otherwise what is wrong is told.
        """
        if waits:
            with tempfile.TemporaryDirectory(prefix="evprof-import-") as folder:
                session = Path(folder) / f"{paths[0].stem}.evprof"
                _imported(paths, session, is_passing=True)
                self._session.read(session)
            return
        if refusal := self._session.refusal_to_leave():
            self._post(refusal, "warn")
            return
        activity = f"Importing {_names(paths)}"
        if self._activity.has(activity):
            self._post(f"{_names(paths)} is being imported already.", "warn")
            return

        def note(_: Path, done: int, rows: int) -> None:
            self._progressed.emit(activity, f"{activity}: {done:,} of {rows:,} rows")

        self._begin(activity, lambda: _imported(paths, _place(paths), note), self._opened, blocks=True)

    def _begin(
        self, activity: str, work: Callable[[], object], then: Callable[[Any], None], *, blocks: bool = False
    ) -> None:
        """Works in the background and says so until it is over."""

        def over(tell: Callable[[Any], object], told: Any) -> None:
            self._activity.end(activity)
            tell(told)

        self._activity.begin(activity, blocks=blocks)
        self._session.in_background(work, partial(over, then), partial(over, self._post))

    def _opened(self, found: _Imported) -> None:
        kind = "warn" if found.problems else "info"
        if refusal := self._session.refusal_to_leave():  # a run may have begun meanwhile
            place = f"It lies at {found.session}, and is not opened yet: {refusal}"
            self._post(f"{found.sentence} {place}", kind, "Open", partial(self._session.open, found.session))
            return
        self._session.open(found.session)
        title, window = "What to know about the imported files", self._window
        show_all = ("Show all", lambda: ProblemsDialog(title, found.problems, window).show())
        self._post(found.sentence, kind, *(show_all if len(found.problems) > _MOST_TOLD else ()))

    def ask_report(self) -> None:
        stem = self._session.path.stem if self._session.path is not None else "report"
        start = str(Path.home() / f"{stem}.html")
        path, pattern = QFileDialog.getSaveFileName(self._window, "Write report", start, _REPORTS)
        if path:
            place = Path(path)
            self.report(place if place.suffix else place.with_suffix(".md" if "*.md" in pattern else ".html"))

    def report(self, output: Path) -> None:
        """Writes a report on the session to a .html or .md; the bar offers to open it."""
        if reason := self._session.refusal():
            self._post(reason, "warn")
            return
        if not self._session.recording.message_count and "imports" not in self._session.facts:
            self._post("There is nothing to report yet; run something, or open a session.", "warn")
            return
        self._begin("Writing the report", partial(_reported, self._session, output), self._say_reported)

    def _say_reported(self, path: Path) -> None:
        self._post(f"Report written: {path}", "info", "Open", partial(_show_file, path))


class _Imported:
    def __init__(self, session: Path, runs: int, problems: Sequence[str], names: str) -> None:
        self.session = session
        self.problems = problems
        told, more = " ".join(problems[:_MOST_TOLD]), len(problems) - _MOST_TOLD
        self.sentence = f"Imported {count_text(runs, 'run')} of {names}. {told}".strip()
        self.sentence += f" And {more} more." if more > 0 else ""


def _imported(
    paths: Sequence[Path],
    session: Path,
    note: Callable[[Path, int, int], None] | None = None,
    *,
    is_passing: bool = False,
) -> _Imported:
    from evprof.run.legacy_import import import_files

    try:
        session.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{session.parent} cannot be made: {error.strerror or error}; free some space.") from error
    summary = import_files(paths, session, note, is_passing=is_passing)
    problems = [problem for file in summary.files for problem in file.problems]
    return _Imported(session, summary.runs, problems, _names(paths))


def _place(paths: Sequence[Path]) -> Path:
    """Beside the autosaved sessions, named after the first file: saving it elsewhere is one step more."""
    from evprof.session.autosave import autosave_folder

    return autosave_folder() / f"{paths[0].stem}-{datetime.now():%Y%m%d-%H%M%S}.evprof"


def _names(paths: Sequence[Path]) -> str:
    return paths[0].name if len(paths) == 1 else f"{len(paths)} files"


def _reported(session: WindowSession, output: Path) -> Path:
    from evprof.export.report.writing import write_report

    path = session.on_disk()
    write_report([path], output, command=f"evprof report {path} -o {output}")
    return output
