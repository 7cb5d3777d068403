"""What a torch profiler's trace holds, as columns: one row for each slice and allocation, texts stored once.

Times are nanoseconds from the trace's own base. It knows neither files nor figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evprof.core.rows.blocks import Ints

Codes = npt.NDArray[np.int32]
Shares = npt.NDArray[np.float64]

NONE = -1
"""A number or text that was not recorded."""


@dataclass(frozen=True)
class TraceDevice:
    """A GPU as the trace describes it; None or "" where it does not."""

    number: int
    name: str = ""


@dataclass(frozen=True)
class TraceHead:
    """What stands around the entries. `recorded` are the options that were on (`record_shapes`, `with_stack`, …)."""

    recorded: tuple[str, ...] = ()
    devices: tuple[TraceDevice, ...] = ()


@dataclass(frozen=True)
class TraceTrack:
    """Where slices lie: a thread of a process, or a stream of a device; names "" where none was given."""

    pid: str
    tid: str
    process: str = ""
    thread: str = ""


@dataclass(frozen=True)
class SliceColumns:
    """Entries with a beginning and a length (`ph` X), in the file's order. Codes are places in `TraceColumns.texts`."""

    starts: Ints
    durations: Ints
    categories: Codes
    names: Codes
    tracks: Codes
    shapes: Codes
    external_ids: Ints
    correlations: Ints

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True)
class DeviceColumns:
    """Kernels, copies and sets among the slices, with how they were launched; NONE or NaN where it was not recorded."""

    rows: Ints
    devices: Ints
    grids: Codes
    blocks: Codes
    registers: Ints
    shared_memory: Ints
    blocks_per_sm: Shares
    occupancies: Shares
    bytes: Ints


@dataclass(frozen=True)
class MemoryColumns:
    """Allocations (bytes above 0) and releases in the file's order; totals are the allocator's after each."""

    times: Ints
    tracks: Codes
    addresses: Ints
    bytes: Ints
    allocated: Ints
    reserved: Ints
    device_types: Ints
    devices: Ints

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True)
class TraceColumns:
    """A trace, or as much of it as was read so far; `problems` are sentences about what is missing or odd."""

    head: TraceHead
    texts: Sequence[str]
    tracks: Sequence[TraceTrack]
    slices: SliceColumns
    device: DeviceColumns
    memory: MemoryColumns
    entries: int
    problems: tuple[str, ...] = ()

    def text(self, code: int) -> str:
        """The text of a code; "" for NONE."""
        return self.texts[code] if code >= 0 else ""

    @property
    def ends(self) -> Ints:
        """When each slice ends, ns."""
        return self.slices.starts + self.slices.durations

    @property
    def device_places(self) -> Ints:
        """For each slice its place in `device`, NONE for slices of the host."""
        places = np.full(len(self.slices), NONE, dtype=np.int64)
        places[self.device.rows] = np.arange(len(self.device.rows))
        return places
