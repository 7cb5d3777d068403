"""Reads an event file in a process of its own with our reader or a library's, and says how long and how much it took.

`read_and_tell` is the child, which the hidden command `evprof _read-events` runs. It first reads a small file of the
same format, so that imports count for nobody, and brings the measured file into the page cache.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]
"""x, y, t in µs and p, of whatever types the library gives."""

OURS = "evprof"


@dataclass(frozen=True)
class ReadingTask:
    """What a child is asked: `reader` reads `path`, `small` before it.

    `source` is a folder of x, y, t, p as `.npy` that the result must equal, once made to fit the format by `fit` (see
    FITS); None: unchecked.
    """

    reader: str
    path: str
    small: str
    source: str | None = None
    fit: str = "as it is"

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def _small(events: EventArray) -> EventArray:
    return EventArray(
        (events.x * 3 // 8).astype(np.uint16), (events.y * 3 // 8).astype(np.uint16), events.t_us, events.p
    )


FITS: dict[str, Callable[[EventArray], EventArray]] = {
    "as it is": lambda events: events,
    # For sensors of 346x260, and of 240x180 with times below 2^23 µs.
    "half": lambda events: EventArray(events.x >> np.uint16(1), events.y >> np.uint16(1), events.t_us, events.p),
    "small": lambda events: _small(events.slice_count(0, int(np.searchsorted(events.t_us, 1 << 23)))),
}
"""What a recording of 640x480 is made into for formats of small sensors."""


def load_source(folder: Path, fit: str) -> EventArray:
    """The events that every file of a benchmark holds, from the disk's cache, fitted."""
    columns = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in "xytp"}
    return FITS[fit](EventArray(columns["x"], columns["y"], columns["t"], columns["p"]))


def save_source(folder: Path, events: EventArray) -> None:
    for name, column in (("x", events.x), ("y", events.y), ("t", events.t_us), ("p", events.p)):
        np.save(folder / f"{name}.npy", column)


def why_missing(reader: str) -> str | None:
    if reader == OURS:
        return None
    if all(importlib.util.find_spec(module) is not None for module in _MODULES.get(reader, (reader,))):
        return None
    return f"{reader} is not installed."


def read_and_tell(words: list[str]) -> int:
    """The child: prints how long it took (`seconds`, `cpu_seconds` of all threads), `events`, `equal`, and `peak_bytes`
    above what the process held; or the `reason` it did not.
    """
    asked = ReadingTask(**json.loads(words[0]))
    if asked.reader == "window":
        json.dump(_windows(asked), sys.stdout)
        return 0
    try:
        found = _measure(asked)
    except UserError as error:
        found = {"reason": error.sentence}
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a library's own failure, panics of Rust included, is a result here
        found = {"reason": f"{asked.reader} failed: {' '.join(str(error).split())[:200]}"}
    json.dump(found, sys.stdout)
    return 0


def _measure(asked: ReadingTask) -> dict[str, Any]:
    read = READERS[asked.reader]
    read(asked.small)
    _warm(asked.path)
    gc.collect()
    before = _watch_peak()
    cpu, began = time.process_time(), time.perf_counter()
    arrays = read(asked.path)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    peak = _peak_bytes()
    found = {"seconds": seconds, "cpu_seconds": cpu_seconds, "events": len(arrays[2]), "equal": None}
    found["peak_bytes"] = None if peak is None or before is None else peak - before
    if asked.source is not None:
        expected = load_source(Path(asked.source), asked.fit)
        columns: Arrays = (expected.x, expected.y, expected.t_us, expected.p)
        found["equal"] = all(np.array_equal(one, other) for one, other in zip(arrays, columns, strict=True))
    return found


def _windows(asked: ReadingTask) -> dict[str, Any]:
    """Windows of 100 ms at nine places of an open recording, one after the other."""
    from evprof.loaders.events.opening import open_recording

    with open_recording(asked.small) as recording:
        recording.read_time(0, 100_000)
    before = _watch_peak()
    began = time.perf_counter()
    with open_recording(asked.path) as recording:
        opened = time.perf_counter()
        info = recording.info
        start, stop = info.t_min_us or 0, info.t_max_us or 0
        times, counts = [], []
        for part in range(9):
            at = start + (stop - start) * part // 9
            first = time.perf_counter()
            counts.append(len(recording.read_time(at, at + 100_000)))
            times.append((time.perf_counter() - first) * 1e3)
        peak = _peak_bytes()
    return {
        "open_ms": (opened - began) * 1e3,
        "window_ms": times,
        "events": counts,
        "recording_events": info.events,
        "peak_bytes": None if peak is None or before is None else peak - before,
    }


def _warm(path: str) -> None:
    buffer = bytearray(1 << 20)
    with Path(path).open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def _watch_peak() -> int | None:
    """Bytes this process holds now; where the system can, the peak is counted from here on."""
    import psutil

    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        # Elsewhere the peak is the process's; above all that it held before, as long as the reading takes more.
        return _peak_bytes()
    return int(psutil.Process().memory_info().rss)


def _peak_bytes() -> int | None:
    """The most memory held, or None where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _read_ours(path: str) -> Arrays:
    from evprof.loaders.events.opening import open_recording

    with open_recording(path) as recording:
        events = recording.read()
    return events.x, events.y, events.t_us, events.p


def _fields(events: Any, t: str = "t", p: str = "p") -> Arrays:
    return events["x"], events["y"], events[t], events[p]


def _read_faery(path: str) -> Arrays:
    faery = importlib.import_module("faery")
    return _fields(faery.events_stream_from_file(path).to_array())


def _read_aedat(path: str) -> Arrays:
    aedat = importlib.import_module("aedat")
    packets = [packet["events"] for packet in aedat.Decoder(path) if "events" in packet]
    return _fields(np.concatenate(packets), p="on")


def _read_h5py(path: str) -> Arrays:
    importlib.import_module("hdf5plugin")
    h5py = importlib.import_module("h5py")
    with h5py.File(path, "r") as file:
        x, y, t, p = (file[f"events/{name}"][:] for name in "xytp")
        return x, y, t + np.int64(file["t_offset"][()]), p


def _read_numpy(path: str) -> Arrays:
    if path.endswith(".npz"):
        with np.load(path) as archive:
            return _fields({name: archive[name] for name in "xytp"})
    # Our own file of a moment ago: its pickle is safe to load.
    found = np.load(path, allow_pickle=True)
    return _fields(found.item() if found.dtype == object else found)


def _read_pyarrow(path: str) -> Arrays:
    table = importlib.import_module("pyarrow.csv").read_csv(path)
    t, x, y, p = (column.to_numpy() for column in table.columns[:4])
    return x, y, t, p


def _read_pandas(path: str) -> Arrays:
    table = importlib.import_module("pandas").read_csv(path)
    t, x, y, p = (table.iloc[:, number].to_numpy() for number in range(4))
    return x, y, t, p


READERS: dict[str, Callable[[str], Arrays]] = {
    OURS: _read_ours,
    "faery": _read_faery,
    "aedat": _read_aedat,
    "h5py": _read_h5py,
    "numpy": _read_numpy,
    "pyarrow": _read_pyarrow,
    "pandas": _read_pandas,
}

_MODULES = {"h5py": ("h5py", "hdf5plugin")}
