"""Random weights at a small size: varied text, whose tokens depend on the words and not on rounding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import LlamaDecoder
from engines.loading import shapes as random_weights
from random_decoders import random_decoder

PROMPT, FORCED, TEXT = 40, 32, 64
pytestmark = pytest.mark.usefixtures("without_gradients")


def decoder(dtype: torch.dtype) -> LlamaDecoder:
    return random_decoder(dtype, layers=12, vocabulary=2000)


def fed(one: LlamaDecoder, prompt: torch.Tensor, ids: list[int] | None = None) -> torch.Tensor:
    """Logits [N, V] after a prompt and each of `ids` but the last; without `ids` the text is greedy."""
    dtype = one.embed_tokens.weight.dtype
    cache = StaticKv(one.config, PROMPT + TEXT, device=one.device, dtype=dtype)
    rows = [one(prompt.to(dtype), cache)[0, -1]]
    for place in range(TEXT - 1 if ids is None else len(ids) - 1):
        token = int(rows[-1].argmax()) if ids is None else ids[place]
        rows.append(one(one.embed(torch.tensor([[token]])), cache)[0, -1])
    return torch.stack(rows)


def prompt_of(one: LlamaDecoder) -> torch.Tensor:
    return torch.randn(1, PROMPT, one.config.hidden_size, generator=torch.Generator().manual_seed(1))


def same(one: torch.Tensor, other: torch.Tensor) -> int:
    return int((one.argmax(-1) == other.argmax(-1)).sum())


def test_tokens_depend_on_the_words_and_not_on_rounding() -> None:
    exact, half = decoder(torch.float32), decoder(torch.bfloat16)
    prompt = prompt_of(exact)
    text = fed(exact, prompt).argmax(-1).tolist()
    assert len(set(text)) >= 0.75 * TEXT
    expected = fed(exact, prompt, text[:FORCED])
    noise = torch.randn(prompt.shape, generator=torch.Generator().manual_seed(2))
    assert same(fed(exact, prompt * (1 + 1e-4 * noise), text[:FORCED]), expected) >= 31
    assert same(fed(half, prompt, text[:FORCED]), expected) >= 26


def test_larger_gains_leave_the_tokens_to_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_weights, "_SCORE_GAIN", 4.0)
    exact, half = decoder(torch.float32), decoder(torch.bfloat16)
    prompt = prompt_of(exact)
    text: Any = fed(exact, prompt).argmax(-1).tolist()
    assert same(fed(half, prompt, text[:FORCED]), fed(exact, prompt, text[:FORCED])) < 16
