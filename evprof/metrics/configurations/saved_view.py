"""A comparison under a name: which columns of which sessions, against which, on what basis.

It is saved as JSON with the session it was made in (`evprof.session.facts`), "" standing for that session itself. Other
sessions have absolute paths; a session that is gone is looked for beside the holder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from evprof.core.errors import UserError
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.figures.stages import BASES, END_TO_END

MOST_COLUMNS = 1000
"""A view with more columns is damaged."""


class ColumnName(NamedTuple):
    """A column of a saved comparison: its session, one of its runs, and that run's mode and role."""

    session: str
    run_id: int
    mode: str
    role: str


@dataclass(frozen=True)
class SavedView:
    """A comparison as saved; `sessions` in the order they are read."""

    sessions: tuple[str, ...]
    columns: tuple[ColumnName, ...]
    baseline: ColumnName
    basis: str = END_TO_END
    differences_only: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "sessions": list(self.sessions),
            "columns": [list(name) for name in self.columns],
            "baseline": list(self.baseline),
        }

    @classmethod
    def from_json(cls, values: object, name: str) -> SavedView:
        """The inverse of `to_json`. Raises UserError, with the `name`, when the values are no view."""
        try:
            if not isinstance(values, Mapping) or not 0 < len(values["columns"]) <= MOST_COLUMNS:
                raise ValueError("no columns")
            view = cls(
                tuple(_text(path) for path in values["sessions"]),
                tuple(_column_name(entry) for entry in values["columns"]),
                _column_name(values.get("baseline") or values["columns"][0]),
                _text(values.get("basis", END_TO_END)),
                bool(values.get("differences_only", False)),
            )
            if view.basis not in BASES or {column.session for column in view.columns} > set(view.sessions):
                raise ValueError("unknown basis or session")
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"The saved view '{name}' is damaged; save it anew.") from error
        return view

    def paths(self, holder: Path) -> list[Path]:
        """The sessions' files, seen from the session that holds the view."""
        return [place_of(session, holder) for session in self.sessions]

    def pick(
        self, listed: Sequence[Configuration], holder: Path
    ) -> tuple[list[Configuration], Configuration, list[ColumnName]]:
        """Of the columns of these sessions those of the view in its order, the baseline, and the names of missing ones.

        Raises UserError when the baseline or all others are missing.
        """
        known: dict[tuple[object, ...], Configuration] = {}
        for own in listed:
            path = Path(own.session or holder).resolve()
            for run in own.runs:
                known.setdefault((path, run.run_id, run.info.mode, run.info.role), own)
        names = dict.fromkeys((*self.columns, self.baseline))
        found = {name: known.get((place_of(name.session, holder).resolve(), *name[1:])) for name in names}
        kept = [column for name in self.columns if (column := found[name]) is not None]
        gone = [name for name in self.columns if found[name] is None]
        baseline = found[self.baseline]
        if baseline is None or not any(column is not baseline for column in kept):
            missing = ", ".join(f"run {name.run_id}" for name in found if found[name] is None) or "every other column"
            raise UserError(f"The runs of the saved view are gone ({missing}); save it anew.")
        if not any(column is baseline for column in kept):
            kept.insert(0, baseline)
        return kept, baseline, gone


def view_of(
    listed: Sequence[Configuration],
    baseline: Configuration,
    holder: Path,
    basis: str = END_TO_END,
    *,
    differences_only: bool = False,
) -> SavedView:
    """The view of a comparison, to be saved in the session `holder`."""
    names = {}
    for column in listed:
        run, path = column.runs[0], Path(column.session or holder).resolve()
        session = "" if path == holder.resolve() else str(path)
        names[id(column)] = ColumnName(session, run.run_id, run.info.mode, run.info.role)
    sessions = dict.fromkeys(name.session for name in names.values())
    return SavedView(tuple(sessions), tuple(names.values()), names[id(baseline)], basis, differences_only)


def place_of(session: str, holder: Path) -> Path:
    """The file of a session named in a view that `holder` holds; one that was moved together with it is found."""
    if not session:
        return holder
    named = holder.parent / session
    beside = holder.parent / named.name
    return beside if not named.exists() and beside.exists() else named


def _column_name(entry: Any) -> ColumnName:
    session, run_id, mode, role = entry
    if not isinstance(run_id, int) or isinstance(run_id, bool):
        raise ValueError("no run")
    return ColumnName(_text(session), run_id, _text(mode), _text(role))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    return value
