"""Spans: begin, end and settled records, devices that lag behind, tensors described, and the null clock."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from engines.measuring.timing import StageClock, describe_tensor
from evprof.core.events import EventArray
from evprof.core.records import BEGIN, END, SETTLED, SpanRecord
from evprof.core.run_info import ClockFacts


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
