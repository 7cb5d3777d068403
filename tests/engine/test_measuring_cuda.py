"""What only a GPU can show of the measuring code: its events, its waits, its clock, and what it leaves behind."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from engines.decoder.attention import CUDNN, attend, attention_backends, choosing_kernel, kernel_of
from engines.engine import LocalEngine
from engines.hardware.environment import describe_environment
from engines.measuring.device_timer import CudaTimer, make_timers
from engines.measuring.profiling import MemorySnapshot, RangedClock
from engines.measuring.stage_memory import StageMemory
from engines.measuring.timing import StageClock
from evprof.core.clock import monotonic_ns
from evprof.core.recording import RecordLog
from evprof.core.records import STAGES
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice

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


def test_every_event_of_the_pool_exists_before_the_run() -> None:
    pools: dict[str, list[Any]] = {}
    make_timers([GPU], pools)
    assert all(event.cuda_event for event in pools["cuda:0"])


def test_events_in_the_other_order_are_a_negative_time_apart() -> None:
    """The timer counts from the latest base before a mark, and knows it by the sign."""
    timer = CudaTimer(GPU)
    first = timer.mark()
    work()
    last = timer.mark()
    timer.synchronize()
    assert first.elapsed_time(last) > 0.5
    assert last.elapsed_time(first) == pytest.approx(-first.elapsed_time(last), rel=1e-3)


def test_marks_follow_the_stream_of_their_thread() -> None:
    timer = CudaTimer(GPU)
    side = torch.cuda.Stream(GPU)
    with torch.cuda.stream(side):
        work(200)
        late = timer.mark()
    early = timer.mark()
    timer.synchronize()
    assert timer.time_ns(early) < timer.time_ns(late)


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


def test_cudnn_is_taken_only_when_it_is_named() -> None:
    queries = torch.randn(1, 4, 16, 64, device=GPU, dtype=torch.float16)
    assert "cudnn" not in attention_backends()["enabled"]
    assert kernel_of(queries, queries, None, is_causal=True, kind="sdpa") in {"flash", "efficient"}
    names = kernels_of(lambda: attend(queries, queries, queries, None, is_causal=True))
    assert not any("cudnn" in name.lower() for name in names)
    if torch.cuda.get_device_capability(GPU) >= (9, 0):
        with choosing_kernel(CUDNN, None, is_causal=True):
            names = kernels_of(lambda: attend(queries, queries, queries, None, is_causal=True, kind=CUDNN))
        assert any("cudnn" in name.lower() for name in names)


@pytest.mark.parametrize("new", [1, 16])
def test_the_kernel_told_is_the_kernel_launched(new: int) -> None:
    queries = torch.randn(1, 4, new, 64, device=GPU, dtype=torch.float16)
    keys = torch.randn(1, 4, 300, 64, device=GPU, dtype=torch.float16)
    told = kernel_of(queries, keys, None, is_causal=False, kind="sdpa")
    names = " ".join(kernels_of(lambda: attend(queries, keys, keys, None, is_causal=False))).lower()
    assert {"flash": "flash", "efficient": "efficient"}[told] in names


def kernels_of(body: Any) -> list[str]:
    from torch.profiler import ProfilerActivity, profile

    body()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as profiler:
        body()
        torch.cuda.synchronize()
    return [entry.key for entry in profiler.key_averages()]


def test_the_card_is_told() -> None:
    found = describe_environment(GPU)
    assert found["sm_count"] > 0
    assert found["compute_capability"].count(".") == 1
    assert found["gpu_memory_bytes"] > 1 << 30
    assert len(found["gpu_id"]) == 12
    assert found["cudnn"].count(".") == 2
    assert set(found["attention_backends"]["order"]) == {"flash", "efficient", "math", "cudnn"}


def test_a_memory_snapshot_holds_what_was_allocated(tmp_path: Path) -> None:
    snapshot = MemorySnapshot(tmp_path / "mem.pickle")
    with snapshot:
        held = torch.empty(32 << 20, dtype=torch.uint8, device=GPU)
    assert held.numel() == 32 << 20
    assert (tmp_path / "mem.pickle").stat().st_size > 1000
    assert snapshot.facts() == {"snapshot_path": str(tmp_path / "mem.pickle")}
    assert [path.name for path in tmp_path.iterdir()] == ["mem.pickle"]


def test_ranges_can_be_opened_with_a_cuda_build(sink: Any) -> None:
    clock = RangedClock(sink, 1, timers=make_timers([GPU], {}))
    with clock.stage("decode", "target", GPU):
        clock.begin_step()
        work(1)
        clock.end_step()
    clock.finish()
    assert clock.device_clocks


def test_a_whole_run_tells_its_clock_its_kernels_and_its_peaks(make_model: Any, sample: Any, tmp_path: Path) -> None:
    """Measured, and then looked into: one with a memory snapshot, one with ranges."""
    model = make_model("video_llava", device="cuda:0")
    engine = LocalEngine(loader=lambda *_: model, make_room=lambda *_: None)
    log = RecordLog()
    target = ModelChoice("tiny-target", device="cuda:0")
    settings = GenerationSettings(max_new_tokens=16)
    more: dict[str, Any] = {"snapshot": str(tmp_path / "mem.pickle"), "nvtx": True}
    engine.run(RunRequest("target", sample, None, target, settings, warmup=1, **more), log, threading.Event())
    engine.close()
    book = RunBook(log)
    book.update()
    runs = list(book.runs.values())
    assert [(run.info.status, run.info.error) for run in runs] == [("finished", None)] * 4
    assert [run.info.profiled for run in runs] == [False, False, True, True]
    assert runs[2].info.snapshot_path == str(tmp_path / "mem.pickle")
    info = runs[1].info
    assert abs(info.clocks["cuda:0"].drift_us) < 1000
    assert info.models["target"].attention_kernels["prefill"] in {"flash", "efficient", "math"}
    assert set(info.memory.by_stage) == set(STAGES)
    assert info.memory.peak_reserved_bytes >= info.memory.peak_allocated_bytes > 0
    assert info.memory.measuring_ms > 0
    assert all(span.is_settled for span in runs[1].spans.values())
