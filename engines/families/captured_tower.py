"""CLIP's vision tower as CUDA graphs, one for each number of frames: one launch where there were hundreds.

Passes are captured in setup, before a run's zero. Frames in another number take the eager pass.
"""

from __future__ import annotations

from collections.abc import Set
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from engines.checkpoints.config import edge
from engines.decoder.compiled_step import first_line
from engines.decoder.graph_recording import GraphRecorder
from engines.decoder.layer_check import compare, exact_dtype
from engines.decoder.llama import LlamaDecoder
from engines.decoder.step_choice import EAGER, GRAPHS
from engines.families.clip_tower import ClipTower, TowerStates

if TYPE_CHECKING:
    from transformers import CLIPVisionModel


@dataclass(frozen=True, eq=False)
class _Captured:
    """A graph with the buffers it reads and writes."""

    graph: Any
    pixels: torch.Tensor
    states: TowerStates


class CapturedTower(ClipTower):
    """A `ClipTower` whose passes may be captured. A captured pass returns buffers of its graph, which the next one
    overwrites.

    `taken` is the kind of the latest pass; `problem` says why nothing is captured, until `release`.
    """

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
        """Captures a pass for each number of frames and releases all others; `decoder` is the language model of the
        tower, whose graphs share its stream.

        Passes that cannot be captured, or compute something else, leave a `problem`.
        """
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
        """Releases all graphs with their memory, and the problem, whose cause may be gone."""
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
        """What a replayed pass computes that transformers' layers do not, without a full stop; "" where they agree.

        Each layer is compared on the same input, and the replayed pass with the same pass uncaptured. Waits.
        """
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
