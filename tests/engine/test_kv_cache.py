"""Caches of every kind: what they give back, what they forget, and that the walker weighs what is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers.cache_utils
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig

from engines.decoder.kv_cache import DYNAMIC, STATIC, DynamicKv, KvCache, StaticKv, bytes_per_position, weigh
from engines.decoder.quantized_kv import FP8, HQQ4, HQQ8, floats_of, make_cache
from evprof.core.run_info import KvFacts, KvLayout, ModelFacts
from evprof.metrics.limits.packed_sizes import GROUP, RESIDUAL, cached_bytes

pytestmark = pytest.mark.usefixtures("without_gradients")

LAYERS, HEADS, HEAD_DIM = 3, 2, 16
CPU = torch.device("cpu")
CONFIG = LlamaConfig(
    num_hidden_layers=LAYERS,
    num_attention_heads=2 * HEADS,
    num_key_value_heads=HEADS,
    hidden_size=2 * HEADS * HEAD_DIM,
)
WIDE_CONFIG = LlamaConfig(num_hidden_layers=1, num_attention_heads=HEADS, hidden_size=HEADS * GROUP)
EVERY_KIND = [DYNAMIC, STATIC, FP8, HQQ8, HQQ4]
LARGEST_ERROR = {DYNAMIC: 0.0, STATIC: 0.0, FP8: 0.05, HQQ8: 0.007, HQQ4: 0.1}


def made(kind: str, *, capacity: int = 8, batch: int = 1, dtype: torch.dtype = torch.float32) -> KvCache:
    return make_cache(kind, CONFIG, capacity=capacity, batch=batch, device=CPU, dtype=dtype)


class Reference:
    """Everything that was brought in, as it came; feeds a cache and remembers what that gave back."""

    def __init__(self, cache: KvCache, batch: int = 1, dtype: torch.dtype = torch.float32) -> None:
        self.cache = cache
        self.keys = [torch.zeros(batch, HEADS, 0, HEAD_DIM, dtype=dtype) for _ in range(LAYERS)]
        self.values = [torch.zeros(batch, HEADS, 0, HEAD_DIM, dtype=dtype) for _ in range(LAYERS)]
        self.given: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._like = torch.empty(batch, HEADS, 0, HEAD_DIM, dtype=dtype)

    @property
    def length(self) -> int:
        return self.keys[0].shape[2]

    def bring(self, count: int) -> None:
        self.given = []
        for layer in range(LAYERS):
            # As the decoder hands them over: views of one tensor that holds queries too.
            batch = self._like.shape[0]
            # None of them an outlier, which fp8 cuts: its error has no bound.
            numbers = torch.randn(batch, count, 4 * HEADS, HEAD_DIM, dtype=self._like.dtype).clamp(-3, 3)
            everything = numbers.transpose(1, 2)
            keys, values = everything[:, HEADS : 2 * HEADS], everything[:, 3 * HEADS :]
            self.keys[layer] = torch.cat([self.keys[layer], keys], dim=2)
            self.values[layer] = torch.cat([self.values[layer], values], dim=2)
            self.given.append(self.cache.append(layer, keys, values))
        self.cache.advance(count)

    def crop(self, length: int) -> None:
        self.keys = [keys[:, :, :length] for keys in self.keys]
        self.values = [values[:, :, :length] for values in self.values]
        self.cache.crop(length)

    def check(self, largest: float) -> None:
        """What the cache gave back is what came in, up to so large a relative error."""
        assert self.cache.length == self.length
        for layer, (keys, values) in enumerate(self.given):
            for found, wanted in ((keys, self.keys[layer]), (values, self.values[layer])):
                assert found.shape == wanted.shape
                assert found.dtype == wanted.dtype
                assert float((found - wanted).float().norm()) <= largest * float(wanted.float().norm())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("bring"), st.integers(1, 150)),
        st.tuples(st.just("crop"), st.integers(0, 12)),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("kind", EVERY_KIND)
@given(steps=STEPS)
def test_any_sequence_of_bringing_and_forgetting(kind: str, steps: list[tuple[str, int]]) -> None:
    """Contents stay near what came in, and the walker agrees with arithmetic after every step."""
    reference = Reference(made(kind))
    for name, count in [("bring", 40), *steps]:
        if name == "bring":
            reference.bring(count)
            reference.check(LARGEST_ERROR[kind])
        else:
            reference.crop(max(1, reference.length - count))
        weight = weigh(reference.cache)
        assert weight.stored >= weight.logical == sum(weight.per_layer)
        assert len(set(weight.per_layer)) == 1
        elements = 2 * HEADS * HEAD_DIM * reference.length
        if kind in (DYNAMIC, STATIC, FP8):
            assert weight.per_layer[0] == cached_bytes(kind, elements, 4)
        else:
            # Between all of it packed and the latest waiting as they came; a block that is cut through counts whole.
            whole = cached_bytes(kind, elements, 4)
            assert whole <= weight.per_layer[0] <= whole + 2 * HEADS * HEAD_DIM * (4 * RESIDUAL + 12 * len(steps))


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_dtype_and_rows_of_a_batch(kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    reference = Reference(made(kind, batch=3, dtype=dtype), batch=3, dtype=dtype)
    reference.cache.padding = torch.tensor([0, 4, 2])
    for count in (200, 1, 1, 3):
        reference.bring(count)
        reference.check(max(LARGEST_ERROR[kind], 0.0 if kind in (DYNAMIC, STATIC) else 0.01) * 1.3)
    reference.crop(201)
    reference.bring(1)
    reference.check(max(LARGEST_ERROR[kind], 0.0 if kind in (DYNAMIC, STATIC) else 0.01) * 1.3)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_forgetting_leaves_what_was_before_as_it_was(kind: str) -> None:
    """To the last bit: what a cropped cache gives is what one that never held more gives."""
    torch.manual_seed(5)
    reference = Reference(made(kind))
    reference.bring(150)
    reference.bring(3)
    before = [(keys[:, :, :150].clone(), values[:, :, :150].clone()) for keys, values in reference.given]
    reference.crop(150)
    reference.bring(1)
    for (keys, values), (old_keys, old_values) in zip(reference.given, before, strict=True):
        assert torch.equal(keys[:, :, :150], old_keys)
        assert torch.equal(values[:, :, :150], old_values)


@pytest.mark.parametrize("kind", [HQQ8, HQQ4])
@pytest.mark.parametrize("length", [0, 1, 63, 64, 100, 128, 190, 200])
def test_forgetting_into_packed_blocks_is_exact(kind: str, length: int) -> None:
    torch.manual_seed(6)
    reference = Reference(made(kind))
    for count in (100, 70, 30):
        reference.bring(count)
    reference.bring(1)
    before = [(keys.clone(), values.clone()) for keys, values in reference.given]
    reference.crop(length)
    assert reference.cache.length == length
    reference.bring(2)
    for (keys, values), (old_keys, old_values) in zip(reference.given, before, strict=True):
        assert keys.shape[2] == length + 2
        assert torch.equal(keys[:, :, :length], old_keys[:, :, :length])
        assert torch.equal(values[:, :, :length], old_values[:, :, :length])


def test_fp8_gives_what_transformers_gives() -> None:
    layer_class = getattr(transformers.cache_utils, "Fp8QuantizedLayer", None)
    if layer_class is None:
        pytest.skip("this transformers has no fp8 cache")
    torch.manual_seed(7)
    ours, theirs = made(FP8), [layer_class() for _ in range(LAYERS)]
    for count in (30, 1, 1, 4):
        for layer in range(LAYERS):
            # Later ones are no larger than the first: past those transformers gives NaN.
            keys, values = (torch.rand(1, HEADS, count, HEAD_DIM) * (2 if count == 30 else 1) for _ in range(2))
            found, wanted = ours.append(layer, keys, values), theirs[layer].update(keys, values)
            assert torch.equal(found[0], wanted[0])
            assert torch.equal(found[1], wanted[1])
        ours.advance(count)


def test_every_8_bit_float_is_unpacked_exactly() -> None:
    every = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    finite = every[every.float().isfinite()]
    assert len(finite) == 254
    assert torch.equal(floats_of(finite), finite.float())


def test_fp8_cuts_outliers_and_keeps_zeros() -> None:
    cache = made(FP8)
    part = torch.ones(1, HEADS, 2, HEAD_DIM)
    cache.append(0, part, 0 * part)
    cache.advance(2)
    keys, values = cache.append(0, 1000 * part, part)
    assert torch.equal(keys[:, :, 2:], part)
    assert torch.equal(values[:, :, :2], 0 * part)
    assert bool(values.isfinite().all())


def test_hqq_packs_by_formula() -> None:
    """A prompt of whole groups leaves nothing waiting: a byte or half of one, and a scale and zero point a group."""
    for kind in (HQQ8, HQQ4):
        for dtype in (torch.float32, torch.bfloat16):
            reference = Reference(made(kind, dtype=dtype), dtype=dtype)
            reference.bring(5 * GROUP)
            elements = 2 * HEADS * HEAD_DIM * 5 * GROUP
            assert weigh(reference.cache).per_layer == [cached_bytes(kind, elements, dtype.itemsize)] * LAYERS
            assert weigh(reference.cache).stored == LAYERS * cached_bytes(kind, elements, dtype.itemsize)


@pytest.mark.parametrize("kind", [HQQ8, HQQ4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_hqq_zero_points_fit_outliers_better_than_the_range_does(kind: str, dtype: torch.dtype) -> None:
    """Quantizing to the range of each group, with no search for the zero point, is the baseline."""
    torch.manual_seed(11)
    tensor = torch.distributions.StudentT(2.0).sample((1, HEADS, GROUP, GROUP)).to(dtype)
    cache = make_cache(kind, WIDE_CONFIG, capacity=GROUP, device=CPU, dtype=dtype)
    cache.append(0, tensor, tensor)
    cache.advance(GROUP)
    _, kept = cache.append(0, tensor[:, :, :1], tensor[:, :, :1])
    levels = 255 if kind == HQQ8 else 15
    low, high = (part.float() for part in tensor.aminmax(dim=-1, keepdim=True))
    step = (high - low) / levels
    ranged = ((tensor.float() - low) / step).round() * step + low

    def norm(values: torch.Tensor) -> float:
        return float((values.float() - tensor.float()).abs().pow(0.7).mean())

    assert norm(kept[:, :, :GROUP]) < norm(ranged)


@pytest.mark.parametrize("kind", [HQQ8, HQQ4])
def test_hqq_keeps_constant_groups(kind: str) -> None:
    reference = Reference(made(kind))
    part = torch.full((1, HEADS, GROUP, HEAD_DIM), 3.0)
    reference.cache.append(0, part, 0 * part)
    reference.cache.advance(GROUP)
    keys, values = reference.cache.append(0, part[:, :, :1], part[:, :, :1])
    assert torch.allclose(keys, part[:, :, :1], atol=1e-3)
    assert torch.allclose(values[:, :, :GROUP], 0 * part, atol=1e-3)


def test_hqq_never_packs_twice() -> None:
    reference = Reference(made(HQQ4))
    reference.bring(2 * GROUP)
    reference.bring(1)
    first = reference.given[0][0][:, :, : 2 * GROUP].clone()
    for _ in range(2 * RESIDUAL):
        reference.bring(1)
    assert torch.equal(reference.given[0][0][:, :, : 2 * GROUP], first)


def test_a_static_cache_is_set_aside_from_the_start() -> None:
    cache = made(STATIC, capacity=64)
    whole = 2 * LAYERS * HEADS * 64 * HEAD_DIM * 4
    assert (weigh(cache).logical, weigh(cache).stored) == (0, whole)
    reference = Reference(cache)
    reference.bring(21)
    assert (weigh(cache).logical, weigh(cache).stored) == (whole // 64 * 21, whole)
    facts = weigh(cache).facts(rolled_back=4)
    assert (facts.measured_bytes, facts.stored_bytes, facts.reserved_bytes) == (whole // 64 * 21, whole, whole)
    assert facts.rolled_back == 4


def test_the_layout_says_what_lies_where() -> None:
    """A cache written in place lies in its capacity's strides, one that grows by copying in its own."""
    static, dynamic = Reference(made(STATIC, capacity=64)), Reference(made(DYNAMIC))
    assert weigh(made(DYNAMIC)).layout is None
    for reference in (static, dynamic):
        reference.bring(20)
        reference.bring(1)
    inside, alone = weigh(static.cache).layout, weigh(dynamic.cache).layout
    shape = [1, HEADS, 21, HEAD_DIM]
    assert inside == KvLayout(shape, [HEADS * 64 * HEAD_DIM, 64 * HEAD_DIM, HEAD_DIM, 1], "float32", False)
    assert alone == KvLayout(shape, [HEADS * 21 * HEAD_DIM, 21 * HEAD_DIM, HEAD_DIM, 1], "float32", True)
    facts = weigh(static.cache).facts()
    assert KvFacts.from_json(json.loads(json.dumps(facts.to_json()))) == facts


def test_a_cropped_dynamic_cache_is_a_view_of_more() -> None:
    """Logical bytes shrink at once, stored ones with the next pass."""
    reference = Reference(made(DYNAMIC))
    reference.bring(20)
    each = 2 * LAYERS * HEADS * HEAD_DIM * 4
    assert weigh(reference.cache).stored == 20 * each
    reference.crop(15)
    assert (weigh(reference.cache).logical, weigh(reference.cache).stored) == (15 * each, 20 * each)
    reference.bring(1)
    assert (weigh(reference.cache).logical, weigh(reference.cache).stored) == (16 * each, 16 * each)


def test_an_empty_dynamic_cache() -> None:
    cache = made(DYNAMIC)
    cache.crop(3)
    assert cache.length == 0
    assert (weigh(cache).logical, weigh(cache).stored, weigh(cache).per_layer) == (0, 0, [0] * LAYERS)


class Layers:
    """Something that holds whatever it was given, layer by layer."""

    def __init__(self, *layers: Any) -> None:
        self._layers = layers
        self.layer_count = len(layers)

    def tensors(self, layer: int) -> Iterator[Any]:
        yield self._layers[layer]


def weighed(*layers: Any) -> Any:
    cache: Any = Layers(*layers)
    return weigh(cache)


def test_tensors_in_tuples_dictionaries_and_twice() -> None:
    keys = torch.zeros(1, 2, 5, 4)
    parts = (torch.zeros(10), {"scale": torch.zeros(6), "count": 3}, [None, "text"])
    weight = weighed([keys, keys, parts, torch.tensor(5.0)])
    assert weight.logical == weight.stored == (40 + 10 + 6) * 4


def test_storage_shared_by_layers_is_stored_once() -> None:
    whole = torch.zeros(100)
    weight = weighed(whole[:60], whole[50:], whole)
    assert weight.per_layer == [240, 200, 400]
    assert weight.stored == 400


@pytest.mark.parametrize("kind", [DYNAMIC, STATIC])
def test_a_dishonest_layer_differs(kind: str) -> None:
    reference = Reference(made(kind))
    reference.bring(21)
    honest = weigh(reference.cache).per_layer[0]
    cache = reference.cache
    assert isinstance(cache, DynamicKv | StaticKv)
    held = cache._keys if isinstance(cache, DynamicKv) else cache.keys
    tensor = held[1]
    assert tensor is not None
    held[1] = tensor[:, :, :-1] if kind == DYNAMIC else tensor[:, :1]
    assert weigh(cache).per_layer[1] < honest
    held[1] = tensor.double()
    assert weigh(cache).per_layer[1] == honest * 3 // 2
    assert weigh(cache).per_layer[0] == honest


def test_bytes_per_position_by_configuration() -> None:
    facts = ModelFacts(
        "m", "llava", "llava", 1, 1, "bfloat16", "cpu", None, 32, 8, 128, 2, 4096, "sdpa", "dynamic", "p"
    )
    assert bytes_per_position(facts) == 2 * 32 * 8 * 128 * 2
    assert bytes_per_position(facts, FP8) == 2 * 32 * 8 * 128
    # A byte or half of one, and for 64 of them a scale and a zero point of two bytes each.
    assert bytes_per_position(facts, HQQ8) == 2 * 32 * 8 * 128 + 2 * 32 * 8 * 2 * 4
    assert bytes_per_position(facts, HQQ4) == 32 * 8 * 128 + 2 * 32 * 8 * 2 * 4
