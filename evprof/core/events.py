"""Camera events in memory: four equally long arrays, validated once; it knows no file format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError

MAX_COORDINATE = 16_383
"""Largest accepted x or y: the 14 bits of the widest published event format."""

_MAX_TIME_US = 2**61
"""Far beyond any clock, and differences still fit in int64."""


@dataclass(frozen=True, eq=False)
class EventArray:
    """Events of one recording, in file order.

    `x`, `y`: uint16 [N]; `t_us`: int64 [N], microseconds, sensor time; `p`: uint8 [N], 0 (darker) or 1 (brighter).
    13 bytes per event. File order is kept because rendering depends on it; `is_sorted` says whether it is time order.
    `parts` are numbers of events, one part after the other, where the whole recording came ready-cut; any piece of it
    has none.
    """

    x: npt.NDArray[np.uint16]
    y: npt.NDArray[np.uint16]
    t_us: npt.NDArray[np.int64]
    p: npt.NDArray[np.uint8]
    parts: tuple[int, ...] = ()

    @classmethod
    def from_columns(
        cls, x: npt.ArrayLike, y: npt.ArrayLike, t_us: npt.ArrayLike, p: npt.ArrayLike, *, source: str = "events"
    ) -> EventArray:
        """Checks and casts four columns of any integer (or whole float) dtype; `p` may be 0/1, -1/1 or bool,
        and -1 may be an unsigned type's largest number.

        Raises UserError naming `source` when lengths differ, a column is not a one-dimensional number array or holds
        fractions, coordinates lie outside 0…16383, or polarities outside -1…1.
        """
        columns = {"x": np.asarray(x), "y": np.asarray(y), "t": np.asarray(t_us), "p": np.asarray(p)}
        if columns["p"].dtype.kind == "u" and len(columns["p"]) and columns["p"].max() > 1:
            # -1 that was cast to an unsigned type.
            columns["p"] = np.where(columns["p"] == np.iinfo(columns["p"].dtype).max, 0, columns["p"])
        for name, column in columns.items():
            if column.ndim != 1 or column.dtype.kind not in "biuf":
                raise UserError(
                    f"{source}: column '{name}' is {column.dtype} of shape {list(column.shape)}; "
                    "a one-dimensional array of numbers is needed."
                )
            if column.dtype.kind == "f" and not np.isfinite(column).all():
                raise UserError(f"{source}: column '{name}' holds values that are not finite numbers.")
            if column.dtype.kind == "f" and (column != np.floor(column)).any():
                raise UserError(f"{source}: column '{name}' holds fractions where whole numbers are expected.")
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) != 1:
            listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise UserError(f"{source}: the columns have different lengths ({listed}); the file is damaged.")
        for name in ("x", "y"):
            column = columns[name]
            if len(column) and (column.min() < 0 or column.max() > MAX_COORDINATE):
                raise UserError(
                    f"{source}: {name} runs from {column.min()} to {column.max()}; "
                    f"pixel coordinates from 0 to {MAX_COORDINATE} are expected."
                )
        for name, low, high in (("p", -1, 1), ("t", -_MAX_TIME_US, _MAX_TIME_US)):
            column = columns[name]
            if len(column) and (column.min() < low or column.max() > high):
                raise UserError(
                    f"{source}: column '{name}' runs from {column.min()} to {column.max()}, outside {low}…{high}; "
                    "are the columns in another order?"
                )
        return cls(
            x=np.ascontiguousarray(columns["x"], dtype=np.uint16),
            y=np.ascontiguousarray(columns["y"], dtype=np.uint16),
            t_us=np.ascontiguousarray(columns["t"], dtype=np.int64),
            p=np.ascontiguousarray(columns["p"] > 0, dtype=np.uint8),
        )

    def __len__(self) -> int:
        return len(self.t_us)

    @property
    def width(self) -> int:
        """Columns of the smallest canvas that holds every event: max(x) + 1; 0 without events."""
        return int(self.x.max()) + 1 if len(self) else 0

    @property
    def height(self) -> int:
        """Rows of the smallest canvas that holds every event: max(y) + 1; 0 without events."""
        return int(self.y.max()) + 1 if len(self) else 0

    @property
    def t_min_us(self) -> int | None:
        return int(self.t_us.min()) if len(self) else None

    @property
    def t_max_us(self) -> int | None:
        return int(self.t_us.max()) if len(self) else None

    @property
    def duration_us(self) -> int | None:
        """max(t) - min(t) in µs, or None without events."""
        return int(self.t_us.max() - self.t_us.min()) if len(self) else None

    @property
    def is_sorted(self) -> bool:
        return bool((self.t_us[1:] >= self.t_us[:-1]).all())

    @property
    def nbytes(self) -> int:
        return self.x.nbytes + self.y.nbytes + self.t_us.nbytes + self.p.nbytes

    def slice_count(self, start: int, stop: int) -> EventArray:
        """Events start…stop-1 in file order, without copying."""
        return EventArray(self.x[start:stop], self.y[start:stop], self.t_us[start:stop], self.p[start:stop])

    def slice_time(self, start_us: int, stop_us: int) -> EventArray:
        """Events with start_us <= t < stop_us in file order; without copying when time-sorted."""
        if self.is_sorted:
            start, stop = np.searchsorted(self.t_us, [start_us, stop_us], side="left")
            return self.slice_count(int(start), int(stop))
        return self.taken((self.t_us >= start_us) & (self.t_us < stop_us))

    def taken(self, chosen: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> EventArray:
        """The events of these numbers, in that order, or where a mask [N] is true; a copy."""
        return EventArray(self.x[chosen], self.y[chosen], self.t_us[chosen], self.p[chosen])

    def in_time_order(self) -> EventArray:
        """The events by time, those of one µs in file order; without copying when time-sorted."""
        return self if self.is_sorted else self.taken(np.argsort(self.t_us, kind="stable"))

    def split_equal_count(self, parts: int) -> Iterator[EventArray]:
        """`parts` consecutive slices of floor(N / parts) events, the last one to the end (EventGPT's rule).

        Raises UserError when there are fewer events than parts: an empty slice has no picture.
        """
        if parts < 1:
            raise UserError(f"Event frames must be at least 1, not {parts}.")
        if len(self) < parts:
            raise UserError(
                f"The recording holds {len(self):,} events, too few for {parts:,} event frames; ask for fewer frames."
            )
        size = len(self) // parts
        for index in range(parts):
            stop = len(self) if index == parts - 1 else (index + 1) * size
            yield self.slice_count(index * size, stop)
