"""EventGPT's network: a CLIP tower per event frame, projector, adaptor, spatio-temporal pooling, Llama.

Built from transformers' CLIP and Llama modules; what the published checkpoint calls its tensors is in `eventgpt`, how
frames are made of events in `event_frames`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from engines.checkpoints.config import ModelConfig
from engines.families.language_model import make_language_model
from engines.families.loaded_model import Network

if TYPE_CHECKING:
    from transformers import CLIPVisionModel


class EventGptModel(Network):
    """The whole network. `feature_adaptor` is None in a model built without one."""

    def __init__(self, config: ModelConfig) -> None:
        from transformers import CLIPVisionModel

        super().__init__()
        self.config = config
        hidden = config.text.hidden_size
        self.visual_tower = CLIPVisionModel(config.vision)
        self.visual_projector = nn.Sequential(
            nn.Linear(config.vision.hidden_size, hidden), nn.GELU(), nn.Linear(hidden, hidden)
        )
        self.feature_adaptor = nn.Linear(hidden, hidden) if config.has_adaptor else None
        self.language_model = make_language_model(config.text)

    @property
    def frame_tower(self) -> CLIPVisionModel:
        """The one tower."""
        return self.visual_tower

    def tower_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, width]: the last layer's output for all tokens, before the final layer norm."""
        return self.tower(pixel_values).last

    def project(self, features: torch.Tensor) -> torch.Tensor:
        """[T, N, width] -> [T, N, hidden] through the two-layer projector."""
        projected: torch.Tensor = self.visual_projector(features)
        return projected

    def adapt(self, projected: torch.Tensor) -> torch.Tensor:
        """[T, N, hidden] -> [T, N, hidden] through the adaptor, or unchanged without one."""
        if self.feature_adaptor is None:
            return projected
        adapted: torch.Tensor = self.feature_adaptor(projected)
        return adapted

    def activate(self, features: torch.Tensor) -> torch.Tensor:
        """[T, N, width] -> [T, N, hidden]: the projector's first Linear and its GELU, after which all is linear."""
        inner: torch.Tensor = self.visual_projector[1](self.visual_projector[0](features))
        return inner

    def map_fused(self, pooled: torch.Tensor) -> torch.Tensor:
        """[..., hidden] -> [..., hidden]: the projector's second Linear and the adaptor as one Linear.

        A(Wx + b) + c = (AW)x + (Ab + c), and means commute with it: so it may follow the pooling, on T + N rows instead
        of T · N. Equal in exact arithmetic; in bf16 it rounds at other places.
        """
        weight, bias = self.fused_map
        return functional.linear(pooled, weight, bias)

    @cached_property
    def fused_map(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight [hidden, hidden] and bias [hidden] of the two, computed in float32 on first use."""
        second = self.visual_projector[2]
        if not isinstance(second, nn.Linear):
            raise TypeError(f"the projector's last part is {type(second).__name__}, not Linear")
        if self.feature_adaptor is None:
            return second.weight, second.bias
        with torch.inference_mode(False), torch.no_grad():
            outer, inner = self.feature_adaptor.weight.float(), second.weight.float()
            bias = outer @ second.bias.float() + self.feature_adaptor.bias.float()
            return (outer @ inner).to(second.weight.dtype), bias.to(second.weight.dtype)

    def encode_frames(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, hidden]: tower, projector, adaptor, frame by frame alike."""
        return self.adapt(self.project(self.tower_features(pixel_values)))

    @staticmethod
    def pool(features: torch.Tensor) -> torch.Tensor:
        """[T, N, hidden] -> [T + N, hidden]: means over tokens (one per frame) first, then means over frames."""
        return torch.cat([features.mean(dim=1), features.mean(dim=0)])
