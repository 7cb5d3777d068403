"""Reads event recordings from `.npy`: EventGPT's pickled dict, structured arrays and N x 4 arrays.

Nothing a header says is believed before the file's size confirms it, and no pickle is ever handed to Python's own
unpickler (see `evprof.loaders.events.pickled`).
"""

from __future__ import annotations

import ast
import io
import math
import mmap
import re
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from evprof.core.budget import Budget
from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.file_head import NPY_MAGIC
from evprof.loaders.events.pickled import read_pickled_columns
from evprof.loaders.events.recording import EventRecording, EventsInMemory, FileBytes
from evprof.loaders.events.tables import Strip, check_shape, column_strips, events_from_mapping, open_table, row_strip
from evprof.loaders.paths import opened_file, unreadable

_LONGEST_HEADER = 16_384
LONGEST_START = 12 + _LONGEST_HEADER
"""Bytes that hold magic, version, length and header of every file that is read."""

_NUMBER = re.compile(r"[<>=|][biuf][1248]\Z")
_PADDING = re.compile(r"\|V[0-9]{1,3}\Z")
_PYTHON2_LONG = re.compile(r"(?<=[0-9])L(?=[,)])")


@dataclass(frozen=True)
class NpyHeader:
    """What an array file says of itself; `dtype` None means a pickle follows. `nbytes` is 0 then."""

    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]
    is_fortran: bool

    @property
    def nbytes(self) -> int:
        """Bytes of content that must follow the header."""
        return 0 if self.dtype is None else math.prod(self.shape) * self.dtype.itemsize


def open_recording(path: str | Path) -> EventRecording:
    """A `.npy` recording. Raises UserError.

    Plain arrays are read in windows. Pickled dicts are read whole, in at most about four times the file's memory.
    """
    file = FileBytes(path)
    with file.kept():
        start = io.BytesIO(file.at(0, LONGEST_START))
        header = read_npy_header(start, file.path)
        if header.dtype is None:
            with closing(file):
                return EventsInMemory(path, "npy", _read_pickle(path, start.tell()))
        return open_table(file, "npy", array_strips(header, start.tell(), file.size, file.path))


def array_strips(header: NpyHeader, offset: int, end: int, name: str) -> dict[str, Strip]:
    """Where the columns of an array lie whose content is from `offset` to `end` of a file. Raises UserError."""
    dtype = header.dtype
    if dtype is None:
        raise UserError(f"{name}: holds Python objects instead of numbers; save plain arrays.")
    check_length(header, end - offset, name)
    check_shape(dtype, header.shape, name)
    if header.is_fortran and dtype.names is None:
        return column_strips(offset, header.shape[0], dtype)
    return {"rows": row_strip(offset, header.shape[0], dtype)}


def _read_pickle(path: str | Path, offset: int) -> EventArray:
    try:
        with opened_file(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            mapped.seek(offset)
            columns = read_pickled_columns(mapped, pickle_budget(str(path), mapped.size()))
    except OSError as error:
        raise unreadable(path, error) from None
    return events_from_mapping(columns, str(path))


def pickle_budget(name: str, size: int) -> Budget:
    """The memory for a pickle of `size` bytes: texts that stand for bytes become as many bytes, for each array."""
    return Budget(name, size, ratio=4, spare=1 << 20)


def read_npy_header(file: IO[bytes], name: str) -> NpyHeader:
    """Parses magic, version and header; leaves `file` at the first byte of content. Raises UserError."""
    start = file.read(8)
    if start[:6] != NPY_MAGIC:
        raise UserError(f"{name}: is not a .npy file (its first bytes are not numpy's); give an event recording.")
    if len(start) < 8 or start[6] not in (1, 2, 3):
        raise UserError(f"{name}: the .npy header is damaged or of an unknown version; copy or export the file again.")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    text = file.read(length) if 0 < length <= _LONGEST_HEADER else b""
    if not text or len(text) < length:
        raise UserError(f"{name}: the .npy header is damaged or cut short; copy or export the file again.")
    try:
        return _parse_header(text.decode("utf-8" if start[6] == 3 else "latin-1"))
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        raise UserError(
            f"{name}: its .npy header does not describe numbers or a recording; export it again as x, y, t, p."
        ) from None


def _parse_header(text: str) -> NpyHeader:
    if "\\" in text:
        raise ValueError("no header needs an escape")
    values = ast.literal_eval(_PYTHON2_LONG.sub("", text).strip())
    if not isinstance(values, dict) or set(values) != {"descr", "fortran_order", "shape"}:
        raise ValueError("not the three keys of a header")
    shape, is_fortran = values["shape"], values["fortran_order"]
    if not isinstance(shape, tuple) or len(shape) > 4 or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("not a shape")
    if type(is_fortran) is not bool:
        raise ValueError("not an order")
    return NpyHeader(None if values["descr"] == "|O" else _dtype(values["descr"]), shape, is_fortran)


def _dtype(descr: Any) -> np.dtype[Any]:
    """Plain numbers, or a flat list of named ones with numpy's padding between; anything else is a ValueError."""
    if isinstance(descr, str) and _NUMBER.match(descr):
        return np.dtype(descr)
    if not isinstance(descr, list) or not 4 <= len(descr) <= 64:
        raise ValueError("not numbers")
    names: list[str] = []
    formats: list[str] = []
    offsets: list[int] = []
    offset = 0
    for field in descr:
        field_name, field_format = field
        if not (isinstance(field_name, str) and isinstance(field_format, str)):
            raise ValueError("not a field")
        if _NUMBER.match(field_format):
            names.append(field_name)
            formats.append(field_format)
            offsets.append(offset)
            offset += np.dtype(field_format).itemsize
        elif _PADDING.match(field_format):
            offset += int(field_format[2:])
        else:
            raise ValueError("not a number")
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": offset})


def check_length(header: NpyHeader, available: int, name: str) -> None:
    """Raises UserError when fewer than the announced bytes are there, before anything is allocated for them."""
    if header.nbytes > available:
        raise UserError(
            f"{name}: the header announces {header.nbytes:,} bytes but {max(available, 0):,} follow; "
            "the file is cut short, copy it again."
        )


def shaped(content: npt.NDArray[Any], header: NpyHeader, name: str) -> npt.NDArray[Any]:
    """Flat content in the announced shape. Raises UserError when elements are missing."""
    if len(content) != math.prod(header.shape):
        raise UserError(f"{name}: the file ends before its announced {math.prod(header.shape):,} elements.")
    return content.reshape(header.shape, order="F" if header.is_fortran else "C")
