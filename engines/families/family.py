"""The torch half of a family: how its checkpoints are read and named, its network, its prompt.

`evprof.core.vocabulary.families` has the half that needs no torch. A `LentTowerFamily` has a config.json that describes
the language model only and names its CLIP tower by path. The tower's shape comes from that folder
or is that of CLIP ViT-L/14 at the family's image size. Its weights come from there if the checkpoint holds none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.checkpoints.config import (
    CLIP_L14,
    PUBLISHED,
    ModelConfig,
    given_folder,
    named_folder,
    tower_tensors,
    vision_config,
)
from engines.checkpoints.json_file import read_json
from engines.checkpoints.naming import Naming
from engines.checkpoints.shards import StoredTensor, has_weights
from engines.families.loaded_model import LoadedModel
from engines.stages.visual_tokens import VisualCounts, framewise_counts
from engines.tokens.prompts import PromptTemplate
from evprof.core.errors import UserError
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig

_INSIDE = "vision_model."


class ModelFamily(ABC):
    """One family. `names` are its tensors' names, `template` its prompt, `network` and `model` its classes.
    `extra_tokens` follow the 32,000 shared ones. `writes_tokenizer_file`: its checkpoints have a tokenizer.json; else a
    sentencepiece model with `published_rows` entries."""

    names: Naming
    template: PromptTemplate
    network: type[Any]
    model: type[LoadedModel]
    extra_tokens: tuple[str, ...] = ()
    writes_tokenizer_file = True
    published_rows = 0

    def __init__(self, key: str) -> None:
        self.key = key
        self.record = FAMILIES[key]

    @abstractmethod
    def read(self, folder: Path, values: dict[str, Any], clip: str | None, *, holds_tower: bool) -> ModelConfig:
        """The configuration in `folder`/config.json with these `values`; see `read_config`. Raises UserError or
        ValueError."""

    @abstractmethod
    def random(self, vision: CLIPVisionConfig, text: Mapping[str, Any]) -> ModelConfig:
        """The configuration of a model with random weights of these sizes."""

    def layout(self, config: ModelConfig) -> PromptTemplate:
        """The prompt's layout, which may depend on the language model."""
        return self.template

    def check(self, config: Any) -> None:
        """Raises ValueError for a configuration that makes no model of this family."""
        return

    def canonical(self, stored_name: str) -> str:
        return stored_name

    def holds_tower(self, stored: Collection[str]) -> bool:
        return True

    def completed(
        self, folder: Path, config: ModelConfig, stored: dict[str, StoredTensor]
    ) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
        """The stored tensors with what another folder lends them, and what is said about it."""
        return stored, ()

    def is_lent(self, published_name: str) -> bool:
        return False

    def visual_counts(self, config: ModelConfig, pictures: int, settings: GenerationSettings) -> VisualCounts:
        """Positions of the prompt that so many pictures take under these settings, after pooling and pruning."""
        return framewise_counts(pictures, config.tokens_per_frame, settings.switches.visual_keep)


class LentTowerFamily(ModelFamily):
    """`tower_key` names the tower's folder in config.json; `tower_prefix` is the prefix of its tensors."""

    tower_key: str
    tower_prefix: str

    def read_tower(
        self, folder: Path, values: dict[str, Any], clip: str | None, *, holds_tower: bool
    ) -> tuple[CLIPVisionConfig, dict[str, Any]]:
        """The tower's configuration, and what a `ModelConfig` tells of where it was found, `assumptions` with it."""
        assumptions: tuple[str, ...] = ()
        tower = values.get(self.tower_key)
        named, given = named_folder(folder, tower), given_folder(clip) if clip is not None else None
        is_given = given is not None and (named is None or not holds_tower)
        tower_folder = given if is_given else named
        if given is not None and holds_tower:
            assumptions += (f"The weights hold a CLIP tower of their own, which is used instead of that in {given}.",)
        if tower_folder is None:
            assumptions += (
                f"{self.tower_key} '{tower}' is not on this machine; the tower is taken to be CLIP ViT-L/14 at "
                f"{self.record.image_size} pixels.",
            )
            vision = vision_config({**CLIP_L14, "image_size": self.record.image_size})
        else:
            tower_values = read_json(tower_folder / "config.json")
            vision = vision_config(tower_values.get("vision_config") or tower_values)
        return vision, {
            "tower_folder": tower_folder,
            "tower_is_given": is_given,
            "tower_name": tower if isinstance(tower, str) else None,
            "assumptions": assumptions,
        }

    def canonical(self, stored_name: str) -> str:
        outside = self.tower_prefix.removesuffix(_INSIDE)
        if stored_name.startswith(outside) and not stored_name.startswith(self.tower_prefix):
            return self.tower_prefix + stored_name.removeprefix(outside)
        return stored_name

    def is_lent(self, published_name: str) -> bool:
        return published_name.startswith(self.tower_prefix)

    def holds_tower(self, stored: Collection[str]) -> bool:
        return any(self.is_lent(self.canonical(name)) for name in stored)

    def completed(
        self, folder: Path, config: ModelConfig, stored: dict[str, StoredTensor]
    ) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
        """Adds the tower of a CLIP folder if the files hold none: the user's, or the one that config.json names.
        Raises UserError, naming --clip, if there is none."""
        if self.holds_tower(stored):
            return stored, ()
        source = config.tower_folder if config.tower_folder is not None and has_weights(config.tower_folder) else None
        if source is None:
            raise UserError(_no_tower(folder, config))
        borrowed = {self.tower_prefix + name: tensor for name, tensor in tower_tensors(source).items()}
        if not borrowed:
            raise UserError(f"{source} holds no CLIP vision tower; name another CLIP folder with --clip FOLDER.")
        whose = "given with --clip" if config.tower_is_given else f"that config.json names ('{config.tower_name}')"
        return {**stored, **borrowed}, (f"The weights hold no CLIP tower; the one in {source} {whose} is used.",)


def _no_tower(folder: Path, config: ModelConfig) -> str:
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
        f"{folder} holds no CLIP tower, and its config.json {named}; get it with hf download {PUBLISHED}, or name a "
        "CLIP folder with --clip FOLDER."
    )
