"""Early exit: off at confidence 1, and below it the inner layer's tokens with keys and values of every layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from engines.decoder.decoding import CachedModel
from engines.decoder.eager_steps import EarlyExitStep
from engines.decoder.kv_cache import DYNAMIC, STATIC, DynamicKv
from engines.decoder.llama import LlamaDecoder
from engines.decoder.quantized_kv import make_cache
from engines.decoder.sampling import greedy
from evprof.core.errors import UserError
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.switches import Switches

pytestmark = pytest.mark.usefixtures("without_gradients")

CPU = torch.device("cpu")
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


def test_speculation_refuses_it(sample: Any) -> None:
    settings = GenerationSettings(switches=Switches(early_exit=2))
    request = RunRequest("speculative", sample, ModelChoice("d"), ModelChoice("t"), settings)
    with pytest.raises(UserError, match="Early exit"):
        request.validate()
    replace(request, mode="side-by-side").validate()
