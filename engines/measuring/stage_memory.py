"""Peak memory of each stage and of a whole run, and the bytes read from disk.

Resident bytes come from the system, allocator figures from CUDA. Reading never waits for a device. It happens between
two stages, and the time it takes is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from evprof.core.protocols import monotonic_ns
from evprof.core.run_info import MemoryFacts
from evprof.core.units import ms_from_ns

_SELF = Path("/proc/self")


def disk_bytes() -> int | None:
    """Bytes fetched from storage so far, readahead included (Linux); None elsewhere. Takes a few µs."""
    try:
        text = (_SELF / "io").read_bytes()
    except OSError:
        return None
    _, found, rest = text.partition(b"\nread_bytes: ")
    return int(rest.split(b"\n", 1)[0]) if found else None


def bytes_since(before: int | None) -> int | None:
    """What was fetched since `before`; None where nothing counts."""
    now = disk_bytes()
    return None if before is None or now is None else now - before


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
        (_SELF / "clear_refs").write_bytes(b"5")
    except OSError:
        return False
    return True


def peak_rss_bytes() -> int | None:
    """Largest resident size of this process since the last reset, or since its start where there is no reset."""
    try:
        _, found, rest = (_SELF / "status").read_bytes().partition(b"\nVmHWM:")
    except OSError:
        import psutil

        memory = psutil.Process().memory_info()
        return int(getattr(memory, "peak_wset", memory.rss))
    return int(rest.split(maxsplit=1)[0]) * 1024 if found else None
