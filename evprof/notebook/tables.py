"""Tables of a session: columns as numpy arrays, for pandas, pyarrow and readers of Arrow; things by name; HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.installation import how_to_add
from evprof.core.texts import guess_among, one_line
from evprof.core.units import count_text

if TYPE_CHECKING:
    import pandas
    import pyarrow

Value = TypeVar("Value")


class UnknownNameError(UserError, KeyError):
    """An unknown name. It is a KeyError, too, as scripts expect of brackets."""

    def __str__(self) -> str:
        return self.sentence


def refuse(name: object, kind: str, known: Iterable[object]) -> NoReturn:
    """Raises UnknownNameError: `'tokn' is no table of scene.evprof; did you mean tokens?`"""
    raise UnknownNameError(f"{name!r} is no {kind}{guess_among(name, known)}")


class Named(dict[str, Value]):
    """Things by name. Raises UnknownNameError, with the nearest name, for an unknown one."""

    def __init__(self, kind: str, found: dict[str, Value]) -> None:
        super().__init__(found)
        self._kind = kind

    def __missing__(self, name: str) -> NoReturn:
        refuse(name, self._kind, self)


Column = Sequence[Any] | npt.NDArray[Any]

_MOST_SHOWN = 10


class DataTable:
    """A read-only table, read on first use; iterating gives rows as dictionaries.

    A column of numbers is int64, or float64 with NaN for what was not measured; one of True and False is bool; one of
    anything else holds objects, None among them.
    """

    def __init__(self, name: str, columns: Sequence[str], read: Callable[[], Mapping[str, Column]]) -> None:
        self.name = name
        self.columns = tuple(columns)
        self._read = read

    @cached_property
    def _values(self) -> Mapping[str, Column]:
        return self._read()

    @cached_property
    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {}

    def __len__(self) -> int:
        return len(self._values[self.columns[0]])

    def __getitem__(self, column: str) -> npt.NDArray[Any]:
        """A column. Raises UserError, which tells the nearest name, for one that the table does not have."""
        if column not in self.columns:
            refuse(column, f"column of {self.name}", self.columns)
        if column not in self._arrays:
            self._arrays[column] = _array(self._values[column])
        return self._arrays[column]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in zip(*(self._values[name] for name in self.columns), strict=True):
            yield dict(zip(self.columns, map(_plain, row), strict=True))

    def to_numpy(self) -> dict[str, npt.NDArray[Any]]:
        """Every column by name."""
        return {name: self[name] for name in self.columns}

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame of its own. Raises UserError where pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise UserError(f"Data frames need pandas; {how_to_add('pandas')}.") from None
        return pandas.DataFrame({name: array.copy() for name, array in self.to_numpy().items()})

    def to_arrow(self) -> pyarrow.Table:
        """An Arrow table, null for what was not measured. Raises UserError where pyarrow is not installed."""
        from evprof.export.parquet import arrow_for, plain_table

        return plain_table(arrow_for("Arrow tables"), {name: self._values[name] for name in self.columns})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's own way from library to library: `polars.DataFrame(table)`, `pyarrow.table(table)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<evprof table {self.name}: {len(self):,} rows of {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        """The first rows, for notebooks."""
        rows = [
            [_plain(value) for value in row]
            for row in zip(*(self._values[name][:_MOST_SHOWN] for name in self.columns), strict=True)
        ]
        return table_html(f"{self.name}: {count_text(len(self), 'row')}", self.columns, rows)


def _array(values: Column) -> npt.NDArray[Any]:
    if isinstance(values, np.ndarray):
        return values
    kinds = set(map(type, values))
    numbers = {int, float, type(None)}
    if kinds and kinds <= {bool}:
        return _read_only(np.array(values, dtype=bool))
    if kinds and kinds <= {int} and all(-(1 << 63) <= value < 1 << 63 for value in values):
        return _read_only(np.array(values, dtype=np.int64))
    if kinds - {type(None)} and kinds <= numbers:
        return _read_only(np.array([np.nan if value is None else float(value) for value in values]))
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return _read_only(found)


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


_LONGEST_CELL = 80


def table_html(title: str, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as HTML without scripts; every text is escaped and shortened."""
    head = "".join(f"<th>{_cell(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><caption>{_cell(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return escape(one_line(text, _LONGEST_CELL))
