"""Layers over many positions with our kernels, in Triton's interpreter: what the decoder's own layers compute."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

import planted_errors
from closeness import assert_close
from engines.decoder.fused_check import checked_long_pass, prefill_distances
from engines.decoder.fused_pass import run_fused_layers
from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import LlamaDecoder
from engines.kernels import attention, elementwise
from engines.kernels.elementwise import add_norm, quantize_rows, silu_product
from engines.kernels.packed_weight import float8_rows
from random_decoders import random_decoder

CPU = torch.device("cpu")
ROUNDED = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Of what a kernel stores; Triton's interpreter truncates to bfloat16."""

pytestmark = pytest.mark.usefixtures("without_gradients")


def decoder_of(seed: int = 0, *, layers: int = 2, kv_heads: int = 1, **others: Any) -> LlamaDecoder:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=90,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=kv_heads,
        max_position_embeddings=64,
        initializer_range=0.3,
        **others,
    )
    source = LlamaForCausalLM(config).eval()
    for parameter in source.parameters():
        if parameter.dim() == 1:
            parameter.data.add_(0.5 * torch.rand_like(parameter))
    return LlamaDecoder.take_over(source)


def passed(decoder: LlamaDecoder, *lengths: int, is_fused: bool, **how: Any) -> tuple[torch.Tensor, StaticKv]:
    """The states after passes of so many positions each, and the cache."""
    cache = StaticKv(decoder.config, 40, device=CPU, dtype=decoder.embed_tokens.weight.dtype)
    ids = torch.arange(sum(lengths)).remainder(90)[None]
    how["long_pass"] = run_fused_layers if is_fused else None
    left = [decoder.trunk(decoder.embed(part), cache, **how) for part in ids.split(lengths, dim=1)]
    return torch.cat(left, dim=1), cache


@pytest.mark.parametrize("dtype", list(ROUNDED), ids=str)
@pytest.mark.parametrize("width", [32, 48, 1500])
def test_kernels(dtype: torch.dtype, width: int) -> None:
    torch.manual_seed(width)
    hidden, update = torch.randn(2, 1, 5, width).to(dtype)
    norm, states = torch.rand(width).to(dtype), torch.randn(1, 5, 2 * width).to(dtype)
    total, normed = add_norm(hidden, update, norm, 1e-5)
    room: Any = {"rtol": ROUNDED[dtype], "atol": ROUNDED[dtype]}
    torch.testing.assert_close(total.float(), hidden.float() + update.float(), **room)
    torch.testing.assert_close(normed.float(), F.rms_norm(total.float(), (width,), norm.float(), 1e-5), **room)
    gate, up = states.float().chunk(2, -1)
    torch.testing.assert_close(silu_product(states).float(), F.silu(gate) * up, **room)


@pytest.mark.parametrize("dtype", list(ROUNDED), ids=str)
@pytest.mark.parametrize("width", [32, 1500])
def test_rows_as_floats_of_eight_bits(dtype: torch.dtype, width: int) -> None:
    states = (torch.randn(5, width) * torch.tensor([[1.0], [1e-3], [300.0], [0.0], [1.0]])).to(dtype)
    numbers, scales = quantize_rows(states)
    wanted, wanted_scales = float8_rows(states.float())
    torch.testing.assert_close(scales, wanted_scales)
    # The interpreter halves what it should round up to a power of two.
    is_right = (numbers.float() == wanted.float()) | (wanted.float().abs().log2().frac() == 0)
    assert bool(is_right.all())
    assert bool((numbers.float() == wanted.float()).float().mean() > 0.95)


@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("lengths", [(17,), (32,), (20, 33), (5, 19, 1)], ids=str)
def test_layers_are_the_eager_ones(lengths: tuple[int, ...], kv_heads: int) -> None:
    """One pass, passes after others, in which a mask is needed, and a cache that has to grow."""
    decoder = decoder_of(sum(lengths), kv_heads=kv_heads)
    found, cache = passed(decoder, *lengths, is_fused=True)
    wanted, plain = passed(decoder, *lengths, is_fused=False)
    assert_close(found, wanted)
    assert cache.length == plain.length
    for layer in range(2):
        for held, expected in zip(cache.tensors(layer), plain.tensors(layer), strict=True):
            assert_close(held, expected)


def norm_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum is not normed."""

    def add(hidden: Any, update: Any, *_: Any) -> tuple[Any, Any]:
        return hidden + update, hidden + update

    monkeypatch.setattr(elementwise, "add_norm", add)


def gelu_for_silu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another activation."""

    def product(gate_up: torch.Tensor) -> torch.Tensor:
        gate, up = gate_up.chunk(2, -1)
        return F.gelu(gate) * up

    monkeypatch.setattr(elementwise, "silu_product", product)


def last_position_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of positions too few."""
    right = attention.rotate_and_write

    def write(states: Any, *others: Any, queries: Any, **held: Any) -> None:
        queries[-1] = 0
        right(states[:-1], *others, queries=queries[:-1], **held)

    monkeypatch.setattr(attention, "rotate_and_write", write)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    "plant",
    [None, norm_left_out, gelu_for_silu, last_position_not_written, planted_errors.rotated_one_off],
    ids=lambda plant: getattr(plant, "__name__", "right"),
)
def test_the_check_of_a_prefill_finds_planted_errors(
    plant: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engines.decoder.fused_check._PROMPT", 20)
    decoder = random_decoder(dtype, kv_heads=2)
    if plant is not None:
        plant(monkeypatch)
    found = list(prefill_distances(run_fused_layers, decoder))
    assert len(found) == 2 * 3
    worst = max(found, key=lambda each: each.ratio)
    print(f"{plant.__name__ if plant else 'right kernels'}, {dtype}: up to {worst.ratio:.2f}")
    assert any(each.problem for each in found) is bool(plant)
    long_pass, problem = checked_long_pass(decoder)
    assert (long_pass is None) is bool(plant) is bool(problem)
