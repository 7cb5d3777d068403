"""The decode loop: greedy equals transformers' generate, sampling follows the law, early exit and identical steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.generation.logits_process import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engines.decoder import kv_cache
from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.eager_steps import POSITIONS, STRETCH, EarlyExitStep, IdenticalStep
from engines.decoder.kv_cache import DYNAMIC, STATIC, DynamicKv
from engines.decoder.llama import BlockShape, LlamaDecoder
from engines.decoder.quantized_kv import make_cache
from engines.decoder.sampling import distribution, greedy, make_sampler
from engines.decoder.step_choice import DecodeSteps, StepPlan
from engines.measuring.timing import StageClock
from engines.tokens.answer import Answer
from evprof.core.errors import Cancelled, UserError
from evprof.core.records import KvRecord, TokenRecord
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.switches import Switches

pytestmark = pytest.mark.usefixtures("without_gradients")

PIECES = [f"<{index}>" for index in range(257)]


def cached(model: Any, role: str = "target", kind: str = STATIC) -> CachedModel:
    return CachedModel.over(LlamaDecoder.take_over(model), role, kind=kind, bytes_per_position=2)


def prompt_of(seed: int, length: int = 12, vocabulary: int = 257) -> torch.Tensor:
    return torch.randint(0, vocabulary, (1, length), generator=torch.Generator().manual_seed(seed))


def embed(model: Any, prompt: torch.Tensor) -> torch.Tensor:
    return model.get_input_embeddings()(prompt)


def run_plain(
    model: Any, prompt: torch.Tensor, limits: Limits, sink: Any, stop: Any, *, reader: Any = None, kind: str = STATIC
) -> Any:
    plain = cached(model, kind=kind)
    answer = Answer(sink, 1, "target", PIECES)
    first = greedy(plain.prefill(embed(model, prompt), stop))
    answer.add(int(first))
    clock = StageClock(sink, 1)
    with clock.stage("decode", "target"):
        decode(plain, first, answer, limits, sampler=greedy, clock=clock, stop=stop, reader=reader)
    return SimpleNamespace(ids=answer.ids, model=plain)


class OneStepLate:
    """What CUDA's reader does, without CUDA."""

    def __init__(self) -> None:
        self.waiting: list[int] = []

    def push(self, token: torch.Tensor) -> list[int]:
        ready, self.waiting = self.waiting, [int(token)]
        return ready

    def flush(self) -> list[int]:
        ready, self.waiting = self.waiting, []
        return ready


@pytest.mark.parametrize("kind", [STATIC, DYNAMIC])
@pytest.mark.parametrize("seed", range(5))
def test_greedy_equals_generate(make_llama: Any, sink: Any, never: Any, seed: int, kind: str) -> None:
    model, prompt = make_llama(seed), prompt_of(seed)
    expected = model.generate(prompt, max_new_tokens=48, do_sample=False)[0, prompt.shape[1] :].tolist()
    assert len(set(expected)) > 10
    assert run_plain(model, prompt, Limits(48), sink, never, kind=kind).ids == expected


@pytest.mark.parametrize("reader", [None, OneStepLate])
def test_eos_ends_the_answer_and_leaves_the_cache_exact(make_llama: Any, sink: Any, never: Any, reader: Any) -> None:
    model, prompt = make_llama(1), prompt_of(1)
    free = run_plain(model, prompt, Limits(40), sink, never).ids
    eos = next(token for place, token in enumerate(free) if place > 5 and token not in free[:place])
    done = run_plain(model, prompt, Limits(40, frozenset({eos})), sink, never, reader=reader() if reader else None)
    assert done.ids == free[: free.index(eos) + 1]
    assert done.model.length == prompt.shape[1] + len(done.ids) - 1
    assert kv_cache.weigh(done.model.cache).logical == done.model.length * 2 * 2 * 2 * 16 * 4


@pytest.mark.parametrize("count", [1, 2, 17])
@pytest.mark.parametrize("reader", [None, OneStepLate])
def test_length_limit(make_llama: Any, sink: Any, never: Any, count: int, reader: Any) -> None:
    model, prompt = make_llama(2), prompt_of(2)
    done = run_plain(model, prompt, Limits(count), sink, never, reader=reader() if reader else None)
    assert len(done.ids) == count
    assert done.model.length == prompt.shape[1] + count - 1
    assert done.ids == run_plain(model, prompt, Limits(30), sink, never).ids[:count]


def test_first_token_may_be_the_end(make_llama: Any, sink: Any, never: Any) -> None:
    model, prompt = make_llama(3), prompt_of(3)
    first = run_plain(model, prompt, Limits(1), sink, never).ids[0]
    assert run_plain(model, prompt, Limits(9, frozenset({first})), sink, never).ids == [first]


@pytest.mark.parametrize("reader", [None, OneStepLate])
def test_stop_between_tokens_keeps_what_came(make_llama, sink, never, stop_after, reader) -> None:
    model, prompt = make_llama(4), prompt_of(4)
    expected = run_plain(model, prompt, Limits(30), sink, never).ids
    sink.records.clear()
    with pytest.raises(Cancelled):
        run_plain(model, prompt, Limits(30), sink, stop_after(2 + 10), reader=reader() if reader else None)
    ids = [record.token_id for record in sink.of(TokenRecord)]
    assert 5 < len(ids) < 15
    assert ids == expected[: len(ids)]


def test_stop_between_layers_of_prefill(make_llama: Any, stop_after: Any) -> None:
    one = cached(make_llama(0, layers=6))
    reached: list[int] = []
    for index, layer in enumerate(one.decoder.layers):  # type: ignore[attr-defined]  # a LlamaDecoder here
        layer.register_forward_hook(lambda *_, index=index: reached.append(index))
    with pytest.raises(Cancelled):
        one.prefill(one.decoder.embed(prompt_of(0)), stop_after(3))
    assert reached == [0, 1, 2]


def test_every_token_has_a_record_and_a_cache_length(make_llama: Any, sink: Any, never: Any) -> None:
    model, prompt = make_llama(5), prompt_of(5)
    done = run_plain(model, prompt, Limits(9), sink, never)
    tokens, lengths = sink.of(TokenRecord), sink.of(KvRecord)
    assert [record.token_id for record in tokens] == done.ids
    assert [record.position for record in tokens] == list(range(9))
    assert [record.piece for record in tokens] == [PIECES[token] for token in done.ids]
    assert {record.origin for record in tokens} == {"target"}
    assert [record.length for record in lengths] == [prompt.shape[1] + count for count in range(1, 9)]
    assert lengths[-1].nbytes == 2 * lengths[-1].length


CPU = torch.device("cpu")
CRITICAL = 37.7
"""Chi-square, 15 degrees of freedom, 0.1 %."""


def logits_of(seed: int, size: int = 16) -> torch.Tensor:
    return 2 * torch.randn(1, size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_k", [0, 1, 5, 40])
@pytest.mark.parametrize("top_p", [0.05, 0.6, 0.95, 1.0])
def test_distribution_equals_transformers(temperature: float, top_k: int, top_p: float) -> None:
    settings = GenerationSettings(temperature=temperature, top_k=top_k, top_p=top_p)
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        warpers.append(TopPLogitsWarper(top_p))
    for seed in range(6):
        logits = logits_of(seed, 24)
        expected = warpers(torch.LongTensor([[0]]), logits).softmax(-1)
        torch.testing.assert_close(distribution(logits, settings), expected)


def chi_square(draw: Any, chances: torch.Tensor, count: int = 20_000) -> float:
    counts = np.bincount([int(draw()) for _ in range(count)], minlength=chances.shape[-1])
    expected = chances[0].numpy() * count
    return float(((counts - expected) ** 2 / expected).sum())


def test_draws_follow_the_distribution_and_the_test_would_notice_if_not() -> None:
    logits = logits_of(3)
    settings = GenerationSettings(temperature=1.0, seed=11)
    chances = distribution(logits, settings)
    sampler = make_sampler(settings, CPU)
    assert chi_square(lambda: sampler(logits), chances) < CRITICAL
    warmer = make_sampler(GenerationSettings(temperature=1.3, seed=11), CPU)
    assert chi_square(lambda: warmer(logits), chances) > 10 * CRITICAL


def test_filtered_tokens_are_never_drawn() -> None:
    logits = logits_of(5)
    settings = GenerationSettings(temperature=3.0, top_k=4, seed=1)
    sampler = make_sampler(settings, CPU)
    allowed = set(logits[0].topk(4).indices.tolist())
    assert {int(sampler(logits)) for _ in range(400)} == allowed


LAYERS, LAYER, COUNT = 4, 2, 40


def prompt() -> torch.Tensor:
    return torch.randint(0, 257, (1, 12), generator=torch.Generator().manual_seed(2))


def answered(decoder: LlamaDecoder, step: Any, never: Any, kind: str = STATIC) -> tuple[list[int], Any]:
    cache = make_cache(kind, decoder.config, capacity=64, device=CPU, dtype=torch.float32)
    one = CachedModel(decoder, "target", CPU, decoder.rows, cache=cache, own_step=step)
    token = greedy(one.prefill(decoder.embed(prompt()), never))
    ids = [int(token)]
    while len(ids) < COUNT:
        token = greedy(one.step(token)[:, -1])
        ids.append(int(token))
    return ids, cache


def by_hand(decoder: LlamaDecoder, confidence: float) -> tuple[list[int], list[bool]]:
    """The same, token by token, from nothing but layers and concatenated keys and values."""
    cache = DynamicKv(LAYERS)
    logits = decoder(decoder.embed(prompt()), cache)
    ids, left = [int(logits.argmax())], []
    while len(ids) < COUNT:
        cos, sin = decoder.rotation(cache.length, 1, None)

        def attend(index: int, queries: Any, keys: Any, values: Any) -> torch.Tensor:
            keys, values = cache.append(index, keys, values)
            groups = queries.shape[1] // keys.shape[1]
            keys, values = keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1)
            return (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(-1) @ values

        hidden = decoder.embed(torch.tensor([[ids[-1]]]))
        for index in range(LAYERS):
            if index == LAYER:
                left.append(bool(decoder.head(hidden).softmax(-1).max() >= confidence))
                exited = hidden
            # A layer that is left out still turns the state it would have got into keys and values.
            passed = decoder.layers[index](exited if index >= LAYER and left[-1] else hidden, cos, sin, attend, index)
            hidden = exited if index >= LAYER and left[-1] else passed
        cache.advance(1)
        ids.append(int(decoder.head(hidden).argmax()))
    return ids, left


@pytest.mark.parametrize("kind", [STATIC, DYNAMIC])
def test_confidence_one_is_off(make_llama: Any, never: Any, kind: str) -> None:
    decoder = LlamaDecoder.take_over(make_llama(1, layers=LAYERS))
    step = EarlyExitStep(decoder, LAYER, 1.0)
    expected, _ = answered(decoder, None, never, kind)
    assert answered(decoder, step, never, kind)[0] == expected
    assert (step.left, step.asked) == (0, COUNT - 1)


@pytest.mark.parametrize("kind", [STATIC, DYNAMIC])
def test_tokens_leave_when_the_inner_layer_is_sure(make_llama: Any, never: Any, kind: str) -> None:
    decoder = LlamaDecoder.take_over(make_llama(1, layers=LAYERS))
    expected, left = by_hand(decoder, 0.1)
    step = EarlyExitStep(decoder, LAYER, 0.1)
    ids, cache = answered(decoder, step, never, kind)
    assert ids == expected
    assert 5 < step.left == sum(left) < COUNT - 6
    assert ids != answered(decoder, None, never)[0]
    # Every layer holds every position, whoever left where.
    assert [next(cache.tensors(layer)).shape[2] for layer in range(LAYERS)] == [12 + COUNT - 1] * LAYERS
    assert step.sentence() == (
        f"{step.left} of {COUNT - 1} decoded tokens left after layer {LAYER} of {LAYERS} (early exit is lossy)."
    )


def test_confidence_zero_always_leaves_and_skips_the_rest(make_llama: Any, never: Any) -> None:
    decoder = LlamaDecoder.take_over(make_llama(1, layers=LAYERS))
    step, entered = EarlyExitStep(decoder, 1, 0.0), []
    answered(decoder, step, never)
    assert step.left == COUNT - 1
    decoder.layers[3].register_forward_hook(lambda *_: entered.append(3))
    cache = make_cache(STATIC, decoder.config, capacity=64, device=CPU, dtype=torch.float32)
    decoder(decoder.embed(prompt()), cache)
    assert entered == [3]
    step(torch.tensor([[1]]), cache, 1)
    assert entered == [3]


PLAN = StepPlan((1, 6), 10, 100)


@pytest.fixture(scope="module", params=[torch.bfloat16, torch.float16, torch.float32], ids=str)
def decoder(request: pytest.FixtureRequest, make_llama: Any) -> LlamaDecoder:
    return LlamaDecoder.take_over(make_llama(3).to(request.param))


def _fed(decoder: LlamaDecoder, prompt: int, blocks: Sequence[Sequence[int]], step: Any) -> torch.Tensor:
    """Logits [tokens, V] of blocks after a prompt; a negative length is a rejected block, which leaves nothing."""
    with torch.inference_mode():
        model = CachedModel.over(decoder, "target")
        model.own_step = step
        model.prefill(decoder.embed(torch.arange(prompt)[None] % 50), Event())
        told = []
        for ids in blocks:
            rejected = torch.tensor([[7, 3, 9, 1]])
            model.step(torch.cat([torch.tensor([list(ids)]), rejected], dim=1))
            model.crop(model.length - 4 - len(ids))
            told.append(model.step(torch.tensor([list(ids)]), keep=len(ids))[0])
        return torch.cat(told)


@given(
    prompt=st.integers(1, 2 * STRETCH + 3),
    sizes=st.lists(st.integers(1, 2 * POSITIONS + 1), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_any_blocks_have_the_bits_of_single_tokens(
    decoder: LlamaDecoder, prompt: int, sizes: list[int], seed: int
) -> None:
    ids = torch.randint(50, (sum(sizes),), generator=torch.Generator().manual_seed(seed)).tolist()
    step = IdenticalStep(decoder)
    blocks = [ids[sum(sizes[:place]) : sum(sizes[: place + 1])] for place in range(len(sizes))]
    one_by_one = _fed(decoder, prompt, [[token] for token in ids], step)
    assert torch.equal(_fed(decoder, prompt, blocks, step), one_by_one)


def test_its_numbers_are_the_decoders_but_for_rounding(decoder: LlamaDecoder) -> None:
    blocks = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]]
    told = _fed(decoder, 60, blocks, IdenticalStep(decoder)).float()
    usual = _fed(decoder, 60, blocks, None).float()
    eps = torch.finfo(decoder.embed_tokens.weight.dtype).eps
    assert (told - usual).abs().max() <= 64 * eps * usual.abs().max()


def test_it_is_taken_where_it_holds_and_says_why_where_it_does_not(decoder: LlamaDecoder, monkeypatch) -> None:
    steps = DecodeSteps(decoder)
    assert steps.choose(Switches(step="identical"), PLAN).kind == "identical"
    assert steps.choose(Switches(step="identical"), PLAN).compile_ms is None  # known by now
    for plan, why in ((StepPlan((1,), 10, 100, batch=2), "it takes one row"), (StepPlan((1,), 10, 100, "fp8"), "fp8")):
        chosen = steps.choose(Switches(step="identical"), plan)
        assert (chosen.step, chosen.kind) == (None, "eager")
        assert why in str(chosen.sentence)
    usual = IdenticalStep._pass

    def leaking(self: IdenticalStep, ids: torch.Tensor, cache: Any) -> torch.Tensor:
        """Each position carries a trace of how many were computed beside it."""
        return usual(self, ids, cache) * (1 + ids.shape[1])

    monkeypatch.setattr(IdenticalStep, "_pass", leaking)
    monkeypatch.setattr(LlamaDecoder, "head", lambda _, hidden: hidden)
    chosen = DecodeSteps(decoder).choose(Switches(step="identical"), PLAN)
    assert chosen.kind == "eager"
    assert "depend on what is computed beside it" in str(chosen.sentence)


def test_trees_are_refused(decoder: LlamaDecoder) -> None:
    model = CachedModel.over(decoder, "target")
    with pytest.raises(UserError, match="chains"):
        IdenticalStep(decoder)(torch.tensor([[1, 2]]), model.opened, 2, BlockShape((-1, 0), decoder.device))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_drafted_answers_are_plain_decodings(make_llama: Any, dtype: torch.dtype) -> None:
    decoder = LlamaDecoder.take_over(make_llama(0, layers=3, std=0.1).to(dtype))
    step = IdenticalStep(decoder)
    for seed in range(6):
        prompt = torch.randint(257, (1, 20 + 17 * seed), generator=torch.Generator().manual_seed(seed))
        plain = _answer(decoder, prompt, step, lambda _: [])
        rng = random.Random(seed)

        def drafts(at: int, plain: list[int] = plain, rng: random.Random = rng) -> list[int]:
            """What comes next, now and then something else."""
            return [
                token if rng.random() < 0.8 else rng.randrange(257) for token in plain[at : at + rng.choice((3, 9))]
            ]

        assert _answer(decoder, prompt, step, drafts) == plain


def _answer(decoder: LlamaDecoder, prompt: torch.Tensor, step: Any, drafts: Callable[[int], list[int]]) -> list[int]:
    """48 tokens by greedy choice, verifying what is drafted for each place."""
    with torch.inference_mode():
        model = CachedModel.over(decoder, "target")
        model.own_step = step
        answer = [int(model.prefill(decoder.embed(prompt), Event()).argmax())]
        while len(answer) < 48:
            drafted = drafts(len(answer))
            start = model.length
            chosen = model.step(torch.tensor([[answer[-1], *drafted]]), keep=1 + len(drafted))[0].argmax(-1).tolist()
            right = next(
                (n for n, pair in enumerate(zip(drafted, chosen, strict=False)) if pair[0] != pair[1]), len(drafted)
            )
            answer += chosen[: right + 1]
            model.crop(start + right + 1)
        return answer[:48]
