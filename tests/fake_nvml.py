"""An NVML of our own, with counters that go up in steps by a clock of our own; and recordings of runs it watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from evprof.core.protocols import RunDescribed, RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import (
    BEGIN,
    DRAFT,
    END,
    ORIGIN_TARGET,
    SETTLED,
    STAGES,
    TARGET,
    KvRecord,
    MemoryRecord,
    SpanRecord,
    TokenRecord,
)
from evprof.core.run_info import FINISHED, ModelFacts, RunInfo, SetupFacts
from evprof.run.meters.samplers import Meter, NvmlMeter, PowerSampler, SampleGrid
from evprof.run.session_writer import SessionWriter
from told import TINY_MODEL

MS = 1_000_000
STEP_MS = 100
"""How often the counters go up."""


class FakeClock:
    """Stands still until it is set."""

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns


@dataclass
class FakeGpu:
    """One GPU. `watts` are told for a moment in ns, `throttle` and `clock_mhz` as well; `withheld` is not told at all.

    Its counter in mJ goes up every `step_ms`.
    """

    watts: Callable[[int], float] = lambda _: 300.0
    throttle: Callable[[int], int] = lambda _: 0
    clock_mhz: Callable[[int], int] = lambda _: 1980
    temperature_c: Callable[[int], int] = lambda _: 55
    uuid: str = "GPU-0"
    step_ms: int = STEP_MS
    withheld: set[str] = field(default_factory=set)
    _millijoules: list[float] = field(default_factory=lambda: [5e6])

    def millijoules(self, now_ns: int) -> int:
        while len(self._millijoules) <= now_ns // (self.step_ms * MS):
            begun_ns = (len(self._millijoules) - 1) * self.step_ms * MS
            self._millijoules.append(self._millijoules[-1] + self.watts(begun_ns) * self.step_ms)
        return int(self._millijoules[now_ns // (self.step_ms * MS)])


class FakeNvml:
    """What `import pynvml` gives where there are such GPUs."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_ERROR_NOT_SUPPORTED = 1, 2, 0, 3

    class NVMLError(Exception):
        """What NVML raises; `value` is its number."""

        def __init__(self, value: int) -> None:
            super().__init__(f"error {value}")
            self.value = value

    def __init__(self, gpus: Sequence[FakeGpu], clock: Callable[[], int]) -> None:
        self.gpus, self.clock = gpus, clock
        self.calls: list[str] = []

    def nvmlInit(self) -> None:
        """Always works."""

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        return gpu.uuid

    def nvmlDeviceGetComputeRunningProcesses(self, _: FakeGpu) -> list[Any]:
        """None, as in a container."""
        return []

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Callable[..., Any]] = {
            "nvmlDeviceGetTotalEnergyConsumption": lambda gpu: gpu.millijoules(self.clock()),
            "nvmlDeviceGetPowerUsage": lambda gpu: int(gpu.watts(self.clock()) * 1000),
            "nvmlDeviceGetClockInfo": lambda gpu, kind: gpu.clock_mhz(self.clock()) if kind == 1 else 3201,
            "nvmlDeviceGetTemperature": lambda gpu, _: gpu.temperature_c(self.clock()),
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda gpu: gpu.throttle(self.clock()),
            "nvmlDeviceGetUtilizationRates": lambda gpu: SimpleNamespace(
                gpu=97 if gpu.watts(self.clock()) > 150 else 3, memory=61
            ),
        }
        if name not in answers:
            raise AttributeError(name)

        def answer(gpu: FakeGpu, *words: Any) -> Any:
            self.calls.append(name)
            if name in gpu.withheld:
                raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
            return answers[name](gpu, *words)

        return answer

    def meters(self) -> list[Meter]:
        return [NvmlMeter(self, gpu, f"cuda:{number}") for number, gpu in enumerate(self.gpus)]


def facts_on(device: str) -> ModelFacts:
    return replace(TINY_MODEL, device=device, dtype="bfloat16", kv_element_bytes=2, cache="static")


@dataclass(frozen=True)
class WatchedRun:
    """A run that a sampler watches: `stages` last so many ms, one after the other, with `gap_ms` between two."""

    run_id: int = 1
    role: str = TARGET
    mode: str = "side-by-side"
    devices: tuple[tuple[str, str], ...] = ((TARGET, "cuda:0"),)
    stages: tuple[tuple[str, int], ...] = tuple(zip(STAGES, (150, 300, 500, 900, 4000), strict=True))
    gap_ms: int = 10
    tokens: int = 41
    start_ms: int = 1230

    @property
    def end_ms(self) -> int:
        return self.start_ms + sum(length + self.gap_ms for _, length in self.stages)


def watch(recording: RecordLog, run: WatchedRun, meters: Iterable[Meter], clock: FakeClock) -> None:
    """Records a run as a host would while it goes on, with a sample of every meter at each tenth of a second."""
    sampler, grid = PowerSampler(list(meters), clock=clock), SampleGrid(clock)
    info = RunInfo(run.run_id, 1, 0, run.role, run.mode, environment={"device": "a GPU of our own"})
    recording.post(RunStarted(run.run_id, info))
    described = RunDescribed(
        run.run_id,
        {
            "models": {role: facts_on(device) for role, device in run.devices},
            "setup": {role: SetupFacts() for role, _ in run.devices},
        },
    )
    sampler.note(described)
    recording.post(described)
    now_ms = run.start_ms - 20
    while now_ms < run.end_ms:
        clock.now_ns = now_ms * MS
        if grid.now_if_due(run.run_id) is not None:
            recording.extend("power", sampler.sample(run.run_id))
        recording.append(MemoryRecord(run.run_id, clock.now_ns, 3 << 30, 15 << 30))
        now_ms += 50
    _record_stages(recording, run)
    clock.now_ns = (run.end_ms + 3) * MS
    recording.extend("power", sampler.sample(run.run_id))
    facts = {"start_ns": run.start_ms * MS, "end_ns": run.end_ms * MS, "text": "What was seen."}
    recording.post(RunEnded(run.run_id, FINISHED, None, facts))


def _record_stages(recording: RecordLog, run: WatchedRun) -> None:
    at_ms = run.start_ms
    for number, (name, length) in enumerate(run.stages):
        start, end = at_ms * MS, (at_ms + length) * MS
        recording.append(SpanRecord(run.run_id, number, -1, BEGIN, run.role, name, start, -1))
        for phase in (END, SETTLED):
            recording.append(SpanRecord(run.run_id, number, -1, phase, run.role, name, start, end))
        if name == STAGES[-1]:
            for place in range(run.tokens):
                t_ns = start + (end - start) * place // max(1, run.tokens - 1)
                recording.append(TokenRecord(run.run_id, run.role, place, place, ORIGIN_TARGET, -1, t_ns, " word"))
                recording.append(KvRecord(run.run_id, run.role, t_ns, 600 + place, (600 + place) << 19))
        at_ms += length + run.gap_ms


def day_of_a_gpu(throttled: bool = False) -> FakeGpu:
    """A GPU that idles at 80 W, draws 610 W in prefill and 390 W otherwise, and is hot late in the run, if asked."""

    def watts(now_ns: int) -> float:
        ms = now_ns // MS % 8000
        return 80.0 if ms < 1250 or ms > 7000 else 610.0 if 2200 < ms < 3150 else 390.0

    def is_hot(now_ns: int) -> bool:
        return throttled and now_ns // MS % 8000 > 5000

    return FakeGpu(
        watts,
        throttle=lambda now: 0x20 if is_hot(now) else 0x1 if watts(now) < 100 else 0,
        clock_mhz=lambda now: 1410 if is_hot(now) else 345 if watts(now) < 100 else 1980,
        temperature_c=lambda now: 88 if is_hot(now) else 61,
    )


def powered_recording() -> RecordLog:
    """Two runs side by side on one GPU: an undisturbed one of the draft, and one of the target that was throttled."""
    recording, clock = RecordLog(), FakeClock()
    gpu = day_of_a_gpu(throttled=True)
    short = tuple(zip(STAGES, (150, 200, 300, 400, 1500), strict=True))
    draft = WatchedRun(1, DRAFT, devices=((DRAFT, "cuda:0"),), stages=short)
    for run in (draft, WatchedRun(2, start_ms=9230)):
        watch(recording, run, FakeNvml([gpu], clock).meters(), clock)
    return recording


def powered_session(path: Path) -> Path:
    """`powered_recording` as a session file; the window draws it like one that was measured."""
    with SessionWriter(powered_recording(), path):
        pass
    return path
