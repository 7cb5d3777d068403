"""What the devices of this machine draw while a run goes on, as records."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.core.clock import Clock, monotonic_ns
from evprof.core.messages import Message, RunDescribed
from evprof.core.records import PowerRecord
from evprof.core.run_info import ModelFacts
from evprof.run.meters.grid import SampleGrid
from evprof.run.meters.meter import Meter
from evprof.run.meters.nvml_meter import nvml_meters
from evprof.run.meters.rapl_meter import rapl_meters

CPU, GPU = "cpu", "cuda"
"""What the names of devices begin with."""


class PowerSampler:
    """Reads the processor's packages and those GPUs that hold a model of ours, ten times a second.

    Until a message has told which GPUs that are, all visible ones are read: the first sample lies before the run's
    zero, and the models are known soon after.
    """

    def __init__(self, meters: Sequence[Meter] | None = None, *, clock: Clock = monotonic_ns) -> None:
        """`meters` are by default all that this machine has."""
        self._meters: list[Meter] = [*nvml_meters(), *rapl_meters()] if meters is None else list(meters)
        self._clock = clock
        self._grid = SampleGrid(clock)
        self._gpus: set[str] = set()

    def note(self, message: Message) -> None:
        """A message passed; it may tell where a model is."""
        if isinstance(message, RunDescribed):
            models = message.facts.get("models")
            for facts in models.values() if isinstance(models, dict) else ():
                device = facts.device if isinstance(facts, ModelFacts) else facts.get("device")
                if isinstance(device, str) and device.startswith(GPU):
                    self._gpus.add(device if ":" in device else f"{device}:0")

    def sample_if_due(self, run_id: int) -> list[PowerRecord]:
        """A record per device at a run's first call and then every tenth of a second; empty otherwise."""
        if not self._meters or self._grid.now_if_due(run_id) is None:
            return []
        return self.sample(run_id)

    def sample(self, run_id: int) -> list[PowerRecord]:
        """A record per device now: also for the end of a run, whose last tenth of a second counts like the others."""
        found = []
        for meter in self._meters:
            if meter.device.startswith(GPU) and self._gpus and meter.device not in self._gpus:
                continue
            before = self._clock()
            reading = meter.read()
            if reading is not None:
                found.append(PowerRecord(run_id, (before + self._clock()) // 2, meter.device, *reading))
        return found
