"""Marks on a device's queue of work, and when the device reached them on the host's clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from evprof.core.protocols import Clock, monotonic_ns
from evprof.core.run_info import ClockFacts

_READINGS = 5
"""How often both clocks are read for one anchor; the closest pair of readings counts."""

_CORRECTED_FROM_NS = 20_000
"""The drift from which device times are corrected."""

_NEXT_BASE_NS = 4_000_000_000
"""`elapsed_time` is a float32 of milliseconds: up to here its steps stay below 0.3 µs, after 100 s they are 8 µs."""


_FLOAT32_STEPS = 1 << 24
"""Steps of a float32 from 0 to its value."""


class DeviceTimer(Protocol):
    def mark(self) -> Any:
        """Puts a mark after the work queued so far; never waits."""

    def is_reached(self, mark: Any) -> bool:
        """Whether the device has got there; never waits."""

    def time_ns(self, mark: Any) -> int:
        """When the device got there, on the host's clock as known so far. Only after `is_reached`."""

    def release(self, mark: Any) -> None:
        """Gives a mark back for reuse."""

    def synchronize(self) -> None:
        """Waits until all queued work is done."""

    def conclude(self) -> ClockFacts:
        """At the run's end, with nothing queued: compares the clocks once more."""

    def corrected_ns(self, time_ns: int) -> int:
        """A time of `time_ns` by all that is known after `conclude`."""


@dataclass(frozen=True)
class _Anchor:
    """A mark that the device reached at `host_ns`, give or take `doubt_ns`."""

    event: Any
    host_ns: int
    doubt_ns: int


class CudaTimer:
    """Marks as CUDA events from a pool, with an anchor to the host's clock at the beginning and the end. For one run
    and one thread."""

    def __init__(
        self, device: Any, pool: list[Any] | None = None, *, reserve: int = 256, now: Clock = monotonic_ns
    ) -> None:
        self._device = torch.device(device)
        self._pool = pool if pool is not None else []
        self._now = now
        self._streams: dict[int, Any] = {}
        with torch.cuda.device(self._device):
            self._index = torch.cuda.current_device()
            # CUDA makes an event when it is first recorded: here, not in a span.
            while len(self._pool) < reserve:
                self._pool.append(self._record(torch.cuda.Event(enable_timing=True)))
            torch.cuda.synchronize(self._device)
            self._first = self._anchor()
        # Marks from which later ones are counted, each with the device's ns since the first anchor.
        self._bases = [(self._first.event, 0)]
        self._kept: set[int] = set()
        self._stretch = 0.0

    def mark(self) -> Any:
        return self._record(self._pool.pop() if self._pool else torch.cuda.Event(enable_timing=True))

    def _record(self, event: Any) -> Any:
        handle = torch._C._cuda_getCurrentRawStream(self._index)
        stream = self._streams.get(handle)
        if stream is None:
            stream = self._streams[handle] = torch.cuda.current_stream(self._device)
        event.record(stream)
        return event

    def is_reached(self, mark: Any) -> bool:
        return bool(mark.query())

    def time_ns(self, mark: Any) -> int:
        return self._first.host_ns + self._elapsed_ns(mark)

    def release(self, mark: Any) -> None:
        if id(mark) not in self._kept:
            self._pool.append(mark)

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._device)

    def conclude(self) -> ClockFacts:
        """The second anchor. A drift that is larger than 20 µs and than its doubt is spread evenly over the run."""
        with torch.cuda.device(self._device):
            last = self._anchor()
        base_ns = self._bases[-1][1]
        elapsed_ns = self._elapsed_ns(last.event)
        drift_ns = last.host_ns - self._first.host_ns - elapsed_ns
        doubt_ns = self._first.doubt_ns + last.doubt_ns + abs(elapsed_ns - base_ns) // _FLOAT32_STEPS
        is_corrected = abs(drift_ns) > max(_CORRECTED_FROM_NS, doubt_ns) and elapsed_ns > 0
        self._stretch = drift_ns / elapsed_ns if is_corrected else 0.0
        self._pool += [event for event, _ in self._bases[1:]]
        return ClockFacts(drift_ns / 1000, doubt_ns / 1000, is_corrected)

    def corrected_ns(self, time_ns: int) -> int:
        return time_ns + round((time_ns - self._first.host_ns) * self._stretch)

    def _anchor(self) -> _Anchor:
        """Both clocks read together, as closely as a few tries allow. The device has to be idle."""
        found = []
        for _ in range(_READINGS):
            event = torch.cuda.Event(enable_timing=True)
            before_ns = self._now()
            self._record(event)
            event.synchronize()
            after_ns = self._now()
            # The device got there between the two readings.
            found.append(_Anchor(event, (before_ns + after_ns) // 2, (after_ns - before_ns + 1) // 2))
        return min(found, key=lambda anchor: anchor.doubt_ns)

    def _elapsed_ns(self, mark: Any) -> int:
        """Device ns since the first anchor, counted from the latest base before the mark."""
        elapsed_ns = 0
        for event, base_ns in reversed(self._bases):
            elapsed_ns = base_ns + round(float(event.elapsed_time(mark)) * 1e6)
            if elapsed_ns >= base_ns:
                break
        if elapsed_ns - self._bases[-1][1] > _NEXT_BASE_NS:
            self._bases.append((mark, elapsed_ns))
            self._kept.add(id(mark))
        return elapsed_ns


def make_timers(devices: Sequence[Any], pools: dict[str, list[Any]]) -> dict[str, DeviceTimer]:
    """One timer per CUDA device among `devices`; `pools` keeps their events from run to run."""
    timers: dict[str, DeviceTimer] = {}
    for device in devices:
        name = str(device)
        if name.startswith("cuda") and name not in timers:
            timers[name] = CudaTimer(device, pools.setdefault(name, []))
    return timers
