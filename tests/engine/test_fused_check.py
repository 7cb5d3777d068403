"""The check of a fused pass, part by part, with its kernels in Python: right ones pass, planted errors do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

pytest.importorskip("triton")

import planted_errors
from engines.decoder import fused_check
from engines.decoder.fused_check import distances, prefill_distances
from engines.decoder.fused_layers import run_fused_layers
from engines.decoder.fused_pass import FusedPass
from engines.decoder.layer_check import PartDistances
from planted_errors import random_decoder, use_python_kernels

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def python_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    use_python_kernels(monkeypatch)
    monkeypatch.setattr(fused_check, "_PROMPT", 90)
    monkeypatch.setattr(fused_check, "_STARTS", (90, 16, 1))


def compared(dtype: torch.dtype) -> dict[str, PartDistances]:
    decoder = random_decoder(dtype)
    return {found.part: found for found in distances(FusedPass(decoder), decoder, 5)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_right_kernels_pass(dtype: torch.dtype) -> None:
    found = compared(dtype)
    print(f"right kernels in {dtype}: up to {max(each.ratio for each in found.values()):.2f}")
    assert [each.problem for each in found.values() if each.problem] == []
    # Three starts and shapes; embeddings, heads, and states, keys and values of two layers.
    assert len(found) == 3 * 3 * (1 + 1 + 2 * 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_right_prefill_passes(dtype: torch.dtype) -> None:
    """Triton's interpreter, which finds planted errors, truncates to bfloat16."""
    found = list(prefill_distances(run_fused_layers, random_decoder(dtype)))
    print(f"right prefill in {dtype}: up to {max(each.ratio for each in found):.2f}")
    assert [each.problem for each in found if each.problem] == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("plant", planted_errors.ERRORS, ids=lambda plant: plant.__name__)
def test_an_error_shows_in_every_layer(
    dtype: torch.dtype, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    found = compared(dtype)
    worst = [found[f"layer {number} with a chain of 5 tokens after 90"] for number in (1, 2)]
    print(f"{plant.__name__} in {dtype}: {', '.join(f'{each.ratio:.2f}' for each in worst)}")
    assert all(each.problem for each in worst)
