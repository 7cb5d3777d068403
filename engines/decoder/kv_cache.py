"""KV caches: keys and values of every layer, appended, cut back and weighed by walking their tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from engines.tokens.uploads import upload
from evprof.core.run_info import KvFacts, KvLayout, ModelFacts
from evprof.metrics.limits.memory_need import cached_bytes

if TYPE_CHECKING:
    from transformers import LlamaConfig

DYNAMIC, STATIC = "dynamic", "static"


class KvCache(ABC):
    """Keys and values of a decoder's layers, [B, kv_heads, L, D] each. `length` counts the positions in use; `padding`
    [B] counts the empty positions on the left of each row."""

    kind: str
    length: int = 0
    padding: torch.Tensor | None = None

    @property
    @abstractmethod
    def layer_count(self) -> int:
        """How many layers there are."""

    @abstractmethod
    def append(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """New [B, kv_heads, S, D] of one layer -> all visible [B, kv_heads, length + S, D]."""

    def advance(self, count: int) -> None:
        self.length += count

    def crop(self, length: int) -> None:
        self.length = min(self.length, length)

    @abstractmethod
    def gather(self, start: int, path: Sequence[int]) -> None:
        """Moves positions `start + path[i]` to `start + i`, before a crop. Raises UserError if this kind cannot."""

    @abstractmethod
    def tensors(self, layer: int) -> Iterator[torch.Tensor]:
        """The tensors in use of one layer: views of the positions that count."""


class DynamicKv(KvCache):
    kind = DYNAMIC

    def __init__(self, layers: int) -> None:
        self._keys: list[torch.Tensor | None] = [None] * layers
        self._values: list[torch.Tensor | None] = [None] * layers

    @property
    def layer_count(self) -> int:
        return len(self._keys)

    def append(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        old_keys, old_values = self._keys[layer], self._values[layer]
        if old_keys is not None and old_values is not None:
            keys, values = torch.cat([old_keys, keys], dim=2), torch.cat([old_values, values], dim=2)
        else:
            # Copies: the inputs are views of one tensor that holds the queries too.
            keys = keys.clone(memory_format=torch.contiguous_format)
            values = values.clone(memory_format=torch.contiguous_format)
        self._keys[layer], self._values[layer] = keys, values
        return keys, values

    def crop(self, length: int) -> None:
        """Keeps views of the first `length`; their storage stays until the next pass."""
        if length >= self.length:
            return
        for held in (self._keys, self._values):
            for layer, tensor in enumerate(held):
                held[layer] = None if tensor is None else tensor[:, :, :length]
        self.length = length

    def gather(self, start: int, path: Sequence[int]) -> None:
        for held in (self._keys, self._values):
            for layer, tensor in enumerate(held):
                if tensor is not None:
                    held[layer] = torch.cat([tensor[:, :, :start], *_picked(tensor, start, path)], dim=2)

    def tensors(self, layer: int) -> Iterator[torch.Tensor]:
        for tensor in (self._keys[layer], self._values[layer]):
            if tensor is not None:
                yield tensor


class StaticKv(KvCache):
    kind = STATIC

    def __init__(
        self, config: LlamaConfig, capacity: int, *, batch: int = 1, device: torch.device, dtype: torch.dtype
    ) -> None:
        heads, head_dim = head_shape(config)
        shape = (batch, heads, capacity, head_dim)
        self.capacity = capacity
        # Zeros: a kernel that reads masked positions must not meet a NaN.
        self.keys = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.num_hidden_layers)]
        self.values = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.num_hidden_layers)]

    @property
    def layer_count(self) -> int:
        return len(self.keys)

    def append(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        start, end = self.length, self.length + keys.shape[2]
        self.reserve(end)
        held_keys, held_values = self.keys[layer], self.values[layer]
        held_keys[:, :, start:end] = keys
        held_values[:, :, start:end] = values
        return held_keys[:, :, :end], held_values[:, :, :end]

    def gather(self, start: int, path: Sequence[int]) -> None:
        chosen = upload([start + place for place in path], self.keys[0].device)
        for tensor in (*self.keys, *self.values):
            tensor[:, :, start : start + len(path)] = tensor.index_select(2, chosen)

    def clear(self) -> None:
        self.length, self.padding = 0, None

    def tensors(self, layer: int) -> Iterator[torch.Tensor]:
        yield self.keys[layer][:, :, : self.length]
        yield self.values[layer][:, :, : self.length]

    def reserve(self, needed: int) -> None:
        """Makes room for so many positions; moves everything if there is not enough."""
        if needed <= self.capacity:
            return
        self.capacity = max(2 * self.capacity, needed)
        for held in (self.keys, self.values):
            for layer, old in enumerate(held):
                room = old.new_zeros((*old.shape[:2], self.capacity, old.shape[3]))
                room[:, :, : old.shape[2]] = old
                held[layer] = room


def _picked(tensor: torch.Tensor, start: int, path: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    chosen = upload([start + place for place in path], tensor.device)
    return tensor.index_select(2, chosen), tensor[:, :, start + len(path) :]


def head_shape(config: LlamaConfig) -> tuple[int, int]:
    heads = config.num_key_value_heads or config.num_attention_heads
    return heads, config.head_dim or config.hidden_size // config.num_attention_heads


def bytes_per_position(facts: ModelFacts, kind: str = DYNAMIC) -> int:
    """One position's bytes: 2 · layers · kv_heads · head_dim · element bytes; for a quantized kind the packed bytes."""
    elements = 2 * facts.layers * facts.kv_heads * facts.head_dim
    return round(cached_bytes(kind, elements, facts.kv_element_bytes))


@dataclass(frozen=True)
class CacheWeight:
    """Bytes of a cache: `per_layer` as the tensors in use say, `stored` as the storages they lie in; and its layout."""

    per_layer: list[int]
    stored: int
    layout: KvLayout | None = None

    @property
    def logical(self) -> int:
        return sum(self.per_layer)

    def facts(self, rolled_back: int = 0) -> KvFacts:
        return KvFacts(self.logical, self.stored, list(self.per_layer), rolled_back, self.stored, self.layout)


def weigh(cache: KvCache) -> CacheWeight:
    per_layer: list[int] = []
    storages: dict[tuple[str, int], int] = {}
    for layer in range(cache.layer_count):
        seen: dict[tuple[Any, ...], int] = {}
        for tensor in leaves(cache.tensors(layer)):
            seen[(tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)] = tensor.nbytes
            storage = tensor.untyped_storage()
            storages[(str(tensor.device), storage.data_ptr())] = storage.nbytes()
        per_layer.append(sum(seen.values()))
    return CacheWeight(per_layer, sum(storages.values()), layout_of(cache))


def layout_of(cache: KvCache) -> KvLayout | None:
    keys = next(leaves(cache.tensors(0)), None) if cache.layer_count else None
    if keys is None:
        return None
    dtype = str(keys.dtype).removeprefix("torch.")
    return KvLayout(list(keys.shape), list(keys.stride()), dtype, keys.is_contiguous())


def leaves(value: Any) -> Iterator[torch.Tensor]:
    """The plain tensors of something nested: tuples, lists, dictionaries and iterators."""
    if isinstance(value, torch.Tensor):
        if value.dim() > 0:
            yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list | tuple | Iterator):
        for part in value:
            yield from leaves(part)
