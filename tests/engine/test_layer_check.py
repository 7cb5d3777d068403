"""The comparison of one part of two passes with the exact result."""

from __future__ import annotations

import math

import pytest
import torch

from engines.decoder.fused_check import PartDistances, compare, exact_dtype

WIDTH = 512


def results(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What enters a part of five positions, its exact result and the eager one."""
    generator = torch.Generator().manual_seed(0)
    entered, added = torch.randn(2, 1, 5, WIDTH, generator=generator, dtype=torch.float64).unbind()
    entered = entered.to(dtype)
    exact = (entered.to(exact_dtype(dtype)) + added.to(exact_dtype(dtype))).to(exact_dtype(dtype))
    return entered, exact, exact.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_eager_result_is_its_own_measure(dtype: torch.dtype) -> None:
    entered, exact, eager = results(dtype)
    found = compare("layer 1", exact, eager=eager, candidate=eager.clone(), entered=entered)
    assert found.candidate == found.eager > 0
    assert found.problem == ""


def test_distances_are_shares_of_what_a_part_adds() -> None:
    entered, exact, _ = results(torch.float32)
    added = exact - entered
    found = compare("layer 1", exact, eager=entered + 1.01 * added, candidate=entered + 1.02 * added, entered=entered)
    assert (found.eager, found.candidate) == (pytest.approx(0.01, rel=1e-4), pytest.approx(0.02, rel=1e-4))
    assert found.problem == (
        "layer 1 is 2 times as far from the exact result as in the eager pass, and 1.25 times is allowed"
    )


@pytest.mark.parametrize("position", range(5))
@pytest.mark.parametrize("wrong", [1.02, math.nan, math.inf])
def test_one_wrong_position_is_a_problem(position: int, wrong: float) -> None:
    entered, exact, eager = results(torch.bfloat16)
    candidate = eager.clone()
    candidate[:, position] *= wrong
    assert compare("the head", exact, eager=eager, candidate=candidate, entered=entered).problem
    assert compare("the head", exact, eager=eager, candidate=candidate).problem


def test_float32_sums_may_be_in_another_order() -> None:
    assert PartDistances("the embeddings", 0.0, 0.0, WIDTH).problem == ""
    assert PartDistances("the embeddings", 1e-7, 2.4e-6, WIDTH).problem == ""
    assert PartDistances("the embeddings", 1e-7, 2.6e-6, WIDTH).problem
    assert PartDistances("the embeddings", math.nan, 0.0, WIDTH).problem


def test_few_numbers_are_allowed_to_vary() -> None:
    assert PartDistances("layer 1", 0.01, 0.0126, 4096).problem
    assert PartDistances("layer 1", 0.01, 0.0149, 64).problem == ""
    assert PartDistances("layer 1", 0.01, 0.0151, 64).problem.endswith("and 1.5 times is allowed")
