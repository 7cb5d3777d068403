"""The fused step as it runs: as CUDA graphs, one for each number of tokens, for chains and trees at any length."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.fused_check import check
from engines.decoder.fused_pass import FUSED, MOST_POSITIONS, FusedPass
from engines.decoder.llama import LlamaDecoder
from evprof.core.protocols import monotonic_ns
from evprof.core.units import ms_from_ns


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
