"""The families of LLaVA's kind: LLaVA-1.5, Video-LLaVA, LLaVA-NeXT-Video, EventGPT-Plus.

LLaVA-1.5 takes frames as images, each in a slot of its own. Video-LLaVA has two towers of one shape; frames go
through the video tower and share one slot. LLaVA-NeXT-Video pools patches two by two and puts all frames in one slot.

EventGPT-Plus reads camera events in 4 to 32 bins, pools patches two by two and answers with Qwen2.5-1.5B. Its program
(XduSyL/EventBench) is public, and with it the names of the tensors, the projector, the pooling, the bins and the
prompt. The checkpoint is available on request only, so its sizes are read from the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    patches,
    qwen2_text,
    text_config,
    vision_config,
)
from engines.checkpoints.naming import Naming
from engines.families.llava_model import LlavaConfig, LlavaModel, VideoLanguageModel
from engines.families.loaded_model import LentTowerFamily, ModelFamily
from engines.measuring.timing import StageClock
from engines.stages.frames import draw_event_bins
from engines.stages.model import HostInputs, ModelInputs
from engines.tokens.prompts import SLOT, PromptTemplate, chatml
from engines.tokens.tokenization import SyntheticVocabulary
from evprof.core.errors import UserError
from evprof.core.vocabulary.generation import GenerationSettings

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
        if "mm_vision_tower" in values or "mm_image_tower" in values:
            raise UserError(
                f"{folder} has the layout of LLaVA's own repository; use the model's conversion for transformers, such "
                "as llava-hf/llava-1.5-7b-hf or LanguageBind/Video-LLaVA-7B-hf."
            )
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


@dataclass(frozen=True)
class EventGptPlusConfig(LlavaConfig):
    family: str = field(default="eventgpt_plus", kw_only=True)
    slot_id: int = field(default=SLOT, kw_only=True)
    feature_layer: int = field(default=-1, kw_only=True)
    pooling: str | None = "average"
    sequence_limit: int | None = None

    @property
    def projected_tokens(self) -> int:
        return patches(self.vision)


class EventGptPlusModel(LlavaModel):
    config: EventGptPlusConfig

    def encode_frames(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T, N, hidden]."""
        return self.pool_patches(self.project(self.tower_features(pixel_values)))


EVENTGPT_PLUS_PROMPT = chatml(
    "eventgpt_qwen",
    "<event>",
    "You are a helpful assistant. You are looking at a red-blue visualization of the Event Stream. Please answer the "
    "question based solely on the visual input. Do not make assumptions or guess beyond what is observable.\n",
)
"""The published layout, under its published name; the system's words end with a line."""


class BinnedEventModel(VideoLanguageModel):
    network: EventGptPlusModel

    @property
    def cut_at(self) -> int | None:
        return self.network.config.sequence_limit

    def shown(self, host: HostInputs, settings: GenerationSettings, spans: StageClock) -> HostInputs:
        return draw_event_bins(host, settings.event_frames, self.record, settings.input.canvas_size, spans)

    def compute_vision(self, inputs: ModelInputs, spans: StageClock) -> torch.Tensor:
        """[T · N, hidden], bin after bin, less what is pruned."""
        with spans.child("tower") as span:
            span.input("pixel_values", inputs.pixel_values)
            states = self.network.tower(inputs.pixel_values)
            features = self.network.read_tokens(states.last)
            span.output("features", features)
        with spans.child("projector") as span:
            span.input("features", features)
            projected = self.network.project(features)
            span.output("projected", projected)
        pooled = self.pool(projected, spans)
        if inputs.recipe.keep < 1:
            pooled = self.prune(pooled, states, inputs.recipe, spans)
        return pooled.flatten(0, 1)


class EventGptPlusFamily(LentTowerFamily):
    tower_key = "event_tower"
    tower_prefix = "model.event_tower.vision_tower.vision_model."
    names = Naming(
        (
            ("vision_tower.", tower_prefix),
            ("multi_modal_projector.linear_1.", "model.event_projector.0."),
            ("multi_modal_projector.linear_2.", "model.event_projector.2."),
            ("language_model.lm_head.", "lm_head."),
            ("language_model.model.", "model."),
        )
    )
    template = EVENTGPT_PLUS_PROMPT
    network = EventGptPlusModel
    model = BinnedEventModel

    def read(self, folder: Path, values: dict[str, Any], clip: str | None, *, holds_tower: bool) -> ModelConfig:
        path = folder / "config.json"
        tower, projector = values.get("event_tower_type"), values.get("event_projector_type", "mlp")
        if tower not in (None, "CLIP"):
            raise UserError(f"{path}: the event tower is of type '{tower}'; evprof runs those with a CLIP tower.")
        if projector != "mlp":
            raise UserError(f"{path}: the event projector is of type '{projector}'; evprof runs those of type 'mlp'.")
        vision, found = self.read_tower(folder, values, clip, holds_tower=holds_tower)
        if tower is None:
            found["assumptions"] += ("config.json has no event_tower_type; the tower is taken to be CLIP.",)
        limit = values.get("tokenizer_model_max_length")
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise ValueError(f"tokenizer_model_max_length is {limit!r}, not a number of positions")
        # Its program empties what scales rotary positions, whatever the file says.
        return EventGptPlusConfig(
            vision, qwen2_text({**values, "rope_scaling": None}, path), sequence_limit=limit, **found
        )

    def random(self, vision: CLIPVisionConfig, text: Mapping[str, Any]) -> ModelConfig:
        return EventGptPlusConfig(vision, qwen2_text(text, Path()))

    def check(self, config: LlavaConfig) -> None:
        check_pooling(config.pooling, config.pool_stride, config.vision)


EVENTGPT_PLUS = EventGptPlusFamily("eventgpt_plus")
