"""The fused step's products tuned on a decoder's own weights, once in setup before anything is captured."""

from __future__ import annotations

from collections.abc import Iterable

from engines.decoder.fused_pass import weight_of
from engines.decoder.llama import LlamaDecoder
from engines.kernels.tuning import Measure, tune


def tune_decoder(decoder: LlamaDecoder, blocks: Iterable[int], *, measure: Measure | None = None) -> None:
    """Finds the tilings of all products of steps of so many tokens; those of more than one are the same.

    On CUDA only: elsewhere nothing is measured. Known ones are not measured again.
    """
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
