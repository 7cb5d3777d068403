"""Whole runs with quantized weights and caches: they finish, say what they hold, and stay near the plain answer."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from engines.engine import LocalEngine
from engines.loading.weights import load_model
from evprof.core.errors import UserError
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.switches import Switches
from evprof.metrics.figures.kv_cache import bytes_by_origin, formula_bytes

HQQ = ("hqq8", "hqq4")


def run(sample: Any, mode: str = "target", *, cache: str = "auto", quant: str | None = None) -> RunLog:
    """The bundled pair's answer."""
    engine = LocalEngine(loader=load_model, make_room=lambda *_: None)
    draft, target = (
        ModelChoice(name, device="cpu", dtype="float32", quantization=quant)
        for name in ("evprof-tiny-eventgpt", "evprof-tiny-video-llava")
    )
    settings = GenerationSettings(max_new_tokens=24, ignore_eos=True, switches=Switches(cache=cache))
    recording = RecordLog()
    try:
        engine.run(RunRequest(mode, sample, draft, target, settings), recording, threading.Event())
    finally:
        engine.close()
    book = RunBook(recording)
    book.update()
    return next(iter(book.runs.values()))


@pytest.fixture(scope="module")
def plain(sample: Any) -> RunLog:
    return run(sample)


def agreement(one: RunLog, other: RunLog) -> float:
    pairs = list(zip(one.tokens, other.tokens, strict=True))
    return sum(a.token_id == b.token_id for a, b in pairs) / len(pairs)


@pytest.mark.parametrize(("cache", "share"), [("fp8", 0.25), ("hqq8", 0.6), ("hqq4", 0.5)])
def test_a_run_with_a_quantized_cache(cache: str, share: float, sample: Any, plain: RunLog) -> None:
    done = run(sample, cache=cache)
    assert (done.info.status, done.info.error) == ("finished", None)
    assert done.info.models["target"].cache == cache
    kv, formula = done.info.kv["target"], formula_bytes(done)
    assert formula == formula_bytes(plain) == plain.info.kv["target"].measured_bytes
    assert 0 < kv.measured_bytes <= share * formula
    assert kv.stored_bytes is not None
    assert kv.measured_bytes <= kv.stored_bytes <= kv.reserved_bytes
    assert sum(kv.per_layer_bytes) == kv.measured_bytes
    live = done.kv["target"][-1].nbytes
    assert live < formula
    if cache == "fp8":
        assert live == kv.measured_bytes
    origins = bytes_by_origin(done)
    assert sum(origins[name] or 0 for name in ("system", "text", "visual", "generated")) == formula
    assert agreement(done, plain) > 0.5


@pytest.mark.parametrize("quant", ["int8", "int4", "nf4"])
def test_a_run_with_quantized_weights(quant: str, sample: Any, plain: RunLog) -> None:
    if quant == "nf4":
        pytest.importorskip("bitsandbytes")
    done = run(sample, quant=quant)
    assert (done.info.status, done.info.error) == ("finished", None)
    facts = done.info.models["target"]
    assert facts.quantization == quant
    assert facts.weight_bytes < plain.info.models["target"].weight_bytes
    assert done.info.memory.weights_bytes == facts.weight_bytes
    assert done.info.setup["target"].weights_ms is not None
    assert agreement(done, plain) > 0.5


def test_speculation_over_fp8_is_the_targets_own_answer(sample: Any) -> None:
    """What an fp8 cache gives back does not depend on how many positions a pass brings."""
    alone, speculative = run(sample, cache="fp8"), run(sample, "speculative", cache="fp8")
    assert speculative.info.status == "finished"
    assert speculative.rounds
    assert [token.token_id for token in speculative.tokens] == [token.token_id for token in alone.tokens]
    assert speculative.info.kv["target"].measured_bytes == alone.info.kv["target"].measured_bytes


@pytest.mark.parametrize("cache", HQQ)
def test_speculation_over_hqq_is_refused_before_loading(cache: str, sample: Any) -> None:
    with pytest.raises(UserError, match=f"--cache {cache}: An hqq cache cannot forget rejected tokens"):
        run(sample, "speculative", cache=cache)
