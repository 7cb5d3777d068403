"""What the comparison window has open: sessions, the configurations in them, and which of them are compared how.

It knows neither widgets nor disks; sessions come read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.metrics.comparison.document import BASES, Configuration, configurations_of
from evprof.metrics.figures.stages import END_TO_END

if TYPE_CHECKING:
    from ui.state.window_session import WindowSession

OPEN_SESSION = ""
"""Stands for the window's own session where others have their path."""


class ConfigurationPlace(NamedTuple):
    """Where a configuration is: in which session, and its first run with that run's mode and role."""

    session: str
    run_id: int
    mode: str
    role: str


def place_of(column: Configuration) -> ConfigurationPlace:
    """The place of a configuration."""
    info = column.runs[0].info
    return ConfigurationPlace(column.session, column.run_id, info.mode, info.role)


@dataclass
class OpenSession:
    """A session whose configurations can be compared: its path ("" for the window's own), its name and its runs."""

    path: str
    title: str
    runs: Sequence[RunLog]
    columns: dict[ConfigurationPlace, Configuration] = field(default_factory=dict)
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
        self.chosen: list[ConfigurationPlace] = []
        self.baseline: ConfigurationPlace | None = None
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

    def column(self, place: ConfigurationPlace) -> Configuration | None:
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

    def toggle(self, place: ConfigurationPlace) -> None:
        """Adds a configuration after the others, or removes it."""
        if place in self.chosen:
            self.chosen.remove(place)
        elif self.column(place) is not None:
            self.chosen.append(place)
        self._tidy()

    def move(self, place: ConfigurationPlace, by: int) -> None:
        """Moves a column to the left or right."""
        if place in self.chosen:
            index = self.chosen.index(place)
            self.chosen.insert(min(max(0, index + by), len(self.chosen) - 1), self.chosen.pop(index))

    def choose_baseline(self, place: ConfigurationPlace) -> None:
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

    def to_view(self) -> dict[str, Any]:
        """The choice as plain values, for the session's facts under "views"."""
        return {
            "sessions": list(dict.fromkeys(place.session for place in self.chosen)),
            "columns": [list(place) for place in self.chosen],
            "baseline": None if self.baseline is None else list(self.baseline),
            "basis": self.basis,
            "differences_only": self.differences_only,
        }

    def show_view(self, view: dict[str, Any]) -> int:
        """Takes a saved choice over, as far as its sessions are open. How many columns are missing."""
        places = [place for entry in _listed(view.get("columns")) if (place := _place(entry)) is not None]
        self.chosen = list(dict.fromkeys(place for place in places if self.column(place) is not None))
        self.baseline = _place(view.get("baseline"))
        basis = view.get("basis")
        self.basis = str(basis) if basis in BASES else END_TO_END
        self.differences_only = bool(view.get("differences_only"))
        self._tidy()
        return len(set(places)) - len(self.chosen)


VIEWS = "views"


class SavedViews:
    """Saved choices of columns by name."""

    def __init__(self, session: WindowSession) -> None:
        self._session = session

    @property
    def by_name(self) -> dict[str, dict[str, Any]]:
        """All of them, as far as the file holds what we write."""
        views = self._session.facts.get(VIEWS)
        if not isinstance(views, dict):
            return {}
        return {str(name): view for name, view in views.items() if isinstance(view, dict)}

    def save(self, name: str, view: dict[str, Any]) -> None:
        """Keeps one, in place of another of that name."""
        self._session.note(VIEWS, {**self.by_name, name: view})

    def remove(self, name: str) -> None:
        """Forgets one."""
        self._session.note(VIEWS, {other: view for other, view in self.by_name.items() if other != name})


def sessions_of(view: dict[str, Any]) -> list[str]:
    """The paths of the other sessions that a saved view needs."""
    listed = _listed(view.get("sessions")) + [entry[0] for entry in _listed(view.get("columns")) if _place(entry)]
    return list(dict.fromkeys(path for path in listed if isinstance(path, str) and path != OPEN_SESSION))


def _listed(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _place(entry: object) -> ConfigurationPlace | None:
    """A place as it was saved; None for what is none, since files are not to be trusted."""
    match entry:
        case [str(session), int(run_id), str(mode), str(role)]:
            return ConfigurationPlace(session, run_id, mode, role)
    return None
