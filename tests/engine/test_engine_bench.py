"""`bench engine`: contenders really alternate, figures are the arithmetic of what was measured, tokens are compared."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from benchmarks.engine import EngineBench, choose_contenders, measure_engine, summarise
from engines.bench.ceilings import Ceilings, measure_ceilings
from engines.bench.contenders import CONTENDERS, HF_EAGER, OURS, contenders_on
from engines.bench.figures import Needs, decode_row, memory_limit, needs_of, prefill_row
from engines.bench.turns import (
    ContenderTurns,
    EngineTurn,
    UnavailableError,
    agreement,
    take_turns,
)
from engines.bench.workload import check_room, workload_need
from engines.loading.shapes import SHAPES, bench_shape, text_shape
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
    assert found == [("ours", "decode"), ("hf_eager", "decode"), ("ours", "prefill"), ("hf_eager", "prefill")]
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
    needs = Needs(weight_bytes=1500, kv_bytes=500, prefill_flops=20_000, vision_flops=None)
    limit = memory_limit(needs, MACHINE)
    mine, theirs = series("ours", turn(8), turn(4), turn(8)), series("hf_eager", turn(16), turn(16), turn(16))
    row = decode_row(mine, theirs, needs, limit)
    # 8 µs for two steps: 4 µs a token, 2000 bytes in 4 µs are 0.5 GB/s of 2.
    assert row["ms"] == pytest.approx(0.004)
    assert row["tok_s"] == pytest.approx(250_000)
    assert row["mbu"] == pytest.approx(0.25)
    assert row["vs_hf_eager"] == 2
    # 20,000 operations in 10 µs are 2 GFLOP/s of 4.
    prefill = prefill_row(mine, theirs, needs, MACHINE, 16)
    assert prefill["mfu"] == pytest.approx(0.5)
    assert prefill["tok_s"] == pytest.approx(1_600_000)
    rows = [row, prefill, decode_row(theirs, theirs, needs, limit)]
    summary = summarise(rows, needs, MACHINE, limit)
    assert summary["ours_vs_hf_eager"] == 2
    assert summary["ours_compiled_vs_hf_eager"] is None
    assert summary["decode_mbu"] == pytest.approx(0.25)
    assert summary["decode_ceiling_tok_s"] == pytest.approx(1_000_000)
    assert summary["vision_mfu"] is None


def test_a_7b_step_reads_its_weights_and_its_cache() -> None:
    needs = needs_of(text_shape(bench_shape("7b-eventgpt").text), 640, 1, 2, None)
    assert needs.weight_bytes == 13_214_687_232
    assert needs.kv_bytes == 641 * 512 * 1024


# Ceilings


def test_ceilings_are_positive_and_plausible() -> None:
    found = measure_ceilings(CPU, torch.bfloat16, scale=0.02)
    assert found.dtype == "bfloat16"
    assert found.bandwidth_bytes_s == max(found.copy_bytes_s, found.read_bytes_s) > 1e8
    assert found.matmul_flops_s > 1e8


# Shapes


def test_shapes_have_their_families_prompts() -> None:
    prompts = {name: bench_shape(name).prompt for name in SHAPES}
    assert prompts["7b-eventgpt"] == 640
    assert prompts["7b-llava"] == 4643
    assert prompts["7b-video-llava"] == 2086
    assert prompts["dispatch-32"] == 16


def test_what_does_not_fit_is_refused_before_it_is_made() -> None:
    shape = bench_shape("7b-llava")
    need = workload_need(shape, 4643 + 64, len(CONTENDERS), torch.float32)
    assert need.weight_bytes == pytest.approx(7.06e9 * 4, rel=0.01)
    with pytest.raises(UserError, match=r"7b-llava in float32 needs .* 20.00 GiB is free; choose --dtype bfloat16"):
        check_room("7b-llava", need, CPU, torch.float32, 20 << 30)
    check_room("7b-llava", need, CPU, torch.float32, 80 << 30)


def test_contenders_are_chosen_by_name() -> None:
    assert [each.name for each in choose_contenders("hf_eager, ours")] == ["ours", "hf_eager"]
    assert "ours_graphs" not in [each.name for each in contenders_on("cpu")]
    assert "ours_graphs" in [each.name for each in contenders_on("cuda")]
    with pytest.raises(UserError, match="hf_eager"):
        choose_contenders("nobody")
    with pytest.raises(UserError, match="--contenders"):
        choose_contenders(" ,")
