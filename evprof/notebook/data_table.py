"""A table of a session: columns as numpy arrays, and the whole for pandas, pyarrow and whoever takes Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.installation import how_to_add
from evprof.notebook.names import refuse

if TYPE_CHECKING:
    import pandas
    import pyarrow

Column = Sequence[Any] | npt.NDArray[Any]

_MOST_SHOWN = 10


class DataTable:
    """A read-only table. Made when it is first looked at; iterating gives rows as dictionaries.

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
        from evprof.export.arrow_tables import arrow_for, plain_table

        return plain_table(arrow_for("Arrow tables"), {name: self._values[name] for name in self.columns})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's own way from library to library: `polars.DataFrame(table)`, `pyarrow.table(table)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<evprof table {self.name}: {len(self):,} rows of {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        """The first rows, for notebooks."""
        from evprof.notebook.card import table_card

        shown = {name: list(map(_plain, self._values[name][:_MOST_SHOWN])) for name in self.columns}
        return table_card(self.name, shown, len(self))


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
