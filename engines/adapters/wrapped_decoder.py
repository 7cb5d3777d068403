"""A decoder over another one's layers; who changes a part of it overrides that."""

from __future__ import annotations

import torch

from engines.decoder.kv_cache import KvCache
from engines.decoder.llama import BlockShape, LlamaDecoder
from evprof.core.protocols import StopFlag


class WrappedDecoder:
    """An `engines.decoder.decoding.Decoder`."""

    def __init__(self, base: LlamaDecoder) -> None:
        self.config = base.config
        self.base = base

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """The base's embeddings of the base's ids."""
        return self.base.embed(ids)

    def __call__(
        self, hidden: torch.Tensor, cache: KvCache, *, keep: int = 1, stop: StopFlag | None = None
    ) -> torch.Tensor:
        """[B, S, hidden] -> logits [B, keep, V]; the cache grows by S."""
        return self.head(self.trunk(hidden, cache, stop=stop)[:, -keep:])

    def trunk(
        self, hidden: torch.Tensor, cache: KvCache, *, stop: StopFlag | None = None, shape: BlockShape | None = None
    ) -> torch.Tensor:
        """The base's layers."""
        return self.base.trunk(hidden, cache, stop=stop, shape=shape)

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """The base's last norm and head."""
        return self.base.head(hidden)
