"""Runs as Parquet files for data frames: every stream with its own columns, and one table of runs.

Numbers stay what was recorded, ns on the recorder's clock among them; `runs` holds what the CSV of that name holds.
Streams are written as they are read, some tens of MB at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evprof.core.errors import UserError
from evprof.core.files.whole_file import whole_path
from evprof.core.installation import how_to_add
from evprof.core.protocols import Closing
from evprof.core.records import STREAMS, column_kinds
from evprof.core.rows.blocks import RowBlock
from evprof.export.tables import COLUMNS, table_rows

if TYPE_CHECKING:
    from evprof.export.report.data import Source

RUNS = "runs"

_MOST_ROWS, _MOST_BYTES = 1 << 16, 16 << 20
"""Rows, and bytes of their pictures and the like, that wait to be written as one row group."""


def write_parquet(sources: Iterable[Source], folder: Path) -> list[Path]:
    """Writes `runs.parquet` and a file for each stream into the folder; returns the files.

    Raises OSError, and UserError where pyarrow is not installed; then nothing of what was there has changed.
    """
    arrow = arrow_for("Parquet files")
    folder.mkdir(parents=True, exist_ok=True)
    places = {name: folder / f"{name}.parquet" for name in (RUNS, *STREAMS)}
    with ExitStack() as stack:
        parts = {name: stack.enter_context(whole_path(place)) for name, place in places.items()}
        # Entered later, closed earlier: a file is whole before it takes its place.
        streams = {name: stack.enter_context(_StreamFile(arrow, name, parts[name])) for name in STREAMS}
        columns: dict[str, list[Any]] = {name: [] for name in COLUMNS[RUNS]}
        for source in sources:
            for run in source.runs:
                for row in table_rows(RUNS, run, source.name):
                    for name, values in columns.items():
                        values.append(row.get(name))
                for name, file in streams.items():
                    for block in run.blocks(name):
                        file.take(source.name, block)
            # What waits lies in this session, which nobody needs longer.
            for file in streams.values():
                file.write(source.name)
        arrow.parquet.write_table(plain_table(arrow, columns), parts[RUNS], compression="zstd")
    return list(places.values())


class _StreamFile(Closing):
    """One stream: the session, and the columns of its records. Rows wait as places in the stream, nothing is copied."""

    def __init__(self, arrow: Any, stream: str, path: Path) -> None:
        self._arrow = arrow
        self._stream = stream
        self._blobs = [name for name, kind in column_kinds(stream).items() if kind == "bytes"]
        self._waiting: list[RowBlock] = []
        self._rows = self._bytes = 0
        self._writer = arrow.parquet.ParquetWriter(path, stream_schema(arrow, stream), compression="zstd")

    def close(self) -> None:
        self._writer.close()

    def take(self, session: str, block: RowBlock) -> None:
        """Adds rows of a run, in pieces where they are many."""
        while block.size:
            piece = RowBlock(block.stream, block.start, min(block.stop, block.start + _MOST_ROWS))
            block = block.after(piece.size)
            self._waiting.append(piece)
            self._rows += piece.size
            self._bytes += sum(sum(map(len, stream_values([piece], name, "bytes"))) for name in self._blobs)
            if self._rows >= _MOST_ROWS or self._bytes >= _MOST_BYTES:
                self.write(session)

    def write(self, session: str) -> None:
        """Writes what waits as a row group."""
        if not self._waiting:
            return
        self._writer.write_table(stream_table(self._arrow, self._stream, session, self._waiting))
        self._waiting, self._rows, self._bytes = [], 0, 0


def arrow_for(what: str) -> Any:
    """pyarrow. Raises UserError, which says that `what` needs it, where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(f"{what} need pyarrow; {how_to_add('evprof[parquet]')}.") from None
    return pyarrow


def stream_schema(arrow: Any, stream: str) -> Any:
    """Names and types of a stream's columns, after the session's name."""
    types = {"int": arrow.int64(), "str": arrow.string(), "bytes": arrow.binary()}
    return arrow.schema(
        [("session", arrow.string()), *((name, types[kind]) for name, kind in column_kinds(stream).items())]
    )


def stream_table(arrow: Any, stream: str, session: str, blocks: Sequence[RowBlock]) -> Any:
    schema, kinds = stream_schema(arrow, stream), column_kinds(stream)
    columns = [arrow.repeat(arrow.scalar(_text(session)), sum(block.size for block in blocks))]
    for name, kind in kinds.items():
        values = stream_values(blocks, name, kind)
        listed = list(map(_text, values)) if kind == "str" else values
        columns.append(arrow.array(listed, schema.field(name).type))
    return arrow.table(columns, schema=schema)


def stream_values(blocks: Sequence[RowBlock], column: str, kind: str) -> Any:
    """A column of such rows: an int64 array of numbers, else a list."""
    parts = [block.stream.column(column, block.start, block.stop) for block in blocks]
    if kind == "int":
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
    return list(chain.from_iterable(parts))


def plain_array(arrow: Any, values: Iterable[Any]) -> Any:
    """A column of plain values; of several kinds, as imported files may bring them, as text."""
    listed = list(values)
    try:
        return arrow.array([_text(value) if isinstance(value, str) else value for value in listed])
    except (arrow.ArrowException, OverflowError, TypeError):
        return arrow.array([None if value is None else _text(str(value)) for value in listed], arrow.string())


def plain_table(arrow: Any, columns: Mapping[str, Iterable[Any]]) -> Any:
    """A table of columns of plain values; a column without any counts as text."""
    arrays = {name: plain_array(arrow, values) for name, values in columns.items()}
    return arrow.table(
        {name: array.cast(arrow.string()) if array.type == arrow.null() else array for name, array in arrays.items()}
    )


def _text(value: str) -> str:
    """Text as UTF-8 can hold it: what is none is written as escapes."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
