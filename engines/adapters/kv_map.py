"""From the draft's hidden states to the target's KV cache: what each target layer would have read, guessed. Lossy.

For every visual position of the draft and every layer of the target the layer's input is predicted from chosen levels
of the draft; keys and values then come from the target's own projections and rotary positions. How it is taught is
`engines.training.kv_trainee`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn

from engines.adapters.folder import check_draft, check_kind, check_target, load_module, size_of
from engines.adapters.wrapped_decoder import WrappedDecoder
from engines.decoder.kv_cache import KvCache
from engines.decoder.llama import BlockShape, LlamaDecoder
from evprof.core.errors import UserError
from evprof.core.protocols import StopFlag
from evprof.core.vocabulary.drafters import KV
from evprof.loaders.adapters import DESCRIPTION, AdapterInfo


@dataclass(frozen=True)
class KvSizes:
    """`draft` and `target` are widths of hidden states; `bottleneck` that of each layer's own small network.

    `levels` are, for each of the target's layers, the draft's levels it is predicted from: level 0 is what enters the
    draft's first layer, level n what leaves its n-th.
    """

    draft: int
    target: int
    levels: tuple[tuple[int, ...], ...]
    bottleneck: int

    @classmethod
    def between(cls, draft: LlamaDecoder, target: LlamaDecoder, bottleneck: int) -> KvSizes:
        """Each of the target's layers reads the draft's level at the same depth, and its last."""
        last, layers = len(draft.layers), len(target.layers)
        depths = (round(layer * last / max(layers - 1, 1)) for layer in range(layers))
        levels = tuple(tuple(sorted({depth, last})) for depth in depths)
        return cls(draft.config.hidden_size, target.config.hidden_size, levels, bottleneck)

    def config(self) -> dict[str, Any]:
        """What `adapter.json` says of them beside both widths."""
        return {"levels": [list(chosen) for chosen in self.levels], "bottleneck": self.bottleneck}


class LayerMap(nn.Module):
    """One target layer's input from some of the draft's levels: a linear map and a bottleneck beside it."""

    def __init__(self, sizes: KvSizes, layer: int) -> None:
        super().__init__()
        self.levels = sizes.levels[layer]
        columns = len(self.levels) * sizes.draft
        self.map = nn.Linear(columns, sizes.target)
        self.down = nn.Linear(columns, sizes.bottleneck, bias=False)
        self.up = nn.Linear(sizes.bottleneck, sizes.target, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, states: Sequence[torch.Tensor]) -> torch.Tensor:
        """The draft's levels [B, V, draft] each -> [B, V, target]."""
        chosen = [F.rms_norm(states[level], states[level].shape[-1:], eps=1e-5) for level in self.levels]
        joined = torch.cat(chosen, dim=-1)
        result: torch.Tensor = self.map(joined) + self.up(F.silu(self.down(joined)))
        return result


class KvMap(nn.Module):
    """A map for each of the target's layers."""

    def __init__(self, sizes: KvSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.layers = nn.ModuleList(LayerMap(sizes, layer) for layer in range(len(sizes.levels)))

    def predict(self, levels: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The draft's levels [B, V, draft] each -> what would enter each of the target's layers, [B, V, target]."""
        return [layer(levels) for layer in self.layers]

    @staticmethod
    def fill(predicted: Sequence[torch.Tensor], target: LlamaDecoder, cache: KvCache) -> None:
        """Puts keys and values of V positions into the target's cache, after what it holds."""
        count = predicted[0].shape[1]
        cos, sin = target.rotation(cache.length, count, None)
        dtype = target.embed_tokens.weight.dtype
        for index, entering in enumerate(predicted):
            target.fill_layers(entering.to(dtype), cos, sin, cache, range(index, index + 1))
        cache.advance(count)


class TappedDecoder(WrappedDecoder):
    """One that keeps what enters each layer, and what leaves the last, of every pass.

    `levels` are those of all positions so far, [B, S, hidden] each.
    """

    def __init__(self, base: LlamaDecoder) -> None:
        super().__init__(base)
        self._passes: list[list[torch.Tensor]] = []

    @property
    def levels(self) -> list[torch.Tensor]:
        """Level by level."""
        return [torch.cat(parts, dim=1) for parts in zip(*self._passes, strict=True)]

    def trunk(
        self, hidden: torch.Tensor, cache: KvCache, *, stop: StopFlag | None = None, shape: BlockShape | None = None
    ) -> torch.Tensor:
        """The decoder's own, kept."""
        kept: list[torch.Tensor] = []
        left = self.base.trunk(hidden, cache, stop=stop, shape=shape, inputs=kept)
        self._passes.append([*kept, left])
        return left


def load_kv_map(info: AdapterInfo, draft: LlamaDecoder, target: LlamaDecoder) -> KvMap:
    """A trained map on the target's device, in its dtype. Raises UserError for one of another kind or other sizes."""
    check_kind(info, KV)
    check_target(info, target)
    check_draft(info, draft)
    sizes = KvSizes(
        info.draft_hidden_size or 0, info.hidden_size, _levels(info, draft, target), size_of(info, "bottleneck")
    )
    weight = target.embed_tokens.weight
    return load_module(info, lambda: KvMap(sizes), device=weight.device, dtype=weight.dtype)


def _levels(info: AdapterInfo, draft: LlamaDecoder, target: LlamaDecoder) -> tuple[tuple[int, ...], ...]:
    found, last, layers = info.config.get("levels"), len(draft.layers), len(target.layers)
    is_right = (
        isinstance(found, list)
        and len(found) == layers
        and all(isinstance(chosen, list) and 1 <= len(chosen) <= 8 for chosen in found)
        and all(type(level) is int and 0 <= level <= last for chosen in found for level in chosen)
    )
    if not is_right or not isinstance(found, list):
        raise UserError(
            f"{info.folder / DESCRIPTION}: config.levels must name, for each of the target's {layers} layers, levels "
            f"of the draft from 0 to {last}; train the map for these models."
        )
    return tuple(tuple(chosen) for chosen in found)
