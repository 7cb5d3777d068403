"""The network that LLaVA-1.5, Video-LLaVA and LLaVA-NeXT-Video share: a CLIP tower, a two-layer projector, Llama.

The parts are transformers' modules, held side by side so that each can be called, timed and shown on its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from engines.checkpoints.config import ModelConfig, edge, number, patches
from engines.families.language_model import make_language_model
from engines.families.loaded_model import Network

if TYPE_CHECKING:
    from transformers import CLIPVisionModel


@dataclass(frozen=True)
class LlavaConfig(ModelConfig):
    """LLaVA-1.5, Video-LLaVA, LLaVA-NeXT-Video: CLIP, two linear layers, Llama.

    `keeps_cls` says whether the class token stays among the visual tokens. `pooling` is None or how squares of
    `pool_stride` x `pool_stride` patches become one token. `slot_id` is the id the prompt's slot is replaced at.
    """

    slot_id: int = field(kw_only=True)
    feature_layer: int = field(default=-2, kw_only=True)
    keeps_cls: bool = False
    projector_bias: bool = True
    image_token_id: int = 32_000
    pooling: str | None = None
    pool_stride: int = 2

    @property
    def tokens_per_frame(self) -> int:
        """Visual tokens of one frame; where patches are pooled, what does not fill a square is dropped."""
        if self.pooling is None:
            return patches(self.vision) + int(self.keeps_cls)
        side: int = edge(self.vision) // number(self.vision.patch_size)
        return (side // self.pool_stride) ** 2

    @property
    def patch_pooling(self) -> str:
        """`average of 2 x 2 patches`."""
        return f"{self.pooling} of {self.pool_stride} x {self.pool_stride} patches" if self.pooling else ""


class Projector(nn.Module):
    """Two linear layers with an activation between: the tower's width to the language model's."""

    def __init__(self, config: LlavaConfig) -> None:
        from transformers.activations import ACT2FN

        super().__init__()
        hidden = config.text.hidden_size
        self.linear_1 = nn.Linear(config.vision.hidden_size, hidden, bias=config.projector_bias)
        self.act = ACT2FN[config.projector_act]
        self.linear_2 = nn.Linear(hidden, hidden, bias=config.projector_bias)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[T, N, width] -> [T, N, hidden]."""
        projected: torch.Tensor = self.linear_2(self.act(self.linear_1(features)))
        return projected


class LlavaModel(Network):
    """One tower, the class token dropped, N frames as N images; other families of its kind differ in parts."""

    config: LlavaConfig

    def __init__(self, config: LlavaConfig) -> None:
        super().__init__()
        self.config = config
        self._build_towers()
        self.multi_modal_projector = Projector(config)
        self.language_model = make_language_model(config.text)

    def _build_towers(self) -> None:
        from transformers import CLIPVisionModel

        self.vision_tower = CLIPVisionModel(self.config.vision)

    @property
    def frame_tower(self) -> CLIPVisionModel:
        """The tower that reads frames."""
        return self.vision_tower

    @property
    def pools(self) -> bool:
        """Whether patches are pooled before the projector."""
        return self.config.pooling is not None

    def tower_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, width]: hidden states of the configured layer."""
        return self.read_tokens(self.tower(pixel_values).last)

    def read_tokens(self, states: torch.Tensor) -> torch.Tensor:
        """All tokens [T, 1 + P, width] -> those that are read, [T, N, width]."""
        return states if self.config.keeps_cls else states[:, 1:]

    def project(self, features: torch.Tensor) -> torch.Tensor:
        """[T, N, width] -> [T, N, hidden]."""
        projected: torch.Tensor = self.multi_modal_projector(features)
        return projected

    def pool_patches(self, features: torch.Tensor) -> torch.Tensor:
        """[T, P, width] -> [T, N, width]: squares of neighbouring patches as one, where the family does that.

        Patches lie row by row; rows and columns that fill no square are dropped, as transformers does it.
        """
        if not self.pools:
            return features
        frames, count, width = features.shape
        side, stride = math.isqrt(count), self.config.pool_stride
        grid = features.view(frames, side, side, width).permute(0, 3, 1, 2)
        pool = functional.max_pool2d if self.config.pooling == "max" else functional.avg_pool2d
        return pool(grid, stride, stride).flatten(2).transpose(1, 2)

    def encode_frames(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, hidden]."""
        return self.project(self.pool_patches(self.tower_features(pixel_values)))
