"""Spans, device times and stage memory."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engines.measuring.device_timer import CudaTimer
from engines.measuring.stage_memory import StageMemory
from engines.measuring.timing import StageClock, describe_tensor
from evprof.core.events import EventArray
from evprof.core.records import BEGIN, END, SETTLED, STAGES, SpanRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import ClockFacts
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from run_logs import runs_of


class Ticks:
    """A clock that advances by ten each time it is read."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        self.ns += 10
        return self.ns


class LaggingDevice:
    """A device that reaches marks only when told; each at a thousand times its number."""

    def __init__(self) -> None:
        self.marks = 0
        self.reached = 0
        self.queries = 0
        self.released: list[int] = []

    def mark(self) -> int:
        self.marks += 1
        return self.marks

    def is_reached(self, mark: int) -> bool:
        self.queries += 1
        return mark <= self.reached

    def time_ns(self, mark: int) -> int:
        assert mark <= self.reached
        return 1000 * mark

    def release(self, mark: int) -> None:
        self.released.append(mark)

    def synchronize(self) -> None:
        self.reached = self.marks

    def conclude(self) -> ClockFacts:
        return ClockFacts(0.0, 0.0, is_corrected=False)

    def corrected_ns(self, time_ns: int) -> int:
        return time_ns


def spans_of(sink: Any) -> list[tuple[int, str, int, int]]:
    return [(record.phase, record.name, record.start_ns, record.end_ns) for record in sink.of(SpanRecord)]


def test_on_a_cpu_settled_times_are_the_hosts_and_come_at_once(sink: Any) -> None:
    clock = StageClock(sink, 4, now=Ticks())
    with clock.stage("vision", "draft") as stage, clock.child("tower") as part:
        assert stage.span_id != part.span_id
    assert spans_of(sink) == [
        (BEGIN, "vision", 10, -1),
        (BEGIN, "tower", 20, -1),
        (END, "tower", 20, 30),
        (SETTLED, "tower", 20, 30),
        (END, "vision", 10, 40),
        (SETTLED, "vision", 10, 40),
    ]
    parents = {record.name: record.parent_id for record in sink.of(SpanRecord)}
    assert parents == {"vision": -1, "tower": stage.span_id}
    assert {record.run_id for record in sink.of(SpanRecord)} == {4}
    assert {record.role for record in sink.of(SpanRecord)} == {"draft"}
    assert stage.duration_ns == 30


def test_device_times_follow_under_the_same_id_without_waiting(sink: Any) -> None:
    device = LaggingDevice()
    clock = StageClock(sink, 1, timers={"cuda:0": device}, now=Ticks())
    with clock.stage("prefill", "target", "cuda:0") as stage, clock.child("embeddings"):
        pass
    assert [record.phase for record in sink.of(SpanRecord)] == [BEGIN, BEGIN, END, END]
    clock.settle()
    assert SETTLED not in [record.phase for record in sink.of(SpanRecord)]
    assert device.queries == 1  # the oldest is asked; those after it cannot be done before
    device.reached = 3
    clock.end_step()
    settled = [record for record in sink.of(SpanRecord) if record.phase == SETTLED]
    assert [(record.name, record.start_ns, record.end_ns) for record in settled] == [("embeddings", 2000, 3000)]
    done_ns = clock.finish()
    last = sink.of(SpanRecord)[-1]
    assert (last.phase, last.span_id, last.start_ns, last.end_ns) == (SETTLED, stage.span_id, 1000, 4000)
    assert sorted(device.released) == [1, 2, 3, 4]
    assert done_ns >= last.end_ns - 4000
    assert stage.duration_ns == 3000


def test_a_stage_that_fails_still_ends(sink: Any) -> None:
    device = LaggingDevice()
    clock = StageClock(sink, 1, timers={"cuda:0": device})
    with pytest.raises(ValueError, match="broken"), clock.stage("vision", "target", "cuda:0"), clock.child("tower"):
        raise ValueError("broken")
    clock.finish()
    phases = [(record.phase, record.name) for record in sink.of(SpanRecord)]
    assert phases.count((SETTLED, "vision")) == phases.count((SETTLED, "tower")) == 1
    with clock.stage("decode", "target"):
        pass
    assert sink.of(SpanRecord)[-1].parent_id == -1


def test_children_on_another_device_use_its_own_timer(sink: Any) -> None:
    first, second = LaggingDevice(), LaggingDevice()
    clock = StageClock(sink, 1, timers={"cuda:0": first, "cuda:1": second})
    with clock.stage("decode", "target", "cuda:0"), clock.child_on("draft", "draft", "cuda:1"):
        pass
    assert (first.marks, second.marks) == (2, 2)
    clock.finish()
    assert len([record for record in sink.of(SpanRecord) if record.phase == SETTLED]) == 2


def test_a_branch_numbers_its_spans_with_the_others_and_nests_them_apart(sink: Any) -> None:
    clock = StageClock(sink, 7)
    branch = clock.branch(sink)
    rounds, ready = 400, threading.Barrier(2)

    def work(own: StageClock, role: str) -> None:
        ready.wait()
        for _ in range(rounds):
            with own.stage("decode", role), own.child("draft"):
                pass

    beside = threading.Thread(target=work, args=(branch, "draft"), name="evprof-test")
    beside.start()
    work(clock, "target")
    beside.join()
    begun = [record for record in sink.of(SpanRecord) if record.phase == BEGIN]
    assert sorted(record.span_id for record in begun) == list(range(4 * rounds))
    roles = {record.span_id: record.role for record in begun}
    assert all(record.parent_id < 0 or roles[record.parent_id] == record.role for record in begun)
    assert {record.run_id for record in begun} == {7}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (torch.zeros(1, 641, 40, dtype=torch.bfloat16), ("1,641,40", "bfloat16", 51280)),
        (np.zeros((3, 2), dtype=np.uint8), ("3,2", "uint8", 6)),
        ([np.zeros((4, 5, 3), np.uint8)] * 8, ("8,4,5,3", "uint8", 480)),
        ([np.zeros((4, 5), np.uint8), np.zeros((2, 2), np.uint8)], ("2", "uint8", 24)),
        ([1, 2, 3], ("3", "int64", 24)),
        ("Größe?", ("6", "str", 8)),
        (torch.tensor(1.0), ("", "float32", 4)),
        (EventArray.from_columns([1, 2], [3, 4], [5, 6], [0, 1]), ("2", "EventArray", 26)),
    ],
)
def test_tensors_are_described_by_shape_dtype_and_bytes(value: Any, expected: tuple[str, str, int]) -> None:
    assert describe_tensor(value) == expected


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


@pytest.mark.parametrize("drift", [0.0, 5e-5, -5e-5])
def test_a_run_is_settled_anew_where_the_clock_drifted(drift: float, monkeypatch, sink) -> None:
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


@pytest.mark.parametrize("mode", ["target", "side-by-side", "speculative", "parallel-prefill"])
def test_no_stage_contains_the_reading_of_its_memory(mode: str, engine, sample, monkeypatch) -> None:
    clocks: list[StageClock] = []
    opened, begin, end = StageClock.__init__, StageMemory._begin, StageMemory._end
    inside: list[bool] = []

    def make(self: StageClock, *words: Any, **named: Any) -> None:
        opened(self, *words, **named)
        clocks.append(self)

    def look() -> None:
        # A draft beside the target has a clock of its own, made after the run's.
        inside.append(next(clock for clock in clocks if clock.run_id == clocks[-1].run_id).is_inside)

    monkeypatch.setattr(StageClock, "__init__", make)
    monkeypatch.setattr(StageMemory, "_begin", lambda self: (look(), begin(self)))
    monkeypatch.setattr(StageMemory, "_end", lambda self, name: (end(self, name), look()))
    settings = GenerationSettings(max_new_tokens=4)
    request = RunRequest(mode, sample, ModelChoice("tiny-draft"), ModelChoice("tiny-target"), settings)
    runs = runs_of(engine, request)
    assert {run.info.status for run in runs} == {"finished"}
    assert len(inside) >= 2 * len(STAGES)
    assert not any(inside)
    assert all(run.info.memory.measuring_ms > 0 for run in runs)
