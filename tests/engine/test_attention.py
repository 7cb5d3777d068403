"""Attention kernels and KV caches."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
import transformers.cache_utils
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig

from engines.decoder.attention import CUDNN, choosing_kernel
from engines.decoder.kv_cache import DYNAMIC, STATIC, KvCache, bytes_per_position, weigh
from engines.decoder.quantized_kv import FP8, HQQ4, HQQ8, floats_of, make_cache
from evprof.metrics.limits.memory_need import GROUP, RESIDUAL, cached_bytes
from told import TINY_MODEL

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


pytestmark = pytest.mark.usefixtures("without_gradients")

LAYERS, HEADS, HEAD_DIM = 3, 2, 16
CPU = torch.device("cpu")
CONFIG = LlamaConfig(
    num_hidden_layers=LAYERS,
    num_attention_heads=2 * HEADS,
    num_key_value_heads=HEADS,
    hidden_size=2 * HEADS * HEAD_DIM,
)
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


def test_bytes_per_position_by_configuration() -> None:
    facts = replace(TINY_MODEL, layers=32, kv_heads=8, head_dim=128, kv_element_bytes=2)
    assert bytes_per_position(facts) == 2 * 32 * 8 * 128 * 2
    assert bytes_per_position(facts, FP8) == 2 * 32 * 8 * 128
    # A byte or half of one, and for 64 of them a scale and a zero point of two bytes each.
    assert bytes_per_position(facts, HQQ8) == 2 * 32 * 8 * 128 + 2 * 32 * 8 * 2 * 4
    assert bytes_per_position(facts, HQQ4) == 32 * 8 * 128 + 2 * 32 * 8 * 2 * 4
