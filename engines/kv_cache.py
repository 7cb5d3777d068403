"""The KV cache: made, cropped and weighed by walking its tensors.

Lengths while a run goes on are host arithmetic; the walk happens once, at its end, and reads no number from a device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from evprof.core.run_info import KvFacts, ModelFacts


def make_cache() -> Any:
    """An empty cache that grows with each forward pass, one layer per decoder layer."""
    return DynamicCache()


def crop(cache: Any, length: int) -> int:
    """Cuts every layer to its first `length` positions. Returns how many positions of the first layer went.

    Done here rather than by `cache.crop`, whose argument changed its meaning between transformers 5.17 and 5.23. The
    storage stays until the next pass; only the view shrinks.
    """
    removed = 0
    for index, layer in enumerate(cache.layers):
        if layer.keys is None:
            continue
        surplus = layer.keys.shape[-2] - length
        if surplus > 0:
            layer.keys = layer.keys[..., :length, :]
            layer.values = layer.values[..., :length, :]
            removed = surplus if index == 0 else removed
    return removed


def bytes_per_position(facts: ModelFacts) -> int:
    """One position's share by configuration: 2 (keys, values) · layers · kv_heads · head_dim · element bytes."""
    return 2 * facts.layers * facts.kv_heads * facts.head_dim * facts.kv_element_bytes


@dataclass(frozen=True)
class CacheWeight:
    """Bytes of a cache: `per_layer` as the tensors' shapes say, `stored` as memory holds them."""

    per_layer: list[int]
    stored: int

    @property
    def logical(self) -> int:
        """Bytes in use, of all layers."""
        return sum(self.per_layer)

    def facts(self, rolled_back: int = 0) -> KvFacts:
        """The same for a run's record."""
        return KvFacts(self.logical, self.stored, list(self.per_layer), rolled_back)


def weigh(cache: Any) -> CacheWeight:
    """Walks the cache's layers: every tensor they hold, in tuples, dictionaries and tensor subclasses too.

    Within a layer a tensor met twice counts once; storage shared by layers is stored once. Scalars, such as a static
    layer's fill count, are no cache content.
    """
    per_layer: list[int] = []
    storages: dict[tuple[str, int], int] = {}
    for layer in cache.layers:
        seen: dict[tuple[Any, ...], int] = {}
        for tensor in _tensors(vars(layer)):
            seen[(tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)] = tensor.nbytes
            storage = tensor.untyped_storage()
            storages[(str(tensor.device), storage.data_ptr())] = storage.nbytes()
        per_layer.append(sum(seen.values()))
    return CacheWeight(per_layer, sum(storages.values()))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if type(value) is not torch.Tensor and hasattr(value, "__tensor_flatten__"):
            names, _ = value.__tensor_flatten__()
            for name in names:
                yield from _tensors(getattr(value, name))
        elif value.dim() > 0 and value.numel() > 1:
            yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
