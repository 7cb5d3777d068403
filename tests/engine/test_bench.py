"""Benchmarks of models: turns, rows, overhead and GPU sections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from benchmarks.engine import EngineBench, choose_contenders, measure_engine, summarise
from engines.bench import contenders, overhead
from engines.bench.block_costs import EAGLE, LONGEST, MODEL, BlockCosts, measure_block_costs
from engines.bench.ceilings import Ceilings, measure_ceilings
from engines.bench.contenders import CONTENDERS, HF_EAGER, OURS
from engines.bench.language_steps import (
    Needs,
    StepsPlan,
    decode_row,
    forced_logits,
    measure_steps,
    needs_of,
    prefill_row,
    same_when_forced,
)
from engines.bench.overhead import measure_overhead
from engines.bench.turns import ContenderTurns, EngineTurn, UnavailableError, agreement, take_turns
from engines.bench.workload import Workload, check_room, make_workload
from engines.decoder.decoding import DecodeStep
from engines.loading.shapes import TINY_NETWORK, bench_shape, text_shape
from evprof.core.errors import UserError

CPU = torch.device("cpu")
SUMMARY_KEYS = {"ours_vs_hf_eager", "ours_compiled_vs_hf_eager", "decode_mbu", "prefill_mfu", "vision_mfu"}
EAGER = choose_contenders(f"{OURS},{HF_EAGER}")
MACHINE = Ceilings(1e9, 2e9, 4e9, "float32", 1, 1000)


def turn(decode_us: int, ids: tuple[int, ...] = (1, 2, 3), prefill_us: int = 10) -> EngineTurn:
    return EngineTurn(1000 * prefill_us, 1000 * decode_us, ids)


def series(name: str, *turns: EngineTurn) -> ContenderTurns:
    return ContenderTurns(name, dict(enumerate(turns)))


@pytest.fixture(scope="module")
def document() -> dict:
    bench = EngineBench(shape="tiny", tokens=12, repeats=3, device="cpu", contenders=EAGER, scale=0.01)
    return measure_engine(bench)


def test_the_document_holds_what_is_promised(document: dict) -> None:
    assert set(document) == {"environment", "rows", "summary"}
    assert set(document["summary"]) >= SUMMARY_KEYS
    assert document["summary"]["ours_vs_hf_eager"] > 0
    assert document["summary"]["ours_compiled_vs_hf_eager"] is None
    found = [(row["contender"], row["phase"]) for row in document["rows"]]
    assert found == [("ours", "decode"), ("ours", "prefill"), ("hf_eager", "decode"), ("hf_eager", "prefill")]
    for row in document["rows"]:
        assert (row["status"], row["turns"]) == ("measured", 3)
        assert row["ms_least"] <= row["ms_low"] <= row["ms"] <= row["ms_high"] <= row["ms_most"]


def test_ours_chooses_the_tokens_of_transformers(document: dict) -> None:
    shares = [row["agreement"] for row in document["rows"] if row["phase"] == "decode"]
    assert shares == [1.0, 1.0]
    assert not [sentence for sentence in document["summary"]["problems"] if "tokens" in sentence]


# Turns


def test_contenders_alternate_in_random_order() -> None:
    log: list[str] = []

    def make(name: str) -> Callable:
        def run() -> EngineTurn:
            log.append(name)
            return turn(1)

        return lambda: run

    names = ["a", "b", "c"]
    found = take_turns({name: make(name) for name in names}, 40, limit_s=1e9)
    assert log[:3] == names  # preparation, not counted
    rounds = [log[start : start + 3] for start in range(3, len(log), 3)]
    assert len(rounds) == 40
    assert all(sorted(each) == names for each in rounds)
    assert len({tuple(each) for each in rounds}) == 6
    assert all(len(each.turns) == 40 for each in found.values())


def test_who_cannot_run_is_left_out_with_the_reason() -> None:
    def refuse() -> Callable:
        raise UnavailableError("there is no compiler")

    found = take_turns({"a": refuse, "b": lambda: lambda: turn(1)}, 2, limit_s=60)
    assert found["a"].reason == "there is no compiler"
    assert len(found["b"].turns) == 2


def test_agreement_is_the_worst_turn() -> None:
    reference = series("hf_eager", turn(1, (1, 2, 3, 4)))
    assert agreement(series("a", turn(1, (1, 2, 3, 4))), reference) == 1
    assert agreement(series("a", turn(1, (1, 2, 3, 4)), turn(1, (1, 9, 9, 4))), reference) == 0.5
    assert agreement(series("a", turn(1, (1, 2))), reference) == 0.5
    assert agreement(series("a"), reference) is None
    assert agreement(reference, ContenderTurns("hf_eager")) is None


# Figures


def test_shares_are_the_arithmetic_of_what_was_measured() -> None:
    needs = Needs(1500, 500, 20_000, MACHINE.bandwidth_bytes_s, None)
    mine, theirs = series("ours", turn(8), turn(4), turn(8)), series("hf_eager", turn(16), turn(16), turn(16))
    row = decode_row(mine, theirs, needs)
    # 8 µs for two steps: 4 µs a token, 2000 bytes in 4 µs are 0.5 GB/s of 2.
    assert row["ms"] == pytest.approx(0.004)
    assert row["tok_s"] == pytest.approx(250_000)
    assert row["mbu"] == pytest.approx(0.25)
    assert row["vs_hf_eager"] == 2
    # 20,000 operations in 10 µs are 2 GFLOP/s of 4.
    prefill = prefill_row(mine, theirs, needs, MACHINE, 16)
    assert prefill["mfu"] == pytest.approx(0.5)
    assert prefill["tok_s"] == pytest.approx(1_600_000)
    rows = [row, prefill, decode_row(theirs, theirs, needs)]
    summary = summarise(rows, needs, MACHINE)
    assert summary["ours_vs_hf_eager"] == 2
    assert summary["ours_compiled_vs_hf_eager"] is None
    assert summary["decode_mbu"] == pytest.approx(0.25)
    assert summary["decode_ceiling_tok_s"] == pytest.approx(1_000_000)
    assert summary["vision_mfu"] is None


def test_a_7b_step_reads_its_weights_and_its_cache() -> None:
    needs = needs_of(text_shape(bench_shape("7b-eventgpt").text), 640, 1, 2, MACHINE)
    assert needs.weight_bytes == 13_214_687_232
    assert needs.kv_bytes == 641 * 512 * 1024
    assert (needs.bandwidth_bytes_s, needs.reason) == (2e9, None)
    cached = needs_of(text_shape(bench_shape("tiny").text), 10, 1, 4, replace(MACHINE, cache_bytes=1 << 40))
    assert cached.bandwidth_bytes_s is None
    assert "last-level cache" in str(cached.reason)


# Ceilings


def test_ceilings_are_positive_and_plausible() -> None:
    found = measure_ceilings(CPU, torch.bfloat16, scale=0.02)
    assert found.dtype == "bfloat16"
    assert found.bandwidth_bytes_s == max(found.copy_bytes_s, found.read_bytes_s) > 1e8
    assert found.matmul_flops_s > 1e8


# Shapes


def test_what_does_not_fit_is_refused_before_it_is_made() -> None:
    asked = bench_shape("7b-llava"), 4643 + 64, len(CONTENDERS), CPU, torch.float32
    with pytest.raises(UserError, match=r"7b-llava in float32 needs .* 20.00 GiB is free; choose --dtype bfloat16"):
        check_room(*asked, free=20 << 30)
    check_room(*asked, free=80 << 30)


CEILINGS = Ceilings(1e10, 2e10, 1e11, "float32", 1, None)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return make_workload(bench_shape("tiny"), 12, LONGEST + 4, CPU, torch.float32)


class _Shifted(DecodeStep):
    """A step that is right but at one position, where another token wins by `gap`."""

    kind = "shifted"
    gives_features = False

    def __init__(self, decoder: Any, place: int, gap: float) -> None:
        super().__init__(decoder)
        self._place, self._gap, self._calls = place, gap, 0

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
    row = same_when_forced(expected, forced_logits(other, answer))
    assert (row["compared_positions"], row["same_positions"], row["divergences"]) == (len(answer), len(answer) - 1, 1)
    assert row["widest_gap_ulps"] > 0
    assert same_when_forced(expected, forced_logits(plain, answer))["same_tokens"] == 1.0


def test_gaps_tell_near_ties_from_faults() -> None:
    reference = torch.tensor([[1.0, 0.996, 0.0], [1.0, 0.5, 0.0]], dtype=torch.bfloat16)
    chosen = torch.tensor([[1.0, 2.0, 0.0], [1.0, 2.0, 0.0]], dtype=torch.bfloat16)
    row = same_when_forced(reference, chosen)
    assert (row["divergences"], row["near_ties"]) == (2, 1)
    assert row["widest_gap_ulps"] == pytest.approx(64)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    shape = bench_shape(TINY_NETWORK)
    plan = StepsPlan(shape, (10, 14), 2, CEILINGS, [one for one in CONTENDERS if not one.is_compiled])
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
            assert row["agreement"] == 1.0
            if row["contender"].startswith("ours"):
                assert (row["same_positions"], row["compared_positions"], row["divergences"]) == (9, 9, 0)


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


KEYS = {
    *("instrumented_vs_off", "instrumented_vs_off_ci95_high", "a_vs_a"),
    *(
        "alternatives_vs_instrumented",
        "alternatives_vs_instrumented_ci95_low",
        "alternatives_vs_instrumented_ci95_high",
    ),
}


def test_summary_and_rows_hold_what_is_promised() -> None:
    notes: list[str] = []
    threads = torch.get_num_threads()
    found = measure_overhead("tiny", 51, notes.append)
    assert set(found) == {"environment", "rows", "summary"}
    assert set(found["summary"]) >= KEYS
    assert found["summary"]["instrumented_vs_off"] <= found["summary"]["instrumented_vs_off_ci95_high"]
    assert len(found["rows"]) == found["summary"]["pairs"] == 51
    assert all(row["on_us"] > 0 and row["off_us"] > 0 and row["off_again_us"] > 0 for row in found["rows"])
    assert len(notes) == 1
    assert torch.get_num_threads() == threads
    where = {key: found["summary"][key] for key in ("device", "step", "tokens_per_pair")}
    assert where == {"device": "cpu", "step": "eager", "tokens_per_pair": 24}


def test_all_three_make_the_same_answer_at_the_same_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, tuple[int, ...]]] = []
    end = overhead._Running.time_per_token

    def look(self: Any) -> float:
        seen.append((self._cached.length, tuple(self._answer.ids)))
        return end(self)

    monkeypatch.setattr(overhead._Running, "time_per_token", look)
    measure_overhead("tiny", 2)
    assert len(set(seen[:4])) == len(set(seen[4:8])) == 1
    assert len(seen[0][1]) == 1 + 4 * 6
