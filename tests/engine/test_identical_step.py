"""The identical step: a block has the bits of its tokens one by one, so no half-precision answer depends on drafts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engines.decoder.decoding import CachedModel
from engines.decoder.eager_steps import POSITIONS, STRETCH, IdenticalStep
from engines.decoder.llama import BlockShape, LlamaDecoder
from engines.decoder.step_choice import DecodeSteps, StepPlan
from evprof.core.errors import UserError
from evprof.core.vocabulary.switches import Switches

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


def test_it_is_taken_where_it_holds_and_says_why_where_it_does_not(
    decoder: LlamaDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
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
