"""Quantized weights and caches on a GPU: near the full ones, as large as foretold. Skipped where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlamaConfig

from engines.decoder.kv_cache import STATIC, weigh
from engines.decoder.llama import LlamaDecoder
from engines.decoder.quantization import PROJECTIONS, held_bytes, packer, quantize_weights
from engines.decoder.quantized_kv import make_cache
from evprof.metrics.limits.memory_need import cached_bytes, weight_bytes

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.usefixtures("without_gradients"),
]

LARGEST_ERROR = {"int8": 0.011, "int4": 0.14, "nf4": 0.12, "fp8": 0.05}
LARGEST_LOGITS_ERROR = {"int8": 0.05, "int4": 0.5, "nf4": 0.4, "fp8": 0.2}
CACHE_ERROR = {"fp8": 0.05, "hqq8": 0.015, "hqq4": 0.11}


@pytest.fixture(params=list(LARGEST_ERROR))
def kind(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if name == "nf4":
        pytest.importorskip("bitsandbytes")
    if name == "fp8" and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("this GPU multiplies no floats of eight bits")
    return name


def distance(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.float() - wanted.float()).norm() / wanted.float().norm())


@pytest.mark.parametrize("columns", [1024, 1408])
def test_one_matrix(kind: str, columns: int) -> None:
    """Packed from the host's memory; 17 rows are more than the kernels take at once, and 200 are a prefill's."""
    torch.manual_seed(1)
    linear = nn.Linear(columns, 512, bias=False, dtype=torch.bfloat16).requires_grad_(False)
    brought = [torch.randn(1, count, columns, dtype=torch.bfloat16, device="cuda") for count in (200, 17, 7, 1)]
    weight = linear.weight.cuda()
    packed = packer(kind)(linear, torch.device("cuda"))
    for rows in brought:
        assert 0 < distance(packed(rows), rows @ weight.T) < LARGEST_ERROR[kind]
    assert held_bytes([packed]) == pytest.approx(weight_bytes(kind, 512, columns, 2), rel=0.02)


def test_a_whole_decoder(kind: str, make_llama: Callable[..., Any]) -> None:
    source = make_llama(3, hidden=1024, vocabulary=257, std=0.03).to(torch.bfloat16)
    decoder = LlamaDecoder.take_over(source)
    ids = torch.arange(40, device="cuda").remainder(257)[None]
    found = []
    for quantizes in (False, True):
        if quantizes:
            decoder.cpu()
            quantize_weights(decoder, kind, torch.device("cuda"))
            assert all(getattr(layer, name).weight.is_cuda for layer in decoder.layers for name in PROJECTIONS)
        decoder.cuda()
        cache = make_cache(STATIC, decoder.config, capacity=40, device=torch.device("cuda"), dtype=torch.bfloat16)
        found.append(decoder(decoder.embed(ids), cache, keep=40))
    assert 0 < distance(found[1], found[0]) < LARGEST_LOGITS_ERROR[kind]


@pytest.mark.parametrize("kind_of_cache", list(CACHE_ERROR))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_caches(kind_of_cache: str, dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    config = LlamaConfig(num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4, hidden_size=8 * 128)
    device = torch.device("cuda")
    cache = make_cache(kind_of_cache, config, capacity=400, batch=2, device=device, dtype=dtype)
    brought = torch.randn(2, 4, 390, 128, device=device, dtype=dtype)
    parts = brought.split([320, 1, 1, 68], dim=2)
    for part in parts:
        for layer in range(2):
            keys, values = cache.append(layer, part, 2 * part)
        cache.advance(part.shape[2])
        wanted = brought[:, :, : cache.length]
        assert keys.is_cuda
        assert keys.dtype == dtype
        assert distance(keys, wanted) < CACHE_ERROR[kind_of_cache]
        assert distance(values, 2 * wanted) < CACHE_ERROR[kind_of_cache]
        if part is parts[0]:
            assert weigh(cache).logical == 2 * cached_bytes(kind_of_cache, 2 * 2 * 4 * 320 * 128, 2)
    before = keys[:, :, :321].clone()
    cache.crop(321)
    again, _ = cache.append(1, parts[1], parts[1])
    assert torch.equal(again[:, :, :321], before)
