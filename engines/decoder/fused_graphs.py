"""The fused step as it runs: as CUDA graphs, one for each number of tokens, for chains and trees at any length."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.fused_check import check, checked_long_pass
from engines.decoder.fused_pass import FUSED, MOST_POSITIONS, FusedPass, weight_of
from engines.decoder.llama import LlamaDecoder, LongPass
from engines.kernels.tuning import Measure, tune
from evprof.core.protocols import monotonic_ns
from evprof.core.units import ms_from_ns


def tune_decoder(decoder: LlamaDecoder, blocks: Iterable[int], *, measure: Measure | None = None) -> None:
    if decoder.device.type != "cuda" and measure is None:
        return
    dtype, layers = decoder.embed_tokens.weight.dtype, decoder.ordered
    for tokens in sorted({min(block, 2) for block in blocks}):
        for name in ("qkv", "out", "gate_up", "down"):
            weights = [weight_of(getattr(layer, name)) for layer in layers]
            tune(
                weights,
                tokens,
                dtype,
                is_gated=name == "gate_up",
                is_normed=name in ("qkv", "gate_up"),
                measure=measure,
            )
        tune([weight_of(decoder.lm_head)], tokens, dtype, measure=measure)


class FusedGraphs(GraphStep):
    def __init__(self, decoder: LlamaDecoder) -> None:
        self.long_pass: LongPass | None = None
        self.prefill_problem = ""
        self.body = FusedPass(decoder)
        self._is_checked = False
        super().__init__(decoder, body=self.body, kind=FUSED, has_buckets=False)

    def capture_for(self, blocks: Iterable[int], start: int, capacity: int) -> float | None:
        """Tunes and checks the pass once, then captures a step for each number of tokens. Returns the ms, None if
        nothing was captured. Raises RuntimeError if the pass computes something else or cannot be captured."""
        began_ns, was_checked = monotonic_ns(), self._is_checked
        blocks = [1, *(block for block in blocks if block <= MOST_POSITIONS)]
        if not was_checked:
            with torch.cuda.device(self._decoder.device):
                tune_decoder(self._decoder, blocks)
                check(self.body, self._decoder, max(blocks))
                self.long_pass, self.prefill_problem = checked_long_pass(self._decoder)
            self._is_checked = True
        captured_ms = super().capture_for(blocks, start, capacity)
        return captured_ms if was_checked else ms_from_ns(monotonic_ns() - began_ns)
