"""`bench engine`: contenders really alternate, figures are the arithmetic of what was measured, tokens are compared."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import CLIPVisionConfig

from benchmarks import engine
from benchmarks.engine import EngineBench, choose_contenders, measure_engine, summarise
from engines.bench import ceilings as ceilings_module
from engines.bench import contenders
from engines.bench.ceilings import Ceilings, fastest_s, last_level_cache_bytes, measure_ceilings
from engines.bench.contenders import CONTENDERS, HF_EAGER, OURS, EngineContender, contenders_on
from engines.bench.figures import Needs, decode_row, memory_limit, needs_of, prefill_row, problems_of, unrest_problems
from engines.bench.turns import (
    ContenderTurns,
    EngineTurn,
    UnavailableError,
    agreement,
    decode_ns,
    paired_ratios,
    take_turns,
)
from engines.bench.workload import check_room, make_workload, workload_need
from engines.decoder.llama import LlamaDecoder
from engines.families.llava_model import LlavaConfig
from engines.loading.shapes import SHAPES, BenchShape, bench_shape, pixel_shape, text_shape, vision_shape
from evprof.core.errors import UserError
from evprof.metrics.limits.roofline import vision_flops

CPU = torch.device("cpu")
SUMMARY_KEYS = {"ours_vs_hf_eager", "ours_compiled_vs_hf_eager", "decode_mbu", "prefill_mfu", "vision_mfu"}
EAGER = choose_contenders(f"{OURS},{HF_EAGER}")
MACHINE = Ceilings(1e9, 2e9, 4e9, "float32", 1, 1000)


def turn(decode_us: int, ids: tuple[int, ...] = (1, 2, 3), prefill_us: int = 10) -> EngineTurn:
    return EngineTurn(1000 * prefill_us, 1000 * decode_us, ids)


class _PlainStep:
    """Stands for the compiled step: the same interface without the minute of compiling."""

    kind = "compiled"
    problem: str | None = None

    def __init__(self, decoder: LlamaDecoder) -> None:
        self._decoder = decoder

    def compile_for(self, blocks: tuple[int, ...], *, batch: int) -> None:
        assert (blocks, batch) == ((1,), 1)

    def __call__(self, ids: torch.Tensor, cache: object, keep: int, shape: object = None) -> torch.Tensor:
        return self._decoder(self._decoder.embed(ids), cache, keep=keep)


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


def test_what_fits_a_cache_has_no_share_of_memory_bandwidth(document: dict) -> None:
    summary = document["summary"]
    if last_level_cache_bytes(CPU) is None:
        pytest.skip("the system does not tell its caches")
    assert summary["decode_mbu"] is None
    assert summary["decode_ceiling_tok_s"] is None
    assert "cache" in summary["decode_mbu_reason"]


def test_a_shape_with_a_tower_has_a_vision_row(monkeypatch: pytest.MonkeyPatch) -> None:
    vision = CLIPVisionConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, image_size=28, patch_size=14
    )
    text = bench_shape("tiny").text
    network = LlavaConfig(vision, text, family="video_llava", slot_id=500, keeps_cls=True)
    monkeypatch.setattr(engine, "bench_shape", lambda name: BenchShape(name, text, network, 20))
    bench = EngineBench(shape="tiny", tokens=4, repeats=3, device="cpu", contenders=EAGER, scale=0.01)
    found = measure_engine(bench)
    row = found["rows"][-1]
    assert (row["contender"], row["phase"], row["turns"], row["status"]) == ("ours", "vision", 3, "measured")
    assert row["mfu"] == found["summary"]["vision_mfu"] > 0
    shape = vision_shape(network)
    assert (shape.frames, shape.layers, shape.kept) == (8, 2, 5)
    assert found["summary"]["vision_flops"] == vision_flops(shape)
    assert row["mfu"] == pytest.approx(vision_flops(shape) / row["ms"] * 1000 / found["summary"]["matmul_flops_s"])
    assert [row["agreement"] for row in found["rows"][:2]] == [1.0, 1.0]


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        bench = EngineBench(shape="tiny", tokens=2, repeats=1, device="cpu", contenders=EAGER[:1], scale=0.01)
        assert measure_engine(bench)["environment"]["threads"] == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_both_contenders_decode_varied_text() -> None:
    workload = make_workload(bench_shape("tiny"), 8, 40, CPU, torch.float32)
    mine, theirs = contenders.ours_eager(workload)(), contenders.hf_eager(workload)()
    assert mine.ids == theirs.ids
    assert len(mine.ids) == 40
    assert len(set(mine.ids)) > 10
    assert min(mine.prefill_ns, mine.decode_ns, theirs.prefill_ns, theirs.decode_ns) > 0


def test_a_second_turn_starts_from_nothing() -> None:
    runner = contenders.ours_eager(make_workload(bench_shape("tiny"), 8, 10, CPU, torch.float32))
    assert runner().ids == runner().ids


def test_no_hook_stays_on_the_model() -> None:
    workload = make_workload(bench_shape("tiny"), 4, 3, CPU, torch.float32)
    contenders.hf_eager(workload)()
    assert not workload.model._forward_hooks
    assert not workload.model._forward_pre_hooks


def test_the_compiled_step_of_transformers_is_really_compiled() -> None:
    """With a compiler that only counts; the one that is measured takes most of a minute to prepare."""
    shape = bench_shape("tiny")
    workload = make_workload(shape, 4, 6, CPU, torch.float32)
    compiled: list[int] = []

    def count(module: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> Callable[..., Any]:
        compiled.append(len(module.graph.nodes))
        return module.forward

    found = contenders.hf_static_compiled(workload, count)()
    assert compiled
    assert found.ids == contenders.hf_eager(workload)().ids
    torch.compiler.reset()


def test_our_compiled_step_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engines.decoder.step_choice.CompiledStep", _PlainStep)
    bench = EngineBench(
        shape="tiny",
        tokens=6,
        repeats=2,
        device="cpu",
        contenders=choose_contenders("ours_compiled,hf_eager"),
        scale=0.01,
    )
    found = measure_engine(bench)
    assert found["summary"]["ours_compiled_vs_hf_eager"] > 0
    assert found["summary"]["ours_vs_hf_eager"] is None
    assert [row["agreement"] for row in found["rows"][:2]] == [1.0, 1.0]


def test_a_step_that_gives_up_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class GivesUp(_PlainStep):
        def __call__(self, ids: torch.Tensor, cache: object, keep: int, shape: object = None) -> torch.Tensor:
            self.problem = "the compiler found a symbol it did not like"
            return super().__call__(ids, cache, keep)

    monkeypatch.setattr("engines.decoder.step_choice.CompiledStep", GivesUp)
    workload = make_workload(bench_shape("tiny"), 4, 3, CPU, torch.float32)
    runner = contenders.stepping(workload, "compiled")
    with pytest.raises(UnavailableError, match="did not like"):
        runner()


def test_graphs_without_a_gpu_are_left_out() -> None:
    workload = make_workload(bench_shape("tiny"), 4, 3, CPU, torch.float32)
    with pytest.raises(UnavailableError, match="CUDA"):
        contenders.stepping(workload, "graphs")


def test_a_compiler_that_fails_leaves_the_contender_out() -> None:
    def fail(*_: object) -> Callable[..., Any]:
        raise RuntimeError("no compiler here\nand more")

    make = EngineContender("hf_static_compiled", lambda workload: contenders.hf_static_compiled(workload, fail))
    bench = EngineBench(shape="tiny", tokens=4, repeats=1, device="cpu", contenders=(*EAGER, make), scale=0.01)
    found = measure_engine(bench)
    row = next(row for row in found["rows"] if row["contender"] == "hf_static_compiled")
    assert (row["status"], row["tok_s"], row["turns"]) == ("skipped", None, 0)
    assert "no compiler here" in row["reason"]
    assert "and more" not in row["reason"]
    assert any("hf_static_compiled was left out" in sentence for sentence in found["summary"]["problems"])
    torch.compiler.reset()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_all_of_ours_on_cuda() -> None:
    three = choose_contenders("ours,ours_graphs,hf_eager")
    bench = EngineBench(shape="tiny", tokens=12, repeats=2, device="cuda", dtype="float32", contenders=three, scale=0.1)
    found = measure_engine(bench)
    assert [row["status"] for row in found["rows"]] == ["measured"] * 6
    assert [row["agreement"] for row in found["rows"][:3]] == [1.0] * 3
    assert found["environment"]["gpu_end"] is not None


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


def test_a_slow_contender_stops_and_the_others_go_on() -> None:
    now = [0]

    def make(cost_s: int) -> Callable:
        def run() -> EngineTurn:
            now[0] += cost_s * 1_000_000_000
            return turn(1)

        return lambda: run

    found = take_turns({"fast": make(1), "slow": make(4)}, 8, limit_s=10, clock=lambda: now[0])
    assert len(found["fast"].turns) == 8
    assert sorted(found["slow"].turns) == [0, 1, 2]


def test_a_slow_preparation_is_told() -> None:
    now = [0]

    def run() -> EngineTurn:
        now[0] += 90_000_000_000
        return turn(1)

    found = take_turns({"a": lambda: run}, 3, limit_s=60, clock=lambda: now[0])["a"]
    assert not found.is_measured
    assert found.reason == "preparing it took 90 s, more than the limit of 60 s"


def test_who_cannot_run_is_left_out_with_the_reason() -> None:
    def refuse() -> Callable:
        raise UnavailableError("there is no compiler")

    found = take_turns({"a": refuse, "b": lambda: lambda: turn(1)}, 2, limit_s=60)
    assert found["a"].reason == "there is no compiler"
    assert len(found["b"].turns) == 2


def test_who_fails_later_keeps_the_turns_it_had() -> None:
    turns_taken = [0]

    def run() -> EngineTurn:
        turns_taken[0] += 1
        if turns_taken[0] == 4:
            raise UnavailableError("memory is gone")
        return turn(1)

    found = take_turns({"a": lambda: run}, 9, limit_s=60)["a"]
    assert sorted(found.turns) == [0, 1]
    assert found.reason == "memory is gone"


def test_ratios_are_of_the_same_round() -> None:
    mine = ContenderTurns("ours", {0: turn(10), 2: turn(30), 3: turn(5)})
    theirs = ContenderTurns("hf_eager", {0: turn(20), 1: turn(999), 2: turn(90)})
    assert paired_ratios(theirs, mine, decode_ns) == [2, 3]


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


def test_impossible_shares_and_other_tokens_are_problems() -> None:
    needs = Needs(weight_bytes=1500, kv_bytes=500, prefill_flops=60_000, vision_flops=None)
    mine, theirs = series("ours", turn(1, (1, 2, 9))), series("hf_eager", turn(2, (1, 2, 3)))
    rows = [decode_row(mine, theirs, needs, memory_limit(needs, MACHINE)), prefill_row(mine, theirs, needs, MACHINE, 4)]
    both = {"ours": mine, "hf_eager": theirs}
    told = problems_of(rows, both, "float32")
    assert len(told) == 3
    assert "33 %" in told[0]
    assert "200 %" in told[1]
    assert "150 %" in told[2]
    assert len(problems_of(rows, both, "bfloat16")) == 2


def test_what_stays_in_a_cache_has_no_memory_ceiling() -> None:
    small = Needs(weight_bytes=600, kv_bytes=400, prefill_flops=1, vision_flops=None)
    assert memory_limit(small, MACHINE).bandwidth_bytes_s is None
    larger = dataclasses.replace(small, kv_bytes=401)
    assert memory_limit(larger, MACHINE).bandwidth_bytes_s == 2e9
    unknown = dataclasses.replace(MACHINE, cache_bytes=None)
    assert memory_limit(small, unknown).bandwidth_bytes_s == 2e9


def test_a_throttled_gpu_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    states = {"throttle_reasons": ["power cap"], "other_processes": 0, "clocks_mhz": 900}
    monkeypatch.setattr(engine, "gpu_state", lambda _device: states)
    bench = EngineBench(shape="tiny", tokens=2, repeats=1, device="cpu", contenders=EAGER[:1], scale=0.01)
    found = measure_engine(bench)
    assert found["environment"]["gpu_end"] == states
    assert any("power cap" in sentence for sentence in found["summary"]["problems"])


# Ceilings


def test_ceilings_are_positive_and_plausible() -> None:
    found = measure_ceilings(CPU, torch.bfloat16, scale=0.02)
    assert found.dtype == "bfloat16"
    assert found.bandwidth_bytes_s == max(found.copy_bytes_s, found.read_bytes_s) > 1e8
    assert found.matmul_flops_s > 1e8


def test_the_higher_of_two_measurements_counts_and_their_distance_is_told() -> None:
    busy = dataclasses.replace(MACHINE, read_bytes_s=1.5e9, matmul_flops_s=5e9)
    assert MACHINE.higher(busy) == dataclasses.replace(MACHINE, matmul_flops_s=5e9)
    assert MACHINE.unrest(busy) == pytest.approx(1 / 3)
    assert "33 %" in unrest_problems(MACHINE, busy)[0]
    assert unrest_problems(MACHINE, dataclasses.replace(MACHINE, matmul_flops_s=4.5e9)) == []


def test_the_fastest_sample_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now, order = [0], random.Random(1)
    monkeypatch.setattr(ceilings_module, "monotonic_ns", lambda: now[0])

    def call() -> None:
        now[0] += order.choice([100_000_000, 250_000_000])

    assert fastest_s(call, CPU) == pytest.approx(0.1)


# Shapes


def test_shapes_have_their_families_prompts() -> None:
    prompts = {name: bench_shape(name).prompt for name in SHAPES}
    assert prompts["7b-eventgpt"] == 640
    assert prompts["7b-llava"] == 4643
    assert prompts["7b-video-llava"] == 2086
    assert prompts["dispatch-32"] == 16


def test_layers_nobody_reads_are_not_counted() -> None:
    llava, eventgpt = (bench_shape(name).network for name in ("7b-llava", "7b-eventgpt"))
    assert vision_shape(llava).layers == 23
    assert vision_shape(eventgpt).layers == 24
    assert vision_shape(llava).kept == 576
    assert len(vision_shape(eventgpt).projections) == 3
    assert pixel_shape(eventgpt) == (5, 3, 336, 336)
    assert vision_flops(vision_shape(eventgpt)) > 0


def test_what_does_not_fit_is_refused_before_it_is_made() -> None:
    shape = bench_shape("7b-llava")
    need = workload_need(shape, 4643 + 64, len(CONTENDERS), torch.float32)
    assert need.weight_bytes == pytest.approx(7.06e9 * 4, rel=0.01)
    with pytest.raises(UserError, match=r"7b-llava in float32 needs .* 20.00 GiB is free; choose --dtype bfloat16"):
        check_room("7b-llava", need, CPU, torch.float32, 20 << 30)
    check_room("7b-llava", need, CPU, torch.float32, 80 << 30)


@pytest.mark.parametrize(
    ("bench", "word"),
    [
        (EngineBench(shape="huge"), "dispatch-32"),
        (EngineBench(tokens=1), "--tokens"),
        (EngineBench(context=0), "--context"),
        (EngineBench(repeats=0), "--repeat"),
        (EngineBench(limit_s=0), "--limit"),
    ],
)
def test_wrong_words_are_told(bench: EngineBench, word: str) -> None:
    with pytest.raises(UserError, match=word) as caught:
        measure_engine(bench)
    assert caught.value.exit_code == 2


def test_contenders_are_chosen_by_name() -> None:
    assert [each.name for each in choose_contenders("hf_eager, ours")] == ["ours", "hf_eager"]
    assert "ours_graphs" not in [each.name for each in contenders_on("cpu")]
    assert "ours_graphs" in [each.name for each in contenders_on("cuda")]
    with pytest.raises(UserError, match="hf_eager"):
        choose_contenders("nobody")
    with pytest.raises(UserError, match="--contenders"):
        choose_contenders(" ,")
