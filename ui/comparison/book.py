"""What the comparison window has open: sessions, the configurations in them, and which of them are compared how.

It knows neither widgets nor disks; sessions come read.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

from evprof.core.errors import UserError
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.metrics.comparison.document import Configuration, configurations_of
from evprof.metrics.configurations.saved_view import ColumnName, SavedView
from evprof.metrics.figures.stages import END_TO_END
from evprof.session.opened import open_session
from evprof.session.opening import is_session

OPEN_SESSION = ""
"""Stands for the window's own session where others have their path."""


def place_of(column: Configuration) -> ColumnName:
    """The place of a configuration."""
    info = column.runs[0].info
    return ColumnName(column.session, column.run_id, info.mode, info.role)


@dataclass
class OpenSession:
    """A session whose configurations can be compared: its path ("" for the window's own), its name and its runs."""

    path: str
    title: str
    runs: Sequence[RunLog]
    columns: dict[ColumnName, Configuration] = field(default_factory=dict)
    _seen: object = None

    def update(self) -> bool:
        """Gathers the configurations anew where runs have come or ended; whether anything is different."""
        seen = tuple((run.run_id, run.version) for run in self.runs if run.info.is_over)
        if seen == self._seen:
            return False
        self._seen = seen
        # Only what has ended: figures that move while one looks at them compare nothing.
        ended = [run for run in self.runs if run.info.is_over]
        self.columns = {place_of(column): column for column in configurations_of(ended, self.path)}
        return True

    def left_out(self, column: Configuration) -> int:
        """Finished runs of a configuration that no figure takes in: for warming up, profiled, cold."""
        info = column.runs[0].info
        same = (info.cell or info.group_id, info.mode, info.role)
        taken = {run.run_id for run in column.runs}
        return sum(
            run.run_id not in taken
            and run.info.status == FINISHED
            and (run.info.cell or run.info.group_id, run.info.mode, run.info.role) == same
            for run in self.runs
        )


class ComparisonBook:
    """Sessions in order of opening, and the choice: columns in order, baseline, basis, differences only."""

    def __init__(self) -> None:
        self.sessions: dict[str, OpenSession] = {}
        self.chosen: list[ColumnName] = []
        self.baseline: ColumnName | None = None
        self.basis = END_TO_END
        self.differences_only = False

    def show_session(self, path: str, title: str, runs: Sequence[RunLog]) -> None:
        """Opens a session, or takes its runs as they are now."""
        known = self.sessions.get(path)
        if known is None:
            self.sessions[path] = known = OpenSession(path, title, runs)
        known.title, known.runs = title, runs
        known.update()
        self._tidy()

    def close_session(self, path: str) -> None:
        """Forgets a session and its columns."""
        self.sessions.pop(path, None)
        self._tidy()

    def column(self, place: ColumnName) -> Configuration | None:
        """The configuration at a place, None when it is gone."""
        session = self.sessions.get(place.session)
        return None if session is None else session.columns.get(place)

    @property
    def configurations(self) -> list[Configuration]:
        """What is compared, in order."""
        return [column for place in self.chosen if (column := self.column(place)) is not None]

    @property
    def baseline_index(self) -> int:
        """The baseline's place among `configurations`; the first until one is chosen."""
        places = [place_of(column) for column in self.configurations]
        return places.index(self.baseline) if self.baseline in places else 0

    def toggle(self, place: ColumnName) -> None:
        """Adds a configuration after the others, or removes it."""
        if place in self.chosen:
            self.chosen.remove(place)
        elif self.column(place) is not None:
            self.chosen.append(place)
        self._tidy()

    def move(self, place: ColumnName, by: int) -> None:
        """Moves a column to the left or right."""
        if place in self.chosen:
            index = self.chosen.index(place)
            self.chosen.insert(min(max(0, index + by), len(self.chosen) - 1), self.chosen.pop(index))

    def choose_baseline(self, place: ColumnName) -> None:
        """Compares all others to this column."""
        if place in self.chosen:
            self.baseline = place

    def choose_first(self, wanted: Sequence[RunLog], most: int = 4) -> None:
        """Chooses the configurations of some runs of the open session; its first ones where there are too few."""
        session = self.sessions.get(OPEN_SESSION)
        if session is None or self.chosen:
            return
        ids = {run.run_id for run in wanted}
        found = [place for place, column in session.columns.items() if any(run.run_id in ids for run in column.runs)]
        self.chosen = found if len(found) > 1 else list(session.columns)[:most]
        self._tidy()

    def _tidy(self) -> None:
        """Lets go of columns that are gone, and of a baseline that is none of them."""
        self.chosen = [place for place in self.chosen if self.column(place) is not None]
        if self.baseline not in self.chosen:
            self.baseline = self.chosen[0] if self.chosen else None

    # Views that are saved with the session.

    def to_view(self) -> SavedView:
        """The choice, which has at least one column."""
        sessions = tuple(dict.fromkeys(place.session for place in self.chosen))
        baseline = self.baseline or self.chosen[0]
        return SavedView(sessions, tuple(self.chosen), baseline, self.basis, self.differences_only)

    def show_view(self, view: SavedView) -> int:
        """Applies a saved choice as far as its sessions are open. Returns the number of missing columns."""
        places = dict.fromkeys(view.columns)
        self.chosen = [place for place in places if self.column(place) is not None]
        self.baseline, self.basis, self.differences_only = view.baseline, view.basis, view.differences_only
        self._tidy()
        return len(places) - len(self.chosen)


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
