"""CLIP's vision tower as our own pass over a transformers tower, eager or as CUDA graphs.

Queries, keys and values come out of one matrix product. Layers that no family reads are not computed. Graphs are
captured in setup, one for each number of frames; other numbers of frames take the eager pass.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F

from engines.checkpoints.config import edge
from engines.decoder.compiled_step import first_line
from engines.decoder.cuda_graphs import GraphRecorder
from engines.decoder.fused_check import compare, exact_dtype
from engines.decoder.llama import LlamaDecoder, fuse
from engines.decoder.step_choice import EAGER, GRAPHS

if TYPE_CHECKING:
    from transformers import CLIPVisionModel
    from transformers.models.clip.modeling_clip import CLIPEncoderLayer

_QUICK_GELU = 1.702
"""quick_gelu(x) = x · sigmoid(1.702 · x) = silu(1.702 · x) / 1.702."""


class ClipLayer:
    """One encoder layer with the weights of `source`, whose projections become views. The factors of quick_gelu are
    factors of the matrix products, so SiLU is one kernel. Other activations have factor 1."""

    def __init__(self, source: CLIPEncoderLayer) -> None:
        self.source = source
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
        state = before = self.embed(pixel_values)
        for layer in self.layers[: self.reads]:
            before, state = state, layer(state)
        return TowerStates(state, before, self.layers[-1])

    def embed(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> what enters the first layer, [T, 1 + P, width]."""
        state: torch.Tensor = self._norm(self._embeddings(pixel_values))
        return state


def class_attention(states: TowerStates) -> torch.Tensor:
    """The class token's attention to each patch: [T, P], float32, mean over heads of softmax(q_cls · k / sqrt(d))."""
    queries, keys, _ = states.layer.project(states.before)
    scores = (queries[:, :, :1] @ keys.transpose(-1, -2)).float() * queries.shape[-1] ** -0.5
    weights: torch.Tensor = scores.softmax(dim=-1)
    return weights.mean(dim=1)[:, 0, 1:]


@dataclass(frozen=True, eq=False)
class _Captured:
    graph: Any
    pixels: torch.Tensor
    states: TowerStates


class CapturedTower(ClipTower):
    """A `ClipTower` with captured passes, which return buffers that the next pass overwrites. `taken` is the kind of
    the latest pass; `problem` says why nothing is captured, until `release`."""

    def __init__(self, source: CLIPVisionModel, feature_layer: int = -1) -> None:
        super().__init__(source, feature_layer)
        self.taken = EAGER
        self.problem: str | None = None
        self._pixels = source.embeddings.patch_embedding.weight.new_empty(0)
        self._edge = edge(source.config)
        self._graphs: dict[int, _Captured] = {}
        self._is_checked = False

    def __call__(self, pixel_values: torch.Tensor) -> TowerStates:
        """[T, 3, H, W] -> states of the layer that is read. Never waits for the device."""
        captured = self._graphs.get(len(pixel_values))
        if captured is None:
            self.taken = EAGER
            return super().__call__(pixel_values)
        self.taken = GRAPHS
        captured.pixels.copy_(pixel_values, non_blocking=True)
        captured.graph.replay()
        return captured.states

    @torch.inference_mode()
    def capture_for(self, counts: Set[int], decoder: LlamaDecoder) -> None:
        """Captures a pass for each number of frames and releases all others; `decoder`'s graphs share the stream. A
        failure leaves a `problem`."""
        if self.problem is not None:
            return
        self._graphs = {count: self._graphs[count] for count in counts if count in self._graphs}
        try:
            for count in counts - self._graphs.keys():
                self._graphs[count] = self._capture(count, decoder)
        except RuntimeError as error:
            self.release()
            is_full = isinstance(error, torch.OutOfMemoryError)
            self.problem = "there is no memory for its graph" if is_full else first_line(error)

    def release(self) -> None:
        self._graphs.clear()
        self.problem = None

    def _capture(self, count: int, decoder: LlamaDecoder) -> _Captured:
        shape = (count, 3, self._edge, self._edge)
        pixels = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(self._pixels)
        graph, states = GraphRecorder(decoder).record(lambda: ClipTower.__call__(self, pixels), checks=True)
        captured = _Captured(graph, pixels, states)
        if not self._is_checked:
            graph.replay()
            if problem := self._difference_found(captured):
                raise RuntimeError(problem)
            self._is_checked = True
        return captured

    def _difference_found(self, captured: _Captured) -> str:
        """The first difference of a replayed pass from transformers' layers, or "". Each layer gets the same input.
        Waits."""
        state = self.embed(captured.pixels)
        exact = state.to(exact_dtype(state.dtype))
        for number, layer in enumerate(self.layers[: self.reads], 1):
            wide = deepcopy(layer.source).to(exact.dtype)
            passed = layer(state)
            found = compare(
                f"layer {number} of the vision tower",
                wide(state.to(exact.dtype), None),
                eager=layer.source(state, None),
                candidate=passed,
                entered=state,
            )
            if found.problem:
                return found.problem
            state, exact = passed, wide(exact, None)
        return compare("the captured vision tower", exact, eager=state, candidate=captured.states.last).problem
