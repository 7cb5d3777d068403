"""What a line says of a cell of very many stored runs, worked out of columns: counts, mean total, errors.

The same as `ui.state.cells` and the list say of a few runs, without one being made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from evprof.core.rows.kinds import NO_TEXT
from evprof.core.run_info import CANCELLED, FAILED, FINISHED
from evprof.metrics.figures.kept import KEPT
from evprof.metrics.figures.scores import KEPT_F1, KEPT_RIGHT
from evprof.session.summaries.columns import StoredColumns
from evprof.session.summaries.runs import SessionRuns
from ui.runs.run_groups import Members, parted
from ui.state.cells import ConfigurationCounts

FEWEST = 500
"""Runs of a cell from which on it is worth it."""

_TOTAL = "total_ms end-to-end"

MOST_ERRORS = 3


@dataclass(frozen=True)
class CellFacts:
    """Counts, the mean total of a sample in ms (of models that answered one after the other their sum), errors, and by
    role the share of right answers and the mean token F1 (none of a role without scored ones)."""

    counts: ConfigurationCounts
    mean_ms: float | None
    errors: list[str]
    right: dict[str, float] = field(default_factory=dict)
    shared: dict[str, float] = field(default_factory=dict)


def cell_facts(members: Members) -> CellFacts | None:
    """The facts of a cell; None where it has few runs, or some that are not as their file says."""
    stored = parted(members.runs).stored
    if stored is None or len(members) < FEWEST or _TOTAL not in KEPT or _TOTAL not in stored.columns:
        return None
    made = stored.made
    if any(run_id not in stored or (run_id in made and made[run_id].version) for run_id in members.run_ids):
        return None
    columns = stored.columns
    places = np.searchsorted(columns.run_ids, np.array(members.run_ids, dtype=np.int64))
    if KEPT_F1 in columns and not columns.told(KEPT_RIGHT)[places].all():
        return None  # some were scored by an older rule: they are scored anew, one by one
    return _facts(stored, _last_of_rows(stored, places))


def _last_of_rows(stored: SessionRuns, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Of rows that were begun more than once the last attempt; what was imported is a row each."""
    columns = stored.columns
    keys = np.column_stack(
        [
            np.where(_are_imported(columns, places), places, -1),
            _asked_of(columns)[places],
            *(columns.column(name)[places] for name in ("repeat", "warmup")),
            columns.texts("role").codes[places],
        ]
    )
    _, last = np.unique(keys[::-1], axis=0, return_index=True)
    return places[np.sort(len(places) - 1 - last)]


def _are_imported(columns: StoredColumns, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    return np.asarray(columns.column("imported")[places] != NO_TEXT)


def _samples_of(columns: StoredColumns, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A number for each sample: name and question, and of what was imported the row of the file."""
    rows = np.where(_are_imported(columns, places), columns.column("group_id")[places], 0)
    _, found = np.unique(np.column_stack((_asked_of(columns)[places], rows)), axis=0, return_inverse=True)
    return np.asarray(found, dtype=np.int64).reshape(-1)


@lru_cache(maxsize=1)
def _asked_of(columns: StoredColumns) -> npt.NDArray[np.int64]:
    """A number for each sample and question."""
    told = columns.texts("sample")
    known: dict[tuple[str, str], int] = {}
    codes = [known.setdefault(_sample_key(word), len(known)) for word in told.words]
    return np.array(codes, dtype=np.int64)[told.codes]


def _sample_key(word: str) -> tuple[str, str]:
    found = json.loads(word) if word else {}
    return (str(found.get("name")), str(found.get("prompt"))) if isinstance(found, dict) else ("", "")


def _facts(stored: SessionRuns, places: npt.NDArray[np.int64]) -> CellFacts:
    columns = stored.columns
    statuses = columns.texts("status")
    status = np.array(statuses.words)[statuses.codes[places]]
    warmup = (columns.column("warmup")[places] > 0) | (columns.column("profiled")[places] > 0)
    asked, repeat = _samples_of(columns, places), columns.column("repeat")[places]
    is_done, is_bad = status == FINISHED, np.isin(status, (FAILED, CANCELLED))
    counted = is_done & ~warmup
    counts = ConfigurationCounts(
        samples=len(np.unique(asked[counted])),
        repeats=max(1, len(np.unique(repeat[counted]))),
        failed=len(np.unique(np.column_stack((asked[is_bad], repeat[is_bad])), axis=0)),
        warmups=int((is_done & warmup).sum()),
        running=int((~is_done & ~is_bad).sum()),
    )
    errors = columns.texts("error")
    said = dict.fromkeys(errors.words[code] for code in errors.codes[places].tolist() if errors.words[code])
    return CellFacts(
        counts,
        _mean_ms(stored, places[counted]),
        list(said)[:MOST_ERRORS],
        *(_means(columns, kept, places[counted]) for kept in (KEPT_RIGHT, KEPT_F1)),
    )


def _means(columns: StoredColumns, kept: str, places: npt.NDArray[np.int64]) -> dict[str, float]:
    """The mean of a kept score by role."""
    if kept not in columns:
        return {}
    values, roles = columns.column(kept)[places], columns.texts("role")
    scored, codes = ~np.isnan(values), roles.codes[places]
    found = {role: values[scored & (codes == code)] for code, role in enumerate(roles.words)}
    return {role: float(mine.mean()) for role, mine in found.items() if len(mine)}


def _mean_ms(stored: SessionRuns, places: npt.NDArray[np.int64]) -> float | None:
    columns = stored.columns
    setups, roles = columns.texts("setup"), columns.texts("role").codes[places]
    is_cold = np.array([_is_cold(word) for word in setups.words])[setups.codes[places]]
    totals = columns.column(_TOTAL)[places]
    means = []
    for role in np.unique(roles):
        mine = roles == role
        warm = mine & ~is_cold if (mine & ~is_cold).any() else mine
        values = totals[warm]
        values = values[~np.isnan(values) & (values != 0)]
        if len(values):
            means.append(float(values.sum() / len(values)))
    return sum(means) if means else None


def _is_cold(word: str) -> bool:
    """See `RunInfo.is_cold`."""
    found = json.loads(word) if word else {}
    setups = found.values() if isinstance(found, dict) else ()
    return any(
        isinstance(setup, dict) and (setup.get("weights_ms") is not None or setup.get("first_use")) for setup in setups
    )
