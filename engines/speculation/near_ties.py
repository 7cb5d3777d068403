"""How close two tokens were where a drafted answer first differs from the plain one.

In half precision a block's sums have another order than single steps, so a near-tie may fall the other way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

import torch

from engines.decoder.decoding import CachedModel
from engines.decoder.llama import LlamaDecoder
from engines.loading.weights import load_model
from engines.measuring.timing import NullClock
from engines.stages.model import VisionLanguageModel
from evprof.core.records import TARGET
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import ModelChoice

NEAR_TIE_ULPS = 16.0
"""Two tokens are a near-tie where their logits are at most so many last places of the larger one apart.

Two bfloat16 passes over 32 layers of random weights chose tokens up to 8 apart. The mean logit was 132 below the
largest.
"""


@dataclass(frozen=True)
class Divergence:
    """The first place where two answers differ, with both tokens (None after the end), and the gap from the plain
    pass's largest logit to the other token's in units in the last place; infinite for an answer that stops without an
    end."""

    position: int
    plain_id: int | None
    other_id: int | None
    gap_ulps: float


def divergence(
    decoder: LlamaDecoder,
    embeddings: torch.Tensor,
    plain: Sequence[int],
    other: Sequence[int],
    *,
    prefill_chunk: int = 0,
) -> Divergence | None:
    """Compares two answers to the prompt `embeddings` [1, S, hidden]; None if equal. The plain prefix is fed token by
    token."""
    place = next((i for i, pair in enumerate(zip(plain, other, strict=False)) if pair[0] != pair[1]), None)
    if place is None:
        if len(plain) == len(other):
            return None
        place = min(len(plain), len(other))
        mine, theirs = (ids[place] if place < len(ids) else None for ids in (plain, other))
        return Divergence(place, mine, theirs, math.inf)
    logits = _logits_behind(decoder, embeddings, plain[:place], prefill_chunk)
    return Divergence(place, plain[place], other[place], gap_ulps(logits, other[place]))


def gap_ulps(logits: torch.Tensor, token: int) -> float:
    """From the largest of some logits [V] to a token's, in units of the last place of the largest, in their dtype."""
    largest = float(logits.max())
    return (largest - float(logits[token])) / ulp(largest, logits.dtype)


def ulp(value: float, dtype: torch.dtype) -> float:
    """The distance to the next number of a floating-point dtype above a value's magnitude."""
    info = torch.finfo(dtype)
    exponent = math.frexp(max(abs(value), info.tiny))[1] - 1
    return float(info.eps) * 2.0**exponent


def _logits_behind(
    decoder: LlamaDecoder, embeddings: torch.Tensor, ids: Sequence[int], prefill_chunk: int
) -> torch.Tensor:
    """[V] of the token that follows a prompt and ids."""
    with torch.inference_mode():
        one = CachedModel.over(decoder, "target")
        one.prefill_chunk = prefill_chunk
        logits = one.prefill(embeddings, Event())
        for token in ids:
            logits = one.step(torch.tensor([[token]], device=one.device))[:, -1]
        return logits[0]


class FlipJudge:
    """Measures how close two tokens were where a drafted answer first differs from the plain one."""

    def __init__(self, choice: ModelChoice) -> None:
        self._choice = choice
        self._model: VisionLanguageModel | None = None

    def __call__(self, request: RunRequest, plain: Sequence[int], drafted: Sequence[int]) -> float:
        """The gap in units in the last place; infinite if an answer ends too soon. Raises UserError for a bad model or
        sample."""
        if self._model is None:
            self._model = load_model(self._choice, TARGET, lambda done, total: None, Event())
        model = self._model
        with torch.inference_mode():
            host = model.load(request.sample, request.settings, NullClock())
            inputs = model.preprocess(host, request.sample.prompt, request.settings, NullClock())
            embeddings = model.embed_prompt(inputs, model.encode_vision(inputs, NullClock()))
            found = divergence(model.language_model, embeddings, plain, drafted)
        return 0.0 if found is None else found.gap_ulps
