"""On a GPU: the fused step's kernels, compiled and in graphs, and whole answers. Skipped where there is none."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

import played_rounds
from small_models import small_text

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)
pytest.importorskip("triton")

from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.fused_check import FusedGraphs, distances, prefill_distances
from engines.decoder.fused_pass import FusedPass, run_fused_layers
from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import greedy
from engines.decoder.step_choice import DecodeSteps, StepPlan
from engines.measuring.timing import NullClock
from engines.tokens.answer import Answer
from evprof.core.vocabulary.switches import Switches
from interpreted.attention_kernel import CLOSE, Case, chain
from planted_errors import TRITON_ERRORS
from random_decoders import random_decoder

pytestmark = pytest.mark.usefixtures("without_gradients")

DEVICE = torch.device("cuda:0")
PIECES = [str(index) for index in range(257)]
PLACES = (640, 2086, 4643)
"""Positions of the table in docs/benchmarks.md."""


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize(("heads", "kv_heads"), [(32, 32), (32, 8), (28, 4)])
@pytest.mark.parametrize("width", [64, 80, 96, 128])
@pytest.mark.parametrize("new", [1, 2, 5, 16])
def test_attention_is_the_eager_one(dtype: Any, heads: int, kv_heads: int, width: int, new: int) -> None:
    for start in (0, 15, 16, *PLACES):
        assert Case(heads, kv_heads, width, chain(new), start, 0, dtype).difference() < CLOSE[dtype]


def test_a_tree_sees_its_ancestors_alone() -> None:
    parents = (-1, 0, 0, 0, 1, 1, 2, 4, 4, 6, 7, 9, 10, 10, 11, 12)
    for dtype, close in CLOSE.items():
        for start in (1, *PLACES):
            assert Case(32, 8, 128, parents, start, 0, dtype).difference() < close


def prompt_of(length: int) -> torch.Tensor:
    return torch.randint(0, 257, (1, length), generator=torch.Generator().manual_seed(length)).cuda()


def answered(decoder: LlamaDecoder, prompt: torch.Tensor, sink: Any, step: Any = None, count: int = 64) -> list[int]:
    one = CachedModel.over(decoder, "target")
    one.own_step = step
    if step is not None:
        one.cache = step.open_cache(prompt.shape[1] + count + 8)
    never, answer = threading.Event(), Answer(sink, 1, "target", PIECES)
    first = greedy(one.prefill(decoder.embed(prompt), never))
    answer.add(int(first))
    decode(one, first, answer, Limits(count), sampler=greedy, clock=NullClock(), stop=never)
    return answer.ids


@pytest.mark.parametrize("kv_heads", [2, 4])
def test_answers_are_the_eager_ones_at_every_length(make_llama: Any, sink: Any, kv_heads: int) -> None:
    decoder = LlamaDecoder.take_over(make_llama(1, kv_heads=kv_heads).cuda())
    steps = DecodeSteps(decoder)
    for length in (20, 500, 1030):
        prompt = prompt_of(length)
        chosen = steps.choose(Switches(step="fused"), StepPlan((1,), length, length + 72))
        assert (chosen.kind, chosen.sentence) == ("fused", None)
        expected = answered(decoder, prompt, sink)
        for _ in range(2):
            assert answered(decoder, prompt, sink, chosen.step) == expected
        assert chosen.step.problem is None
        # Another kind in between gives the graphs back, and they are made anew.
        assert steps.choose(Switches(step="graphs"), StepPlan((1,), length, length + 72)).kind == "graphs"


@pytest.mark.parametrize("gamma", [1, 4])
def test_speculation_is_lossless(make_llama: Any, sink: Any, gamma: int) -> None:
    target, draft = (LlamaDecoder.take_over(make_llama(seed).cuda()) for seed in (1, 2))
    prompt = prompt_of(40)
    expected = answered(target, prompt, sink, count=40)
    steps = []
    for decoder, blocks in ((target, (1, gamma + 1)), (draft, (1, 2))):
        chosen = DecodeSteps(decoder).choose(Switches(step="fused"), StepPlan(blocks, 40, 120))
        assert (chosen.kind, chosen.sentence) == ("fused", None)
        one = CachedModel.over(decoder, "target" if decoder is target else "draft")
        one.own_step, one.cache = chosen.step, chosen.step.open_cache(120)
        steps.append(one)
    drafter = played_rounds.drafting(steps[1], prompt, 257)
    assert played_rounds.play(steps[0], drafter, prompt, Limits(40), sink, gamma=gamma).ids == expected
    assert all(one.own_step.problem is None for one in steps)


def llama_7b(dtype: torch.dtype, kv_heads: int) -> LlamaDecoder:
    """Two layers in the shape of Llama's 7B, or of its successors with fewer heads of keys."""
    config = small_text(
        32000,
        hidden_size=4096,
        intermediate_size=11008,
        num_attention_heads=32,
        num_key_value_heads=kv_heads,
        max_position_embeddings=8192,
    )
    torch.manual_seed(0)
    with torch.device("cuda"), torch.inference_mode(False):
        model: Any = LlamaForCausalLM(config)
    return LlamaDecoder.take_over(model.to(dtype).eval())


def logits_at(decoder: LlamaDecoder, ids: torch.Tensor, start: int, body: FusedPass | None) -> torch.Tensor:
    """Logits [S, V] in float32 of the last positions, by the fused pass or the decoder's own."""
    cache = StaticKv(decoder.config, 5000, device=DEVICE, dtype=decoder.embed_tokens.weight.dtype)
    decoder.trunk(decoder.embed(ids[:, :start]), cache)
    if body is None:
        return decoder(decoder.embed(ids[:, start:]), cache, keep=ids.shape[1] - start)[0].float()
    decoder.rotary.reach(cache.capacity)
    logits, _ = body(decoder, ids[:, start:], torch.tensor([start], device=DEVICE), cache)
    return logits[0].float()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kv_heads", [32, 8])
def test_a_layer_of_7b_is_as_exact_as_the_eager_one(dtype: torch.dtype, kv_heads: int) -> None:
    exact, rounded = llama_7b(torch.float32, kv_heads), llama_7b(dtype, kv_heads)
    for mine, theirs in zip(exact.parameters(), rounded.parameters(), strict=True):
        mine.data.copy_(theirs.data)
    body = FusedPass(rounded)
    for start in PLACES:
        for new in (1, 5, 16):
            ids = torch.randint(0, 32000, (1, start + new), device=DEVICE)
            wanted = logits_at(exact, ids, start, None)
            eager, fused = (
                (logits_at(rounded, ids, start, each) - wanted).square().mean().sqrt() for each in (None, body)
            )
            assert float(fused) < 1.25 * float(eager)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kv_heads", [32, 8])
def test_a_prefill_of_7b_is_as_exact_as_the_eager_one(dtype: torch.dtype, kv_heads: int) -> None:
    found = list(prefill_distances(run_fused_layers, llama_7b(dtype, kv_heads)))
    print(f"{dtype}, {kv_heads} heads of keys: up to {max(each.ratio for each in found):.2f}")
    assert [each.problem for each in found if each.problem] == []


@pytest.mark.parametrize("plant", [None, *TRITON_ERRORS], ids=lambda plant: getattr(plant, "__name__", "right"))
def test_the_check_in_setup_finds_planted_errors(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if plant is not None:
        plant(monkeypatch)
    decoder = random_decoder(torch.bfloat16, width=1024).cuda()
    found = list(distances(FusedPass(decoder), decoder, 5))
    worst = max(found, key=lambda each: each.ratio)
    print(f"{plant.__name__ if plant else 'right kernels'}: {worst.part} {worst.ratio:.2f}")
    assert any(each.problem for each in found) is bool(plant)


def test_a_graph_holds_seven_kernels_a_layer(make_llama: Any) -> None:
    decoder = LlamaDecoder.take_over(make_llama(1, layers=3).cuda())
    step = FusedGraphs(decoder)
    step.capture_for((1,), 20, 100)
    cache = step.open_cache(100)
    ids = prompt_of(20)
    decoder.trunk(decoder.embed(ids), cache)
    step(ids[:, :1], cache, 1)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profile:
        step(ids[:, :1], cache, 1)
        torch.cuda.synchronize()
    ours = ("_rotate_and_write", "_attend_to_shares", "_weigh_shares", "one_token")
    names = Counter(name for event in profile.events() for name in ours if event.name.startswith(name))
    assert names == {"_rotate_and_write": 3, "_attend_to_shares": 3, "_weigh_shares": 3, "one_token": 4 * 3 + 1}
