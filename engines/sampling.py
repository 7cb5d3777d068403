"""How the next token is chosen from logits: greedily, or drawn with temperature, top-k and top-p from a seed.

Every choice stays on the logits' device; nothing here makes the host wait.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from evprof.core.request import GenerationSettings

Sampler = Callable[[torch.Tensor], torch.Tensor]
"""Logits [1, V] -> token id [1, 1], on the same device."""


def greedy(logits: torch.Tensor) -> torch.Tensor:
    """The likeliest token: [1, V] -> [1, 1]."""
    return logits.argmax(dim=-1, keepdim=True)


def make_sampler(settings: GenerationSettings, device: torch.device) -> Sampler:
    """`greedy` for temperature 0, otherwise a seeded draw that keeps its own generator."""
    if settings.temperature == 0:
        return greedy
    generator = torch.Generator(device=device)
    generator.manual_seed(settings.seed)

    def draw(logits: torch.Tensor) -> torch.Tensor:
        probabilities = distribution(logits, settings)
        # argmax(p / Exp(1)) is a draw from p (the exponential race); unlike multinomial it never makes the host wait.
        race = torch.empty_like(probabilities).exponential_(1.0, generator=generator)
        return (probabilities / race).argmax(dim=-1, keepdim=True)

    return draw


def distribution(logits: torch.Tensor, settings: GenerationSettings) -> torch.Tensor:
    """Probabilities [1, V] in float32 after temperature, then top-k, then top-p (transformers' order and meaning).

    Top-k keeps the k likeliest (ties with the k-th too); top-p keeps the fewest likeliest tokens whose
    probabilities add up to at least p.
    """
    scores = logits.float() / settings.temperature
    vocabulary = scores.shape[-1]
    if 0 < settings.top_k < vocabulary:
        lowest = scores.topk(settings.top_k, dim=-1).values[..., -1:]
        scores = scores.masked_fill(scores < lowest, -torch.inf)
    if settings.top_p < 1.0:
        ordered, places = scores.sort(dim=-1, descending=True)
        chances = ordered.softmax(dim=-1)
        # A token goes when those before it already reach p; the first always stays.
        is_surplus = (chances.cumsum(dim=-1) - chances) >= settings.top_p
        is_surplus[..., 0] = False
        scores = scores.masked_fill(is_surplus.scatter(-1, places, is_surplus), -torch.inf)
    return scores.softmax(dim=-1)
