"""Memory of the engine process over time: resident bytes from the system, GPU bytes from NVML where there is one.

Sampling costs microseconds to about a millisecond and is done by whoever owns the "memory" stream, never by the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evprof.core.protocols import Clock, Message, RunEnded, monotonic_ns
from evprof.core.recording import RecordLog
from evprof.core.records import MemoryRecord
from evprof.run.meters.power_sampler import PowerSampler, SampleGrid

NO_GPU = -1


class MemorySampler:
    """Samples one process. `sample_if_due` is called as often as one likes and keeps to ten samples a second."""

    def __init__(self, pid: int, *, clock: Clock = monotonic_ns, gpu_bytes: Callable[[int], int] | None = None) -> None:
        """`gpu_bytes` answers for a pid; by default NVML does, when it is there."""
        self._pid = pid
        self._grid = SampleGrid(clock)
        self._rss_bytes = _rss_reader(pid)
        self._gpu_bytes = gpu_bytes or nvml_process_bytes()

    def sample_if_due(self, run_id: int) -> MemoryRecord | None:
        """A sample for `run_id` at its first call and then every tenth of a second.

        None otherwise, and when the process is gone.
        """
        now = self._grid.now_if_due(run_id)
        if now is None:
            return None
        rss_bytes = self._rss_bytes()
        if rss_bytes is None:
            return None
        return MemoryRecord(run_id, now, rss_bytes, self._gpu_bytes(self._pid))


def _rss_reader(pid: int) -> Callable[[], int | None]:
    import psutil

    try:
        process = psutil.Process(pid)
    except psutil.Error:
        return lambda: None

    def ask_system() -> int | None:
        try:
            return int(process.memory_info().rss)
        except psutil.Error:
            return None

    return ask_system


def nvml_process_bytes() -> Callable[[int], int]:
    """A function from pid to the bytes it holds on all GPUs; it answers NO_GPU when NVML or the figure is missing.

    Inside a container NVML may list no process of ours, or hide the figure: that is "not known", never 0.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except Exception:  # noqa: BLE001 - NVML's own errors and every way in which its library can be absent
        return lambda pid: NO_GPU

    def ask_driver(pid: int) -> int:
        used: list[Any] = []
        for handle in handles:
            try:
                processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
            except pynvml.NVMLError:
                continue
            used += [entry.usedGpuMemory for entry in processes if entry.pid == pid]
        known = [count for count in used if count is not None]
        return sum(known) if known else NO_GPU

    return ask_driver


class RunSamplers:
    def __init__(self, pid: int, *, clock: Clock = monotonic_ns) -> None:
        self._memory = MemorySampler(pid, clock=clock)
        self._power = PowerSampler(clock=clock)

    def sample(self, run_ids: tuple[int, ...], recording: RecordLog) -> None:
        if not run_ids:
            return
        if memory := self._memory.sample_if_due(run_ids[-1]):
            recording.append(memory)
        recording.extend("power", self._power.sample_if_due(run_ids[-1]))

    def note(self, message: Message, recording: RecordLog) -> None:
        """To be called before a message is posted: it may tell where models are, and a run's end is a last sample."""
        self._power.note(message)
        if isinstance(message, RunEnded):
            recording.extend("power", self._power.sample(message.run_id))
