"""Finds the family of a checkpoint, and builds its network without weights: each parameter a name and a shape."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn

from engines.checkpoints.config import ModelConfig, check_activation, check_layer, check_shape
from engines.checkpoints.shards import read_json
from engines.families.eventgpt import EVENTGPT
from engines.families.llava import EVENTGPT_PLUS, LLAVA, LLAVA_NEXT_VIDEO, VIDEO_LLAVA
from engines.families.loaded_model import ModelFamily, Network
from evprof.core.errors import UserError
from evprof.core.vocabulary.families import FAMILIES

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


ENGINE_FAMILIES: dict[str, ModelFamily] = {
    family.key: family for family in (EVENTGPT, EVENTGPT_PLUS, LLAVA, VIDEO_LLAVA, LLAVA_NEXT_VIDEO)
}


def engine_family(key: str) -> ModelFamily:
    return ENGINE_FAMILIES[key]


def build_network(config: ModelConfig) -> Any:
    return engine_family(config.family).network(config)


def build_empty(config: ModelConfig) -> Network:
    """The network on the meta device: shapes only, no memory."""
    with torch.device("meta"):
        network: Network = build_network(config)
    network.requires_grad_(False)
    return network.eval()


def parameter_shapes(network: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}


def put_parameter(network: nn.Module, name: str, tensor: torch.Tensor) -> None:
    owner_name, _, leaf = name.rpartition(".")
    owner = network.get_submodule(owner_name)
    setattr(owner, leaf, nn.Parameter(tensor, requires_grad=False))


def finish(network: Network, device: torch.device) -> None:
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
    """The configuration in `folder`/config.json. Raises UserError for a missing file or an unknown model_type. `clip`
    describes EventGPT's tower unless the weights `stored` hold one and config.json names its folder."""
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
