"""CLIP's vision tower as our own pass over a transformers tower.

Queries, keys and values come out of one matrix product. Layers that no family reads are not computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F

from engines.decoder.llama import fuse

if TYPE_CHECKING:
    from transformers import CLIPVisionModel
    from transformers.models.clip.modeling_clip import CLIPEncoderLayer

_QUICK_GELU = 1.702
"""quick_gelu(x) = x · sigmoid(1.702 · x) = silu(1.702 · x) / 1.702."""


class ClipLayer:
    """One encoder layer with the weights of `source`, whose projections become views. The factors of quick_gelu are
    factors of the matrix products, so SiLU is one kernel. Other activations have factor 1."""

    def __init__(self, source: CLIPEncoderLayer) -> None:
        attention, mlp = source.self_attn, source.mlp
        is_quick = mlp.config.hidden_act == "quick_gelu"
        self.heads = attention.num_heads
        self.norm, self.post_norm = source.layer_norm1, source.layer_norm2
        self.qkv = fuse(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out = attention.out_proj
        self.up, self.down = mlp.fc1, mlp.fc2
        self.factor = _QUICK_GELU if is_quick else 1.0
        self.up_bias = mlp.fc1.bias * self.factor
        self.activation = F.silu if is_quick else mlp.activation_fn

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        """[T, N, width] -> [T, N, width]."""
        queries, keys, values = self.project(hidden)
        seen = F.scaled_dot_product_attention(queries, keys, values)
        del queries, keys, values
        hidden = hidden + self.out(seen.transpose(1, 2).reshape(hidden.shape))
        rows = self.post_norm(hidden).flatten(0, 1)
        inner = self.activation(torch.addmm(self.up_bias, rows, self.up.weight.t(), alpha=self.factor))
        mapped = torch.addmm(self.down.bias, inner, self.down.weight.t(), alpha=1 / self.factor)
        return hidden + mapped.view(hidden.shape)

    def project(self, hidden: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """[T, N, width] -> queries, keys and values, [T, heads, N, head_dim] each."""
        frames, tokens, _ = hidden.shape
        states: torch.Tensor = self.qkv(self.norm(hidden))
        return states.view(frames, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind()


@dataclass(frozen=True, eq=False)
class TowerStates:
    """`last` [T, 1 + P, width] is the output of `layer`, the last layer that is read, and `before` its input. Row 0 of
    each frame is the class token."""

    last: torch.Tensor
    before: torch.Tensor
    layer: ClipLayer


class ClipTower:
    """The pass up to the hidden layer `feature_layer`, counted as transformers' `hidden_states`: 0 is the embeddings,
    -1 the last layer's output without a layer norm. `source` becomes views of the fused weights."""

    def __init__(self, source: CLIPVisionModel, feature_layer: int = -1) -> None:
        layers = cast("Sequence[CLIPEncoderLayer]", source.encoder.layers)
        self.reads = feature_layer if feature_layer >= 0 else len(layers) + 1 + feature_layer
        self._embeddings, self._norm = source.embeddings, source.pre_layrnorm
        # The first use may lie in inference mode, whose tensors cannot take part in training.
        with torch.inference_mode(False), torch.no_grad():
            self.layers = [ClipLayer(layer) for layer in layers[: max(self.reads, 1)]]

    def __call__(self, pixel_values: torch.Tensor) -> TowerStates:
        """[T, 3, H, W] -> states of the layer that is read."""
        state = before = self._norm(self._embeddings(pixel_values))
        for layer in self.layers[: self.reads]:
            before, state = state, layer(state)
        return TowerStates(state, before, self.layers[-1])


def class_attention(states: TowerStates) -> torch.Tensor:
    """The class token's attention to each patch: [T, P], float32, mean over heads of softmax(q_cls · k / sqrt(d))."""
    queries, keys, _ = states.layer.project(states.before)
    scores = (queries[:, :, :1] @ keys.transpose(-1, -2)).float() * queries.shape[-1] ** -0.5
    weights: torch.Tensor = scores.softmax(dim=-1)
    return weights.mean(dim=1)[:, 0, 1:]
