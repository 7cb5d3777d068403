"""LLaVA-NeXT-Video: one tower, patches pooled two by two, all frames in one slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from engines.checkpoints.shape_check import check_pooling
from engines.families.llava import LlavaFamily, names_of
from engines.families.llava_network import LlavaConfig, LlavaModel
from engines.tokens.prompts import PromptTemplate


class LlavaNextVideoModel(LlavaModel):
    """The network. `image_newline` is part of its checkpoints and separates the rows of still images; videos do not use
    it."""

    def __init__(self, config: LlavaConfig) -> None:
        super().__init__(config)
        self.image_newline = nn.Parameter(torch.zeros(config.text.hidden_size))


class LlavaNextVideoFamily(LlavaFamily):
    """What differs from LLaVA-1.5."""

    names = names_of(("vision_tower.", "vision_tower.vision_model."), ("image_newline", "image_newline"))
    template = PromptTemplate("llava_next_video", "<video>", "USER: ", "\n{question} ASSISTANT:")
    network = LlavaNextVideoModel
    extra_tokens = ("<video>", "<image>", "<pad>")

    def of_its_own(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """How patches are pooled."""
        strategy = values.get("vision_feature_select_strategy", "default")
        if strategy != "default":
            raise ValueError(f"vision_feature_select_strategy '{strategy}' leaves no square of patches to pool")
        return {
            "pooling": str(values.get("spatial_pool_mode", "average")),
            "pool_stride": values.get("spatial_pool_stride", 2),
        }

    def check(self, config: LlavaConfig) -> None:
        """Patches must fill squares."""
        check_pooling(config.pooling, config.pool_stride, config.vision)


FAMILY = LlavaNextVideoFamily("llava_next_video")
