"""The measurements behind `bench gpu`: launches counted, tokens compared position by position, blocks timed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engines.bench import contenders
from engines.bench.block_costs import EAGLE, LONGEST, MODEL, BlockCosts, measure_block_costs
from engines.bench.ceilings import Ceilings
from engines.bench.language_steps import (
    StepsPlan,
    counts_of,
    forced_logits,
    measure_steps,
    same_when_forced,
)
from engines.bench.turns import DECODE_BEGINS
from engines.bench.workload import Workload, make_workload
from engines.loading.shapes import TINY_NETWORK, bench_shape
from evprof.core.errors import UserError
from evprof.core.vocabulary.settings import choices_of

CPU = torch.device("cpu")
CEILINGS = Ceilings(1e10, 2e10, 1e11, "float32", 1, None)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return make_workload(bench_shape("tiny"), 12, LONGEST + 4, CPU, torch.float32)


def event(name: str, start: float, place: str = "CPU", parent: Any = None, *, is_note: bool = False) -> Any:
    """As torch's profiler hands them out."""
    return SimpleNamespace(
        name=name,
        time_range=SimpleNamespace(start=start),
        device_type=SimpleNamespace(name=place),
        cpu_parent=parent,
        is_user_annotation=is_note,
    )


def test_kernels_and_launches_are_counted_per_token_after_the_prefill() -> None:
    linear = event("aten::linear", 20)
    events = [
        event("prefill_gemm", 5, "CUDA"),
        event("cudaLaunchKernel", 4),
        event(DECODE_BEGINS, 10, is_note=True),
        event(DECODE_BEGINS, 10.5, "CUDA", is_note=True),
        linear,
        event("aten::addmm", 21, parent=linear),
        event("cudaLaunchKernelExC", 22),
        event("cuLaunchKernelEx", 23),
        event("cudaGraphLaunch", 24),
        event("cudaMemcpyAsync", 25),
        event("cudaStreamSynchronize", 26),
        *(event(f"kernel {number}", 30 + number, "CUDA") for number in range(14)),
        event("Memcpy DtoH (Device -> Pinned)", 50, "CUDA"),
        event("Memset (Device)", 51, "CUDA"),
        event("decode", 52, "CUDA", is_note=True),
    ]
    found = counts_of(events, 2, is_cuda=True)
    assert found.to_json() == {"operators_per_token": 0.5, "kernels_per_token": 7, "launches_per_token": 1.5}
    assert counts_of(events, 2, is_cuda=False).kernels_per_token is None


def test_a_trace_without_the_mark_is_refused() -> None:
    with pytest.raises(UserError, match="where decoding begins"):
        counts_of([event("aten::mm", 1)], 1, is_cuda=False)


class _Shifted:
    """A step that is right but at one position, where another token wins by `gap`."""

    kind = "shifted"
    problem: str | None = None
    features: torch.Tensor | None = None
    gives_features = False

    def __init__(self, decoder: Any, place: int, gap: float) -> None:
        self._decoder, self._place, self._gap, self._calls = decoder, place, gap, 0

    def __call__(self, ids: torch.Tensor, cache: Any, keep: int, shape: Any = None) -> torch.Tensor:
        logits = self._decoder(self._decoder.embed(ids), cache, keep=keep).clone()
        self._calls += 1
        if self._calls == self._place:
            best = logits[0, -1].topk(2).indices
            logits[0, -1, best[1]] = logits[0, -1, best[0]] + self._gap
        return logits


def test_one_other_token_is_one_position(workload) -> None:
    """Forced, what follows a divergence is compared as well; running freely, everything after it differs."""
    plain = contenders.ours_eager(workload)
    answer = plain().ids
    expected = forced_logits(plain, answer)
    other = contenders.ours_eager(workload)
    other.cached.own_step = _Shifted(workload.decoder, 4, 0.5)
    found = same_when_forced(expected, forced_logits(other, answer))
    row = found.to_json()
    assert (row["compared_positions"], row["same_positions"], row["divergences"]) == (len(answer), len(answer) - 1, 1)
    assert row["widest_gap_ulps"] > 0
    assert same_when_forced(expected, forced_logits(plain, answer)).to_json()["same_tokens"] == 1.0


def test_gaps_tell_near_ties_from_faults() -> None:
    reference = torch.tensor([[1.0, 0.996, 0.0], [1.0, 0.5, 0.0]], dtype=torch.bfloat16)
    chosen = torch.tensor([[1.0, 2.0, 0.0], [1.0, 2.0, 0.0]], dtype=torch.bfloat16)
    row = same_when_forced(reference, chosen).to_json()
    assert (row["divergences"], row["near_ties"]) == (2, 1)
    assert row["widest_gap_ulps"] == pytest.approx(64)


def test_every_kind_of_step_takes_part() -> None:
    """The vocabulary says which there are; what is added there is measured."""
    from engines.bench.contenders import CONTENDERS

    names = {one.name for one in CONTENDERS}
    assert {f"ours_{kind}" for kind in choices_of("step") if kind not in ("auto", "eager")} <= names


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    shape = bench_shape(TINY_NETWORK)
    plan = StepsPlan(shape, (10, 14), 2, CEILINGS, scale=0.05)
    workload = make_workload(shape, 10, 9, CPU, torch.float32)
    measure_steps(plan, workload, found.append, lambda _: None, lambda: 300.0)
    return found


def test_rows_of_every_context_phase_and_contender(rows) -> None:
    steps = [row for row in rows if row.get("figure") == "step"]
    away = [row for row in steps if not row["turns"]]
    reason = "it needs a CUDA device"
    assert {(row["contender"], row["reason"]) for row in away} == {("ours_graphs", reason), ("ours_fused", reason)}
    steps = [row for row in steps if row["turns"]]
    assert {(row["contender"], row["phase"], row["context"]) for row in steps} == {
        ("ours", "vision", None),
        *(
            (name, phase, at)
            for name in ("ours", "ours_identical", "hf_eager")
            for phase in ("decode", "prefill")
            for at in (10, 14)
        ),
    }
    assert all((row["status"], row["turns"]) == ("measured", 2) for row in steps)
    for row in steps:
        if row["phase"] == "decode":
            assert row["operators_per_token"] > 20
            assert row["kernels_per_token"] is None
            assert (row["same_positions"], row["compared_positions"], row["divergences"]) == (9, 9, 0)
            assert row["is_forced"] == row["contender"].startswith("ours")


def test_blocks_of_every_length_and_both_drafts(workload) -> None:
    found: list[dict[str, Any]] = []
    measure_block_costs(BlockCosts(workload, 8, 3), found.append, lambda _: None, lambda: 300.0)
    of_all = [row for row in found if row["figure"] == "block"]
    assert {row["step"] for row in of_all} == {"eager", "identical"}
    assert all((row["status"], row["turns"]) == ("measured", 3) for row in of_all)
    blocks = {row["drafted"]: row for row in of_all if row["step"] == "eager"}
    assert list(blocks) == list(range(LONGEST + 1))
    assert blocks[0]["in_steps"] == blocks[0]["in_steps_low"] == 1.0
    assert all(row["in_steps_low"] <= row["in_steps"] <= row["in_steps_high"] for row in blocks.values())
    assert {row["draft"] for row in found if row["figure"] == "draft"} == {MODEL, EAGLE}
