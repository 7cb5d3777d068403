"""EventGPT: camera events as event frames, CLIP, a projector, an adaptor, means over time and space, Vicuna.

Its config.json describes the language model only and names its CLIP tower by path; see `lent_tower`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.checkpoints.config import ModelConfig, text_config
from engines.checkpoints.naming import Naming
from engines.families.event_model import EVENTGPT_V1, EventLanguageModel
from engines.families.eventgpt_network import EventGptModel
from engines.families.lent_tower import LentTowerFamily
from engines.stages.visual_tokens import VisualCounts, pooled_counts
from evprof.core.errors import UserError
from evprof.core.vocabulary.generation import GenerationSettings

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig


@dataclass(frozen=True)
class EventGptConfig(ModelConfig):
    """A CLIP tower, a Llama, and between them a projector and (`has_adaptor`) one linear adaptor."""

    has_adaptor: bool = True
    family: str = field(default="eventgpt", kw_only=True)


class EventGptFamily(LentTowerFamily):
    """Its tensors and files as published."""

    tower_key = "mm_visual_tower"
    tower_prefix = "model.visual_tower.visual_tower.vision_model."
    names = Naming(
        (
            ("visual_tower.", tower_prefix),
            ("visual_projector.", "model.visual_projector."),
            ("feature_adaptor.", "model.feature_adaptor."),
            ("language_model.lm_head.", "lm_head."),
            ("language_model.model.", "model."),
        )
    )
    template = EVENTGPT_V1
    network = EventGptModel
    model = EventLanguageModel
    writes_tokenizer_file = False
    published_rows = 32_000

    def read(self, folder: Path, values: dict[str, Any], clip: str | None, *, holds_tower: bool) -> ModelConfig:
        """The language model's values, and the tower's from the CLIP folder that describes it."""
        if values.get("use_event_qformer"):
            raise UserError(
                f"{folder / 'config.json'} asks for a Q-Former (use_event_qformer), which no published code describes; "
                "use a checkpoint without one."
            )
        vision, found = self.read_tower(folder, values, clip, holds_tower=holds_tower)
        assumptions = list(found.pop("assumptions"))
        has_adaptor = "event_feature_adaptor" in values
        if not has_adaptor:
            assumptions.append("config.json has no event_feature_adaptor, so the model is built without an adaptor.")
        assumptions += [
            f"{flag} is set, but event markers are read as ordinary text, as in the released code."
            for flag in ("mm_use_im_start_end", "mm_use_im_patch_token")
            if values.get(flag)
        ]
        return EventGptConfig(vision, text_config(values), has_adaptor, assumptions=tuple(assumptions), **found)

    def random(self, vision: CLIPVisionConfig, text: Mapping[str, Any]) -> ModelConfig:
        """As published, with an adaptor."""
        return EventGptConfig(vision, text_config(text))

    def visual_counts(self, config: ModelConfig, pictures: int, settings: GenerationSettings) -> VisualCounts:
        """Pooled over frames, unless a single one is shown whole."""
        if settings.input.pooling == "none":
            return super().visual_counts(config, pictures, settings)
        return pooled_counts(pictures, config.tokens_per_frame, settings.switches.visual_keep)


FAMILY = EventGptFamily("eventgpt")
