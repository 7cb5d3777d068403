"""Memory and power of a run, sampled by whoever fills the Recording and never by the engine."""

from __future__ import annotations

from evprof.core.clock import Clock, monotonic_ns
from evprof.core.messages import Message, RunEnded
from evprof.core.recording import RecordLog
from evprof.run.meters.memory_sampler import MemorySampler
from evprof.run.meters.power_sampler import PowerSampler


class RunSamplers:
    """The samplers of one engine process."""

    def __init__(self, pid: int, *, clock: Clock = monotonic_ns) -> None:
        self._memory = MemorySampler(pid, clock=clock)
        self._power = PowerSampler(clock=clock)

    def sample(self, run_ids: tuple[int, ...], recording: RecordLog) -> None:
        """Appends what is due for the last of the runs that go on."""
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
