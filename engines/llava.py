"""The networks of LLaVA-1.5 and Video-LLaVA: CLIP tower(s), a two-layer projector, Llama.

The parts are transformers' modules, held side by side so that each can be called, timed and shown on its own.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import CLIPVisionModel, LlamaForCausalLM
from transformers.activations import ACT2FN

from engines.config import LlavaConfig, patches
from engines.naming import VIDEO_LLAVA


class Projector(nn.Module):
    """Two linear layers with an activation between: the tower's width to the language model's."""

    def __init__(self, config: LlavaConfig) -> None:
        super().__init__()
        hidden = config.text.hidden_size
        self.linear_1 = nn.Linear(config.vision.hidden_size, hidden, bias=config.projector_bias)
        self.act = ACT2FN[config.projector_act]
        self.linear_2 = nn.Linear(hidden, hidden, bias=config.projector_bias)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[T, N, width] -> [T, N, hidden]."""
        projected: torch.Tensor = self.linear_2(self.act(self.linear_1(features)))
        return projected


class LlavaModel(nn.Module):
    """LLaVA-1.5: one tower, the class token dropped, N frames as N images."""

    def __init__(self, config: LlavaConfig) -> None:
        super().__init__()
        self.config = config
        self._build_towers()
        self.multi_modal_projector = Projector(config)
        self.language_model = LlamaForCausalLM(config.text)

    def _build_towers(self) -> None:
        self.vision_tower = CLIPVisionModel(self.config.vision)

    @property
    def frame_tower(self) -> CLIPVisionModel:
        """The tower that reads frames."""
        return self.vision_tower

    @property
    def tokens_per_frame(self) -> int:
        """Visual tokens each frame adds to the prompt."""
        return patches(self.config.vision) + int(self.config.keeps_cls)

    def tower_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, width]: hidden states of the configured layer."""
        output = self.frame_tower(pixel_values=pixel_values, output_hidden_states=True)
        features: torch.Tensor = output.hidden_states[self.config.feature_layer]
        return features if self.config.keeps_cls else features[:, 1:]

    def project(self, features: torch.Tensor) -> torch.Tensor:
        """[T, N, width] -> [T, N, hidden]."""
        projected: torch.Tensor = self.multi_modal_projector(features)
        return projected

    def encode_frames(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, hidden]."""
        return self.project(self.tower_features(pixel_values))


class VideoLlavaModel(LlavaModel):
    """Video-LLaVA: two towers of one shape; frames go through the video tower and keep their class token."""

    def _build_towers(self) -> None:
        self.image_tower = CLIPVisionModel(self.config.vision)
        self.video_tower = CLIPVisionModel(self.config.vision)

    @property
    def frame_tower(self) -> CLIPVisionModel:
        """The video tower."""
        return self.video_tower


def build_llava(config: LlavaConfig) -> LlavaModel:
    """The network of the configuration's family."""
    return VideoLlavaModel(config) if config.family == VIDEO_LLAVA else LlavaModel(config)
