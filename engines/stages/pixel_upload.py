"""Pixel values on a model's device: normalised on a CPU by numpy, on a GPU by the GPU, number for number the same.

A GPU is sent the pictures' bytes, a quarter of what float32 takes, out of pinned memory: nobody waits. A channel has
256 levels, so normalising there is looking them up in the table that the CPU uses, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engines.measuring.timing import OpenSpan, StageClock
from engines.stages.pixel_values import ClipTransform
from engines.tokens.uploads import moved
from evprof.loaders.pictures.render import Picture

_LEVELS = 256


class PixelValues:
    """T pictures as `ClipTransform.cut` leaves them, on their way to [T, 3, H, W] on a device in a dtype.

    `begin`, `send` and `finish` are called in this order, each part of a stage; normalising is a part of its own, in
    `begin` on a CPU and in `finish` on a GPU.
    """

    def __init__(
        self, transform: ClipTransform, cuts: Sequence[Picture], device: torch.device, dtype: torch.dtype
    ) -> None:
        self._transform, self._cuts = transform, cuts
        self._device, self._dtype = device, dtype
        self._is_gpu = device.type == "cuda"
        self._held = torch.empty(0)

    def begin(self, spans: StageClock) -> None:
        """What the host does with them."""
        if self._is_gpu:
            return
        with spans.child("normalise") as span:
            self._held = torch.from_numpy(self._transform.stacked(self._cuts))
            span.output("pixel_values", self._held)

    def send(self, span: OpenSpan) -> None:
        """To the device, noted as an output of `span`."""
        if not self._is_gpu:
            self._held = self._held.to(self._device, self._dtype)
            span.output("pixel_values", self._held)
            return
        pinned = torch.empty(len(self._cuts), *self._transform.crop, 3, dtype=torch.uint8, pin_memory=True)
        staged = pinned.numpy()
        for place, cut in enumerate(self._cuts):
            staged[place] = cut
        self._held = pinned.to(self._device, non_blocking=True)
        span.output("pictures", self._held)

    def finish(self, spans: StageClock) -> torch.Tensor:
        """As the model reads them."""
        if self._is_gpu:
            with spans.child("normalise") as span:
                table = moved(level_table(self._transform, self._dtype), self._device)
                self._held = looked_up(self._held, table)
                span.output("pixel_values", self._held)
        return self._held


def looked_up(pictures: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """uint8 [T, H, W, 3] and what the channels' levels become [3 * 256] -> [T, 3, H, W], contiguous."""
    first = torch.arange(0, 3 * _LEVELS, _LEVELS, device=pictures.device, dtype=torch.int32)
    places = pictures.permute(0, 3, 1, 2) + first[:, None, None]
    return table.index_select(0, places.flatten()).view(places.shape)


def level_table(transform: ClipTransform, dtype: torch.dtype) -> torch.Tensor:
    """[3 * 256] on the host: rounding the table rounds every number that is looked up in it."""
    return torch.from_numpy(transform.levels).flatten().to(dtype)
