"""A CLIP tower run layer by layer as far as it is read, and what its class token looked at.

The modules are transformers'; they are called one by one so that layers nobody reads are not computed, and so that
the attention of one layer can be had without the slow kernel for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch

if TYPE_CHECKING:
    from transformers import CLIPVisionModel
    from transformers.models.clip.modeling_clip import CLIPAttention, CLIPEncoderLayer


@dataclass(frozen=True, eq=False)
class TowerStates:
    """`last` [T, 1 + P, width] is the output of the last layer that is read, `before` that layer's input.

    Row 0 of every frame is the class token. `layer` is the layer between the two.
    """

    last: torch.Tensor
    before: torch.Tensor
    layer: CLIPEncoderLayer


def run_tower(tower: CLIPVisionModel, pixel_values: torch.Tensor, feature_layer: int = -1) -> TowerStates:
    """[T, 3, H, W] -> states of the hidden layer `feature_layer`, counted as transformers counts `hidden_states`.

    0 is the embeddings, -1 the last layer's output; no layer norm follows, as in LLaVA and EventGPT.
    """
    layers = cast("Sequence[CLIPEncoderLayer]", tower.encoder.layers)
    reads = feature_layer if feature_layer >= 0 else len(layers) + 1 + feature_layer
    state: torch.Tensor = tower.pre_layrnorm(tower.embeddings(pixel_values))
    before = state
    for layer in layers[:reads]:
        before, state = state, layer(state, None)
    return TowerStates(state, before, layers[max(reads - 1, 0)])


def class_attention(states: TowerStates) -> torch.Tensor:
    """How much each patch is looked at by the class token in that layer: [T, P], float32, averaged over heads.

    softmax(q_cls · k / sqrt(d)) from the layer's own queries and keys, which are computed here for that one query.
    """
    attention: CLIPAttention = states.layer.self_attn
    inner = states.layer.layer_norm1(states.before)
    frames, tokens, _ = inner.shape
    shape = (frames, -1, attention.num_heads, attention.head_dim)
    query = attention.q_proj(inner[:, :1]).view(shape).transpose(1, 2)
    keys = attention.k_proj(inner).view(shape).transpose(1, 2)
    scores = (query @ keys.transpose(-1, -2)).float() * attention.scale
    weights: torch.Tensor = scores.softmax(dim=-1).view(frames, attention.num_heads, tokens)
    return weights.mean(dim=1)[:, 1:]
