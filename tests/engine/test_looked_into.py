"""Runs made only to be looked into on a GPU: memory snapshots and NVTX ranges, with CUDA's part played by fakes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import engines.engine
from engines.engine import plan_runs, snapshot_file
from evprof.core.errors import USAGE, UserError
from evprof.core.recording import RecordLog
from evprof.core.records import STAGES
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice


def request_for(mode: str, sample: Any, **more: Any) -> RunRequest:
    draft, target = ModelChoice("tiny-draft"), ModelChoice("tiny-target")
    return RunRequest(mode, sample, draft, target, GenerationSettings(max_new_tokens=5), **more)


def carried_out(engine: Any, request: RunRequest) -> list[RunLog]:
    log = RecordLog()
    engine.run(request, log, threading.Event())
    book = RunBook(log)
    book.update()
    return list(book.runs.values())


class FakeAllocator:
    """Notes what is asked of it; writes a few bytes, or fails."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[Any] = []
        self.fails = False
        patch.setattr(torch.cuda.memory, "_record_memory_history", lambda *words, **_: self.asked.append(words))
        patch.setattr(torch.cuda.memory, "_dump_snapshot", self.dump)
        patch.setattr(engines.engine, "has_cuda", lambda _: True)

    def dump(self, path: str) -> None:
        Path(path).write_bytes(b"some")
        self.asked.append("dumped")
        if self.fails:
            raise OSError(28, "No space left on device")
        Path(path).write_bytes(b"snapshot")


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> FakeAllocator:
    return FakeAllocator(monkeypatch)


@pytest.mark.parametrize(("more", "option"), [({"snapshot": "s"}, "--memory-snapshot"), ({"nvtx": True}, "--nvtx")])
def test_without_a_gpu_both_are_refused_before_any_run(more: Any, option: str, engine: Any, sample: Any) -> None:
    with pytest.raises(UserError, match=f"^{option} needs a model on a CUDA device") as refused:
        carried_out(engine, request_for("target", sample, **more))
    assert refused.value.exit_code == USAGE


def test_they_follow_the_measured_runs_and_are_marked(sample: Any) -> None:
    request = request_for("side-by-side", sample, snapshot="/s/mem.pickle", nvtx=True)
    plans = list(plan_runs(request, lambda _: True))
    assert [plan.extra for plan in plans] == ["", "", "snapshot", "snapshot", "ranges", "ranges"]
    assert [plan.profiled for plan in plans] == [False] * 2 + [True] * 4
    assert [plan.run_id for plan in plans] == [1, 2, 3, 4, 5, 6]
    assert snapshot_file(request, "draft") == Path("/s/mem-draft.pickle")
    assert snapshot_file(request_for("target", sample, snapshot="/s/mem.pickle"), "target") == Path("/s/mem.pickle")


def test_a_snapshot_is_a_run_of_its_own_and_whole(
    engine: Any, sample: Any, tmp_path: Path, allocator: FakeAllocator
) -> None:
    path = tmp_path / "new" / "mem.pickle"
    plain, looked = carried_out(engine, request_for("target", sample, snapshot=str(path)))
    assert (plain.info.profiled, plain.info.snapshot_path) == (False, None)
    assert (looked.info.profiled, looked.info.snapshot_path) == (True, str(path))
    assert looked.info.status == "finished"
    assert path.read_bytes() == b"snapshot"
    assert list(path.parent.iterdir()) == [path]
    assert allocator.asked == [(), "dumped", (None,)]


class Ranges:
    """NVTX's ranges: names as they are opened, by thread, and how many are open."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.open: dict[int, int] = {}

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        thread = threading.get_ident()
        self.names.append(name)
        self.open[thread] = self.open.get(thread, 0) + 1
        try:
            yield
        finally:
            self.open[thread] -= 1


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> Ranges:
    found = Ranges()
    monkeypatch.setattr(torch.cuda.nvtx, "range", found.range)
    monkeypatch.setattr(engines.engine, "has_cuda", lambda _: True)
    return found


@pytest.mark.parametrize(("mode", "step"), [("target", "token"), ("speculative", "round"), ("parallel-prefill", "")])
def test_stages_rounds_and_tokens_are_ranges(mode: str, step: str, engine: Any, sample: Any, ranges: Ranges) -> None:
    plain, looked = carried_out(engine, request_for(mode, sample, nvtx=True))
    assert (plain.info.profiled, looked.info.profiled) == (False, True)
    assert looked.info.status == "finished"
    assert set(STAGES) <= set(ranges.names)
    assert set(ranges.open.values()) == {0}
    steps = [name for name in ranges.names if step and name.startswith(f"{step} ")]
    assert steps == [f"{step} {index}" for index in range(len(steps))]
    assert len(steps) >= bool(step)
    if mode == "target":
        assert len(steps) == len(looked.tokens) - 1
    if mode == "parallel-prefill":
        assert len(ranges.open) == 2  # the draft's thread has its own
