"""Quantized weights and caches."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlamaForCausalLM

from engines.decoder.kv_cache import DYNAMIC
from engines.decoder.llama import LlamaDecoder
from engines.decoder.quantization import PROJECTIONS, check_quantization, held_bytes, packer, quantize_weights
from engines.decoder.quantized_kv import make_cache
from engines.engine import LocalEngine
from engines.fit.requirements import model_shape, stored_weights
from engines.loading.weights import load_model
from evprof.core.errors import UserError
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.switches import Switches
from evprof.metrics.figures.kv_cache import bytes_by_origin, formula_bytes
from evprof.metrics.limits.memory_need import weight_bytes
from run_logs import saved_runs

pytestmark = pytest.mark.usefixtures("without_gradients")

CPU = torch.device("cpu")
ROWS = 257
LARGEST_ERROR = {"int8": 0.011, "int4": 0.14, "nf4": 0.12, "fp8": 0.05}
"""Of one matrix, relative."""
LARGEST_LOGITS_ERROR = {"int8": 0.04, "int4": 0.45, "nf4": 0.35, "fp8": 0.15}
"""After three layers."""


@pytest.fixture(params=list(LARGEST_ERROR))
def kind(request: pytest.FixtureRequest) -> str:
    """Every kind, where its library is installed."""
    name = str(request.param)
    if name == "nf4":
        pytest.importorskip("bitsandbytes")
    return name


def make_decoder(make_llama: Callable[..., Any], dtype: torch.dtype = torch.float32) -> LlamaDecoder:
    return LlamaDecoder.take_over(make_llama(3, hidden=256, vocabulary=ROWS, std=0.05).to(dtype))


def logits(decoder: LlamaDecoder) -> torch.Tensor:
    ids = torch.arange(40).remainder(ROWS)[None]
    weight = decoder.embed_tokens.weight
    cache = make_cache(DYNAMIC, decoder.config, capacity=40, device=CPU, dtype=weight.dtype)
    return decoder(decoder.embed(ids), cache, keep=40).float()


def distance(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_stay_near(kind: str, dtype: torch.dtype, make_llama: Callable[..., LlamaForCausalLM]) -> None:
    decoder = make_decoder(make_llama, dtype)
    full = logits(decoder)
    quantize_weights(decoder, kind, CPU)
    packed = logits(decoder)
    assert packed.shape == full.shape
    assert 0 < distance(packed, full) < LARGEST_LOGITS_ERROR[kind]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_one_matrix(kind: str, dtype: torch.dtype, bias: bool) -> None:
    torch.manual_seed(1)
    linear = nn.Linear(256, 192, bias=bias, dtype=dtype).requires_grad_(False)
    held = linear.bias.clone() if bias else None
    for rows in (torch.randn(2, 5, 256, dtype=dtype), torch.randn(1, 1, 256, dtype=dtype)):
        wanted = linear(rows)
        packed = packer(kind)(copy.deepcopy(linear), CPU)
        found = packed(rows)
        assert (found.shape, found.dtype) == (wanted.shape, dtype)
        assert 0 < distance(found.float(), wanted.float()) < LARGEST_ERROR[kind]
        kept: Any = packed.bias
        assert (kept is None) if held is None else torch.equal(kept, held)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_bytes_are_those_foretold(kind: str, dtype: torch.dtype, make_llama) -> None:
    decoder = make_decoder(make_llama, dtype)
    shapes = [getattr(layer, name).weight.shape for layer in decoder.layers for name in PROJECTIONS]
    before = held_bytes([decoder])
    assert before == sum(parameter.nbytes for parameter in decoder.parameters())
    quantize_weights(decoder, kind, CPU)
    packed = held_bytes([getattr(layer, name) for layer in decoder.layers for name in PROJECTIONS])
    foretold = sum(weight_bytes(kind, rows, columns, dtype.itemsize) for rows, columns in shapes)
    assert packed == pytest.approx(foretold, rel=0.02)
    full = sum(rows * columns * dtype.itemsize for rows, columns in shapes)
    assert held_bytes([decoder]) == before - full + packed
    assert packed < full * (0.53 if kind in ("int8", "fp8") else 0.3)


def test_only_projections_are_packed(kind: str, make_llama: Callable[..., LlamaForCausalLM]) -> None:
    decoder = make_decoder(make_llama)
    head, embedding = decoder.lm_head.weight.clone(), decoder.embed_tokens.weight.clone()
    quantize_weights(decoder, kind, CPU)
    assert torch.equal(decoder.lm_head.weight, head)
    assert torch.equal(decoder.embed_tokens.weight, embedding)
    assert all(
        type(getattr(layer, name).weight.data) is not torch.Tensor or getattr(layer, name).weight.dtype.itemsize == 1
        for layer in decoder.layers
        for name in PROJECTIONS
    )


def test_loading_says_what_is_held(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engines.loading.weights.check_quantization", lambda *_: None)
    never = threading.Event()

    def load(quantization: str | None) -> Any:
        choice = ModelChoice("evprof-tiny-video-llava", device="cpu", dtype="float32", quantization=quantization)
        return load_model(choice, "target", lambda done, total: None, never)

    full, packed = load(None).facts, load(kind).facts
    assert (full.quantization, packed.quantization) == (None, kind)
    assert packed.parameters == full.parameters
    assert packed.weight_bytes < 0.7 * full.weight_bytes
    # As foretold before loading; where a CPU orders nf4 weights anew, their maxima take half as much.
    foretold = stored_weights(model_shape(ModelChoice("evprof-tiny-video-llava")), kind, 4)
    assert packed.weight_bytes == pytest.approx(foretold, rel=0.02)


def test_an_unknown_kind() -> None:
    with pytest.raises(UserError, match=r"no quantization 'int3'; choose one of int8, int4, nf4, fp8"):
        check_quantization("int3", CPU)


@pytest.mark.parametrize(("device", "capability"), [("cpu", (9, 0)), ("cuda", (8, 6))])
def test_fp8_is_refused_where_nothing_multiplies_it(device: str, capability: tuple[int, int], monkeypatch) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: capability)
    with pytest.raises(UserError, match=f"capability 8.9 or later .*, not {device}; choose int8"):
        check_quantization("fp8", torch.device(device))
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: (8, 9))
    check_quantization("fp8", torch.device("cuda"))


def test_a_missing_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(
        UserError,
        match=r"nf4 needs bitsandbytes, which is not installed; install it with `pip install 'evprof\[quant\]'`",
    ):
        check_quantization("nf4", CPU)


@pytest.mark.parametrize("kind", ["int8", "int4", "fp8"])
def test_packed_weights_compile_as_one_graph(kind: str) -> None:
    linear = nn.Linear(96, 64, bias=True).requires_grad_(False)
    packed = packer(kind)(linear, CPU)
    compiled = torch.compile(packed, fullgraph=True, backend="eager")
    rows = torch.randn(1, 3, 96)
    assert torch.equal(compiled(rows), packed(rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_prefill_multiplies_floats_of_eight_bits(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same operation as on a GPU; rows of very different sizes keep their precision."""
    torch.manual_seed(2)
    linear = nn.Linear(256, 192, bias=True, dtype=dtype).requires_grad_(False)
    sizes = torch.logspace(-3, 3, 128).to(dtype)
    rows = (torch.randn(1, 128, 256) * sizes[:, None]).to(dtype)
    wanted, packed = linear(rows), packer("fp8")(linear, CPU)
    seen: list[torch.dtype] = []
    multiply = torch._scaled_mm

    def noted(*given: Any, **named: Any) -> torch.Tensor:
        seen.extend(tensor.dtype for tensor in given[:2])
        return multiply(*given, **named)

    monkeypatch.setattr(torch, "_scaled_mm", noted)
    found = packed(rows)
    assert seen == [torch.float8_e4m3fn] * 2
    assert (found.shape, found.dtype) == (wanted.shape, dtype)
    for row, exact in zip(found[0].float(), wanted[0].float(), strict=True):
        assert distance(row, exact) < 0.06
    # Fewer rows, and sizes that tensor cores do not take.
    packed(rows[:, :127])
    packer("fp8")(nn.Linear(256, 190, dtype=dtype).requires_grad_(False), CPU)(rows)
    assert len(seen) == 2


def test_float16_sums_of_eight_bits_stay_finite() -> None:
    """A row of ones times large inputs: as large as the full product and no larger."""
    linear = nn.Linear(4096, 2, bias=False, dtype=torch.float16).requires_grad_(False)
    linear.weight.fill_(0.001)
    rows = torch.full((1, 4096), 1000.0, dtype=torch.float16)
    torch.testing.assert_close(packer("int8")(linear, CPU)(rows), torch.full((1, 2), 4096.0).half(), rtol=0.01, atol=0)


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
    return saved_runs(recording)[0]


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
