"""EventGPT: camera events as event frames, CLIP, a projector, an adaptor, means over time and space, Vicuna.

Its config.json describes the language model only and names its CLIP tower by path; the tower's shape is then found in
that folder (see `clip_folder`) or is that of CLIP ViT-L/14 at 336 pixels.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import CLIPVisionConfig, LlamaConfig

from engines.checkpoints.clip_folder import PUBLISHED, fetched_folder, given_folder, named_folder, tower_tensors
from engines.checkpoints.config import CLIP_L14, ModelConfig, text_config, vision_config
from engines.checkpoints.json_file import read_json
from engines.checkpoints.naming import Naming
from engines.checkpoints.shards import StoredTensor, has_weights
from engines.families.event_model import EVENTGPT_V1, EventLanguageModel
from engines.families.eventgpt_network import EventGptModel
from engines.families.family import ModelFamily
from engines.stages.visual_tokens import VisualCounts, pooled_counts
from evprof.core.errors import UserError
from evprof.core.vocabulary.generation import GenerationSettings

_TOWER = "model.visual_tower.visual_tower.vision_model."


@dataclass(frozen=True)
class EventGptConfig(ModelConfig):
    """A CLIP tower, a Llama, and between them a projector and (`has_adaptor`) one linear adaptor.

    `tower_folder` is the CLIP folder found on this machine, and `tower_is_given` whether the user named it rather than
    config.json, whose own `mm_visual_tower` is `tower_name`.
    """

    has_adaptor: bool = True
    family: str = field(default="eventgpt", kw_only=True)
    tower_is_given: bool = False
    tower_name: str | None = None


class EventGptFamily(ModelFamily):
    """Its tensors and files as published."""

    names = Naming(
        (
            ("visual_tower.", _TOWER),
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
        assumptions: list[str] = []
        tower = values.get("mm_visual_tower")
        named, given = named_folder(folder, tower), given_folder(clip) if clip is not None else None
        is_given = given is not None and (named is None or not holds_tower)
        tower_folder = given if is_given else named
        if given is not None and holds_tower:
            assumptions.append(f"The weights hold a CLIP tower of their own, which is used instead of that in {given}.")
        if tower_folder is None:
            assumptions.append(
                f"mm_visual_tower '{tower}' is not on this machine; the tower is taken to be CLIP ViT-L/14 at "
                f"{self.record.image_size} pixels."
            )
            vision = CLIPVisionConfig(**CLIP_L14, image_size=self.record.image_size)
        else:
            tower_values = read_json(tower_folder / "config.json")
            vision = vision_config(tower_values.get("vision_config") or tower_values)
        has_adaptor = "event_feature_adaptor" in values
        if not has_adaptor:
            assumptions.append("config.json has no event_feature_adaptor, so the model is built without an adaptor.")
        assumptions += [
            f"{flag} is set, but event markers are read as ordinary text, as in the released code."
            for flag in ("mm_use_im_start_end", "mm_use_im_patch_token")
            if values.get(flag)
        ]
        return EventGptConfig(
            vision,
            text_config(values),
            has_adaptor,
            assumptions=tuple(assumptions),
            tower_folder=tower_folder,
            tower_is_given=is_given,
            tower_name=tower if isinstance(tower, str) else None,
        )

    def random(self, vision: CLIPVisionConfig, text: Mapping[str, Any]) -> ModelConfig:
        """As published, with an adaptor."""
        return EventGptConfig(vision, LlamaConfig(**text))

    def canonical(self, stored_name: str) -> str:
        """From transformers 5.17 on towers are saved without `vision_model.`."""
        return re.sub(r"^(model\.visual_tower\.visual_tower\.)(?!vision_model\.)", r"\1vision_model.", stored_name)

    def is_lent(self, published_name: str) -> bool:
        """A tensor of the tower."""
        return published_name.startswith(_TOWER)

    def holds_tower(self, stored: Collection[str]) -> bool:
        """Published checkpoints leave the tower out."""
        return any(self.is_lent(self.canonical(name)) for name in stored)

    def completed(
        self, folder: Path, config: ModelConfig, stored: dict[str, StoredTensor], *, fetches: bool = False
    ) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
        """With the tower of a CLIP folder, when the files hold none at all.

        The folder is the one the user gave, else the one config.json names, else (`fetches`) that one from the hub.
        Raises UserError, naming --clip, when there is none.
        """
        if not isinstance(config, EventGptConfig) or self.holds_tower(stored):
            return stored, ()
        source = config.tower_folder if config.tower_folder is not None and has_weights(config.tower_folder) else None
        if source is None and fetches and not config.tower_is_given:
            source = fetched_folder(config.tower_name)
        if source is None:
            raise UserError(_no_tower(folder, config))
        borrowed = {_TOWER + name: tensor for name, tensor in tower_tensors(source).items()}
        if not borrowed:
            raise UserError(f"{source} holds no CLIP vision tower; name another CLIP folder with --clip FOLDER.")
        whose = "given with --clip" if config.tower_is_given else f"that config.json names ('{config.tower_name}')"
        return {**stored, **borrowed}, (f"The weights hold no CLIP tower; the one in {source} {whose} is used.",)

    def visual_counts(self, config: ModelConfig, pictures: int, settings: GenerationSettings) -> VisualCounts:
        """Pooled over frames, unless a single one is shown whole."""
        if settings.input.pooling == "none":
            return super().visual_counts(config, pictures, settings)
        return pooled_counts(pictures, config.tokens_per_frame, settings.switches.visual_keep)


def _no_tower(folder: Path, config: EventGptConfig) -> str:
    if config.tower_is_given:
        return (
            f"{folder} holds no CLIP tower, and {config.tower_folder} holds no weights either; name another CLIP "
            "folder with --clip FOLDER."
        )
    named = "names none"
    if config.tower_name is not None:
        empty = f"but {config.tower_folder} holds no weights"
        named = f"names '{config.tower_name}', {empty if config.tower_folder else 'which is not on this machine'}"
    return (
        f"{folder} holds no CLIP tower, and its config.json {named}; name a CLIP folder such as that of {PUBLISHED} "
        "with --clip FOLDER."
    )


FAMILY = EventGptFamily("eventgpt")
