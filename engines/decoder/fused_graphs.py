"""The fused step as it runs: as CUDA graphs, one for each number of tokens, for chains and trees at any length."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.decoding import DecodeStep
from engines.decoder.fused_check import check
from engines.decoder.fused_pass import FUSED, MOST_POSITIONS, FusedPass
from engines.decoder.kv_cache import KvCache, StaticKv
from engines.decoder.llama import BlockShape, LlamaDecoder
from evprof.core.protocols import monotonic_ns
from evprof.core.units import ms_from_ns


class FusedStep(DecodeStep):
    """The pass as a step without graphs: in Triton's interpreter, for tests of what graphs will hold."""

    kind = FUSED
    attention_kernel = FUSED

    def __init__(self, decoder: LlamaDecoder) -> None:
        super().__init__(decoder)
        self.body = FusedPass(decoder)
        self._is_checked = False

    def compile_for(self, blocks: Iterable[int], *, batch: int = 1) -> float | None:
        """Checks the pass once. Returns the ms, None if checked before. Raises RuntimeError if it computes something
        else."""
        if self._is_checked:
            return None
        began_ns = monotonic_ns()
        check(self.body, self._decoder, max(blocks))
        self._is_checked = True
        return ms_from_ns(monotonic_ns() - began_ns)

    @torch.inference_mode()
    def __call__(self, ids: torch.Tensor, cache: KvCache, keep: int, shape: BlockShape | None = None) -> torch.Tensor:
        """Token ids [1, S], as a tree where there is a `shape` -> logits [1, keep, V]; the cache grows by S."""
        decoder, new = self._decoder, ids.shape[1]
        if isinstance(cache, StaticKv) and cache.padding is None and new <= MOST_POSITIONS:
            cache.reserve(cache.length + new)
            decoder.rotary.reach(cache.capacity)
            self.body.arrange(shape)
            start = torch.full((1,), cache.length, device=ids.device)
            logits, self.features = self.body(decoder, ids, start, cache)
            cache.advance(new)
            return logits[:, -keep:]
        return self.plain(ids, cache, keep, shape)


class FusedGraphs(GraphStep):
    def __init__(self, decoder: LlamaDecoder) -> None:
        self.body = FusedPass(decoder)
        self._is_checked = False
        super().__init__(decoder, body=self.body, kind=FUSED, has_buckets=False)

    def capture_for(self, blocks: Iterable[int], start: int, capacity: int) -> float | None:
        """Checks the pass once, then captures a step for each number of tokens. Returns the ms, None if nothing was
        captured. Raises RuntimeError if the pass computes something else or cannot be captured."""
        began_ns, was_checked = monotonic_ns(), self._is_checked
        blocks = [1, *(block for block in blocks if block <= MOST_POSITIONS)]
        if not was_checked:
            with torch.cuda.device(self._decoder.device):
                check(self.body, self._decoder, max(blocks))
            self._is_checked = True
        captured_ms = super().capture_for(blocks, start, capacity)
        return captured_ms if was_checked else ms_from_ns(monotonic_ns() - began_ns)
