"""KV caches in fewer bits: fp8, and half-quadratic quantization to eight and four bits; and the choice of a cache.

Quantized caches save memory and cost time. Each pass gets all keys and values back in the model's dtype, so a step
unpacks the whole cache. The pass that brings positions in sees them unquantized.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from engines.decoder.kv_cache import DYNAMIC, STATIC, DynamicKv, KvCache, StaticKv, head_shape
from engines.tokens.uploads import upload
from evprof.core.errors import UserError
from evprof.metrics.limits.memory_need import GROUP, RESIDUAL

if TYPE_CHECKING:
    from transformers import LlamaConfig

FP8, HQQ8, HQQ4 = "fp8", "hqq8", "hqq4"
QUANTIZED = (FP8, HQQ8, HQQ4)

_FP8 = torch.float8_e4m3fn
_FP8_MAX = torch.finfo(_FP8).max

_ITERATIONS, _NORM, _PENALTY = 20, 0.7, 10.0
"""Of half-quadratic quantization: steps towards the zero point, p of the norm, weight of the split-off error."""

_LEAST_SPREAD, _LARGEST_SCALE = 1e-4, 2e4
"""A group with a smaller spread is constant; a larger scale is no number in float16."""

_FRACTION_SHIFT = 23 - 3
_BIAS_DIFFERENCE = 127 - 7
_SIGN_AND_REST = (0b1 << 31 | 0b1111111 << _FRACTION_SHIFT) - (1 << 32)
"""Of an int32 whose upper bits repeat the sign."""


class Fp8Kv(KvCache):
    """8-bit floats (e4m3) under one scale for a layer's keys and one for its values, fixed at the first pass. As
    transformers' Fp8QuantizedLayer (5.23), but written in place, cropped exactly, and with later outliers clamped
    instead of NaN."""

    kind = FP8

    def __init__(
        self, config: LlamaConfig, capacity: int, *, batch: int = 1, device: torch.device, dtype: torch.dtype
    ) -> None:
        heads, head_dim = head_shape(config)
        self._dtype = dtype
        shape = (batch, heads, capacity, head_dim)
        layers = range(config.num_hidden_layers)
        self._keys = [_ScaledFloats(torch.zeros(shape, device=device, dtype=_FP8)) for _ in layers]
        self._values = [_ScaledFloats(torch.zeros(shape, device=device, dtype=_FP8)) for _ in layers]

    @property
    def layer_count(self) -> int:
        return len(self._keys)

    def append(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        start, end = self.length, self.length + keys.shape[2]
        self._keys[layer].put(keys, start)
        self._values[layer].put(values, start)
        if start == 0:
            return keys, values
        return self._keys[layer].all(end, self._dtype), self._values[layer].all(end, self._dtype)

    def gather(self, start: int, path: Sequence[int]) -> None:
        """Moves packed positions in place, as the bytes they are: not every device indexes 8-bit floats."""
        chosen = upload([start + place for place in path], self._keys[0].packed.device)
        for held in (*self._keys, *self._values):
            packed = held.packed.view(torch.uint8)
            packed[:, :, start : start + len(path)] = packed.index_select(2, chosen)

    def tensors(self, layer: int) -> Iterator[torch.Tensor]:
        for held in (self._keys[layer], self._values[layer]):
            yield held.packed[:, :, : self.length]


class _ScaledFloats:
    """[B, kv_heads, capacity, D] 8-bit floats, to be multiplied by `scale`."""

    def __init__(self, packed: torch.Tensor) -> None:
        self.packed = packed
        self.scale: torch.Tensor | None = None

    def put(self, new: torch.Tensor, start: int) -> None:
        """Packs `new` from position `start` on, in twice the room if there is not enough."""
        scale = self.scale
        if scale is None or start == 0:
            # Never null, so that a tensor of zeros stays one. No number is read from the device.
            scale = (new.abs().amax().float() / _FP8_MAX).clamp(min=torch.finfo(torch.float32).tiny)
            self.scale = scale
        end = start + new.shape[2]
        if end > self.packed.shape[2]:
            room = self.packed.new_zeros((*self.packed.shape[:2], max(2 * self.packed.shape[2], end), new.shape[3]))
            room[:, :, :start] = self.packed[:, :, :start]
            self.packed = room
        self.packed[:, :, start:end] = (new.float() / scale).clamp(-_FP8_MAX, _FP8_MAX).to(_FP8)

    def all(self, end: int, dtype: torch.dtype) -> torch.Tensor:
        if self.scale is None:
            raise RuntimeError("an fp8 cache is filled before it is read")
        return floats_of(self.packed[:, :, :end]).mul_(self.scale).to(dtype)


def floats_of(packed: torch.Tensor) -> torch.Tensor:
    """Finite 8-bit floats (e4m3) as float32, exactly, in a tensor of their own."""
    if packed.device.type != "cpu":
        return packed.float()
    # Four times as fast as PyTorch's conversion, which looks at one number at a time: with their bits moved to where
    # float32 has sign, exponent and fraction, the exponents are short by the difference of the two biases.
    bits = packed.view(torch.int8).to(torch.int32)
    bits <<= _FRACTION_SHIFT
    bits &= _SIGN_AND_REST
    return bits.view(torch.float32).mul_(2.0**_BIAS_DIFFERENCE)


class HqqKv(KvCache):
    """Half-quadratic quantization in groups of GROUP: keys by channel, values by position (KIVI, 2402.02750). Whole
    groups are packed once; up to RESIDUAL of the latest positions wait unpacked. Not for speculation: when positions
    are packed depends on the size of a pass, so a verified block would differ from single steps."""

    def __init__(self, kind: str, config: LlamaConfig, *, dtype: torch.dtype) -> None:
        self.kind = kind
        packer = _GroupPacker(8 if kind == HQQ8 else 4, dtype)
        layers = range(config.num_hidden_layers)
        self._keys = [_Blocks(packer, by_channel=True) for _ in layers]
        self._values = [_Blocks(packer, by_channel=False) for _ in layers]

    @property
    def layer_count(self) -> int:
        return len(self._keys)

    def append(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._keys[layer].append(keys), self._values[layer].append(values)

    def crop(self, length: int) -> None:
        """Drops what waits, then packed blocks; of a block that is cut through, only the count of positions shrinks."""
        if length >= self.length:
            return
        for held in (*self._keys, *self._values):
            held.crop(length)
        self.length = length

    def gather(self, start: int, path: Sequence[int]) -> None:
        """Raises UserError: packed groups cannot be taken apart, and this kind is not for speculation anyway."""
        raise UserError(f"A cache of kind {self.kind} cannot take drafts back; choose --cache fp8, static or dynamic.")

    def tensors(self, layer: int) -> Iterator[torch.Tensor]:
        yield from self._keys[layer].tensors()
        yield from self._values[layer].tensors()


@dataclass
class _Block:
    """A packed tensor of this `shape`: `packed` [N, bytes of a group], `step` and `zero` [N, 1], one for each group."""

    packed: torch.Tensor
    step: torch.Tensor
    zero: torch.Tensor
    shape: torch.Size


class _Blocks:
    """One layer's keys or values: packed blocks, then the positions that wait, [B, kv_heads, waiting, D]."""

    def __init__(self, packer: _GroupPacker, *, by_channel: bool) -> None:
        self._packer = packer
        self._by_channel = by_channel
        self._blocks: list[tuple[_Block, int]] = []
        self._waiting: torch.Tensor | None = None

    def append(self, new: torch.Tensor) -> torch.Tensor:
        parts = [self._unpacked(block)[:, :, :used] for block, used in self._blocks]
        waiting = new if self._waiting is None else torch.cat([self._waiting, new], dim=2)
        everything = torch.cat([*parts, waiting], dim=2) if parts else waiting
        is_first = not parts and self._waiting is None
        if is_first or waiting.shape[2] >= RESIDUAL:
            count = waiting.shape[2] // GROUP * GROUP
            if count:
                chosen = waiting[:, :, :count]
                packed = self._packer.pack(chosen.transpose(2, 3) if self._by_channel else chosen)
                self._blocks.append((packed, count))
            waiting = waiting[:, :, count:]
        # A copy: a view would keep the whole pass's storage, and may be of memory that is not the cache's.
        self._waiting = waiting.clone(memory_format=torch.contiguous_format)
        return everything

    def crop(self, length: int) -> None:
        left, kept = length, []
        for block, used in self._blocks:
            if left > 0:
                kept.append((block, min(used, left)))
                left -= min(used, left)
        self._blocks = kept
        if self._waiting is not None:
            self._waiting = self._waiting[:, :, : max(left, 0)]

    def tensors(self) -> Iterator[torch.Tensor]:
        for block, _ in self._blocks:
            yield from (block.packed, block.step, block.zero)
        if self._waiting is not None:
            yield self._waiting

    def _unpacked(self, block: _Block) -> torch.Tensor:
        tensor = self._packer.unpack(block)
        return tensor.transpose(2, 3) if self._by_channel else tensor


class _GroupPacker:
    def __init__(self, bits: int, dtype: torch.dtype) -> None:
        self._bits = bits
        self._dtype = dtype

    def pack(self, tensor: torch.Tensor) -> _Block:
        groups = tensor.reshape(-1, GROUP).float()
        levels = 2**self._bits - 1
        step, zero = (part.to(self._dtype) for part in _half_quadratic(groups, levels))
        numbers = (groups / step + zero).round_().clamp_(0, levels).to(torch.uint8)
        if self._bits == 4:
            numbers = numbers[:, : GROUP // 2] | numbers[:, GROUP // 2 :] << 4
        return _Block(numbers, step, zero, tensor.shape)

    def unpack(self, block: _Block) -> torch.Tensor:
        numbers = block.packed
        if self._bits == 4:
            numbers = torch.cat([numbers & 0xF, numbers >> 4], dim=1)
        return ((numbers.to(self._dtype) - block.zero) * block.step).view(block.shape)


def _half_quadratic(groups: torch.Tensor, levels: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Step and zero point [N, 1] that turn groups [N, GROUP] (float32) into whole numbers from 0 to `levels`.
    Half-quadratic quantization (Badri and Shaji, 2023): a group's range sets its step, and the zero point minimizes the
    p-norm of the error with p below 1. It is the best of some iterations. The host never waits."""
    low, high = groups.aminmax(dim=1, keepdim=True)
    spread = high - low
    scale = torch.where(spread > _LEAST_SPREAD, levels / spread, 1.0).clamp(max=_LARGEST_SCALE)
    zero = best = -low * scale
    least = torch.full_like(zero, torch.inf)
    for _ in range(_ITERATIONS):
        numbers = (groups * scale + zero).round_().clamp_(0, levels)
        error = groups - (numbers - zero) / scale
        size = error.abs()
        mean = size.mean(dim=1, keepdim=True)
        best, least = torch.where(mean < least, zero, best), torch.minimum(mean, least)
        tolerated = error.sign() * (size - size.pow(_NORM - 1) / _PENALTY).relu_()
        zero = (numbers - (groups - tolerated) * scale).mean(dim=1, keepdim=True)
    return 1 / scale, best


def make_cache(
    kind: str,
    config: LlamaConfig,
    *,
    capacity: int,
    batch: int = 1,
    device: torch.device,
    dtype: torch.dtype,
) -> KvCache:
    """An empty cache of a kind with room for `capacity` positions. Raises UserError when the kind's library is
    missing."""
    if kind == DYNAMIC:
        return DynamicKv(config.num_hidden_layers)
    if kind == STATIC:
        return StaticKv(config, capacity, batch=batch, device=device, dtype=dtype)
    if kind == FP8:
        return Fp8Kv(config, capacity, batch=batch, device=device, dtype=dtype)
    if kind in QUANTIZED:
        return HqqKv(kind, config, dtype=dtype)
    raise ValueError(f"unknown kind of cache: {kind}")
