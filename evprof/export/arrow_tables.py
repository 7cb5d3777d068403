"""Columns as Arrow has them: of recorded streams, and of tables of plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from evprof.core.errors import UserError
from evprof.core.installation import how_to_add
from evprof.core.records import column_kinds
from evprof.core.rows.row_block import RowBlock


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
    """Rows of a stream of one session."""
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


def common_type(arrow: Any, types: Iterable[Any]) -> Any:
    """What holds all values; a column without any is taken for text."""
    told = list(dict.fromkeys(kind for kind in types if kind != arrow.null()))
    if not told:
        return arrow.string()
    numbers = {arrow.int64(), arrow.float64()}
    return told[0] if len(told) == 1 else arrow.float64() if numbers.issuperset(told) else arrow.string()


def plain_table(arrow: Any, columns: dict[str, Iterable[Any]]) -> Any:
    """A table of columns of plain values."""
    arrays = {name: plain_array(arrow, values) for name, values in columns.items()}
    return arrow.table({name: array.cast(common_type(arrow, [array.type])) for name, array in arrays.items()})


def _text(value: str) -> str:
    """Text as UTF-8 can hold it: what is none is written as escapes."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
