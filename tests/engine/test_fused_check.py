"""The check of a fused pass, part by part, with its kernels in Python: right ones pass, planted errors do not."""

from __future__ import annotations

from subprocess import CalledProcessError

import pytest
import torch

pytest.importorskip("triton")
from triton.errors import TritonError

import planted_errors
from engines.decoder import fused_check
from engines.decoder.fused_check import PartDistances, check, checked_long_pass, distances, prefill_distances
from engines.decoder.fused_pass import FusedPass, run_fused_layers
from planted_errors import use_python_kernels
from random_decoders import random_decoder

CANNOT = "Triton cannot compile its kernels"
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
def test_an_error_shows_in_every_layer(dtype: torch.dtype, plant, monkeypatch) -> None:
    plant(monkeypatch)
    found = compared(dtype)
    worst = [found[f"layer {number} with a chain of 5 tokens after 90"] for number in (1, 2)]
    print(f"{plant.__name__} in {dtype}: {', '.join(f'{each.ratio:.2f}' for each in worst)}")
    assert all(each.problem for each in worst)


def test_an_error_shows_in_the_embedding_and_in_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    embed, head = FusedPass.embed, FusedPass.head
    monkeypatch.setattr(FusedPass, "embed", lambda self, ids: embed(self, ids ^ 1))
    monkeypatch.setattr(FusedPass, "head", lambda self, hidden: head(self, hidden) * 1.02)
    found = [part for part, each in compared(torch.bfloat16).items() if each.problem]
    assert [part.partition(" of ")[0] for part in found[:9]] == ["the embedding"] * 9
    assert [part.partition(" with ")[0] for part in found[9:]] == ["the head"] * 9


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (TritonError("at 3:4: no such type.\nmore"), f"{CANNOT}: at 3:4: no such type"),
        (
            CalledProcessError(1, "cc"),
            f"{CANNOT}: Command 'cc' returned non-zero exit status 1",
        ),
        (torch.OutOfMemoryError("full"), "there is no memory left to check it"),
    ],
    ids=["Triton", "compiler", "memory"],
)
def test_what_keeps_a_pass_from_being_checked_is_a_sentence(error: Exception, sentence: str, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(fused_check, "exact_layer", fail)
    decoder = random_decoder(torch.float32)
    with pytest.raises(RuntimeError) as raised:
        check(FusedPass(decoder), decoder, 1)
    assert (type(raised.value), str(raised.value)) == (RuntimeError, sentence)
    assert checked_long_pass(decoder) == (None, sentence)
