"""The fused step as CUDA graphs: one for each number of tokens, whatever the length, for chains and trees alike."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from engines.decoder.bucket_pass import JOINED, Bucket
from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.fused_pass import FUSED, MOST_POSITIONS, FusedPass
from engines.decoder.kv_cache import KvCache, StaticKv
from engines.decoder.llama import BlockShape, LlamaDecoder


class FusedGraphs(GraphStep):
    """A `GraphStep` of a `FusedPass`; blocks of more than 16 tokens go the decoder's own way."""

    takes_shapes = True

    def __init__(self, decoder: LlamaDecoder) -> None:
        self.body = FusedPass(decoder)
        super().__init__(decoder, body=self._states, kind=FUSED)

    def capture_for(self, blocks: Iterable[int], start: int, capacity: int) -> float | None:
        """Captures a step for each number of tokens; `start` does not matter."""
        return super().capture_for([1, *(block for block in blocks if block <= MOST_POSITIONS)], start, capacity)

    def __call__(self, ids: torch.Tensor, cache: KvCache, keep: int, shape: BlockShape | None = None) -> torch.Tensor:
        """Token ids [1, S], as a tree where there is a `shape` -> logits [1, keep, V]; the cache grows by S."""
        if ids.shape[1] <= MOST_POSITIONS:
            self.body.arrange(shape)
        return super().__call__(ids, cache, keep, shape)

    def release(self) -> None:
        """Gives the cache, all graphs and the pass's buffers back."""
        super().release()
        self.body.release()

    def _states(
        self, decoder: LlamaDecoder, ids: torch.Tensor, start: torch.Tensor, cache: StaticKv, *_: object, way: str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.body(decoder, ids, start, cache)

    def _bucket(self, start: int, block: int, capacity: int) -> Bucket:
        """The whole cache: the pass reads the length on the device."""
        return Bucket(0, capacity)

    def _way(self, *_: object) -> str:
        return JOINED
