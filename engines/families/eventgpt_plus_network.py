"""EventGPT-Plus' network: LLaVA's parts, but patches are pooled after the projector.

What its checkpoint calls its tensors is in `eventgpt_plus`, how bins are made of events in `event_frames`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from engines.checkpoints.config import patches
from engines.families.llava_network import LlavaConfig, LlavaModel
from engines.tokens.prompts import SLOT


@dataclass(frozen=True)
class EventGptPlusConfig(LlavaConfig):
    """A CLIP tower, two linear layers, a Qwen2.

    `sequence_limit` is where its program cuts every prompt off, if config.json says so.
    """

    family: str = field(default="eventgpt_plus", kw_only=True)
    slot_id: int = field(default=SLOT, kw_only=True)
    feature_layer: int = field(default=-1, kw_only=True)
    pooling: str | None = "average"
    sequence_limit: int | None = None

    @property
    def projected_tokens(self) -> int:
        """All patches: they are pooled afterwards."""
        return patches(self.vision)


class EventGptPlusModel(LlavaModel):
    """The network: as LLaVA's, but what is pooled are projected patches."""

    config: EventGptPlusConfig

    def encode_frames(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, hidden]."""
        return self.pool_patches(self.project(self.tower_features(pixel_values)))
