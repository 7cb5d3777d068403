"""One run of a session, read by itself: its facts, and the rows that its summary tells the places of."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from evprof.core.recording import RecordLog, Texts
from evprof.core.run_info import RunInfo
from evprof.session.checked_rows import checked, fitting_kinds, select
from evprof.session.checksums import DamageError
from evprof.session.plausible import implausible
from evprof.session.reading import SessionReading, damage_sentence
from evprof.session.schema import COLUMNS

Lies = tuple[int | None, int | None]
"""The first and the last number of a table's rows; None where there are none."""


_MOST_KNOWN = 64 << 20
"""Bytes of unpacked chunks that are remembered."""


class RunReading(SessionReading):
    """Reads single runs; those that are read one after the other mostly lie in the same chunks."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(path, connection)
        self._known: OrderedDict[tuple[Any, ...], tuple[str, list[Any], int]] = OrderedDict()
        self._known_bytes = 0

    def unpacked(self, values: tuple[Any, ...]) -> tuple[str, list[Any]]:
        """Stream and columns of a row of `chunks`, not to be changed. Raises DamageError."""
        if values[6] == values[7]:
            # All of one run: nobody asks for it a second time.
            return super().unpacked(values)
        key = (values[1], values[2], values[5])
        found = self._known.get(key)
        if found is None:
            stream, columns = super().unpacked(values)
            found = self._known[key] = stream, columns, len(values[5]) + sum(map(_size_of, columns))
            self._known_bytes += found[2]
            while self._known_bytes > _MOST_KNOWN:
                self._known_bytes -= self._known.popitem(last=False)[1][2]
        else:
            self._known.move_to_end(key)
        return found[:2]

    def info_of(self, run_id: int) -> RunInfo:
        """All that is known of one run but its rows. Raises DamageError."""
        self.renew()
        hashes = dict[str, str | None]()
        for row in self._select("samples", "run_id = ?", (run_id,)):
            if (values := checked(row)) is None:
                raise DamageError("a row of its table 'samples' is not as it was written")
            hashes[values[1]] = values[3]
        for row in self._select("runs", "run_id = ?", (run_id,)):
            if (values := checked(row)) is None:
                break
            return self.info_from(run_id, fitting_kinds("runs", values)[4], hashes)
        raise DamageError(f"the facts of run {run_id} are gone, or not as they were written")

    def _select(self, table: str, where: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        return self.connection.execute(f"{select(table)} WHERE {where} ORDER BY rowid", values)

    def rows_of(self, run_ids: Collection[int], chunks: Lies, tensors: Lies) -> tuple[RecordLog, list[str]]:
        """The rows of some runs, in chunks and tensors of these numbers; and a sentence about each kind of rows that
        are not as they were written."""
        self.renew()
        recording, problems = RecordLog(), dict[str, None]()
        try:
            self._read_tensors_of(run_ids, tensors, recording, problems)
            self._read_chunks_of(run_ids, chunks, recording, problems)
            self.check_lists(recording)
            if told := implausible(recording):
                raise DamageError(told)
        except DamageError as damage:
            return RecordLog(), [f"Its rows are damaged in the file and left out: {damage}."]
        except (sqlite3.Error, UnicodeDecodeError) as error:
            return RecordLog(), [f"Its rows cannot be read: {error}."]
        return recording, list(problems)

    def _read_tensors_of(
        self, run_ids: Collection[int], lies: Lies, recording: RecordLog, problems: dict[str, None]
    ) -> None:
        batch = []
        for values in self._between("tensors", lies, problems):
            if values[1] in run_ids:
                self.spend(8 * len(values) + sum(len(value) for value in values if isinstance(value, str)))
                batch.append(values[1:])
        recording.extend("tensors", batch)

    def _read_chunks_of(
        self, run_ids: Collection[int], lies: Lies, recording: RecordLog, problems: dict[str, None]
    ) -> None:
        first, last, wanted = min(run_ids), max(run_ids), list(run_ids)
        for values in self._between("chunks", lies, problems):
            if (values[6] or 0) <= last and (values[7] or 0) >= first:
                stream, columns = self.unpacked(values)
                mine = columns[0] == first if first == last else np.isin(columns[0], wanted)
                if mine.all():
                    recording.streams[stream].extend_columns(columns)
                elif mine.any():
                    recording.streams[stream].extend_columns([_kept(column, mine) for column in columns])

    def _between(self, table: str, lies: Lies, problems: dict[str, None]) -> Iterator[tuple[Any, ...]]:
        first, last = lies
        if first is None or last is None:
            return
        count = 0
        number = next(iter(COLUMNS[table]))
        for row in self._select(table, f"{number} BETWEEN ? AND ?", (first, last)):
            count += 1
            values = checked(row)
            if values is None:
                stream = row[1] if table == "chunks" else table
                problems[damage_sentence(stream, table)] = None
            else:
                yield fitting_kinds(table, values)
        if count != last - first + 1:
            problems[damage_sentence("rows", table)] = None


def _size_of(column: Any) -> int:
    """About how many bytes a column takes."""
    if isinstance(column, Texts):
        return int(column.codes.nbytes) + sum(map(len, column.words))
    return int(column.nbytes) if isinstance(column, np.ndarray) else sum(map(len, column))


def _kept(column: Any, mask: Any) -> Any:
    """The rows of a column where `mask` holds."""
    if isinstance(column, Texts):
        return Texts(column.codes[mask], column.words)
    return (
        column[mask]
        if isinstance(column, np.ndarray)
        else [value for value, is_kept in zip(column, mask, strict=True) if is_kept]
    )
