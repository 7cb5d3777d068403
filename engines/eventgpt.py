"""EventGPT's network: a CLIP tower per event frame, projector, adaptor, spatio-temporal pooling, Llama.

Built from transformers' CLIP and Llama modules; what the published checkpoint calls its tensors is in `naming`, how
frames are made of events in `preprocessing`.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import CLIPVisionModel, LlamaForCausalLM

from engines.config import EventGptConfig, patches


class EventGptModel(nn.Module):
    """The whole network. `feature_adaptor` is None in a model built without one."""

    def __init__(self, config: EventGptConfig) -> None:
        super().__init__()
        self.config = config
        hidden = config.text.hidden_size
        self.visual_tower = CLIPVisionModel(config.vision)
        self.visual_projector = nn.Sequential(
            nn.Linear(config.vision.hidden_size, hidden), nn.GELU(), nn.Linear(hidden, hidden)
        )
        self.feature_adaptor = nn.Linear(hidden, hidden) if config.has_adaptor else None
        self.language_model = LlamaForCausalLM(config.text)

    @property
    def tokens_per_frame(self) -> int:
        """Visual tokens of one frame before pooling: the patches and the class token."""
        return patches(self.config.vision) + 1

    def tower_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, width]: the last layer's output for all tokens, before the final layer norm."""
        features: torch.Tensor = self.visual_tower(pixel_values=pixel_values).last_hidden_state
        return features

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

    def encode_frames(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, hidden]: tower, projector, adaptor, frame by frame alike."""
        return self.adapt(self.project(self.tower_features(pixel_values)))

    @staticmethod
    def pool(features: torch.Tensor) -> torch.Tensor:
        """[T, N, hidden] -> [T + N, hidden]: means over tokens (one per frame) first, then means over frames."""
        return torch.cat([features.mean(dim=1), features.mean(dim=0)])
