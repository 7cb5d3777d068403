"""Alignment of visual features: cosine and CKA against what algebra says, and the features against stage vision's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from engines.suites.feature_alignment import (
    ENCODER,
    LANGUAGE_MODEL,
    compare_features,
    debiased_cka,
    linear_cka,
    visual_features,
)
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.switches import Switches


def drawn(rows: int, width: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def turned(features: torch.Tensor) -> torch.Tensor:
    """The same in another basis, larger and moved: what linear CKA does not see."""
    basis, _ = torch.linalg.qr(drawn(features.shape[1], features.shape[1], 9))
    return 3 * features @ basis + 5


def test_cka_sees_no_basis_size_or_place() -> None:
    features = drawn(40, 8, 1)
    assert linear_cka(features, turned(features)) == pytest.approx(1, abs=1e-9)
    assert debiased_cka(features, 3 * features) == pytest.approx(1, abs=1e-9)


def test_cka_is_the_formula_over_features() -> None:
    """Kornblith et al., equation 5, written with the feature products instead of Gram matrices."""
    one, other = drawn(30, 7, 1), drawn(30, 5, 2)
    one, other = one - one.mean(dim=0), other - other.mean(dim=0)
    expected = (other.T @ one).norm() ** 2 / ((one.T @ one).norm() * (other.T @ other).norm())
    assert linear_cka(one + 3, other - 2) == pytest.approx(float(expected))


def test_unrelated_features_are_high_by_cka_and_about_zero_debiased() -> None:
    """Fewer rows than columns: that is why both are told, with the shuffled one beside them."""
    plain, debiased = [], []
    for seed in range(20):
        one, other = drawn(40, 120, 2 * seed), drawn(40, 120, 2 * seed + 1)
        plain.append(linear_cka(one, other))
        debiased.append(debiased_cka(one, other))
    assert sum(plain) / 20 > 0.5
    assert abs(sum(debiased) / 20) < 0.05


def test_features_are_set_against_each_other_position_by_position() -> None:
    one = drawn(12, 6, 1)
    other = torch.cat([one[:4], -one[4:9]])
    (encoder, language) = compare_features(
        {ENCODER: one, LANGUAGE_MODEL: one}, {ENCODER: drawn(20, 5, 2), LANGUAGE_MODEL: other}
    )
    assert (language["draft_shape"], language["target_shape"], language["positions"]) == ([12, 6], [9, 6], 9)
    assert language["cosine"] == pytest.approx([1.0] * 4 + [-1.0] * 5)
    assert language["mean_cosine"] == pytest.approx(-1 / 9)
    assert abs(language["mean_cosine_elsewhere"]) < 0.5
    # Widths that differ have no cosine, but they have a CKA.
    assert (encoder["cosine"], encoder["mean_cosine"]) == (None, None)
    assert 0 < encoder["cka"] < 1


def test_what_is_not_defined_is_none() -> None:
    still = torch.ones(6, 4, dtype=torch.float64)
    assert linear_cka(still, drawn(6, 4, 1)) is None
    assert debiased_cka(drawn(3, 4, 1), drawn(3, 4, 2)) is None
    assert math.isfinite(debiased_cka(drawn(4, 4, 1), drawn(4, 4, 2)) or 0.0)


@pytest.mark.parametrize("family", ["eventgpt", "video_llava", "llava", "llava_next_video"])
def test_the_features_are_those_of_stage_vision(make_model: Any, sample: Any, family: str) -> None:
    model = make_model(family)
    settings = GenerationSettings(frames=2, event_frames=2)
    found = visual_features(model, sample, settings)
    kept = GenerationSettings(frames=2, event_frames=2, switches=Switches(vision_cache="memory"))
    again = visual_features(model, sample, kept)
    tokens = model.network.tokens_per_frame
    assert found[ENCODER].shape[0] == tokens
    assert found[LANGUAGE_MODEL].shape[0] == (2 + tokens if family == "eventgpt" else 2 * tokens)
    assert all(torch.equal(found[space], again[space]) for space in found)
