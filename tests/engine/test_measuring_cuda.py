"""What only a GPU can show of the measuring code: its events, its waits, its clock, and what it leaves behind."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engines.measuring.device_timer import make_timers
from engines.measuring.stage_memory import StageMemory
from engines.measuring.timing import StageClock
from evprof.core.protocols import monotonic_ns

pytestmark = [
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature:UserWarning"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
GPU = torch.device("cuda", 0)


def work(count: int = 20) -> torch.Tensor:
    matrix = torch.ones(4096, 4096, device=GPU, dtype=torch.float16)
    for _ in range(count):
        matrix = (matrix @ matrix) * 1e-4
    return matrix


def test_cuda_events_are_on_the_hosts_clock(sink: Any) -> None:
    pools: dict[str, list[Any]] = {}
    work()
    clock = StageClock(sink, 1, timers=make_timers([GPU], pools))
    before_ns = monotonic_ns()
    with clock.stage("prefill", "target", GPU) as span:
        work(50)
    after_ns = clock.finish()
    start_ns, end_ns = span.device_ns
    assert before_ns - 100_000 < start_ns < end_ns < after_ns + 100_000
    assert end_ns - start_ns > 1_000_000
    assert len(pools["cuda:0"]) >= 256
    facts = clock.device_clocks["cuda:0"]
    assert abs(facts.drift_us) < 1000
    assert 0 < facts.uncertainty_us < 1000


def test_spans_and_settling_wait_for_nothing(sink: Any) -> None:
    timers = make_timers([GPU], {})
    clock, tensor = StageClock(sink, 1, timers=timers), work()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with clock.stage("decode", "target", GPU) as span:
            span.input("hidden", tensor)
            for _ in range(20):
                with clock.child("verify") as part:
                    tensor = tensor @ tensor
                    part.output("logits", tensor)
                clock.end_step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    clock.finish()
    assert span.duration_ns > 0


def test_a_stages_peak_is_the_allocators() -> None:
    memory = StageMemory([GPU])
    with memory.stage("vision"):
        held = torch.empty(64 << 20, dtype=torch.uint8, device=GPU)
    with memory.stage("prefill"):
        del held
    facts = memory.facts(0)
    assert facts.by_stage["vision"] >= 64 << 20
    assert facts.peak_allocated_bytes == max(facts.by_stage.values())
    assert facts.peak_reserved_bytes >= facts.peak_allocated_bytes
