"""Peak memory of each stage and of a whole run: resident bytes from the system, the allocator's figures from CUDA.

Reading costs some tens of microseconds between two stages and never waits for a device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from evprof.core.run_info import MemoryFacts

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


class StageMemory:
    """One run's peaks. On CUDA a stage's figure is the allocator's peak over all its devices, else resident bytes."""

    def __init__(self, devices: Iterable[torch.device]) -> None:
        self._gpus = sorted({device for device in devices if device.type == "cuda"}, key=str)
        self._by_stage: dict[str, int] = {}
        self._allocated = 0
        self._reserved = 0
        self._rss: int | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measures what happens inside as that stage; two roles' stages of one name count together, the larger."""
        self._begin()
        try:
            yield
        finally:
            self._end(name)

    def facts(self, weights_bytes: int) -> MemoryFacts:
        """The run's figures so far."""
        return MemoryFacts(
            weights_bytes=weights_bytes,
            peak_allocated_bytes=self._allocated if self._gpus else None,
            peak_reserved_bytes=self._reserved if self._gpus else None,
            peak_rss_bytes=self._rss,
            by_stage=dict(self._by_stage),
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
            figure = sum(torch.cuda.max_memory_allocated(device) for device in self._gpus)
            self._allocated = max(self._allocated, figure)
            reserved = sum(torch.cuda.max_memory_reserved(device) for device in self._gpus)
            self._reserved = max(self._reserved, reserved)
        if figure is not None:
            self._by_stage[name] = max(self._by_stage.get(name, 0), figure)


class UnmeasuredMemory(StageMemory):
    """For work beside measured work: the system and the allocator keep one peak, which the other one resets."""

    def __init__(self) -> None:
        super().__init__(())

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Nothing is measured."""
        yield


def reset_peak_rss() -> bool:
    """Makes the system's peak start again from here. Returns whether it can: Linux only."""
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def peak_rss_bytes() -> int | None:
    """Largest resident size of this process since the last reset, or since its start where there is no reset."""
    if _STATUS.exists():
        try:
            with _STATUS.open(encoding="ascii") as lines:
                for line in lines:
                    if line.startswith("VmHWM:"):
                        return int(line.split()[1]) * 1024
        except (OSError, UnicodeDecodeError):
            return None
        return None
    import psutil

    memory = psutil.Process().memory_info()
    return int(getattr(memory, "peak_wset", memory.rss))
