"""On a GPU: kernels and launches of each kind of step are counted, and forced answers are the eager step's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engines.bench import contenders
from engines.bench.block_costs import LONGEST, BlockCosts, measure_block_costs
from engines.bench.ceilings import measure_ceilings
from engines.bench.language_steps import StepsPlan, count_launches, measure_steps
from engines.bench.workload import make_workload
from engines.loading.shapes import TINY_NETWORK, bench_shape

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

CUDA = torch.device("cuda:0")


def test_a_graph_is_one_launch_of_as_many_kernels_as_it_holds() -> None:
    workload = make_workload(bench_shape("tiny"), 12, 10, CUDA, torch.float32)
    plain = count_launches(contenders.ours_eager(workload), CUDA)
    captured = count_launches(contenders.stepping(workload, "graphs"), CUDA)
    assert plain.kernels_per_token > 10
    assert plain.launches_per_token == pytest.approx(plain.kernels_per_token, rel=0.5)
    assert captured.kernels_per_token > 10
    assert captured.launches_per_token < plain.launches_per_token / 2


def test_every_step_that_needs_no_compiler_is_measured_and_right() -> None:
    found: list[dict[str, Any]] = []
    shape = bench_shape(TINY_NETWORK)
    workload = make_workload(shape, 10, 9, CUDA, torch.float32)
    ceilings = measure_ceilings(CUDA, torch.float32, scale=0.05)
    plan = StepsPlan(shape, (10, 14), 2, ceilings, scale=0.05)
    measure_steps(plan, workload, found.append, lambda _: None, lambda: 300.0)
    rows = [row for row in found if row.get("figure") == "step" and row["phase"] == "decode"]
    assert {row["contender"] for row in rows} >= {"ours", "ours_graphs", "hf_eager"}
    for row in rows:
        if row["turns"]:
            assert row["same_tokens"] == 1.0, row["contender"]
            assert row["kernels_per_token"] > 5
        else:
            assert row["reason"], row["contender"]


def test_blocks_of_captured_steps_are_timed() -> None:
    workload = make_workload(bench_shape("tiny"), 12, LONGEST + 4, CUDA, torch.float32)
    found: list[dict[str, Any]] = []
    measure_block_costs(BlockCosts(workload, 8, 2), found.append, lambda _: None, lambda: 300.0)
    blocks = [row for row in found if row["figure"] == "block" and row["status"] == "measured"]
    measured = {(row["step"], row["drafted"]) for row in blocks}
    assert {(kind, drafted) for kind in ("eager", "graphs") for drafted in range(LONGEST + 1)} <= measured
