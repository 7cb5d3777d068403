"""Adapters from the draft's hidden states: to the target's head, or to the target's KV cache (lossy).

A hidden-state adapter is a residual bottleneck with attention to the target's visual embeddings. A KV map predicts
the input of each target layer from chosen levels of the draft; keys and values then come from the target's own
projections and rotary positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from engines.adapters.folder import check_draft, check_kind, check_target, load_module, size_of
from engines.decoder.kv_cache import KvCache
from engines.decoder.llama import BlockShape, LlamaDecoder
from evprof.core.errors import UserError
from evprof.core.protocols import StopFlag
from evprof.core.vocabulary.drafters import HIDDEN, KV
from evprof.loaders.adapters import DESCRIPTION, AdapterInfo


class WrappedDecoder:
    def __init__(self, base: LlamaDecoder) -> None:
        self.config = base.config
        self.base = base

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.base.embed(ids)

    def __call__(
        self, hidden: torch.Tensor, cache: KvCache, *, keep: int = 1, stop: StopFlag | None = None
    ) -> torch.Tensor:
        """[B, S, hidden] -> logits [B, keep, V]; the cache grows by S."""
        return self.head(self.trunk(hidden, cache, stop=stop)[:, -keep:])

    def trunk(
        self, hidden: torch.Tensor, cache: KvCache, *, stop: StopFlag | None = None, shape: BlockShape | None = None
    ) -> torch.Tensor:
        return self.base.trunk(hidden, cache, stop=stop, shape=shape)

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.base.head(hidden)


@dataclass(frozen=True)
class HiddenSizes:
    """`draft` and `target` are widths of hidden states, `bottleneck` the width between them. `heads` of `head_dim`
    attend to the target's visual embeddings (0: none)."""

    draft: int
    target: int
    bottleneck: int
    heads: int = 0
    head_dim: int = 0

    def config(self) -> dict[str, int]:
        return {name: size for name, size in asdict(self).items() if name not in ("draft", "target")}


Seen = tuple[torch.Tensor, torch.Tensor]
"""Keys and values [B, heads, V, head_dim] of visual embeddings."""


class HiddenAdapter(nn.Module):
    """x = map(h); x += attention(norm(x), visual); x += up(silu(down(norm(x)))). Untrained it is the map alone."""

    def __init__(self, sizes: HiddenSizes) -> None:
        super().__init__()
        self.sizes = sizes
        width, attended = sizes.target, sizes.heads * sizes.head_dim
        self.map = nn.Linear(sizes.draft, width, bias=False)
        self.norm = nn.Parameter(torch.ones(width))
        self.down = nn.Linear(width, sizes.bottleneck, bias=False)
        self.up = nn.Linear(sizes.bottleneck, width, bias=False)
        if sizes.heads:
            self.asking_norm = nn.Parameter(torch.ones(width))
            self.seen_norm = nn.Parameter(torch.ones(width))
            self.queries = nn.Linear(width, attended, bias=False)
            self.keys_values = nn.Linear(width, 2 * attended, bias=False)
            self.out = nn.Linear(attended, width, bias=False)
            nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.up.weight)
        if sizes.draft == width:
            nn.init.eye_(self.map.weight)

    def look(self, visual: torch.Tensor) -> Seen | None:
        """The target's visual embeddings [B, V, target] -> what `forward` attends to, computed once for an answer."""
        if not self.sizes.heads:
            return None
        both = self.keys_values(_normed(visual, self.seen_norm))
        keys, values = self._split(both[..., : both.shape[-1] // 2]), self._split(both[..., both.shape[-1] // 2 :])
        return keys, values

    def forward(self, hidden: torch.Tensor, seen: Seen | None = None) -> torch.Tensor:
        """[B, S, draft] -> [B, S, target], as before the target's last norm; nothing is attended to without `seen`."""
        state: torch.Tensor = self.map(hidden)
        if seen is not None and self.sizes.heads:
            asked = self._split(self.queries(_normed(state, self.asking_norm)))
            found = F.scaled_dot_product_attention(asked, *seen)
            state = state + self.out(found.transpose(1, 2).flatten(2))
        result: torch.Tensor = state + self.up(F.silu(self.down(_normed(state, self.norm))))
        return result

    def _split(self, joined: torch.Tensor) -> torch.Tensor:
        """[B, N, heads * head_dim] -> [B, heads, N, head_dim]."""
        return joined.view(*joined.shape[:2], self.sizes.heads, self.sizes.head_dim).transpose(1, 2)


class AdaptedDecoder(WrappedDecoder):
    def __init__(self, draft: LlamaDecoder, target: LlamaDecoder, adapter: HiddenAdapter) -> None:
        super().__init__(draft)
        weight = target.lm_head.weight
        self.adapter = adapter.to(draft.device, weight.dtype)
        self._norm = target.norm.to(draft.device)
        self._eps: float = target.config.rms_norm_eps
        self._head = weight.to(draft.device)
        bias = dict(target.lm_head.named_parameters()).get("bias")
        self._bias = None if bias is None else bias.to(draft.device)
        self._waiting: tuple[torch.Tensor, torch.cuda.Event | None] | None = None
        self._looked_at: torch.Tensor | None = None
        self._brought: torch.Tensor | None = None
        self._seen: Seen | None = None

    def look(self, visual: torch.Tensor) -> None:
        """Takes the target's visual embeddings [V, target] up with the next step; another thread may be in one now."""
        if visual is self._looked_at:
            return
        self._looked_at = visual
        # Moved here: from the draft's thread the copy would be queued behind all that the target has queued since.
        brought = visual.to(self._head.device, self._head.dtype, non_blocking=True)
        made, gpu = None, brought.device if brought.device.type == "cuda" else visual.device
        if gpu.type == "cuda":
            made = torch.cuda.Event()
            made.record(torch.cuda.current_stream(gpu))
        self._waiting = brought, made

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """The draft's hidden states [B, S, draft] -> logits [B, S, V] over the target's rows."""
        if self._waiting is not None:
            self._take_up(*self._waiting)
        state = self.adapter(hidden.to(self._head.dtype), self._seen)
        return F.linear(F.rms_norm(state, state.shape[-1:], self._norm, self._eps), self._head, self._bias)

    def _take_up(self, visual: torch.Tensor, made: torch.cuda.Event | None) -> None:
        self._waiting = None
        if made is not None and visual.device.type == "cuda":
            made.wait(torch.cuda.current_stream(visual.device))
        elif made is not None:
            made.synchronize()
        # Held: the allocator knows of the stream that brought it only, and would give its memory to others.
        self._brought = visual
        self._seen = self.adapter.look(visual[None])


def load_hidden(info: AdapterInfo, draft: LlamaDecoder, target: LlamaDecoder) -> AdaptedDecoder:
    """The draft with a trained adapter. Raises UserError for one of another kind or other models' sizes."""
    check_kind(info, HIDDEN)
    check_target(info, target)
    check_draft(info, draft)
    adapter = load_module(info, lambda: HiddenAdapter(hidden_sizes(info)), dtype=torch.float32)
    return AdaptedDecoder(draft, target, adapter)


def hidden_sizes(info: AdapterInfo) -> HiddenSizes:
    """Sizes as `adapter.json` says them. Raises UserError for what makes no adapter."""
    heads = size_of(info, "heads", least=0, most=256)
    head_dim = size_of(info, "head_dim", least=0, most=1024)
    if heads and not head_dim:
        raise UserError(f"{info.folder / DESCRIPTION}: config.head_dim must be at least 1 where there are heads.")
    return HiddenSizes(info.draft_hidden_size or 0, info.hidden_size, size_of(info, "bottleneck"), heads, head_dim)


def _normed(state: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(state, state.shape[-1:], weight, 1e-5)


@dataclass(frozen=True)
class KvSizes:
    """Widths of hidden states and bottlenecks. `levels` are, for each target layer, the draft levels it is predicted
    from: level 0 enters the draft's first layer, level n leaves its n-th."""

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
        return {"levels": [list(chosen) for chosen in self.levels], "bottleneck": self.bottleneck}


class LayerMap(nn.Module):
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
    """Keeps what enters each layer and what leaves the last; `levels` cover all positions so far, [B, S,
    hidden] each."""

    def __init__(self, base: LlamaDecoder) -> None:
        super().__init__(base)
        self._passes: list[list[torch.Tensor]] = []

    @property
    def levels(self) -> list[torch.Tensor]:
        return [torch.cat(parts, dim=1) for parts in zip(*self._passes, strict=True)]

    def trunk(
        self, hidden: torch.Tensor, cache: KvCache, *, stop: StopFlag | None = None, shape: BlockShape | None = None
    ) -> torch.Tensor:
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
