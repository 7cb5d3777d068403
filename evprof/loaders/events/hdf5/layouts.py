"""Where in an HDF5 file the events are: DSEC's places, M3ED's, and others that name their columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.loaders.events.hdf5.stored import (
    StoredArray,
    StoredColumn,
    find,
    is_dataset,
    is_elsewhere,
    is_group,
    listing,
    printable,
)
from evprof.loaders.events.tables import NAMES

DSEC, M3ED, OTHER = "dsec-h5", "m3ed-h5", "h5"

_SPELLINGS = {column: (*spellings, f"{column}s") for column, spellings in NAMES.items()}
_PLACES = (
    *(("/events", DSEC), ("/CD/events", OTHER), ("/davis/left/events", OTHER), ("/davis/right/events", OTHER)),
    ("/", OTHER),
)
_M3ED_CAMERAS = ("left", "right")
_MVSEC_ORDER = {"x": 0, "y": 1, "t": 2, "p": 3}
_LARGEST_SENSOR = 16_384
_MOST_OFFSET_US = 2**60


@dataclass(frozen=True)
class Hdf5Layout:
    """The parts of a recording in a file.

    `columns` has x, y, t and p. `offset_us` is to be added to t. `width` and `height` only where the file states them.
    """

    format: str
    columns: dict[str, StoredColumn]
    offset_us: int = 0
    width: int | None = None
    height: int | None = None
    details: dict[str, str | int | float] = field(default_factory=dict)


def layout_of(file: Any, name: str) -> Hdf5Layout:
    """Finds the events. Raises UserError that lists the names in the file instead."""
    found = _m3ed(file, name) or next(filter(None, (_at(file, place, form, name) for place, form in _PLACES)), None)
    if found is None:
        raise UserError(
            f"{name}: holds {listing(file)}; event recordings in HDF5 have x, y, t and p as in DSEC (/events/x, …), "
            "M3ED (/prophesee/left/x, …), Prophesee's /CD/events, MVSEC's /davis/left/events or at the top."
        )
    return found


def _m3ed(file: Any, name: str) -> Hdf5Layout | None:
    there = {camera: _at(file, f"/prophesee/{camera}", M3ED, name) for camera in _M3ED_CAMERAS}
    cameras = {camera: layout for camera, layout in there.items() if layout is not None}
    for camera, layout in cameras.items():
        layout.details["camera"] = camera
        others = [other for other in cameras if other != camera]
        if others:
            layout.details["other_cameras"] = ", ".join(others)
        size = _numbers(find(file, f"/prophesee/{camera}/calib/resolution", name), 2)
        return _sized(layout, size)
    return None


def _at(file: Any, place: str, form: str, name: str) -> Hdf5Layout | None:
    """The layout of a group of columns or a table of rows at `place`; None if it is neither."""
    found = find(file, place, name)
    if found is None:
        return None
    parent = find(file, place.rsplit("/", 1)[0] or "/", name)
    columns = _group_columns(found, place, name) if is_group(found) else _table_columns(found, place, name)
    if columns is None:
        return None
    _check_lengths(columns, f"{name}[{place}]")
    homes = [found, parent] if is_group(found) else [parent]
    offset = _offset(homes, name)
    if form == DSEC and not is_group(found):
        form = OTHER
    time = columns["t"].stored
    details: dict[str, str | int | float] = {"place": place, "compression": time.compression}
    if time.chunk is not None:
        details["chunk"] = time.chunk[0]
    if offset is not None:
        details["t_offset_us"] = offset
    layout = Hdf5Layout(form, columns, offset or 0, details=details)
    return _sized(layout, next(filter(None, (_stated_size(home) for home in (found, parent, file))), None))


def _group_columns(group: Any, place: str, name: str) -> dict[str, StoredColumn] | None:
    keys: dict[str, str] = {}
    for column, spellings in _SPELLINGS.items():
        key = next((spelling for spelling in spellings if group.id.links.exists(spelling.encode())), None)
        if key is None:
            return None
        keys[column] = key
    columns: dict[str, StoredColumn] = {}
    for column, key in keys.items():
        found = find(group, key, name)
        path = f"{place.rstrip('/')}/{key}"
        if found is None:
            raise UserError(f"{name}[{path}]: is a link that leads nowhere; export the recording again.")
        stored = StoredArray(found, path, name)
        if len(stored.shape) != 1 or stored.dtype.names is not None:
            raise UserError(
                f"{name}[{path}]: has the shape {list(stored.shape)} of {printable(str(stored.dtype), 60)}; a list of "
                "numbers, one for each event, is expected."
            )
        columns[column] = StoredColumn(stored)
    return columns


def _is_table(found: Any) -> bool:
    if not is_dataset(found) or is_elsewhere(found):
        return False
    shape: tuple[int, ...] = found.shape or ()
    if found.dtype.names is not None:
        return len(shape) == 1
    return len(shape) == 2 and shape[1] == 4 and found.dtype.kind == "f"


def _table_columns(table: Any, place: str, name: str) -> dict[str, StoredColumn] | None:
    """Columns of a compound dataset, or of rows (x, y, t in seconds, p) as in MVSEC."""
    if not _is_table(table):
        return None
    if table.dtype.names is None and place.rsplit("/", 1)[-1] != "events":
        return None  # four numbers may also be an orientation
    if table.dtype.names is None:
        rows = StoredArray(table, place, name)
        return {column: StoredColumn(rows, number) for column, number in _MVSEC_ORDER.items()}
    lowered = {field_name.lower(): field_name for field_name in table.dtype.names}
    keys = {
        column: next((lowered[spelling] for spelling in spellings if spelling in lowered), None)
        for column, spellings in _SPELLINGS.items()
    }
    if None in keys.values():
        return None
    rows = StoredArray(table, place, name)
    return {column: StoredColumn(rows, key) for column, key in keys.items()}


def _check_lengths(columns: dict[str, StoredColumn], name: str) -> None:
    lengths = {name: len(column.stored) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        listed = ", ".join(f"{column} {length:,}" for column, length in lengths.items())
        raise UserError(f"{name}: the columns have different lengths ({listed}); the file is damaged or unfinished.")


def _offset(homes: list[Any], name: str) -> int | None:
    for home in homes:
        found = find(home, "t_offset", name)
        if found is None:
            continue
        values = _numbers(found, 1)
        if values is None or not np.isfinite(values[0]) or abs(float(values[0])) > _MOST_OFFSET_US:
            raise UserError(f"{name}: t_offset is no time in microseconds; the file is damaged.")
        return int(values[0])
    return None


def _sized(layout: Hdf5Layout, size: npt.NDArray[Any] | tuple[int, int] | None) -> Hdf5Layout:
    if size is None or not all(0 < float(length) <= _LARGEST_SENSOR for length in size):
        return layout
    return replace(layout, width=int(size[0]), height=int(size[1]))


def _stated_size(home: Any) -> tuple[int, int] | None:
    """Width and height from attributes: `width` and `height`, Prophesee's `geometry` ("1280x720")."""
    values = dict(_attributes(home, ("width", "height", "geometry")))
    width, height = values.get("width"), values.get("height")
    if isinstance(width, int) and isinstance(height, int):
        return width, height
    parts = str(values.get("geometry", "")).lower().split("x")
    if len(parts) == 2 and all(part.strip().isdecimal() and len(part) < 8 for part in parts):
        return int(parts[0]), int(parts[1])
    return None


def _attributes(home: Any, names: tuple[str, ...]) -> Iterator[tuple[str, int | str]]:
    """Small whole numbers and short texts among the attributes of these names."""
    import h5py

    for key in names:
        if not h5py.h5a.exists(home.id, key.encode()):
            continue
        attribute = h5py.h5a.open(home.id, key.encode())
        if attribute.shape not in ((), (1,)) or attribute.get_storage_size() > 256:
            continue
        kind = attribute.get_type()
        if not isinstance(kind, h5py.h5t.TypeIntegerID | h5py.h5t.TypeStringID):
            continue
        value = np.asarray(home.attrs[key]).reshape(-1)[0]
        if isinstance(value, bytes):
            yield key, value.decode("ascii", "replace")
        elif isinstance(value, str | np.str_):
            yield key, str(value)
        elif isinstance(value, np.integer):
            yield key, int(value)


def _numbers(found: Any | None, count: int) -> npt.NDArray[Any] | None:
    """The numbers of a tiny uncompressed dataset; None if it is anything else."""
    if found is None or not is_dataset(found):
        return None
    shape = found.shape
    size = 1
    for length in shape or ():
        size *= int(length)
    if shape is None or size != count or found.dtype.kind not in "iuf":
        return None
    stored = StoredArray(found, found.name or "", found.file.filename)
    if stored.pipeline is None:
        value: npt.NDArray[Any] = np.asarray(found[()]).reshape(-1)
        return value
    return stored.rows(0, len(stored)).reshape(-1)
