"""Why a speculative answer in half precision may differ from the plain one: it has to be a near-tie, or it is a fault.

A block of k tokens is added up in another order than k single steps, so the last bit of a logit may differ, and where
two tokens are that close the other one wins. From there on the answers are different ones, each as good as the other.
This looks at the first token that differs, with the plain prefix forced, and measures how close the two were.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

import torch

from engines.decoder.decoding import CachedModel
from engines.decoder.llama import LlamaDecoder

NEAR_TIE_ULPS = 16.0
"""Two tokens are a near-tie where their logits are at most so many last places of the larger one apart.

Two bfloat16 passes over 32 layers of random weights chose tokens up to 8 apart. The mean logit was 132 below the
largest.
"""


@dataclass(frozen=True)
class Divergence:
    """The first place where two answers differ: what each has there (None after its end), and the distance from the
    plain pass's largest logit to the other token's, in units of its last place. Infinite where there is no choice to
    be close: an answer that stops although nothing ended it."""

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
    """Holds two answers to the prompt `embeddings` [1, S, hidden] against each other; None when they are the same.

    The plain prefix is fed as plain decoding feeds it, token by token, over a cache of its own.
    """
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
