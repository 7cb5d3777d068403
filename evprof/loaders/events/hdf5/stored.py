"""One array of an HDF5 file, read by rows: only the chunks that are asked for, each checked before it is unpacked.

It knows nothing of events.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.budget import PACKED_RATIO, Budget
from evprof.core.errors import UserError
from evprof.loaders.events.hdf5.filters import Filter, Pipeline, pipeline_of
from evprof.loaders.paths import readable_file, reason

MAGIC = b"\x89HDF\r\n\x1a\n"

_MAGIC_PLACES = (0, 512, 1024, 2048)
"""Where the magic may stand: at the start, or after a user block (MATLAB's is 512 bytes)."""

_MOST_LISTED = 12


def begins_as_hdf5(head: bytes) -> bool:
    """Whether the first bytes of a file are HDF5's, with or without a user block before them."""
    return any(head.startswith(MAGIC, place) for place in _MAGIC_PLACES)


@contextmanager
def sentences(name: str) -> Iterator[None]:
    """Turns what h5py and the filters say into one sentence about this file."""
    try:
        yield
    except MemoryError:
        raise UserError(
            f"{name}: asks for more memory than there is; the file is damaged, or needs a larger machine."
        ) from None
    except (OSError, LookupError, RuntimeError, ValueError, TypeError, ArithmeticError, AttributeError) as error:
        raise _damaged(name, error) from None
    except (zlib.error, EOFError, SystemError) as error:
        raise _damaged(name, error) from None


def _damaged(name: str, error: BaseException) -> UserError:
    said = printable(reason(error))
    if "already open for" in said or "unable to lock" in said:
        return UserError(f"{name}: another program is writing this file ({said}); open it when that has ended.")
    return UserError(f"{name}: cannot be read as HDF5 ({said}); it is damaged or cut short, copy or export it again.")


def printable(text: str, most: int = 160) -> str:
    """Text from a file, fit for a sentence."""
    return "".join(char if char.isprintable() else "?" for char in text)[:most]


def open_file(path: str | Path) -> Any:
    """An h5py.File for reading, without locks. Raises UserError."""
    import h5py

    found = readable_file(path)
    with sentences(str(path)):
        return h5py.File(found, mode="r", rdcc_nbytes=0, locking=False)


def find(group: Any, path: str, name: str) -> Any | None:
    """The group or dataset at `path` below `group`, None where there is none.

    Every step is checked before it is taken. Links raise UserError: opening one file must not read others.
    """
    import h5py

    here = group.file if path.startswith("/") else group
    for step in filter(None, path.split("/")):
        links, key = here.id.links if is_group(here) else None, step.encode()
        if links is None or not links.exists(key):
            return None
        if links.get_info(key).type != h5py.h5l.TYPE_HARD:
            raise UserError(
                f"{name}: '{printable(step)}' is a link, which is not followed; copy the recording into one file with "
                "h5repack or h5copy."
            )
        here = here[step]
    if is_dataset(here) and is_elsewhere(here):
        raise UserError(
            f"{name}: '{printable(path)}' keeps its numbers in other files (a virtual or external dataset), which are "
            "not opened; copy it into one file with h5repack."
        )
    return here


def is_group(found: Any) -> bool:
    import h5py

    return isinstance(found, h5py.Group)


def is_dataset(found: Any) -> bool:
    import h5py

    return isinstance(found, h5py.Dataset)


def is_elsewhere(dataset: Any) -> bool:
    """Whether a dataset's numbers are in other files. Asked before anything else of it: its shape may open them."""
    import h5py

    plan = dataset.id.get_create_plist()
    return bool(plan.get_layout() == h5py.h5d.VIRTUAL or plan.get_external_count())


def small_attribute(home: Any, key: str) -> int | str | None:
    """A whole number or a short text among the attributes; None for anything else."""
    import h5py

    if not h5py.h5a.exists(home.id, key.encode()):
        return None
    attribute = h5py.h5a.open(home.id, key.encode())
    is_known = isinstance(attribute.get_type(), h5py.h5t.TypeIntegerID | h5py.h5t.TypeStringID)
    if not is_known or attribute.shape not in ((), (1,)) or attribute.get_storage_size() > 256:
        return None
    value = np.asarray(home.attrs[key]).reshape(-1)[0]
    if isinstance(value, np.integer):
        return int(value)
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def listing(file: Any) -> str:
    names: list[str] = []

    def note(name: bytes) -> int | None:
        names.append(printable(name.decode("utf-8", "replace"), 60))
        return 1 if len(names) > _MOST_LISTED else None

    file.id.links.visit(note)
    more = " and more" if len(names) > _MOST_LISTED else ""
    return ", ".join(f"/{name}" for name in names[:_MOST_LISTED]) + more if names else "nothing"


BLOCK_ROWS = 65_536
"""Rows that are unpacked and kept together, about: small chunks are read several at a time."""

_FEW_CHUNKS = 4096
_MOST_CHUNK_BYTES = 32 << 20


class StoredArray:
    """An array of numbers, of one or more dimensions or with named fields; its first dimension counts rows.

    Raises UserError for whatever cannot be read safely: types that are no numbers, filters with odd parameters, sizes
    that the file cannot hold. Other errors of h5py come through; callers have `sentences` around them.
    """

    def __init__(self, dataset: Any, place: str, name: str) -> None:
        self.name = f"{name}[{printable(place)}]"
        if not is_dataset(dataset):
            raise UserError(f"{self.name}: is a group where a dataset is expected; export the recording again.")
        self._dataset = dataset
        self._check_type()
        self.shape: tuple[int, ...] = tuple(int(length) for length in dataset.shape or ())
        self.dtype: np.dtype[Any] = dataset.dtype
        self.chunk = tuple(int(length) for length in dataset.chunks) if dataset.chunks else None
        self._memory_type = dataset.id.get_type()
        self._file_bytes = os.stat(dataset.file.filename).st_size
        self.pipeline = self._checked_pipeline()
        self._check_size()
        rows = self.chunk[0] if self.chunk and self.shape else 1
        self.block_rows = max(1, -(-BLOCK_ROWS // rows)) * rows
        self._kept: tuple[int, npt.NDArray[Any]] | None = None
        self.bytes_read = 0

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def compression(self) -> str:
        return "none" if self.pipeline is None else self.pipeline.title

    def rows(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Rows start…stop-1, not to be changed; both must lie within the array."""
        pipeline = self.pipeline
        if pipeline is None or start == stop:
            found: npt.NDArray[Any] = self._dataset[start:stop]
            self.bytes_read += found.nbytes
            return found
        parts = []
        while start < stop:
            first = start // self.block_rows * self.block_rows
            parts.append(self._block(pipeline, first)[start - first : stop - first])
            start = first + self.block_rows
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _block(self, pipeline: Pipeline, first: int) -> npt.NDArray[Any]:
        """The block that begins with this row: the last one, or unpacked."""
        if self._kept is None or self._kept[0] != first:
            last = min(first + self.block_rows, len(self))
            rows = np.empty((last - first, *self.shape[1:]), self.dtype)
            self._unpack(pipeline, first, last, rows)
            self._kept = first, rows
        return self._kept[1]

    def _unpack(self, pipeline: Pipeline, first: int, last: int, out: npt.NDArray[Any]) -> None:
        across = [range(0, length, step) for length, step in zip(self.shape[1:], pipeline.chunk[1:], strict=True)]
        for at in product(range(first, last, pipeline.chunk[0]), *across):
            self._unpack_chunk(pipeline, at, out, first)
        if not pipeline.unpacked_here:
            self._read_unpacked(pipeline, first, out)

    def _read_unpacked(self, pipeline: Pipeline, first: int, out: npt.NDArray[Any]) -> None:
        """Has HDF5 unpack whole chunks into `out`: what h5py does, without its price of 30 µs a call."""
        import h5py

        there = self._dataset.id.get_space()
        there.select_hyperslab((first, *[0] * (out.ndim - 1)), out.shape)
        self._dataset.id.read(h5py.h5s.create_simple(out.shape), there, out, self._memory_type)

    def _unpack_chunk(self, pipeline: Pipeline, at: tuple[int, ...], out: npt.NDArray[Any], first: int) -> None:
        """Checks the chunk that begins at `at`, and copies it to its place in `out` if `pipeline` unpacks it."""
        origin = (first, *[0] * (len(at) - 1))
        target = out[
            tuple(
                slice(begin - zero, begin - zero + step)
                for begin, zero, step in zip(at, origin, pipeline.chunk, strict=True)
            )
        ]
        if self._dataset.id.get_chunk_info_by_coord(at).byte_offset is None:
            raise UserError(f"{self.name}: rows from {at[0]:,} on were never written; export the recording again.")
        mask, raw = self._dataset.id.read_direct_chunk(at)
        self.bytes_read += len(raw)
        if not pipeline.unpacked_here:
            pipeline.check(int(mask), raw)
            return
        whole = pipeline.unpack(int(mask), raw).view(self.dtype).reshape(pipeline.chunk)
        target[...] = whole[tuple(slice(0, length) for length in target.shape)]

    def _check_type(self) -> None:
        kind = self._dataset.id.get_type()
        if not _is_plain(kind) or not _is_number(self._dataset.dtype):
            told = printable(str(self._dataset.dtype), 60)
            raise UserError(f"{self.name}: holds {told} where plain numbers are expected; export the recording again.")

    def _checked_pipeline(self) -> Pipeline | None:
        plan = self._dataset.id.get_create_plist()
        steps = [plan.get_filter(number) for number in range(plan.get_nfilters())]
        if not steps or self.chunk is None:
            return None
        filters = [Filter(int(step[0]), tuple(int(value) for value in step[2])) for step in steps]
        chunk_bytes = math.prod(self.chunk) * self.dtype.itemsize
        if chunk_bytes > max(_MOST_CHUNK_BYTES, min(2 * self._file_bytes, 1 << 30)):
            raise UserError(
                f"{self.name}: is kept in chunks of {chunk_bytes / 2**20:,.0f} MiB; rewrite it in smaller ones with "
                "`h5repack -l CHUNK=65536`."
            )
        return pipeline_of(filters, self.dtype.itemsize, self.chunk, self.name)

    def _check_size(self) -> None:
        if self.chunk is not None:
            chunks = math.prod(-(-length // step) for length, step in zip(self.shape, self.chunk, strict=True))
            # The file's index of chunks has more than eight bytes for each.
            if chunks > _FEW_CHUNKS and 8 * chunks > self._file_bytes:
                raise UserError(
                    f"{self.name}: claims {chunks:,} chunks in a file of {self._file_bytes:,} bytes; it was never "
                    "written to the end, or is damaged."
                )
        Budget(self.name, self._file_bytes, PACKED_RATIO).check(math.prod(self.shape) * self.dtype.itemsize)


@dataclass(frozen=True)
class StoredColumn:
    """One number of each row: of a field by name, of a table's column by number, or with None the row itself."""

    stored: StoredArray
    key: str | int | None = None

    def of(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Its part of rows that were read."""
        if self.key is None:
            return rows
        part: npt.NDArray[Any] = rows[self.key] if isinstance(self.key, str) else rows[:, self.key]
        return part

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.stored.dtype[self.key] if isinstance(self.key, str) else self.stored.dtype


def _is_plain(kind: Any) -> bool:
    """Whether an HDF5 type is a number without unused bits, or a compound of such."""
    import h5py

    if isinstance(kind, h5py.h5t.TypeCompoundID):
        members = range(kind.get_nmembers())
        return len(members) <= 64 and all(_is_plain(kind.get_member_type(number)) for number in members)
    if isinstance(kind, h5py.h5t.TypeEnumID):
        kind = kind.get_super()
    if isinstance(kind, h5py.h5t.TypeIntegerID):
        return bool(kind.get_precision() == 8 * kind.get_size() and kind.get_size() <= 8)
    return isinstance(kind, h5py.h5t.TypeFloatID) and kind.get_size() in (2, 4, 8)


def _is_number(dtype: np.dtype[Any]) -> bool:
    if dtype.names is not None:
        return all(_is_number(dtype[name]) for name in dtype.names)
    return dtype.kind in "biuf" and dtype.itemsize <= 8
