"""The torch half of a family: how its checkpoints are read and named, its network without weights, its prompt.

`evprof.core.vocabulary.families` has the half that needs no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn

from engines.checkpoints.config import ModelConfig, check_activation, check_layer, check_shape
from engines.checkpoints.json_file import read_json
from engines.checkpoints.naming import Naming
from engines.checkpoints.shards import StoredTensor
from engines.families.loaded_model import LoadedModel, Network
from engines.stages.visual_tokens import VisualCounts, framewise_counts
from engines.tokens.prompts import PromptTemplate
from evprof.core.errors import UserError
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig, LlamaForCausalLM


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


def build_empty(config: ModelConfig) -> Network:
    """The network on the meta device: shapes only, no memory."""
    with torch.device("meta"):
        network: Network = build_network(config)
    network.requires_grad_(False)
    return network.eval()


def parameter_shapes(network: nn.Module) -> dict[str, tuple[int, ...]]:
    """Module name of every parameter -> its shape."""
    return {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}


def put_parameter(network: nn.Module, name: str, tensor: torch.Tensor) -> None:
    """Replaces one (so far empty) parameter."""
    owner_name, _, leaf = name.rpartition(".")
    owner = network.get_submodule(owner_name)
    setattr(owner, leaf, nn.Parameter(tensor, requires_grad=False))


def finish(network: Network, device: torch.device) -> None:
    """Computes the tables no checkpoint holds (positions, rotary frequencies, in float32) and ties what is tied."""
    from transformers import CLIPVisionModel
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    for module in network.modules():
        if isinstance(module, CLIPVisionModel):
            embeddings = module.embeddings
            positions = torch.arange(embeddings.num_positions, device=device).expand((1, -1))
            embeddings.register_buffer("position_ids", positions, persistent=False)
    language_model: LlamaForCausalLM = network.language_model
    language_model.model.rotary_emb = LlamaRotaryEmbedding(config=language_model.config).to(device)
    if language_model.config.tie_word_embeddings:
        language_model.tie_weights()
    left = [
        name for name, tensor in (*network.named_parameters(), *network.named_buffers()) if tensor.device.type == "meta"
    ]
    if left:
        raise RuntimeError(f"tensors left without values: {', '.join(left[:5])}")


def read_config(folder: Path, clip: str | None = None, *, stored: Collection[str] | None = None) -> ModelConfig:
    """The configuration in `folder`/config.json. Raises UserError for a missing file or an unknown model_type.

    `clip` is a CLIP folder the user named. It describes EventGPT's tower unless the weights hold a tower of their own
    and config.json names a folder for it. `stored` are the names of the weights; None: they are whole.
    """
    path = folder / "config.json"
    values = read_json(path)
    model_type = values.get("model_type")
    key = next((family.key for family in FAMILIES.values() if str(model_type) in family.model_types), None)
    if key is None:
        known = ", ".join(name for family in FAMILIES.values() for name in family.model_types)
        named = f"names model_type '{model_type}'" if model_type is not None else "names no model_type"
        raise UserError(f"{path} {named}; evprof knows {known}: choose a checkpoint of one of these.")
    family = engine_family(key)
    try:
        config = family.read(folder, values, clip, holds_tower=stored is None or family.holds_tower(stored))
        check_shape(config.vision, config.text)
        check_layer(config.feature_layer, config.vision)
        check_activation("the projector's", config.projector_act)
        family.check(config)
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, StrictDataclassError) as error:
        # transformers' own complaint stands below its validator's name.
        reason = (
            (str(error).strip() or type(error).__name__)
            .splitlines()[-1]
            .strip()
            .removeprefix("ValueError: ")
            .removeprefix("TypeError: ")
        )
        raise UserError(
            f"{path} does not describe a {key} model ({reason.rstrip('.')}); download the checkpoint again."
        ) from None
    return config
