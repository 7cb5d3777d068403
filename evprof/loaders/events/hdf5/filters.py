"""Compressed chunks of HDF5 datasets: which ways of compressing are read, and whether a chunk unpacks to its size.

HDF5 hands a chunk to its filters without asking how much will come out: too little is read past its end, too much fills
the memory. So each chunk's own header is held against the size it must have, and zlib, whose stream does not tell, is
unpacked here. It knows nothing of events.
"""

from __future__ import annotations

import logging
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evprof.core.errors import UserError

DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
LZF, BLOSC, ZSTD, ECF = 32000, 32001, 32015, 0x8ECF

_TITLES = {DEFLATE: "gzip", LZF: "lzf", BLOSC: "blosc", ZSTD: "zstd", ECF: "ecf"}
_BLOSC_CODECS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_MOST_LZF_CHUNK = 16 << 20
"""LZF shrinks up to 88 times and its stream does not tell to what, so its chunks stay small."""

_HEADER_SLACK = 4096


@dataclass(frozen=True)
class Filter:
    """One step of a pipeline: its registered number and its parameters."""

    code: int
    values: tuple[int, ...]


@dataclass(frozen=True)
class Pipeline:
    """What a dataset's chunks, of shape `chunk`, went through in this order: shuffle, one compressor, a checksum."""

    filters: tuple[Filter, ...]
    itemsize: int
    chunk: tuple[int, ...]
    name: str

    @property
    def chunk_bytes(self) -> int:
        return math.prod(self.chunk) * self.itemsize

    @property
    def compressor(self) -> Filter | None:
        return next((step for step in self.filters if step.code in _TITLES), None)

    @property
    def unpacked_here(self) -> bool:
        """Whether `unpack` does it; otherwise HDF5 may, after `check`."""
        return self.compressor is None or self.compressor.code == DEFLATE

    @property
    def title(self) -> str:
        """`none`, `gzip`, `blosc zstd`, …"""
        step = self.compressor
        if step is None:
            return "none"
        if step.code == BLOSC and len(step.values) > 6 and step.values[6] < len(_BLOSC_CODECS):
            return f"{_TITLES[step.code]} {_BLOSC_CODECS[step.values[6]]}"
        return _TITLES[step.code]

    def check(self, mask: int, raw: bytes) -> None:
        """Raises UserError unless a stored chunk says that it unpacks to the chunk's size."""
        packed = self.compressor
        if len(raw) > self.chunk_bytes + self.chunk_bytes // 8 + _HEADER_SLACK:
            raise self._odd(f"a chunk takes {len(raw):,} bytes packed and {self.chunk_bytes:,} unpacked")
        if packed is None or mask >> self.filters.index(packed) & 1:
            if len(raw) - 4 * self._sums(mask) != self.chunk_bytes:
                raise self._odd(f"an unpacked chunk has {len(raw):,} bytes instead of {self.chunk_bytes:,}")
            return
        claimed = _claimed(packed, raw)
        if claimed is not None and claimed != self.chunk_bytes:
            raise self._odd(f"a chunk unpacks to {claimed:,} bytes instead of {self.chunk_bytes:,}")

    def unpack(self, mask: int, raw: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes of a chunk, exactly as many as it has. Raises UserError, zlib.error, OSError, EOFError."""
        self.check(mask, raw)
        data: Any = raw
        for number, step in reversed(list(enumerate(self.filters))):
            if mask >> number & 1:
                continue
            if step.code == FLETCHER32:
                data = memoryview(data)[:-4]
            elif step.code == SHUFFLE:
                data = self._unshuffled(data)
            else:
                data = self._inflated(data)
        return np.frombuffer(data, np.uint8)

    def _inflated(self, data: bytes) -> bytes:
        unpacked = zlib.decompressobj().decompress(data, self.chunk_bytes + 1)
        if len(unpacked) != self.chunk_bytes:
            more = "more" if len(unpacked) > self.chunk_bytes else f"{len(unpacked):,}"
            raise self._odd(f"a chunk unpacks to {more} bytes instead of {self.chunk_bytes:,}")
        return unpacked

    def _unshuffled(self, data: bytes) -> Any:
        if len(data) != self.chunk_bytes:
            raise self._odd(f"a chunk has {len(data):,} bytes instead of {self.chunk_bytes:,}")
        planes = np.frombuffer(data, np.uint8).reshape(self.itemsize, -1)
        whole = np.empty((planes.shape[1], self.itemsize), np.uint8)
        # Plane by plane is several times faster than copying the transposed array.
        for byte in range(self.itemsize):
            whole[:, byte] = planes[byte]
        return whole.reshape(-1)

    def _sums(self, mask: int) -> int:
        return sum(step.code == FLETCHER32 and not mask >> number & 1 for number, step in enumerate(self.filters))

    def _odd(self, what: str) -> UserError:
        return UserError(f"{self.name}: {what}; the file is damaged, copy or export it again.")


def pipeline_of(steps: Sequence[Filter], itemsize: int, chunk: tuple[int, ...], name: str) -> Pipeline:
    """The checked pipeline of a dataset; loads what its compressor needs. Raises UserError with the way out."""
    compressors = [step for step in steps if step.code not in (SHUFFLE, FLETCHER32)]
    pipeline = Pipeline(tuple(steps), itemsize, chunk, name)
    unknown = next((step.code for step in compressors if step.code not in _TITLES), None)
    if unknown is not None:
        raise UserError(
            f"{name}: is compressed with HDF5 filter {unknown}, which is not read here; "
            "rewrite the file with `h5repack -f GZIP=1`."
        )
    codes = [step.code for step in steps]
    ranks = [(SHUFFLE,), tuple(_TITLES), (FLETCHER32,)]
    order = [next(rank for rank, members in enumerate(ranks) if code in members) for code in codes]
    if order != sorted(set(order)):
        raise UserError(f"{name}: its filters {codes} are not in a usual order; rewrite it with `h5repack -f GZIP=1`.")
    for step in steps:
        if not _sane(step, itemsize, pipeline.chunk_bytes):
            raise UserError(f"{name}: the parameters of its filter {step.code} make no sense; the file is damaged.")
    for step in compressors:
        _make_available(step.code, name)
    return pipeline


def register_filters() -> Any:
    """The module hdf5plugin, which registers its filters as it is imported. Raises ImportError where it is missing.

    It logs an error for each filter that it lacks, and the frozen program has none of those for pictures and fields: a
    filter that a file needs is missed when that file is opened, in a sentence.
    """
    logger = logging.getLogger("hdf5plugin")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        import hdf5plugin
    finally:
        logger.setLevel(level)
    return hdf5plugin


def _sane(step: Filter, itemsize: int, chunk_bytes: int) -> bool:
    """Whether a filter has the parameters that its code reads without looking how many there are."""
    values, count = step.values, len(step.values)
    if step.code == SHUFFLE:
        return count > 0 and values[0] == itemsize
    if step.code == LZF:
        return count >= 3 and values[2] == chunk_bytes <= _MOST_LZF_CHUNK
    return step.code != BLOSC or count >= 4


def _make_available(code: int, name: str) -> None:
    import h5py

    if h5py.h5z.filter_avail(code):
        return
    if code == ECF:
        raise UserError(
            f"{name}: is compressed with Prophesee's ECF codec, whose decoder hdf5plugin does not hold; open the RAW "
            "file that metavision_file_to_hdf5 made it from, export it with metavision_file_to_csv, or set "
            "HDF5_PLUGIN_PATH to Metavision's ECF plugin."
        )
    register_filters()
    if not h5py.h5z.filter_avail(code):
        raise UserError(
            f"{name}: is compressed with {_TITLES[code]}, which the installed hdf5plugin does not read; update it."
        )


def _claimed(step: Filter, raw: bytes) -> int | None:
    """The stated unpacked length of a packed chunk: -1 if it is not stated, None if it need not be."""
    try:
        if step.code == BLOSC:
            # Version, version of the codec, flags, itemsize, bytes, block, packed bytes.
            size, _, packed = struct.unpack_from("<III", raw, 4)
            return int(size) if packed <= len(raw) else -1
        return _zstd_claimed(raw) if step.code == ZSTD else None
    except (struct.error, IndexError):
        return -1


def _zstd_claimed(raw: bytes) -> int:
    """The content size of a Zstandard frame (RFC 8878, 3.1.1.1), -1 without one."""
    if raw[:4] != b"\x28\xb5\x2f\xfd":
        return -1
    single, dictionary, width = raw[4] >> 5 & 1, raw[4] & 3, raw[4] >> 6
    place = 5 + (not single) + (0, 1, 2, 4)[dictionary]
    length = (1 if single else 0, 2, 4, 8)[width]
    if len(raw) < place + length or not length:
        return -1
    return int.from_bytes(raw[place : place + length], "little") + (256 if length == 2 else 0)
