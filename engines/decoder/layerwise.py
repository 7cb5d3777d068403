"""A pass over a bucket whose layers are one compilation, called once for each of them.

Unrolled, a 7B model is 32 copies of the same kernels, and compiling takes as many times as long. What it costs to call
a compiled function so often does not matter here: a graph holds the calls. On a CPU, where it does, the step of 32 tiny
layers took 6.7 ms of one thread so, 4.2 ms unrolled and 6.3 ms eager, and 7 s instead of 53 s to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from engines.decoder.bucket_pass import JOINED, Bucket, bucket_states, head_of, layer_in_bucket
from engines.decoder.compiled_step import check_headers, compiled, keep_compilations
from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import LlamaDecoder


class LayerwiseBody:
    """`bucket_states` with layers and head compiled, each way of attention by itself: recompilations are limited."""

    def __init__(self) -> None:
        self._head = compiled(head_of, is_tuned=True)
        self._layers: dict[tuple[str, str], Callable[..., Any]] = {}

    def __call__(
        self,
        decoder: LlamaDecoder,
        ids: torch.Tensor,
        start: torch.Tensor,
        cache: StaticKv,
        bucket: Bucket,
        *,
        way: str = JOINED,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As `bucket_states`. Raises RuntimeError where nothing can be compiled."""
        key = (way, decoder.attention)
        if key not in self._layers:
            check_headers()
            keep_compilations()
            self._layers[key] = compiled(layer_in_bucket, is_tuned=True)
        return bucket_states(
            decoder, ids, start, cache, bucket, way=way, layer_pass=self._layers[key], head_pass=self._head
        )
