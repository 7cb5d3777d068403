"""The families of LLaVA's kind: LLaVA-1.5, Video-LLaVA, LLaVA-NeXT-Video.

LLaVA-1.5 takes frames as images, each in a slot of its own. Video-LLaVA has two towers of one shape; frames go
through the video tower and share one slot. LLaVA-NeXT-Video pools patches two by two and puts all frames in one slot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from engines.checkpoints.config import (
    CLIP_L14,
    QWEN2,
    VICUNA_7B,
    ModelConfig,
    check_pooling,
    is_qwen2,
    qwen2_text,
    text_config,
    vision_config,
)
from engines.checkpoints.naming import Naming
from engines.families.family import ModelFamily
from engines.families.llava_model import LlavaConfig, LlavaModel, VideoLanguageModel
from engines.tokens.prompts import PromptTemplate, chatml
from engines.tokens.tokenization import SyntheticVocabulary
from evprof.core.errors import UserError

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig, CLIPVisionModel, LlamaConfig

_LATER_TOWER = re.compile(r"^(?P<tower>(?:image|video|vision)_tower\.)(?!vision_model\.)")
_HEAD = "lm_head."
LLAMA = "llama"
"""What config.json calls the language model."""
_PUBLISHED_ROWS = 32_064
"""Rows of the published vocabularies: 32,000 shared, a few own tokens, padding."""


def names_of(*parts: tuple[str, str]) -> Naming:
    shared = ("multi_modal_projector.", "language_model.")
    return Naming((*parts, *((name, name) for name in shared)))


class LlavaFamily(ModelFamily):
    names = names_of(("vision_tower.", "vision_tower.vision_model."))
    template = PromptTemplate("llava_v1_5", "<image>", "USER: ", "\n{question} ASSISTANT:", between="\n")
    network: type[LlavaModel] = LlavaModel
    model = VideoLanguageModel
    extra_tokens: tuple[str, ...] = ("<image>", "<pad>")

    def of_its_own(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"keeps_cls": values.get("vision_feature_select_strategy", "default") == "full"}

    def token_id(self, token: str, values: Mapping[str, Any]) -> int:
        """The id of `<image>` or `<video>`: what config.json says, else the published one."""
        name = token.strip("<>")
        published = SyntheticVocabulary.SHARED + self.extra_tokens.index(token)
        return int(values.get(f"{name}_token_index", values.get(f"{name}_token_id", published)))

    def read(self, folder: Path, values: dict[str, Any], clip: str | None, *, holds_tower: bool) -> ModelConfig:
        text, seen = dict(values.get("text_config") or {}), dict(values.get("vision_config") or {})
        _check_parts(folder / "config.json", text, seen)
        layer = values.get("vision_feature_layer", -2)
        if not isinstance(layer, int):
            raise ValueError(f"vision_feature_layer {layer!r}: one layer is supported")
        return LlavaConfig(
            vision_config({**CLIP_L14, "image_size": self.record.image_size, **seen}),
            _language(folder / "config.json", values, text),
            family=self.key,
            slot_id=self.token_id(self.template.slot, values),
            feature_layer=layer,
            projector_act=str(values.get("projector_hidden_act", "gelu")),
            projector_bias=bool(values.get("multimodal_projector_bias", True)),
            image_token_id=self.token_id("<image>", values),
            **self.of_its_own(values),
        )

    def random(self, vision: CLIPVisionConfig, text: Mapping[str, Any]) -> ModelConfig:
        return LlavaConfig(
            vision,
            text_config({**text, "vocab_size": _PUBLISHED_ROWS}),
            family=self.key,
            slot_id=self.token_id(self.template.slot, {}),
            image_token_id=self.token_id("<image>", {}),
            **self.of_its_own({}),
        )

    def layout(self, config: ModelConfig) -> PromptTemplate:
        own = self.template
        if not is_qwen2(config.text):
            return own
        return chatml(f"{own.name}_chatml", own.slot, between=own.between)

    def canonical(self, stored_name: str) -> str:
        name = stored_name
        if name.startswith("model."):
            name = name.removeprefix("model.")
            if name.startswith("language_model.") and not name.startswith("language_model.model."):
                name = "language_model.model." + name.removeprefix("language_model.")
        if name.startswith(_HEAD):
            name = "language_model." + name
        return _LATER_TOWER.sub(r"\g<tower>vision_model.", name)


def _language(path: Path, values: Mapping[str, Any], text: dict[str, Any]) -> LlamaConfig:
    if text.get("model_type") == QWEN2:
        return qwen2_text({"tie_word_embeddings": values.get("tie_word_embeddings", False), **text}, path)
    filled = {**VICUNA_7B, **text}
    if "num_attention_heads" in text and "num_key_value_heads" not in text:
        filled["num_key_value_heads"] = text["num_attention_heads"]
    return text_config(filled)


def _check_parts(path: Path, text: dict[str, Any], vision: dict[str, Any]) -> None:
    """Families are built of other parts, too (Mistral, SigLIP), which are no damage but nothing we can run."""
    language, tower = text.get("model_type", LLAMA), vision.get("model_type", "clip_vision_model")
    if language not in (LLAMA, QWEN2):
        raise UserError(
            f"{path}: the language model is of type '{language}'; evprof runs those with a Llama or a Qwen2 inside."
        )
    if tower not in ("clip_vision_model", "clip"):
        raise UserError(f"{path}: the vision tower is of type '{tower}'; evprof runs those with a CLIP tower.")


LLAVA = LlavaFamily("llava")


class VideoLlavaModel(LlavaModel):
    def _build_towers(self) -> None:
        from transformers import CLIPVisionModel

        self.image_tower = CLIPVisionModel(self.config.vision)
        self.video_tower = CLIPVisionModel(self.config.vision)

    @property
    def frame_tower(self) -> CLIPVisionModel:
        return self.video_tower


class VideoLlavaFamily(LlavaFamily):
    names = names_of(("image_tower.", "image_tower.vision_model."), ("video_tower.", "video_tower.vision_model."))
    template = PromptTemplate("video_llava", "<video>", "USER: ", "\n{question} ASSISTANT:")
    network = VideoLlavaModel
    extra_tokens = ("<image>", "<video>", "<pad>")

    def of_its_own(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"keeps_cls": True}


VIDEO_LLAVA = VideoLlavaFamily("video_llava")


class LlavaNextVideoModel(LlavaModel):
    def __init__(self, config: LlavaConfig) -> None:
        super().__init__(config)
        self.image_newline = nn.Parameter(torch.zeros(config.text.hidden_size))


class LlavaNextVideoFamily(LlavaFamily):
    names = names_of(("vision_tower.", "vision_tower.vision_model."), ("image_newline", "image_newline"))
    template = PromptTemplate("llava_next_video", "<video>", "USER: ", "\n{question} ASSISTANT:")
    network = LlavaNextVideoModel
    extra_tokens = ("<video>", "<image>", "<pad>")

    def of_its_own(self, values: Mapping[str, Any]) -> dict[str, Any]:
        strategy = values.get("vision_feature_select_strategy", "default")
        if strategy != "default":
            raise ValueError(f"vision_feature_select_strategy '{strategy}' leaves no square of patches to pool")
        return {
            "pooling": str(values.get("spatial_pool_mode", "average")),
            "pool_stride": values.get("spatial_pool_stride", 2),
        }

    def check(self, config: LlavaConfig) -> None:
        check_pooling(config.pooling, config.pool_stride, config.vision)


LLAVA_NEXT_VIDEO = LlavaNextVideoFamily("llava_next_video")
