"""The engine's runs: modes, repetitions, what is told when, and every way a run can end."""

from __future__ import annotations

import gc
import threading
from dataclasses import replace
from typing import Any

import pytest
import torch

import engines
import evprof
from engines.engine import LocalEngine, plan_runs
from engines.loading import warm_models
from evprof.core.protocols import RequestEnded, RunDescribed, RunEnded, RunStarted, SetupProgressed
from evprof.core.recording import RecordLog
from evprof.core.records import STAGES
from evprof.core.request import RunRequest, TraceSettings
from evprof.core.run_log import RunBook, RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.metrics.figures.kv_cache import formula_bytes
from evprof.metrics.figures.stages import unattributed_ms, wall_ms

DRAFT, TARGET = ModelChoice("tiny-draft"), ModelChoice("tiny-target")


def request_for(mode: str, sample: Any, **changes: Any) -> RunRequest:
    settings = changes.pop("settings", GenerationSettings(max_new_tokens=12))
    return RunRequest(mode, sample, DRAFT, TARGET, settings, **changes)


def carry_out(engine: Any, request: RunRequest, stop: Any = None) -> tuple[list[RunLog], list[Any]]:
    recording = RecordLog()
    engine.run(request, recording, stop or threading.Event())
    book = RunBook(recording)
    messages, _ = book.update()
    return list(book.runs.values()), messages


@pytest.mark.parametrize(
    ("mode", "roles"),
    [
        ("draft", ["draft"]),
        ("target", ["target"]),
        ("side-by-side", ["draft", "target"]),
        ("speculative", ["target"]),
    ],
)
def test_every_mode_measures_five_stages_of_each_model(engine: Any, sample: Any, mode: str, roles: list[str]) -> None:
    runs, messages = carry_out(engine, request_for(mode, sample, first_run_id=7, group_id=3))
    assert [run.info.role for run in runs] == roles
    assert [run.run_id for run in runs] == list(range(7, 7 + len(runs)))
    assert isinstance(messages[-1], RequestEnded)
    for run in runs:
        info = run.info
        assert (info.status, info.error, info.group_id, info.mode) == ("finished", None, 3, mode)
        assert [span.name for span in run.stages(info.role)] == list(STAGES)
        if mode == "speculative":
            assert [span.name for span in run.stages("draft")] == list(STAGES[:4])
            parts = run.children(run.stage("decode", "target").span_id)
            assert {span.name for span in parts} == {"prepare draft", "draft", "verify"}
        assert all(span.is_settled for span in run.spans.values())
        assert all(any(part.direction == "out" for part in span.tensors) for span in run.stages())
        assert info.start_ns == run.stages()[0].start_ns
        assert wall_ms(run) > 0
        assert unattributed_ms(run) >= 0
        assert len(run.tokens) == 12
        assert info.text
        for role in info.models:
            assert info.kv[role].measured_bytes == formula_bytes(run, role)
            assert run.frames[role]
            assert info.lengths[role].input == sum((info.lengths[role].system, info.lengths[role].text)) + (
                info.lengths[role].visual
            )
        assert info.memory.weights_bytes == sum(model.weight_bytes for model in info.models.values())
        assert set(info.memory.by_stage) == set(STAGES)


def test_speculative_answer_is_the_targets_own(engine: Any, sample: Any) -> None:
    plain, _ = carry_out(engine, request_for("target", sample))
    speculative, _ = carry_out(engine, request_for("speculative", sample))
    assert [token.token_id for token in speculative[0].tokens] == [token.token_id for token in plain[0].tokens]
    assert speculative[0].rounds


def test_models_load_once_and_only_the_first_run_pays(engine: Any, tiny_models: Any, sample: Any) -> None:
    first, messages = carry_out(engine, request_for("side-by-side", sample, warmup=1, repeat=2))
    assert tiny_models.loaded == ["draft", "target"]
    assert [(run.info.role, run.info.turn) for run in first[:2]] == [("draft", None), ("target", None)]
    assert all(run.info.warmup for run in first[:2])
    measured = [run.info for run in first[2:] if not run.info.warmup]
    turns = [(info.turn.number, info.turn.place) for info in measured if info.turn]
    assert turns == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert sorted((info.repeat, info.role) for info in measured) == [
        (repeat, role) for repeat in (0, 1) for role in ("draft", "target")
    ]
    assert all(run.info.setup[run.info.role].weights_ms for run in first[:2])
    assert all(run.info.setup[run.info.role].weights_ms is None for run in first[2:])
    started = next(index for index, message in enumerate(messages) if isinstance(message, RunStarted))
    loading = next(index for index, message in enumerate(messages) if isinstance(message, SetupProgressed))
    described = next(
        index
        for index, message in enumerate(messages)
        if isinstance(message, RunDescribed) and "start_ns" in message.facts
    )
    assert started < loading < described


def test_a_missing_file_fails_that_side_only(engine: Any, sample: Any) -> None:
    absent = replace(sample, events_path="/nowhere/absent.npy")
    runs, messages = carry_out(engine, request_for("side-by-side", absent, repeat=2))
    assert sorted((run.info.role, run.info.status) for run in runs) == [
        ("draft", "failed"),
        ("target", "finished"),
        ("target", "finished"),
    ]
    assert all("absent.npy" in run.info.error for run in runs if run.info.role == "draft")
    assert isinstance(messages[-1], RequestEnded)


@pytest.mark.parametrize("mode", ["target", "speculative", "side-by-side"])
def test_stop_at_any_moment_keeps_what_was_measured(engine: Any, sample: Any, stop_after: Any, mode: str) -> None:
    expected, _ = carry_out(engine, request_for("side-by-side", sample))
    ids = [token.token_id for token in expected[1].tokens]
    reached = set()
    for asked in (0, 1, 3, 6, 12, 18, 25, 32):
        runs, messages = carry_out(engine, request_for(mode, sample), stop_after(asked))
        last = runs[-1]
        reached.add(len(last.spans))
        assert isinstance(messages[-1], RequestEnded)
        assert all(span.is_settled for span in last.spans.values())
        if last.info.role == "target" and last.info.status == "cancelled":
            kept = [token.token_id for token in last.tokens]
            assert kept == ids[: len(kept)]
            assert last.info.error is None
        if last.info.status == "cancelled" and last.spans:
            assert last.info.end_ns >= last.info.start_ns
    assert len(reached) > 3


def test_out_of_memory_is_a_sentence_and_the_engine_goes_on(engine: Any, tiny_models: Any, sample: Any) -> None:
    runs, _ = carry_out(engine, request_for("target", sample))
    model = engine._tools.warm._held[(TARGET, "target")]
    encode = model.encode_vision

    def exhausted(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    model.encode_vision = exhausted
    failed, _ = carry_out(engine, request_for("target", sample))
    assert failed[0].info.status == "failed"
    assert "Memory ran out on cpu" in failed[0].info.error
    assert [span.name for span in failed[0].stages()] == ["load", "preprocess", "vision"]
    model.encode_vision = encode
    again, _ = carry_out(engine, request_for("target", sample))
    assert again[0].info.status == "finished"
    assert tiny_models.loaded == ["target"]
    assert [token.token_id for token in again[0].tokens] == [token.token_id for token in runs[0].tokens]


def test_a_defect_fails_the_run_and_leaves_a_trace_on_stderr(engine: Any, sample: Any, capsys: Any) -> None:
    carry_out(engine, request_for("draft", sample))
    model = engine._tools.warm._held[(DRAFT, "draft")]
    model.embed_prompt = lambda *_: 1 / 0
    runs, messages = carry_out(engine, request_for("draft", sample))
    assert runs[0].info.status == "failed"
    assert "ZeroDivisionError" in runs[0].info.error
    assert "Traceback" in capsys.readouterr().err
    assert isinstance(messages[-2], RunEnded)


def test_a_request_warms_up_where_a_model_had_to_be_loaded(tiny_models: Any, sample: Any) -> None:
    engine = LocalEngine(loader=tiny_models, make_room=lambda *_: None)
    request = request_for("side-by-side", sample, warmup=None, repeat=2)
    first, _ = carry_out(engine, request)
    assert [(run.info.role, run.info.warmup, run.info.is_cold) for run in first[:2]] == [
        ("draft", True, True),
        ("target", True, True),
    ]
    assert not any(run.info.warmup or run.info.is_cold for run in first[2:])
    assert [run.run_id for run in first] == list(range(1, 7))
    again, _ = carry_out(engine, request)
    assert not any(run.info.warmup or run.info.is_cold for run in again)
    assert len(again) == 4


def test_on_a_gpu_the_first_run_with_other_settings_warms_up_too(engine, sample, monkeypatch) -> None:
    """Its libraries load kernels when a shape first asks for one: the CPU stands for a device that does."""
    monkeypatch.setattr(warm_models, "LAZY_DEVICES", ("cpu",))

    def marks(**changes: Any) -> list[tuple[bool, bool]]:
        settings = GenerationSettings(max_new_tokens=4, **changes.pop("settings", {}))
        runs, _ = carry_out(engine, request_for("target", sample, settings=settings, **changes))
        return [(run.info.warmup, run.info.is_cold) for run in runs]

    assert marks(warmup=None, repeat=2) == [(True, True), (False, False), (False, False)]
    assert marks(warmup=None) == [(False, False)]
    assert marks(warmup=None, settings={"seed": 7}) == [(False, False)]
    assert marks(warmup=None, settings={"frames": 2}) == [(True, True), (False, False)]
    # Asked for none: the first is told apart all the same.
    assert marks(warmup=0, repeat=2, settings={"frames": 3}) == [(False, True), (False, False)]
    assert marks(warmup=0, repeat=2, settings={"frames": 3}) == [(False, False), (False, False)]


def test_models_that_cannot_stay_together_are_repeated_warm_one_after_the_other(tiny_models: Any, sample: Any) -> None:
    def keeps_one(request: RunRequest, roles: tuple[str, ...], warm: Any) -> None:
        warm.keep_only({(request.choice_of(role), role) for role in roles})

    engine = LocalEngine(loader=tiny_models, make_room=keeps_one)
    runs, _ = carry_out(engine, request_for("side-by-side", sample, warmup=None, repeat=2))
    measured = [(run.info.role, run.info.is_cold) for run in runs if not run.info.warmup]
    assert measured == [("target", False)] * 2 + [("draft", False)] * 2


def test_runs_made_only_to_be_looked_into_come_last_and_are_marked(sample: Any) -> None:
    request = request_for("side-by-side", sample, warmup=1, trace=TraceSettings("log", 3))
    plans = list(plan_runs(request, lambda _: True))
    assert [plan.run_id for plan in plans] == list(range(1, 7))
    assert [plan.extra for plan in plans] == [""] * 4 + ["trace"] * 2
    assert [plan.profiled for plan in plans] == [False] * 4 + [True] * 2
    assert [plan.settings.max_new_tokens for plan in plans] == [12] * 4 + [4] * 2


def test_a_defect_after_the_measurement_still_ends_the_run(engine: Any, sample: Any, capsys: Any) -> None:
    carry_out(engine, request_for("draft", sample))
    model = engine._tools.warm._held[(DRAFT, "draft")]
    model.vocabulary.decode = lambda _: 1 / 0
    try:
        runs, messages = carry_out(engine, request_for("draft", sample))
    finally:
        del model.vocabulary.decode
    assert runs[0].info.status == "failed"
    assert len(runs[0].tokens) == 12
    assert runs[0].info.end_ns is not None
    assert isinstance(messages[-1], RequestEnded)
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("mode", ["side-by-side", "speculative", "parallel-prefill"])
def test_a_run_leaves_nothing_for_the_garbage_collector(engine: Any, sample: Any, mode: str) -> None:
    """KV caches of a 7B model are gigabytes: they go with the run, not with some later collection."""
    request = request_for(mode, sample)
    carry_out(engine, request)
    kept: list[Any] = []
    gc.collect()
    gc.disable()
    try:
        engine.run(request, RecordLog(), threading.Event())
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        ours = (evprof.__name__, engines.__name__, torch.__name__, "av")
        kept = [found for found in gc.garbage if type(found).__module__.startswith(ours)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not kept
