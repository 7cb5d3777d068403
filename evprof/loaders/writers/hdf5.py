"""Writes events as HDF5 the way DSEC keeps them, as a stream: memory stays that of a few chunks.

It knows nothing of where the events come from.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UsageError, UserError
from evprof.core.events import EventArray
from evprof.core.files.whole_file import whole_path
from evprof.loaders.events.hdf5.filters import register_filters
from evprof.loaders.events.recording import joined


class PatientFile(io.RawIOBase):
    """Reads and writes `path` until something fails; from then on what is written is gone. See `check`."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.error: OSError | None = None
        self._file = path.open("w+b", buffering=0)
        self._place = 0

    def check(self) -> None:
        """Raises the first OSError there was."""
        if self.error is not None:
            raise self.error

    def write(self, content: Any) -> int:
        view = memoryview(content).cast("B")
        done = 0
        while done < len(view) and self.error is None:
            try:
                self._file.seek(self._place + done)
                done += self._file.write(view[done:]) or 0
            except OSError as error:
                self.error = error
        self._place += len(view)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        """Always all of it: zeros where nothing is."""
        view = memoryview(buffer).cast("B")
        view[:] = bytes(len(view))
        done = 0
        try:
            self._file.seek(self._place)
            while done < len(view):
                count = self._file.readinto(view[done:]) or 0
                if not count:
                    break
                done += count
        except OSError as error:
            self.error = self.error or error
        self._place += len(view)
        return len(view)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            offset += self._file.seek(0, io.SEEK_END)
        elif whence == io.SEEK_CUR:
            offset += self._place
        self._place = offset
        return offset

    def tell(self) -> int:
        return self._place

    def truncate(self, size: int | None = None) -> int:
        wanted = self._place if size is None else size
        try:
            if self.error is None:
                self._file.truncate(wanted)
        except OSError as error:
            self.error = error
        return wanted

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


COMPRESSIONS = ("blosc-zstd", "blosc-lz4", "gzip", "lzf", "none")
"""The first is DSEC's own; reading `gzip`, `lzf` and `none` needs h5py alone."""

CHUNK_ROWS = 65_536
_GATHERED_EVENTS = 4 * CHUNK_ROWS
_MOST_INDEX = 500_000_000
_LARGEST_T = 2**32 - 1


def write_dsec(
    path: Path,
    chunks: Iterable[EventArray],
    *,
    compression: str = "blosc-zstd",
    width: int | None = None,
    height: int | None = None,
) -> int:
    """Writes `/events/{x,y,t,p}`, `/ms_to_idx` and `/t_offset`; returns how many events.

    The sensor's size becomes the attributes `width` and `height` of `/events`. `t` is relative to the first event, in
    32 bits as in DSEC, in 64 from the first event on that is more than 71 minutes later. `ms_to_idx[m]` is the first
    event with t >= 1000 m, for every m up to the last event.

    Raises OSError, and UserError for events whose time runs backwards, which the index cannot show, and for none.
    """
    options = _compression_options(compression, str(path))
    with whole_path(path) as unfinished:
        with closing(PatientFile(unfinished)) as place:
            import h5py

            with h5py.File(place, "w") as file:
                writer = _DsecFile(file, options, str(path))
                if width and height:
                    file["events"].attrs.update(width=width, height=height)
                for events in _gathered(chunks):
                    writer.append(events)
                    place.check()
            place.check()
        if not writer.count:
            raise UserError(f"{path}: there are no events to write; nothing was written.")
    return writer.count


class _DsecFile:
    def __init__(self, file: Any, options: dict[str, Any], name: str) -> None:
        self._file = file
        self._options = options
        self._offset = 0
        self._name = name
        self._last_us: int | None = None
        self.count = 0
        for column, dtype in (("x", np.uint16), ("y", np.uint16), ("t", np.uint32), ("p", np.uint8)):
            self._create(f"events/{column}", np.dtype(dtype))
        self._create("ms_to_idx", np.dtype(np.uint64))

    def append(self, events: EventArray) -> None:
        t = events.t_us
        if self.count == 0:
            self._offset = int(t[0])
            self._file.create_dataset("t_offset", data=np.int64(self._offset))
        self._check(t)
        relative = t - self._offset
        if relative[-1] > _LARGEST_T and self._file["events/t"].dtype == np.uint32:
            self._widen()
        self._index(relative)
        for column, values in (("x", events.x), ("y", events.y), ("t", relative), ("p", events.p)):
            self._extend(f"events/{column}", values)
        self.count += len(events)
        self._last_us = int(t[-1])

    def _check(self, t_us: npt.NDArray[np.int64]) -> None:
        backwards = np.flatnonzero(t_us[1:] < t_us[:-1])
        number = (
            int(backwards[0]) + 1
            if len(backwards)
            else 0
            if self._last_us is not None and t_us[0] < self._last_us
            else None
        )
        if number is not None:
            raise UserError(
                f"{self._name}: time runs backwards at event {self.count + number:,}, and DSEC's millisecond index "
                "needs time order; sort the events by time first (--sort)."
            )

    def _index(self, relative_us: npt.NDArray[np.int64]) -> None:
        """Continues ms_to_idx to the last of these events, a bounded piece at a time."""
        start, stop = len(self._file["ms_to_idx"]), int(relative_us[-1]) // 1000 + 1
        if stop > _MOST_INDEX:
            raise UserError(
                f"{self._name}: the last events lie {stop / 1000:,.0f} s after the first, too far for an index by "
                "milliseconds; write .npy, or a part."
            )
        for begin in range(start, stop, 16 * CHUNK_ROWS):
            marks = np.arange(begin, min(begin + 16 * CHUNK_ROWS, stop), dtype=np.int64) * 1000
            self._extend("ms_to_idx", np.searchsorted(relative_us, marks, side="left") + self.count)

    def _extend(self, place: str, values: npt.NDArray[Any]) -> None:
        dataset = self._file[place]
        before = len(dataset)
        dataset.resize((before + len(values),))
        dataset[before:] = values.astype(dataset.dtype, copy=False)

    def _create(self, place: str, dtype: np.dtype[Any]) -> Any:
        return self._file.create_dataset(
            place, shape=(0,), maxshape=(None,), chunks=(CHUNK_ROWS,), dtype=dtype, **self._options
        )

    def _widen(self) -> None:
        self._file.move("events/t", "events/t32")
        narrow = self._file["events/t32"]
        self._create("events/t", np.dtype(np.uint64))
        for start in range(0, len(narrow), _GATHERED_EVENTS):
            self._extend("events/t", narrow[start : start + _GATHERED_EVENTS])
        del self._file["events/t32"]


def _gathered(chunks: Iterable[EventArray]) -> Iterator[EventArray]:
    """The same events in pieces of some size: every write has its price."""
    waiting: list[EventArray] = []
    count = 0
    for chunk in chunks:
        if len(chunk):
            waiting.append(chunk)
            count += len(chunk)
        if count >= _GATHERED_EVENTS:
            yield joined(waiting)
            waiting, count = [], 0
    if waiting:
        yield joined(waiting)


def _compression_options(compression: str, name: str) -> dict[str, Any]:
    if compression not in COMPRESSIONS:
        raise UsageError(f"{name}: there is no compression '{compression}'; choose one of {', '.join(COMPRESSIONS)}.")
    if compression == "none":
        return {}
    if not compression.startswith("blosc-"):
        return {"compression": compression, "shuffle": True} | (
            {"compression_opts": 1} if compression == "gzip" else {}
        )
    hdf5plugin = register_filters()
    codec: Any = compression.removeprefix("blosc-")
    return dict(hdf5plugin.Blosc(cname=codec, clevel=1, shuffle=hdf5plugin.Blosc.SHUFFLE))
