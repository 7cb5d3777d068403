"""Which kernel computes attention: cuDNN's only on request, the others by PyTorch's choice, which is told."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from engines.decoder.attention import CUDNN, choosing_kernel, kernel_of
from engines.decoder.compiled_step import CompiledStep
from engines.decoder.decoding import CachedModel
from engines.decoder.llama import LlamaDecoder
from engines.decoder.step_choice import kernels_taken

QUERIES, KEYS = torch.zeros(1, 4, 5, 16), torch.zeros(1, 2, 9, 16)


def test_cudnn_is_off_in_every_process_that_computes_attention() -> None:
    asked = "import torch, engines.decoder.attention; print(torch.backends.cuda.cudnn_sdp_enabled())"
    assert subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_switch_brings_cudnn_back_for_as_long_as_it_is_asked_for() -> None:
    with choosing_kernel(CUDNN, None, is_causal=True):
        assert torch.backends.cuda.cudnn_sdp_enabled()
        assert not torch.backends.cuda.flash_sdp_enabled()
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
    for mask in (None, torch.zeros(1)):
        with choosing_kernel(CUDNN, mask):
            assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_the_kernel_is_what_pytorch_chooses() -> None:
    assert kernel_of(QUERIES, KEYS, None, is_causal=False, kind="sdpa") == "flash"
    with sdpa_kernel([SDPBackend.MATH]):
        assert kernel_of(QUERIES, KEYS, None, is_causal=False, kind="sdpa") == "math"
    assert kernel_of(QUERIES, KEYS, None, is_causal=False, kind="eager") == "eager"
    assert kernel_of(QUERIES, KEYS, None, is_causal=True, kind=CUDNN) == "cudnn"
    assert kernel_of(QUERIES, KEYS, None, is_causal=False, kind=CUDNN) == "flash"  # a decode step's is PyTorch's choice
    mask = torch.ones(1, 1, 5, 9, dtype=torch.bool)
    assert kernel_of(QUERIES, KEYS, mask, is_causal=False, kind=CUDNN) == "flash"  # a CPU's takes masks


def prefilled(decoder: LlamaDecoder, never: Any, step: Any = None) -> CachedModel:
    cached = CachedModel.over(decoder, "target")
    cached.own_step = step
    cached.prefill(decoder.embed(torch.arange(3, 9)[None]), never)
    return cached


@pytest.mark.parametrize(("attention", "kernel"), [("sdpa", "flash"), ("eager", "eager")])
def test_what_a_model_took_is_told_for_prefill_and_decode(
    attention: str, kernel: str, make_llama: Any, without_gradients: Any, never: Any
) -> None:
    decoder = LlamaDecoder.take_over(make_llama())
    decoder.attention = attention
    cached = prefilled(decoder, never)
    assert kernels_taken(cached, 1) == {"prefill": kernel}  # nothing was decoded
    cached.step(torch.tensor([[3]]))
    assert kernels_taken(cached, 1) == {"prefill": kernel, "decode": kernel}
    assert kernels_taken(cached, 5) == {"prefill": kernel, "decode": kernel, "verify": kernel}


def test_a_step_with_a_kernel_of_its_own_tells_it(make_llama: Any, without_gradients: Any, never: Any) -> None:
    decoder = LlamaDecoder.take_over(make_llama())
    for step, told in (
        (SimpleNamespace(problem=None, attention_kernel="fused"), {"decode": "fused"}),
        (SimpleNamespace(problem=None), {}),
        (CompiledStep(decoder), {"decode": "flash"}),
        (SimpleNamespace(problem="no room", attention_kernel="joined"), {"decode": "flash"}),
    ):
        cached = prefilled(decoder, never, step)
        cached.opened.length += 1
        assert kernels_taken(cached, 1) == {"prefill": "flash", **told}
