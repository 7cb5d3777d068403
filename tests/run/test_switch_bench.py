"""Switches measured with an engine whose effects are known: exact ratios, alternating turns, reasons for refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from evprof.core.errors import UserError
from evprof.core.protocols import RequestEnded, RunDescribed, RunEnded, RunStarted, RunWarned
from evprof.core.records import ORIGIN_TARGET, SETTLED, STAGES, SpanRecord, TokenRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, KvFacts, LengthFacts, MemoryFacts, RunInfo, SetupFacts
from evprof.core.sample import Sample
from evprof.core.units import NS_PER_MS
from evprof.core.vocabulary.generation import ModelChoice
from evprof.metrics.estimates.estimates import Verdict, verdict
from evprof.metrics.estimates.observations import Observation
from evprof.run.switches.bench import SwitchPlan, measure_switches
from evprof.run.switches.figures import take_back, word_of
from evprof.run.switches.variants import (
    LLM,
    NOTHING,
    PRUNING,
    QUANTIZATION,
    SPECULATIVE,
    VARIANTS,
    Expectation,
    Variant,
    VariantChange,
    quarter_of_prompt,
)
from told import TINY_MODEL

FAST = Variant("step", "graphs", ("decode",), VariantChange({"step": "graphs"}), against="eager")
TARGET_ONLY = ("target",)


@dataclass
class KnownEngine:
    """An Engine that computes nothing: stages take the milliseconds `times` says, tokens are what `answer` says.

    `warm` holds what is loaded; loading anything takes 7 ms of setup. Every run made is in `made`.
    """

    times: Callable[[RunRequest], dict[str, float]] = lambda _: {}
    answer: Callable[[RunRequest], list[int]] = lambda request: list(range(request.settings.max_new_tokens))
    refuses: Callable[[RunRequest], str | None] = lambda _: None
    takes: Callable[[RunRequest], tuple[str, list[str]]] = lambda request: (request.settings.switches.step, [])
    family: str = "eventgpt"
    made: list[RunRequest] = field(default_factory=list)
    warm: set[ModelChoice | None] = field(default_factory=set)
    loads: int = 0

    def describe(self):
        return {"device": "none"}

    def close(self):
        self.warm.clear()

    def run(self, request, sink, stop):
        request.validate()
        self.made.append(request)
        run_id, role = request.first_run_id, request.roles[-1]
        sink.post(RunStarted(run_id, RunInfo(run_id, 1, 0, role, request.mode, request.settings, turn=request.turn)))
        problem = self.refuses(request)
        if problem is not None or stop.is_set():
            sink.post(RunEnded(run_id, FAILED if problem else CANCELLED, problem))
        else:
            self._play(request, role, sink)
        sink.post(RequestEnded(run_id))

    def _play(self, request, role, sink):
        run_id = request.first_run_id
        choice = request.draft if role == "draft" else request.target
        is_loaded = choice in self.warm
        self.loads += not is_loaded
        self.warm.add(choice)
        step, warnings = self.takes(request)
        switches, family = request.settings.switches, self.family
        changes = {"attention": switches.attention, "cache": switches.cache, "step": step}
        facts = replace(TINY_MODEL, family=family, quantization=choice.quantization, **changes)
        described = {
            "models": {role: facts},
            "lengths": {role: LengthFacts(400, 0, 100, 300)},
            "setup": {role: SetupFacts() if is_loaded else SetupFacts(weights_ms=7.0)},
        }
        sink.post(RunDescribed(run_id, described))
        for line in warnings:
            sink.post(RunWarned(run_id, line))
        now = 1000
        for index, name in enumerate(STAGES):
            # No clock gives the same time twice.
            wobble = 1 + 1e-6 * (len(self.made) % 7)
            end = now + round(NS_PER_MS * wobble * self.times(request).get(name, 1.0))
            sink.append(SpanRecord(run_id, index, -1, SETTLED, role, name, now, end))
            now = end
        for place, token_id in enumerate(self.answer(request)):
            sink.append(TokenRecord(run_id, role, place, token_id, ORIGIN_TARGET, -1, now, "x"))
        ended = {
            "start_ns": 1000,
            "end_ns": now,
            "kv": {role: KvFacts(4000, 4000, [4000])},
            "memory": MemoryFacts(100, peak_rss_bytes=5000 + 1000 * len(self.warm)),
        }
        sink.post(RunEnded(run_id, FINISHED, None, ended))


def plan(**changes) -> SwitchPlan:
    words = {"repeat": 5, "max_new_tokens": 8} | changes
    return SwitchPlan(Sample("absent.npy", "absent.mp4"), ModelChoice("draft"), ModelChoice("target"), **words)


def measured(engine, *variants, **changes):
    return measure_switches(engine, plan(**changes), threading.Event(), known=variants)


def is_on(request) -> bool:
    return request.settings.switches.step == "graphs"


def test_known_effects_give_exactly_those_figures():
    def times(request):
        return {"load": 50.0, "prefill": 20.0, "decode": 10.0 if is_on(request) else 40.0}

    def answer(request):
        return [1, 2, 9, 4] if is_on(request) else [1, 2, 3, 4, 5]

    document = measured(KnownEngine(times, answer), FAST)
    assert [row["role"] for row in document["rows"]] == ["draft", "target"]
    for row in document["rows"]:
        # Without load: preprocess and vision 1 ms each, prefill 20, decode 40 against 10.
        assert (row["run_off_ms"], row["run_on_ms"]) == pytest.approx((62.0, 32.0), rel=1e-4)
        assert row["run_speed"] == pytest.approx(62 / 32, rel=1e-4)
        assert (row["stage_off_ms"], row["stage_on_ms"]) == pytest.approx((40.0, 10.0), rel=1e-4)
        assert row["stage_speed_ci95"] == pytest.approx([4.0, 4.0], rel=1e-4)
        assert row["verdict"] == "faster"
        assert row["pairs"] == 5
        assert row["agreement"]["matched"] == 3
        assert row["agreement"]["compared"] == 4
        assert row["agreement"]["first_divergence"] == 2
        assert row["agreement"]["answer_tokens"] == [5, 4]
        assert (row["weights_on_bytes"], row["kv_off_bytes"], row["peak_of"]) == (100, 4000, "rss")
    assert document["summary"]["best_exact"] is None


def test_every_turn_runs_both_sides_once_and_does_the_same_work():
    engine = KnownEngine()
    measured(engine, Variant("step", "graphs", ("decode",), FAST.on, roles=TARGET_ONLY), repeat=6)
    timed = engine.made[-12:]
    assert sorted((request.turn.number, is_on(request)) for request in timed) == [
        (number, side) for number in range(6) for side in (False, True)
    ]
    assert all(request.settings.ignore_eos for request in timed)
    # First the plain run, then the answers as long as the model wants them, then one of each to warm up.
    assert [request.settings.ignore_eos for request in engine.made[:5]] == [True, False, False, True, True]


def test_everything_else_is_off():
    engine = KnownEngine()
    measured(engine, Variant("cache", "fp8", ("decode",), VariantChange({"cache": "fp8"}), roles=TARGET_ONLY), repeat=1)
    switches = [request.settings.switches for request in engine.made]
    assert {(taken.attention, taken.step, taken.visual_keep, taken.vision_cache) for taken in switches} == {
        ("sdpa", "eager", 1.0, "off")
    }
    assert {taken.cache for taken in switches} == {"static", "fp8"}


def test_a_refused_switch_is_a_row_with_the_reason():
    def refuses(request):
        return "CUDA graphs need a GPU; leave --step out." if is_on(request) else None

    document = measured(KnownEngine(refuses=refuses), FAST, NOTHING)
    assert [row["verdict"] for row in document["rows"]] == ["not here", "not here", "not clear", "not clear"]
    assert document["rows"][0]["reason"] == "CUDA graphs need a GPU; leave --step out."
    assert document["rows"][0]["status"] == "not here"
    assert document["summary"]["not_here"] == 2


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (["Something else.", "The step graphs needs a GPU."], "The step graphs needs a GPU."),
        ([], "The engine took step eager instead of graphs."),
    ],
)
def test_a_fallback_is_no_measurement(said, reason):
    engine = KnownEngine(takes=lambda request: ("eager", said if is_on(request) else []))
    document = measured(engine, FAST)
    assert [row["reason"] for row in document["rows"]] == [reason] * 2


def test_an_engine_that_breaks_costs_one_row(capsys):
    def refuses(request):
        if is_on(request):
            raise RuntimeError("bad index")

    document = measured(KnownEngine(refuses=refuses), FAST, NOTHING)
    assert document["rows"][0]["reason"] == "The engine failed: RuntimeError: bad index"
    assert document["rows"][-1]["status"] == "measured"
    assert "bad index" in capsys.readouterr().err


def test_a_switch_of_another_family_is_told():
    fused = Variant("projector", "fused", ("vision",), VariantChange({"projector": "fused"}), families=("eventgpt",))
    document = measured(KnownEngine(family="llava"), fused)
    assert [row["verdict"] for row in document["rows"]] == ["not here"] * 2
    assert "eventgpt" in document["rows"][0]["reason"]


def test_without_a_plain_run_there_is_nothing_to_compare_with():
    with pytest.raises(UserError, match="no such folder"):
        measured(KnownEngine(refuses=lambda _: "There is no such folder."), FAST)


def test_other_weights_are_loaded_alone_for_their_peak_and_freed_after():
    engine = KnownEngine()
    quantized = Variant("quantization", "int8", LLM, VariantChange(choice={"quantization": "int8"}), roles=TARGET_ONLY)
    document = measured(engine, quantized, NOTHING)
    row = document["rows"][0]
    assert (row["peak_off_bytes"], row["peak_on_bytes"]) == (6000, 6000)  # one model in memory, each time
    assert (row["setup_off_ms"], row["setup_on_ms"]) == (7.0, 7.0)
    # Plain, alone off, alone on, off once more; then each role of the next row.
    assert engine.loads == 6
    assert engine.warm == set()


def test_values_that_depend_on_the_model_are_found_for_it():
    engine = KnownEngine()
    chunks = Variant("prefill-chunk", "", ("prefill",), VariantChange({"prefill_chunk": quarter_of_prompt}))
    document = measured(engine, chunks)
    assert document["rows"][0]["title"] == "prefill-chunk 64"  # a power of two within 400 / 4
    assert {request.settings.switches.prefill_chunk for request in engine.made} == {0, 64}


def test_each_row_is_handed_out_as_soon_as_it_is_there():
    kept: list = []
    counts: list = []
    document = measure_switches(
        KnownEngine(), plan(), threading.Event(), lambda _: counts.append(len(kept)), known=(FAST,), keep=kept.append
    )
    assert kept == document["rows"]
    assert counts == [1, 2]


def test_a_stop_keeps_the_rows_so_far():
    stop = threading.Event()
    document = measure_switches(KnownEngine(), plan(), stop, lambda _: stop.set(), known=(FAST,))
    assert len(document["rows"]) == 1
    assert document["summary"]["is_complete"] is False


@pytest.mark.parametrize(
    ("ratio", "spread", "expects", "word"),
    [
        (1.6, 0.05, None, "faster"),
        (0.6, 0.05, None, "slower"),
        (1.1, 0.3, None, "not clear"),  # the interval contains 1
        (1.16, 0.01, PRUNING, "as expected"),
        (1.06, 0.01, PRUNING, "less"),
        (1.6, 0.05, PRUNING, "more"),
        (0.5, 0.01, Expectation(2.0, 3.0), "slower"),
    ],
)
def test_verdicts(ratio, spread, expects, word):
    on = [Observation(10.0, turn=number) for number in range(5)]
    off = [Observation(10 * ratio * (1 + spread * step), turn=turn) for turn, step in enumerate((-1, 0.5, 0, -0.5, 1))]
    assert word_of(verdict(on, off), expects) == word
    assert word_of(verdict(on[:4], off[:4]), expects) is None


def test_words_are_taken_back_where_the_whole_table_does_not_carry_them():
    def speed(ratio: float, spread: float) -> Verdict | None:
        on = [Observation(10.0, turn=number) for number in range(5)]
        steps = (-1, 0.5, 0, -0.5, 1)
        return verdict(
            on, [Observation(10 * ratio * (1 + spread * step), turn=turn) for turn, step in enumerate(steps)]
        )

    speeds = [speed(2.0, 0.05), speed(1.1, 0.09), *[speed(1.0, 0.1)] * 20, None]
    rows = [{"verdict": word_of(found, None)} for found in speeds]
    assert [row["verdict"] for row in rows[:3]] == ["faster", "faster", "not clear"]
    take_back(rows, speeds)
    assert [row["verdict"] for row in rows[:2]] == ["faster", "not clear"]
    assert rows[-1]["verdict"] is None


def test_expectations_are_told_as_the_document_does():
    assert [expectation.text for expectation in (SPECULATIVE, PRUNING, QUANTIZATION)] == [
        "2-3×",
        "10-20 %",
        "1.5-2×",
    ]


def test_only_names_switches_and_values():
    assert {variant.switch for variant in plan(only=("vision_cache", "step")).variants()} == {"vision-cache", "step"}
    assert [variant.value for variant in plan(only=("cache fp8",)).variants()] == ["fp8"]
    assert len(plan().variants()) == len(VARIANTS)
    with pytest.raises(UserError, match="no switch 'lunch'"):
        plan(only=("lunch",)).variants()
    with pytest.raises(UserError, match="--repeat"):
        plan(repeat=0).variants()
    with pytest.raises(UserError, match="--max-new-tokens"):
        plan(max_new_tokens=0).variants()


def test_every_switch_there_is_has_a_row():
    from evprof.core.vocabulary.settings import choices_of
    from evprof.core.vocabulary.switches import Switches

    varied = {name for variant in VARIANTS for name in (*variant.on.switches, *variant.off.switches)}
    assert varied == set(Switches.__dataclass_fields__) - {"exit_confidence"}

    def values(name):
        sides = [side for variant in VARIANTS for side in (variant.on, variant.off)]
        return {side.switches[name] for side in sides if name in side.switches}

    plain = {"attention": "sdpa", "cache": "static", "step": "eager"}
    plain |= {"vision_cache": "off", "prefetch": "off"}
    known = {name: choices_of(name) for name in plain}
    for name, choices in known.items():
        assert values(name) | {plain[name], "auto"} == {*choices, "auto"}
    assert values("prune_by") == set(choices_of("prune_by"))
    assert {variant.on.choice.get("quantization") for variant in VARIANTS} - {None} == set(choices_of("quantization"))
