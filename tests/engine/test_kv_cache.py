"""The cache walker: equal to the formula for an honest cache, different for every dishonest one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import DynamicCache, LlamaConfig, StaticCache

from engines import kv_cache
from evprof.core.run_info import ModelFacts

pytestmark = pytest.mark.usefixtures("without_gradients")

LAYERS, HEADS, HEAD_DIM, LENGTH = 3, 2, 8, 21
FORMULA = 2 * LAYERS * HEADS * LENGTH * HEAD_DIM * 4


def filled(length: int = LENGTH, dtype: torch.dtype = torch.float32) -> Any:
    cache = kv_cache.make_cache()
    for layer in range(LAYERS):
        part = torch.randn(1, HEADS, length, HEAD_DIM, dtype=dtype)
        cache.update(part, part + 1, layer)
    return cache


def test_an_honest_cache_equals_the_formula() -> None:
    weight = kv_cache.weigh(filled())
    assert weight.logical == weight.stored == FORMULA
    assert weight.per_layer == [FORMULA // LAYERS] * LAYERS
    facts = weight.facts(rolled_back=4)
    assert (facts.measured_bytes, facts.reserved_bytes, facts.rolled_back) == (FORMULA, FORMULA, 4)


def test_one_layer_cropped_differs() -> None:
    cache = filled()
    cache.layers[1].keys = cache.layers[1].keys[..., :-1, :]
    weight = kv_cache.weigh(cache)
    assert weight.logical == FORMULA - HEADS * HEAD_DIM * 4
    assert weight.per_layer[1] < weight.per_layer[0]
    assert weight.stored == FORMULA


def test_one_layer_duplicated_differs() -> None:
    cache = filled()
    cache.layers.append(cache.layers[0])
    weight = kv_cache.weigh(cache)
    assert weight.logical == FORMULA + FORMULA // LAYERS
    assert weight.stored == FORMULA


def test_one_layer_doubled_in_length_differs() -> None:
    cache = filled()
    cache.update(cache.layers[2].keys, cache.layers[2].values, 2)
    assert kv_cache.weigh(cache).per_layer[2] == 2 * FORMULA // LAYERS


def test_one_layer_in_another_dtype_differs() -> None:
    cache = filled()
    cache.layers[0].values = cache.layers[0].values.to(torch.bfloat16)
    weight = kv_cache.weigh(cache)
    assert weight.per_layer[0] == FORMULA // LAYERS * 3 // 4
    assert weight.logical < FORMULA


def test_tensors_in_tuples_dictionaries_and_twice() -> None:
    keys = torch.zeros(1, 2, 5, 4)
    layer = SimpleNamespace(
        keys=keys, again=keys, parts=(torch.zeros(10), {"scale": torch.zeros(6)}), count=torch.tensor(5)
    )
    weight = kv_cache.weigh(SimpleNamespace(layers=[layer]))
    assert weight.logical == (40 + 10 + 6) * 4


def test_a_static_cache_reserves_what_it_may_grow_to() -> None:
    config = LlamaConfig(
        num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=HEADS, hidden_size=HEADS * HEAD_DIM
    )
    cache = StaticCache(config, max_cache_len=64)
    for layer in range(LAYERS):
        part = torch.randn(1, HEADS, LENGTH, HEAD_DIM)
        cache.update(part, part, layer, {"cache_position": torch.arange(LENGTH)})
    assert kv_cache.weigh(cache).stored == 2 * LAYERS * HEADS * 64 * HEAD_DIM * 4


@pytest.mark.parametrize("length", [0, 1, 20, 21, 30])
def test_crop_keeps_the_first_positions(length: int) -> None:
    cache, whole = filled(), None
    whole = [layer.keys.clone() for layer in cache.layers]
    assert kv_cache.crop(cache, length) == max(0, LENGTH - length)
    for layer, before in zip(cache.layers, whole, strict=True):
        assert torch.equal(layer.keys, before[..., :length, :])
        assert layer.values.shape == layer.keys.shape
    part = torch.ones(1, HEADS, 2, HEAD_DIM)
    keys, _ = cache.update(part, part, 0)
    assert keys.shape[-2] == min(length, LENGTH) + 2


def test_crop_of_an_empty_cache() -> None:
    assert kv_cache.crop(DynamicCache(), 3) == 0
    assert kv_cache.weigh(DynamicCache()).logical == 0


def test_bytes_per_position_by_configuration() -> None:
    facts = ModelFacts(
        "m", "llava", "llava", 1, 1, "bfloat16", "cpu", None, 32, 8, 128, 2, 4096, "sdpa", "dynamic", "p"
    )
    assert kv_cache.bytes_per_position(facts) == 2 * 32 * 8 * 128 * 2
