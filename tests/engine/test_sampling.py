"""Sampling: the law it draws from, transformers' own filters as the oracle, and its seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engines.decoder.sampling import distribution, greedy, make_sampler
from evprof.core.vocabulary.generation import GenerationSettings

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


def test_a_seed_decides_everything() -> None:
    logits = logits_of(7, 100)
    first, second, other = (make_sampler(GenerationSettings(temperature=1.0, seed=seed), CPU) for seed in (3, 3, 4))
    drawn = [int(first(logits)) for _ in range(50)]
    assert [int(second(logits)) for _ in range(50)] == drawn
    assert [int(other(logits)) for _ in range(50)] != drawn


def test_temperature_zero_is_greedy() -> None:
    logits = logits_of(9)
    sampler = make_sampler(GenerationSettings(temperature=0.0), CPU)
    assert sampler is greedy
    assert sampler(logits).tolist() == [[int(logits.argmax())]]


def test_near_zero_temperature_agrees_with_greedy() -> None:
    sampler = make_sampler(GenerationSettings(temperature=1e-4), CPU)
    for seed in range(20):
        assert int(sampler(logits_of(seed))) == int(greedy(logits_of(seed)))
