"""Work of stages by hand-computed numbers, paces, and figures in pairs."""

from __future__ import annotations

from typing import Any

import pytest

import cell_runs
from evprof.core.run_log import RunLog
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.paired import (
    by_sample,
    compare,
    fewer_or_faster,
    generation_stages,
    is_mostly_cut_off,
    mean_of,
    values_of,
)
from evprof.metrics.figures.decoding import decode_steps
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.sizes import PUBLISHED_VISION, VICUNA_7B, DeviceCeiling, ModelSizes
from evprof.metrics.limits.workload import (
    COMPUTE,
    MEMORY,
    Work,
    decode_work,
    prefill_flops,
    prefill_work,
    typical,
    vision_weights,
    vision_work,
)
from evprof.metrics.speculation.break_even import AnswerPace
from evprof.metrics.speculation.payoff import pace_of

EVENTGPT = ModelSizes("EventGPT-7b", "eventgpt", VICUNA_7B, PUBLISHED_VISION["eventgpt"])
LLAVA = ModelSizes("llava", "llava", VICUNA_7B, PUBLISHED_VISION["llava"])

approx: Any = pytest.approx
"""Stands in for a number."""


def test_a_decode_step_reads_weights_and_cache_once() -> None:
    """13.215 GB of weights and half a MiB for each of 636 + 3 positions, in 18.5 ms."""
    work = decode_work(cell_runs.DRAFT_002.runs()[0], EVENTGPT)
    assert work.bytes == pytest.approx(13.215e9 + 639 * (1 << 19), rel=1e-4)
    assert work.seconds == pytest.approx(0.01854)
    assert work.intensity == pytest.approx(1.0, rel=0.01)
    assert work.bytes_s == pytest.approx(731e9, rel=0.005)


def test_a_prefill_that_holds_vision_once_more_counts_it() -> None:
    run = cell_runs.TARGET_002.runs()[0]
    alone, both = prefill_work(run, LLAVA), prefill_work(run, LLAVA, 8)
    vision = vision_work(run, LLAVA, 8)
    assert alone.flops == prefill_flops(VICUNA_7B, 4643)
    assert both.flops == pytest.approx(alone.flops + vision.flops)
    assert vision_weights(PUBLISHED_VISION["llava"]) == pytest.approx(310e6, rel=0.02)


def test_what_binds_a_stage() -> None:
    ceiling = DeviceCeiling("cuda:0", "bfloat16", 1, bandwidth_bytes_s=1e12, matmul_flops_s=1e14)
    reads, computes = Work("decode", 1e10, 1e10, 0.02), Work("prefill", 1e13, 1e10, 0.2)
    assert (reads.bound(ceiling), computes.bound(ceiling)) == (MEMORY, COMPUTE)
    assert reads.mbu(ceiling) == reads.attained(ceiling) == pytest.approx(0.5)
    assert computes.mfu(ceiling) == computes.attained(ceiling) == pytest.approx(0.5)
    assert typical([Work("decode", 1e10, 1e10, 0.5), reads, Work("decode", 1e10, 1e10, 0.01)]) == reads
    assert typical([]) is None


def test_what_was_not_measured_has_no_work() -> None:
    piece = cell_runs.Cell(stages={"vision+prefill+decode": 900.0}, prompt=636).runs()[0]
    assert prefill_work(piece, LLAVA) is None
    assert decode_work(piece, LLAVA) is None
    assert vision_work(piece, LLAVA, 8) is None
    no_length = cell_runs.Cell().runs()[0]
    assert prefill_work(no_length, LLAVA) is None
    rounds = cell_runs.Cell(prompt=636, rounds=((3, 1, 0),), steps=5).runs()[0]
    assert decode_work(rounds, LLAVA) is None
    odd = cell_runs.DRAFT_002.with_(model={"quantization": "gguf"}).runs()[0]
    assert decode_work(odd, EVENTGPT) is None


def test_paces() -> None:
    """002 counts steps as tokens; an answer of ours has its first token from the prefill; a piece has no pace."""
    assert pace_of(cell_runs.TARGET_002.column()) == AnswerPace(approx(568.1 + 29.5), approx(143.9 / 5), 0)
    ours = cell_runs.Cell(is_imported=False).column()
    assert pace_of(ours) == AnswerPace(approx(530.0), approx(140.0 / 5), 1)
    told = cell_runs.Cell(stages={"vision+prefill": 300.0, "decode": 98.0}, tokens=(), output=50).column()
    assert pace_of(told) == AnswerPace(approx(300.0), approx(2.0), 1)
    assert pace_of(cell_runs.Cell(stages={"vision+prefill+decode": 900.0}).column()) is None
    assert pace_of(cell_runs.Cell(mode="speculative").column()) is None


def _prefill(run: RunLog) -> float | None:
    return stage_ms(run, "prefill")


def test_figures_are_compared_over_common_samples() -> None:
    one = cell_runs.Cell(stages={"prefill": 100.0, "decode": 9.0})
    other = one.with_(stages={"prefill": 250.0, "decode": 9.0}, samples=5)
    compared = compare(one.column(), other.column(), _prefill)
    assert (compared.pairs, compared.count) == (5, 5)
    assert compared.ratio == pytest.approx(2.5)
    assert compared.interval == pytest.approx((2.5, 2.5))
    low, high = compared.delta_interval or (0, 0)
    assert low < compared.delta < high
    assert compare(one.column(), other.with_(stages={"decode": 1.0}).column(), _prefill) is None


def test_repeats_of_a_sample_count_once() -> None:
    cell = cell_runs.Cell(stages={"prefill": 100.0, "decode": 9.0}, samples=2)
    again = cell.with_(stages={"prefill": 300.0, "decode": 9.0}, samples=1).runs(50)
    column = Configuration((*cell.runs(), *again, *again))
    assert values_of(column, _prefill) == [pytest.approx(700 / 3), pytest.approx(102.0)]
    assert mean_of(column, _prefill) == pytest.approx((700 / 3 + 102) / 2)
    # Repeats of one request are no dataset: by repeat.
    alone = cell.with_(name="").runs()
    alone[1].info.repeat = 1
    assert list(by_sample(Configuration(tuple(alone)), _prefill)) == [0, 1]


def test_counts_and_times_per_token_multiply_to_the_time() -> None:
    draft = cell_runs.DRAFT_002.with_(stages={"vision+prefill+decode": 977.0}, output=91, steps=None)
    target = cell_runs.TARGET_002.with_(stages={"vision": 30.0, "prefill": 500.0, "decode": 2003.0}, output=205)
    told = fewer_or_faster(draft.column(), target.column())
    assert told.stages == ("vision", "prefill", "decode")
    step_ratio = told.each_ms.ratio or 0
    assert (told.tokens.ratio or 0) * step_ratio == pytest.approx(told.total_ms.ratio)
    low, high = told.each_ms.interval or (0, 0)
    assert low <= step_ratio <= high
    assert generation_stages(target.column()) == ("decode",)
    assert fewer_or_faster(draft.with_(output=None).column(), target.column()) is None


def test_most_answers_cut_off() -> None:
    cell = cell_runs.Cell(settings={"max_new_tokens": 6})
    assert decode_steps(cell.runs()[0]) == 5
    assert is_mostly_cut_off(cell.column())
    assert not is_mostly_cut_off(cell.with_(settings={"max_new_tokens": 7}).column())
    assert not is_mostly_cut_off(cell.with_(settings={}).column())
    assert not is_mostly_cut_off(cell.with_(settings={"max_new_tokens": 6, "ignore_eos": True}).column())
