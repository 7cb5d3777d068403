"""The summaries of a session as columns: what lists, filters and comparisons of very many runs are made of."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evprof.core.recording import Texts
from evprof.core.rows.kinds import INTEGER, NO_INTEGER, NO_TEXT, REAL, TEXT
from evprof.session.checksums import DamageError, Tally, checksum, numbered_checksum

if TYPE_CHECKING:
    import sqlite3

_DTYPES = {INTEGER: "<i8", REAL: "<f8", TEXT: "<i4"}
_NOTHING = {INTEGER: NO_INTEGER, REAL: math.nan, TEXT: NO_TEXT}
_BATCH = 2000

MOST_LAYOUTS, MOST_COLUMNS = 64, 4096

Words = Callable[[list[int]], dict[int, str]]
"""Gives words by their numbers."""


class StoredColumns:
    """Numbers of every summarized run, in order of run numbers. Texts are asked for by column, or one by one."""

    def __init__(
        self,
        run_ids: npt.NDArray[np.int64],
        table: npt.NDArray[Any],
        words: Words,
        told: Mapping[str, npt.NDArray[np.bool_]] | None = None,
    ) -> None:
        self.run_ids = run_ids
        self.words = words
        self._told = told or {}
        self.kinds = {name: _kind(table.dtype[name]) for name in table.dtype.names or ()}
        self._views = {name: (table[name], _NOTHING[kind]) for name, kind in self.kinds.items()}
        self._texts: dict[str, Texts] = {}

    def __len__(self) -> int:
        return len(self.run_ids)

    def __contains__(self, name: str) -> bool:
        return name in self.kinds

    @property
    def names(self) -> tuple[str, ...]:
        """What is known of every run."""
        return tuple(self.kinds)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Numbers of all runs: int64, float64, or numbers of words."""
        return self._views[name][0]

    def value(self, name: str, place: int) -> Any:
        """One number, or one word's number; None for nothing."""
        column, nothing = self._views[name]
        found = column.item(place)
        # NaN is no number's equal, and its own neither.
        return None if found == nothing or found != found else found  # noqa: PLR0124

    def look(self, name: str, place: int, default: Any) -> Any:
        """`value`, or `default` where the run's summary has no such column; a report asks often."""
        view = self._views.get(name)
        if view is None or (name in self._told and not self._told[name][place]):
            return default
        found = view[0].item(place)
        return None if found == view[1] or found != found else found  # noqa: PLR0124

    def told(self, name: str) -> npt.NDArray[np.bool_]:
        """Which summaries have a column: of those written by other rules it may be missing."""
        found = self._told.get(name)
        return np.full(len(self), name in self.kinds) if found is None else found

    def kind(self, name: str) -> str:
        """What a column holds."""
        return self.kinds[name]

    def texts(self, name: str) -> Texts:
        """A column of words as numbers of distinct ones; nothing is ""."""
        found = self._texts.get(name)
        if found is None:
            numbers, codes = np.unique(self._views[name][0], return_inverse=True)
            known = self.words([number for number in numbers.tolist() if number != NO_TEXT])
            # One word may have several numbers: each writer counts its own.
            words = dict[str, int]()
            same = [words.setdefault(known.get(number, ""), len(words)) for number in numbers.tolist()]
            found = self._texts[name] = Texts(np.array(same, dtype=np.int64)[codes], list(words))
        return found


def read_columns(connection: sqlite3.Connection, tally: Tally, words: Words) -> StoredColumns:
    """Reads all summaries, each against its checksum and all against the tally. Raises DamageError, sqlite3.Error."""
    ids: list[int] = []
    parts: dict[int, bytearray] = {}
    layouts: list[int] = []
    total = 0
    cursor = connection.execute("SELECT run_id, layout, numbers, checksum FROM summaries ORDER BY run_id")
    while rows := cursor.fetchmany(_BATCH):
        for run_id, layout, numbers, told in rows:
            if not isinstance(numbers, bytes) or numbered_checksum(run_id, layout, numbers) != told:
                raise DamageError("a row of its table 'summaries' is not as it was written")
            total += told
            ids.append(run_id)
            layouts.append(layout)
            parts.setdefault(layout, bytearray()).extend(numbers)
            if len(parts) > MOST_LAYOUTS:
                raise DamageError("its summaries have too many layouts")
            if len(numbers) > 8 * MOST_COLUMNS:
                raise DamageError("a summary is too long")
    if (len(ids), total % (1 << 32)) != tally["summaries"]:
        raise DamageError("rows of its table 'summaries' are missing or not the last that were written")
    run_ids = np.array(ids, dtype=np.int64)
    known = words(list(parts))
    tables = {layout: _table(known[layout], body) for layout, body in parts.items()}
    of_run = np.array(layouts, dtype=np.int64)
    return StoredColumns(run_ids, _together(tables, of_run), words, _told(tables, of_run))


def _told(tables: Mapping[int, npt.NDArray[Any]], layouts: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.bool_]]:
    """Which runs have a column, of those that not all have."""
    having: dict[str, list[int]] = {}
    for layout, table in tables.items():
        for name in table.dtype.names or ():
            having.setdefault(name, []).append(layout)
    return {name: np.isin(layouts, those) for name, those in having.items() if len(those) < len(tables)}


def _kind(dtype: Any) -> str:
    return next(kind for kind, name in _DTYPES.items() if np.dtype(name) == dtype)


def _table(layout: str, body: bytearray) -> npt.NDArray[Any]:
    try:
        dtype = np.dtype([(str(name), _DTYPES[kind]) for name, kind in json.loads(layout)])
        if len(dtype.names or ()) > MOST_COLUMNS:
            raise ValueError
        return np.frombuffer(body, dtype=dtype)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamageError("a summary is not laid out as it says") from error


def _together(tables: Mapping[int, npt.NDArray[Any]], layouts: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """All rows in one table; what a layout does not tell is nothing."""
    if len(tables) == 1:
        (table,) = tables.values()
        if len(table) != len(layouts):
            raise DamageError("a summary is longer or shorter than its layout")
        return table
    dtypes = {name: table.dtype[name] for table in tables.values() for name in table.dtype.names or ()}
    whole = np.empty(len(layouts), dtype=np.dtype(list(dtypes.items())))
    for name, dtype in dtypes.items():
        whole[name] = _NOTHING[_kind(dtype)]
    for layout, table in tables.items():
        places = np.flatnonzero(layouts == layout)
        if len(places) != len(table):
            raise DamageError("a summary is longer or shorter than its layout")
        for name in table.dtype.names or ():
            if dtypes[name] != table.dtype[name]:
                raise DamageError("two summaries lay one column out differently")
            column = whole[name]
            column[places] = table[name]
    return whole


def read_words(connection: sqlite3.Connection, numbers: list[int]) -> Iterator[tuple[int, str]]:
    """Words by their numbers, each against its checksum. Raises DamageError for one that is not as it was written."""
    for start in range(0, len(numbers), 500):
        wanted = numbers[start : start + 500]
        marks = ",".join("?" * len(wanted))
        rows = connection.execute(f"SELECT word_id, word, checksum FROM words WHERE word_id IN ({marks})", wanted)
        found = 0
        for number, word, told in rows:
            if not isinstance(word, str) or checksum((number, word)) != told:
                raise DamageError("a row of its table 'words' is not as it was written")
            found += 1
            yield number, word
        if found != len(wanted):
            raise DamageError("rows of its table 'words' are missing")
