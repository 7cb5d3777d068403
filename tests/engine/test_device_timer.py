"""A device's clock against the host's: anchors at both ends, drift told and corrected, with a GPU of our own."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engines.measuring.device_timer import CudaTimer
from engines.measuring.timing import StageClock
from evprof.core.records import END, SETTLED, SpanRecord

LATENCY_NS = 3000
SECOND = 1_000_000_000


class FakeGpu:
    """A host's clock, and a device that reaches each mark a little later; its own clock goes wrong by `drift`."""

    def __init__(self, drift: float = 0.0, jitter: Any = lambda: 0) -> None:
        self.host_ns = 5 * SECOND
        self.drift = drift
        self.jitter = jitter
        self.made = 0
        self.readings = 0

    def now(self) -> int:
        self.readings += 1
        self.host_ns += 100
        return self.host_ns

    def pass_time(self, ns: int) -> None:
        self.host_ns += ns


class FakeEvent:
    """Records device time in ns; `elapsed_time` is a float32 of ms, as CUDA's."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.host_ns = -1
        gpu.made += 1

    def record(self, stream: Any) -> None:
        self.gpu.host_ns += LATENCY_NS + self.gpu.jitter()
        self.host_ns = self.gpu.host_ns
        self.gpu.host_ns += LATENCY_NS

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: FakeEvent) -> float:
        assert min(self.host_ns, other.host_ns) >= 0
        return float(np.float32((other.host_ns - self.host_ns) / (1 + self.gpu.drift) / 1e6))


def put(gpu: FakeGpu, patch: pytest.MonkeyPatch) -> FakeGpu:
    """In CUDA's place."""
    patch.setattr(torch.cuda, "Event", lambda **_: FakeEvent(gpu))
    patch.setattr(torch.cuda, "device", lambda _: nullcontext())
    patch.setattr(torch.cuda, "current_device", lambda: 0)
    patch.setattr(torch.cuda, "current_stream", lambda _: "stream")
    patch.setattr(torch.cuda, "synchronize", lambda _: None)
    patch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 0, raising=False)
    return gpu


def timed(gpu: FakeGpu) -> CudaTimer:
    return CudaTimer("cuda:0", now=gpu.now)


def test_clocks_that_agree_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = put(FakeGpu(), monkeypatch)
    timer = timed(gpu)
    gpu.pass_time(SECOND)
    mark = timer.mark()
    gpu.pass_time(SECOND)
    facts = timer.conclude()
    assert abs(facts.drift_us) <= facts.uncertainty_us < 20
    assert not facts.is_corrected
    assert timer.corrected_ns(timer.time_ns(mark)) == timer.time_ns(mark)


@given(
    drift=st.floats(-2e-4, 2e-4),
    waits=st.lists(st.integers(0, 9 * SECOND), min_size=1, max_size=12),
    jitters=st.lists(st.integers(0, 40_000), min_size=1, max_size=7),
)
def test_times_are_right_to_their_doubt_however_the_clock_drifts(
    drift: float, waits: list[int], jitters: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        turns = iter(range(10**9))
        gpu = put(FakeGpu(drift, lambda: jitters[next(turns) % len(jitters)]), patch)
        timer = timed(gpu)
        began_ns = gpu.host_ns
        marks = []
        for wait in waits:
            gpu.pass_time(wait)
            marks.append(timer.mark())
        times = [timer.time_ns(mark) for mark in marks]
        spent_ns = gpu.host_ns - began_ns
        facts = timer.conclude()
        doubt_ns = 1000 * facts.uncertainty_us
        steps_ns = 1000 * (len(waits) + 1)  # of float32, and of rounding to it base by base
        lost_ns = spent_ns * drift
        assert abs(1000 * facts.drift_us - lost_ns) <= doubt_ns + steps_ns + abs(lost_ns) * 1e-3
        assert facts.is_corrected == (1000 * abs(facts.drift_us) > max(20_000, doubt_ns))
        left_ns = 0 if facts.is_corrected else abs(1000 * facts.drift_us)
        for mark, time_ns in zip(marks, times, strict=True):
            assert abs(timer.corrected_ns(time_ns) - mark.host_ns) <= doubt_ns + steps_ns + left_ns


def test_short_intervals_stay_sharp_late_in_a_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A float32 of ms steps by 8 µs after 100 s, and by 60 after ten minutes."""
    gpu = put(FakeGpu(), monkeypatch)
    timer = timed(gpu)
    for _ in range(200):
        gpu.pass_time(3 * SECOND)
        first = timer.mark()
        gpu.pass_time(250_000)
        last = timer.mark()
        length = timer.time_ns(last) - timer.time_ns(first)
        assert abs(length - (last.host_ns - first.host_ns)) < 700
        timer.release(first)
        timer.release(last)
    assert gpu.made < 300


@pytest.mark.parametrize("drift", [0.0, 5e-5, -5e-5])
def test_a_run_is_settled_anew_where_the_clock_drifted(
    drift: float, monkeypatch: pytest.MonkeyPatch, sink: Any
) -> None:
    gpu = put(FakeGpu(drift), monkeypatch)
    clock = StageClock(sink, 1, timers={"cuda:0": timed(gpu)}, now=gpu.now)
    with clock.stage("load", "target"):
        gpu.pass_time(SECOND)
    for name in ("vision", "prefill"):
        with clock.stage(name, "target", "cuda:0"):
            gpu.pass_time(SECOND)
        clock.settle()
    clock.finish()
    facts = clock.device_clocks["cuda:0"]
    assert facts.is_corrected == bool(drift)
    assert facts.drift_us == pytest.approx(3e6 * drift, abs=facts.uncertainty_us + 1)
    written = [record for record in sink.of(SpanRecord) if record.phase == SETTLED]
    assert [record.name for record in written] == ["load", "vision", "prefill"] + ["vision", "prefill"] * bool(drift)
    last = {record.name: record for record in written}
    seen = {record.name: record for record in sink.of(SpanRecord) if record.phase == END}
    for name in ("vision", "prefill"):
        assert abs(last[name].start_ns - seen[name].start_ns) < 30_000
        assert abs(last[name].end_ns - seen[name].end_ns) < 30_000
    assert last["load"].end_ns == seen["load"].end_ns
