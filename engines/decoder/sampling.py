"""How the next token is chosen from logits: greedily, or drawn with temperature, top-k and top-p from a seed."""

from __future__ import annotations

from collections.abc import Callable

import torch

from evprof.core.vocabulary.generation import GenerationSettings

Sampler = Callable[[torch.Tensor], torch.Tensor]
"""Logits [N, V] -> token ids [N, 1], on the same device."""

Law = Callable[[torch.Tensor], torch.Tensor]
"""Logits [N, V] -> probabilities [N, V] that are drawn from."""


def greedy(logits: torch.Tensor) -> torch.Tensor:
    """The likeliest token: [N, V] -> [N, 1]."""
    return logits.argmax(dim=-1, keepdim=True)


def make_sampler(settings: GenerationSettings, device: torch.device) -> Sampler:
    if settings.temperature == 0:
        return greedy
    generator = make_generator(settings, device)
    return lambda logits: draw(distribution(logits, settings), generator)


def make_generator(settings: GenerationSettings, device: torch.device, *, stream: int = 0) -> torch.Generator:
    generator = torch.Generator(device=device)
    generator.manual_seed(settings.seed if not stream else (settings.seed * 0x9E37_79B9 + stream) % (1 << 63))
    return generator


def draw(law: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """One id per row of weights [N, V] -> [N, 1]. argmax(p / Exp(1)) is a draw from p; unlike multinomial it never
    waits."""
    race = torch.empty_like(law).exponential_(1.0, generator=generator)
    return (law / race).argmax(dim=-1, keepdim=True)


def distribution(logits: torch.Tensor, settings: GenerationSettings) -> torch.Tensor:
    """Probabilities [N, V] in float32 after temperature, top-k and top-p, in transformers' order. Top-k keeps ties with
    the k-th; top-p keeps the fewest likeliest tokens that add up to at least p."""
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
