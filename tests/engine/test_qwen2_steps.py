"""Every way of decoding over a Qwen2: its biases, its tied head and its grouped queries, against transformers' own."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from engines.checkpoints.config import qwen2_text
from engines.decoder.compiled_step import CompiledStep
from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import greedy
from engines.families.loaded_model import make_language_model
from engines.measuring.timing import NullClock
from engines.tokens.answer import Answer
from qwen2_folders import qwen2

pytestmark = pytest.mark.usefixtures("without_gradients")

CPU, NEVER, TOKENS, ROWS = torch.device("cpu"), threading.Event(), 48, 257
PIECES = [f"<{index}>" for index in range(ROWS)]


def both(*, is_tied: bool = False) -> tuple[Any, LlamaDecoder]:
    """transformers' model, and ours with its weights."""
    theirs = qwen2(ROWS, layers=2, seed=4, is_tied=is_tied)
    made = make_language_model(qwen2_text(theirs.config.to_dict(), Path("config.json")))
    found = made.load_state_dict(theirs.state_dict())
    assert (found.missing_keys, found.unexpected_keys) == ([], [])
    made.eval().requires_grad_(False)
    return theirs, LlamaDecoder.take_over(made)


def answered(decoder: LlamaDecoder, prompt: torch.Tensor, sink: Any, step: Any = None) -> list[int]:
    cache = StaticKv(decoder.config, 128, device=CPU, dtype=torch.float32)
    one = CachedModel(decoder, "target", CPU, decoder.rows, cache=cache, own_step=step)
    answer = Answer(sink, 1, "target", PIECES)
    first = greedy(one.prefill(decoder.embed(prompt), NEVER))
    answer.add(int(first))
    decode(one, first, answer, Limits(TOKENS), sampler=greedy, clock=NullClock(), stop=NEVER)
    return answer.ids


@pytest.mark.parametrize(
    ("way", "is_tied"),
    [("eager", False), ("eager", True), pytest.param("compiled", True, marks=pytest.mark.whole)],
)
def test_text_is_that_of_generate(way: str, is_tied: bool, sink: Any) -> None:
    theirs, decoder = both(is_tied=is_tied)
    prompt = torch.randint(0, ROWS, (1, 23), generator=torch.Generator().manual_seed(2))
    expected = theirs.generate(prompt, max_new_tokens=TOKENS, do_sample=False)[0, 23:].tolist()
    step = CompiledStep(decoder) if way == "compiled" else None
    if step is not None:
        step.compile_for((1,))
        assert step.problem is None
    assert answered(decoder, prompt, sink, step) == expected
    assert len(set(expected)) >= 5


def test_the_last_difference_is_rounding() -> None:
    """In float32 our fused products add up in another order than transformers' three; nothing else differs."""
    theirs, decoder = both()
    ids = torch.randint(0, ROWS, (1, 60), generator=torch.Generator().manual_seed(3))
    cache = StaticKv(decoder.config, 64, device=CPU, dtype=torch.float32)
    ours, wanted = decoder.head(decoder.trunk(decoder.embed(ids), cache)), theirs(ids).logits
    assert float((ours - wanted).abs().max()) <= 2e-5 * float(wanted.abs().max())
    assert all(layer.out.bias is None and layer.qkv.bias is not None for layer in decoder.ordered)
