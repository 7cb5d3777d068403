"""A family's network built without weights: every parameter a name and a shape, filled in one by one afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from engines.checkpoints.config import ModelConfig
from engines.families.family import build_network
from engines.families.loaded_model import Network

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


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
