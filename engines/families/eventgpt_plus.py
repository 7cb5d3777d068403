"""EventGPT-Plus: camera events in 4 to 32 bins, CLIP, a projector, patches pooled two by two, Qwen2.5-1.5B.

Its program (XduSyL/EventBench) is public, and with it the names of the tensors, the projector, the pooling, the bins
and the prompt. The checkpoint is available on request only. Its config.json, its tower and the rows of its vocabulary
were not available to us; all are read from the files. The Llama variant is not public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from engines.checkpoints.config import ModelConfig, check_pooling, patches, qwen2_text
from engines.checkpoints.naming import Naming
from engines.families.family import LentTowerFamily
from engines.families.llava_model import LlavaConfig, LlavaModel, VideoLanguageModel
from engines.measuring.timing import StageClock
from engines.stages.frames import draw_event_bins
from engines.stages.model import HostInputs, ModelInputs
from engines.tokens.prompts import SLOT, chatml
from evprof.core.errors import UserError
from evprof.core.vocabulary.generation import GenerationSettings

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig


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
