"""Early exit: a token is taken after an inner layer when the model is already sure of it there.

The layers left out still need keys and values of the position; they compute them from the hidden state the token left
with, as CALM does (Schuster et al., arXiv 2207.07061). Lossy, and each token asks the device once whether it may leave.
"""

from __future__ import annotations

import torch

from engines.decoder.attention import attend, causal_mask, choosing_kernel
from engines.decoder.kv_cache import KvCache
from engines.decoder.llama import BlockShape, LlamaDecoder


class EarlyExitStep:
    """One token's pass that may end after `layer` layers, when the likeliest token's probability there reaches
    `confidence`. `left` counts the tokens that did, of `asked`."""

    kind = "eager"
    problem: str | None = None
    gives_features = False
    features: torch.Tensor | None = None

    def __init__(self, decoder: LlamaDecoder, layer: int, confidence: float) -> None:
        self._decoder = decoder
        self.layer = layer
        self.confidence = confidence
        self.left = 0
        self.asked = 0

    def __call__(self, ids: torch.Tensor, cache: KvCache, keep: int, shape: BlockShape | None = None) -> torch.Tensor:
        """Token ids [B, S] -> logits [B, keep, V], of the inner layer where all rows are sure; the cache grows by S.

        Nothing leaves a tree early.
        """
        decoder = self._decoder
        if shape is not None:
            return decoder.head(decoder.trunk(decoder.embed(ids), cache, shape=shape)[:, -keep:])
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
        """How many tokens left early, for the run's record; None before there were any."""
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
