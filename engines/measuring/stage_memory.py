"""Peak memory of each stage and of a whole run, and the bytes read from disk.

Resident bytes come from the system, allocator figures from CUDA. Reading never waits for a device. It happens between
two stages, and the time it takes is recorded. Files of /proc/self stay open: opening takes several times as long as
reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

from evprof.core.clock import monotonic_ns
from evprof.core.run_info import MemoryFacts
from evprof.core.units import ms_from_ns


class ProcFile:
    """Text that the system writes anew for each reading; an OSError where there is no such file."""

    def __init__(self, name: str, flags: int = os.O_RDONLY) -> None:
        self._path = f"/proc/self/{name}"
        self._flags = flags
        # By process: a descriptor stays that of the process which opened it.
        self._opened: dict[int, int] = {}

    def read(self, size: int = 4096) -> bytes:
        """The first `size` bytes."""
        return os.pread(self._descriptor(), size, 0)

    def write(self, text: bytes) -> None:
        """Puts `text` there."""
        os.pwrite(self._descriptor(), text, 0)

    def _descriptor(self) -> int:
        process = os.getpid()
        found = self._opened.get(process)
        if found is None:
            found = self._opened[process] = os.open(self._path, self._flags | getattr(os, "O_CLOEXEC", 0))
        return found


_COUNTERS = ProcFile("io")
_FIELD = b"\nread_bytes: "


def disk_bytes() -> int | None:
    """Bytes fetched from storage so far, readahead included (Linux); None elsewhere. Takes a few µs."""
    try:
        text = _COUNTERS.read()
    except (OSError, AttributeError):
        return None
    _, found, rest = text.partition(_FIELD)
    return int(rest.split(b"\n", 1)[0]) if found else None


def bytes_since(before: int | None) -> int | None:
    """What was fetched since `before`; None where nothing counts."""
    now = disk_bytes()
    return None if before is None or now is None else now - before


_STATUS, _CLEAR_REFS = ProcFile("status"), ProcFile("clear_refs", os.O_WRONLY)
_PEAK = b"\nVmHWM:"


class StageMemory:
    """One run's peaks. On CUDA a stage's figure is the allocator's peak over all its devices, else resident bytes."""

    def __init__(self, devices: Iterable[torch.device]) -> None:
        self._gpus = sorted({device for device in devices if device.type == "cuda"}, key=str)
        self._by_stage: dict[str, int] = {}
        self._allocated = 0
        self._reserved = 0
        self._rss: int | None = None
        self._spent_ns = 0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measures a stage; the larger of two roles' stages of one name counts. Enter before its span and leave after
        it."""
        entered_ns = monotonic_ns()
        self._begin()
        self._spent_ns += monotonic_ns() - entered_ns
        try:
            yield
        finally:
            left_ns = monotonic_ns()
            self._end(name)
            self._spent_ns += monotonic_ns() - left_ns

    def facts(self, weights_bytes: int) -> MemoryFacts:
        return MemoryFacts(
            weights_bytes=weights_bytes,
            peak_allocated_bytes=self._allocated if self._gpus else None,
            peak_reserved_bytes=self._reserved if self._gpus else None,
            peak_rss_bytes=self._rss,
            by_stage=dict(self._by_stage),
            measuring_ms=ms_from_ns(self._spent_ns),
        )

    def _begin(self) -> None:
        reset_peak_rss()
        for device in self._gpus:
            torch.cuda.reset_peak_memory_stats(device)

    def _end(self, name: str) -> None:
        rss = peak_rss_bytes()
        if rss is not None:
            self._rss = max(self._rss or 0, rss)
        figure = rss
        if self._gpus:
            # As the allocator gives them: torch's flat statistics sort some hundred names for every figure asked.
            peaks = [torch.cuda.memory_stats_as_nested_dict(device) for device in self._gpus]
            figure = sum(int(told["allocated_bytes"]["all"]["peak"]) for told in peaks)
            self._allocated = max(self._allocated, figure)
            self._reserved = max(self._reserved, sum(int(told["reserved_bytes"]["all"]["peak"]) for told in peaks))
        if figure is not None:
            self._by_stage[name] = max(self._by_stage.get(name, 0), figure)


class UnmeasuredMemory(StageMemory):
    """For work beside measured work: the system and the allocator keep one peak, which the other one resets."""

    def __init__(self) -> None:
        super().__init__(())

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        yield


def reset_peak_rss() -> bool:
    """Makes the system's peak start again from here. Returns whether it can: Linux only."""
    try:
        _CLEAR_REFS.write(b"5")
    except (OSError, AttributeError):
        return False
    return True


def peak_rss_bytes() -> int | None:
    """Largest resident size of this process since the last reset, or since its start where there is no reset."""
    try:
        _, found, rest = _STATUS.read().partition(_PEAK)
    except (OSError, AttributeError):
        import psutil

        memory = psutil.Process().memory_info()
        return int(getattr(memory, "peak_wset", memory.rss))
    return int(rest.split(maxsplit=1)[0]) * 1024 if found else None
