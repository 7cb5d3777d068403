"""Tolerances grow with the values and the dtype, and a real difference is still seen."""

from __future__ import annotations

import pytest
import torch

from closeness import assert_close, is_close


@pytest.mark.parametrize("size", [1e-6, 1.0, 13.5, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_sums_in_another_order_are_close_and_a_percent_or_ten_is_not(size: float, dtype: torch.dtype) -> None:
    if dtype is torch.float16 and not 1e-3 < size < 6e4:
        return
    rows = torch.randn(64, 500, generator=torch.Generator().manual_seed(1)) * size
    whole, halves = rows.sum(dim=1).to(dtype), (rows[:, ::2].sum(dim=1) + rows[:, 1::2].sum(dim=1)).to(dtype)
    assert_close(halves, whole)
    off = whole.clone()
    off[3] += whole.abs().max() * (0.001 if dtype is torch.float32 else 0.1)
    assert not is_close(off, whole)
    with pytest.raises(AssertionError):
        assert_close(off, whole)


def test_what_two_processors_gave_for_the_same_features() -> None:
    """Features up to 13.5 that differed by 4.5e-5 between an AMD and an Intel machine."""
    features = torch.linspace(-13.5, 13.5, 100)
    assert_close(features + 4.5e-5, features)
    assert not is_close(features / 100 + 4.5e-5, features / 100)


def test_other_shapes_are_not_close() -> None:
    with pytest.raises(AssertionError):
        assert_close(torch.ones(3, 1), torch.ones(3))
