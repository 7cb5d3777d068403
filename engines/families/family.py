"""The torch half of a family of models: how its checkpoints are read and named, its network, its prompt.

A family is one file `engines/families/<key>.py` with a FAMILY in it; what needs no torch is its record in
`evprof.core.vocabulary.families`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.checkpoints.config import ModelConfig
from engines.checkpoints.naming import Naming
from engines.checkpoints.shards import StoredTensor
from engines.families.loaded_model import LoadedModel
from engines.stages.visual_tokens import VisualCounts, framewise_counts
from engines.tokens.prompts import PromptTemplate
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig


class ModelFamily(ABC):
    """One family. `names` are those of its tensors, `template` its prompt, `network` and `model` its classes.

    `extra_tokens` stand above the 32,000 of the shared vocabulary, in order. `writes_tokenizer_file`: its checkpoints
    bring a tokenizer.json; else a sentencepiece model, with one row of the embeddings for each of `published_rows`
    entries.
    """

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
        """The configuration in `folder`/config.json, whose `values` these are; `clip` and `holds_tower` as in
        `read_config`. Raises UserError or, for what makes no model, ValueError."""

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
        """The published name of a tensor that a newer transformers stored under its later names."""
        return stored_name

    def holds_tower(self, stored: Collection[str]) -> bool:
        """Whether stored tensors of these names have a vision tower, or a part of one, among them."""
        return True

    def completed(
        self, folder: Path, config: ModelConfig, stored: dict[str, StoredTensor], *, fetches: bool = False
    ) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
        """The stored tensors with what another folder lends them (`fetches`: or the hub), and what is said about it."""
        return stored, ()

    def is_lent(self, published_name: str) -> bool:
        """Whether a tensor of this name may come from another folder."""
        return False

    def visual_counts(self, config: ModelConfig, pictures: int, settings: GenerationSettings) -> VisualCounts:
        """Positions of the prompt that so many pictures take under these settings, after pooling and pruning."""
        return framewise_counts(pictures, config.tokens_per_frame, settings.switches.visual_keep)


@cache
def engine_family(key: str) -> ModelFamily:
    """The torch half of the family of that key."""
    family: ModelFamily = import_module(f"engines.families.{key}").FAMILY
    return family


def build_network(config: ModelConfig) -> Any:
    """The network of the configuration's family, with the weights its modules begin with."""
    return engine_family(config.family).network(config)
