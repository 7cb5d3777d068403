"""One unmeasured pass of stage vision per recipe: libraries load and choose kernels on first use, which is setup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from engines.measuring.timing import NullClock, StageClock
from engines.stages.model import ModelInputs, VisionRecipe
from engines.stages.vision_cache import OFF
from evprof.core.run_info import LengthFacts

Encode = Callable[[ModelInputs, StageClock], torch.Tensor]
"""Stage vision without kept embeddings."""


class Rehearsal:
    """Remembers which recipes were rehearsed, so that each is once. `edge` is that of a frame, in pixels."""

    def __init__(self, edge: int, *, device: torch.device, dtype: torch.dtype) -> None:
        self._edge = edge
        self._device, self._dtype = device, dtype
        self._done: set[VisionRecipe] = set()

    def perform(self, recipe: VisionRecipe, encode: Encode) -> None:
        """Encodes one blank frame by the recipe, unless that was done before."""
        recipe = replace(recipe, cache=OFF, key="")
        if recipe in self._done:
            return
        with torch.inference_mode():
            pixels = torch.zeros(1, 3, self._edge, self._edge, device=self._device, dtype=self._dtype)
            nothing = torch.zeros(0, device=self._device, dtype=torch.long)
            encode(ModelInputs(pixels, (), nothing, (), LengthFacts(0, 0, 0, 0), recipe=recipe), NullClock())
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._done.add(recipe)
