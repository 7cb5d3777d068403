"""Two decode steps of the eager pass: an early exit, and a step with the same bits for blocks and single tokens.

Early exit takes a token after an inner layer when the model is sure of it there. The remaining layers compute keys
and values from that hidden state (CALM, Schuster et al., arXiv 2207.07061). It is lossy, and each token waits for the
device once. The identical step gives every pass one shape, so that sums have the same order.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F

from engines.decoder.attention import added, attend, causal_mask, choosing_kernel
from engines.decoder.decoding import DecodeStep
from engines.decoder.kv_cache import KvCache, StaticKv
from engines.decoder.llama import BlockShape, LlamaDecoder
from evprof.core.errors import UserError
from evprof.core.protocols import monotonic_ns
from evprof.core.units import ms_from_ns


class EarlyExitStep(DecodeStep):
    kind = "eager"
    gives_features = False

    def __init__(self, decoder: LlamaDecoder, layer: int, confidence: float) -> None:
        super().__init__(decoder)
        self.layer = layer
        self.confidence = confidence
        self.left = 0
        self.asked = 0

    def __call__(self, ids: torch.Tensor, cache: KvCache, keep: int, shape: BlockShape | None = None) -> torch.Tensor:
        """Token ids [B, S] -> logits [B, keep, V], of the inner layer if all rows are sure; trees never leave early."""
        decoder = self._decoder
        if shape is not None:
            return self.plain(ids, cache, keep, shape)
        start, new, padding = cache.length, ids.shape[1], cache.padding
        cos, sin = decoder.rotation(start, new, padding)
        mask = causal_mask(start, new, padding, ids.device)

        def over_cache(index: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            keys, values = cache.append(index, keys, values)
            return attend(queries, keys, values, mask, is_causal=False, kind=decoder.attention)

        with choosing_kernel(decoder.attention, mask):
            hidden = decoder.run_layers(decoder.embed(ids), cos, sin, over_cache, last=self.layer)
            logits = decoder.head(hidden[:, -keep:])
            if self._is_sure(logits):
                decoder.fill_layers(hidden, cos, sin, cache, range(self.layer, len(decoder.layers)))
            else:
                hidden = decoder.run_layers(hidden, cos, sin, over_cache, first=self.layer)
                logits = decoder.head(hidden[:, -keep:])
        cache.advance(new)
        return logits

    def sentence(self) -> str | None:
        if not self.asked:
            return None
        return (
            f"{self.left} of {self.asked} decoded tokens left after layer {self.layer} of {len(self._decoder.layers)} "
            "(early exit is lossy)."
        )

    def _is_sure(self, logits: torch.Tensor) -> bool:
        self.asked += 1
        # Rounding may make a probability exactly 1; at confidence 1 nothing leaves all the same.
        if self.confidence >= 1:
            return False
        highest = logits[:, -1].float().softmax(dim=-1).amax(dim=-1)
        # The one answer this switch waits for.
        is_sure = bool((highest >= self.confidence).all())
        self.left += is_sure
        return is_sure


IDENTICAL = "identical"

POSITIONS = 8
"""Positions of every pass; longer blocks take several. A GPU reads its weights once for these as it does for one."""

STRETCH = 64
"""Positions of the cache after which a pass looks at more of it."""

SPARE = STRETCH + POSITIONS
"""Positions that a cache has room for beyond those in use."""

_TRIED_AT = STRETCH - POSITIONS - 3


class IdenticalStep(DecodeStep):
    kind = IDENTICAL

    def __init__(self, decoder: LlamaDecoder) -> None:
        super().__init__(decoder)
        self._tried: set[tuple[str, int]] = set()

    def compile_for(self, blocks: Iterable[int], *, batch: int = 1) -> float | None:
        """Checks that blocks and single steps give the same bits. Returns the ms, None if known. Raises RuntimeError if
        they do not."""
        wanted = (self._decoder.attention, torch.get_num_threads())
        if wanted in self._tried:
            return None
        began_ns = monotonic_ns()
        with torch.inference_mode():
            if not self._is_identical():
                raise RuntimeError("on this device the numbers of a position depend on what is computed beside it")
        self._tried.add(wanted)
        return ms_from_ns(monotonic_ns() - began_ns)

    def __call__(self, ids: torch.Tensor, cache: KvCache, keep: int, shape: BlockShape | None = None) -> torch.Tensor:
        """Token ids [1, S] -> logits [1, keep, V]. Raises UserError for a tree, whose tokens have other places than
        single steps."""
        if shape is not None or not isinstance(cache, StaticKv):
            raise UserError("The identical step verifies chains over a static cache only; choose another --step.")
        states, logits = [], []
        at = 0
        while at < ids.shape[1]:
            # No pass crosses a stretch: a position looks at as many others whatever block it is in.
            count = min(POSITIONS, ids.shape[1] - at, STRETCH - cache.length % STRETCH)
            hidden = self._pass(ids[:, at : at + count], cache)
            states.append(hidden[:, :count])
            logits.append(self._decoder.head(hidden)[:, :count])
            cache.advance(count)
            at += count
        self.features = torch.cat(states, dim=1)
        return torch.cat(logits, dim=1)[:, -keep:]

    def _pass(self, ids: torch.Tensor, cache: StaticKv) -> torch.Tensor:
        """Up to `POSITIONS` ids [1, S] -> [1, POSITIONS, hidden]; keys and values are written, not counted."""
        decoder, start = self._decoder, cache.length
        end, reach = start + POSITIONS, (start // STRETCH + 1) * STRETCH + POSITIONS
        cache.reserve(reach)
        places = torch.arange(reach, device=ids.device)
        mask = added((places <= places[start:end, None])[None, None], decoder.embed_tokens.weight.dtype)

        def over_cache(index: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            held_keys, held_values = cache.keys[index], cache.values[index]
            held_keys[:, :, start:end] = keys
            held_values[:, :, start:end] = values
            seen = held_keys[:, :, :reach], held_values[:, :, :reach]
            return attend(queries, *seen, mask, is_causal=False, kind=decoder.attention)

        with choosing_kernel(decoder.attention, mask):
            hidden = decoder.embed(F.pad(ids, (0, POSITIONS - ids.shape[1])))
            return decoder.run_layers(hidden, *decoder.rotation(start, POSITIONS, None), over_cache)

    def _is_identical(self) -> bool:
        decoder = self._decoder
        device, dtype = decoder.device, decoder.embed_tokens.weight.dtype
        count = _TRIED_AT + 2 * POSITIONS
        # Seeded on the CPU: no run's own random numbers move.
        ids = torch.randint(decoder.embed_tokens.num_embeddings, (1, count), generator=torch.Generator().manual_seed(0))
        ids = ids.to(device)
        cache = StaticKv(decoder.config, count + SPARE, device=device, dtype=dtype)
        self(ids[:, :_TRIED_AT], cache, 1)
        apart = [self(ids[:, at : at + 1], cache, 1) for at in range(_TRIED_AT, count)]
        cache.crop(_TRIED_AT)
        together = self(ids[:, _TRIED_AT:], cache, count - _TRIED_AT)
        return torch.equal(torch.cat(apart, dim=1), together)
