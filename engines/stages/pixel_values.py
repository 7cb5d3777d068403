"""RGB frames as a CLIP tower reads them: bicubic resize, centre crop, scaling, normalisation, on a device.

Equal to transformers' `CLIPImageProcessorPil` pixel for pixel, without torchvision. A CPU normalises with numpy. A
GPU receives the bytes, a quarter of float32, and looks each of the 256 levels up in the same table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from engines.checkpoints.shards import read_json
from engines.measuring.timing import OpenSpan, StageClock
from engines.tokens.uploads import moved
from evprof.core.errors import UserError
from evprof.loaders.pictures.png import encode_png
from evprof.loaders.pictures.render import Picture

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
"""CLIP's means and standard deviations of red, green and blue, for values from 0 to 1."""

THUMBNAIL_EDGE = 256
THUMBNAIL_BYTES = 1_000_000
"""Longest edge of a kept picture, and bytes of all pictures of one model together (half of a run's 2 MB)."""

_BICUBIC = 3

_MOST_RESIZED = 1 << 26
"""Pixels of a resized picture."""


@dataclass(frozen=True)
class ClipTransform:
    shortest_edge: int
    crop: tuple[int, int]
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    rescale_factor: float = 1 / 255

    @classmethod
    def square(cls, edge: int) -> ClipTransform:
        """CLIP's own values for frames of `edge` pixels."""
        return cls(edge, (edge, edge))

    @classmethod
    def from_file(cls, path: Path, edge: int) -> ClipTransform:
        """The preparation of a preprocessor_config.json or processor_config.json. Raises UserError if it is not CLIP's,
        or if its size is not `edge`, the tower's."""
        whole = read_json(path)
        parts = [whole[part] for part in ("video_processor", "image_processor") if isinstance(whole.get(part), dict)]
        values = parts[0] if parts else whole
        for step in ("do_resize", "do_center_crop", "do_rescale", "do_normalize"):
            if values.get(step) is False:
                raise UserError(f"{path} switches off {step}, which evprof's CLIP preparation cannot leave out.")
        if values.get("resample", _BICUBIC) != _BICUBIC:
            raise UserError(f"{path} asks for resampling filter {values['resample']}; only 3 (bicubic) is supported.")
        size = values.get("size", edge)
        crop = values.get("crop_size", edge)
        shortest = size.get("shortest_edge") if isinstance(size, dict) else size
        height = crop.get("height") if isinstance(crop, dict) else crop
        width = crop.get("width") if isinstance(crop, dict) else crop
        if (height, width) != (edge, edge) or not isinstance(shortest, int):
            raise UserError(f"{path} asks for size {size} and crop {crop}, but the tower reads {edge} x {edge} pixels.")
        return cls(
            shortest,
            (edge, edge),
            _triple(values, "image_mean", CLIP_MEAN, path),
            _triple(values, "image_std", CLIP_STD, path),
            float(values.get("rescale_factor", 1 / 255)),
        )

    def cut(self, picture: Picture) -> Picture:
        """The uint8 picture the tower will see: resized and cropped (padded with black where it is too small). Raises
        UserError for a picture that becomes too large."""
        from PIL.Image import Resampling, fromarray

        height, width = picture.shape[:2]
        # The long edge is cut down to whole pixels, as transformers does it.
        if width <= height:
            new_width, new_height = self.shortest_edge, int(self.shortest_edge * height / width)
        else:
            new_width, new_height = int(self.shortest_edge * width / height), self.shortest_edge
        if new_width * new_height > _MOST_RESIZED:
            raise UserError(
                f"A picture of {width} x {height} pixels is too narrow: its shorter edge becomes "
                f"{self.shortest_edge} pixels; crop it."
            )
        image = fromarray(np.ascontiguousarray(picture))
        return _centre(np.asarray(image.resize((new_width, new_height), Resampling.BICUBIC)), self.crop)

    def normalise(self, picture: Picture, out: npt.NDArray[np.float32]) -> None:
        """uint8 [H, W, 3] -> float32 [3, H, W] in `out`: scaled, minus mean, over standard deviation."""
        for channel, table in enumerate(self.levels):
            np.take(table, picture[..., channel], out=out[channel], mode="clip")

    @cached_property
    def levels(self) -> npt.NDArray[np.float32]:
        """[3, 256]: what each channel's 256 levels become. A table, because a picture has a million of them."""
        levels = np.arange(256, dtype=np.float64)
        # Scaled in double precision and rounded once: anything else is off by one unit in the last place.
        scaled = (levels * self.rescale_factor).astype(np.float32)
        mean, std = (np.array(each, dtype=np.float32)[:, None] for each in (self.mean, self.std))
        table: npt.NDArray[np.float32] = (scaled - mean) / std
        return table

    def stacked(self, cuts: Sequence[Picture]) -> npt.NDArray[np.float32]:
        """T pictures as `cut` leaves them -> float32 [T, 3, H, W], normalised."""
        values = np.empty((len(cuts), 3, *self.crop), dtype=np.float32)
        for cut, out in zip(cuts, values, strict=True):
            self.normalise(cut, out)
        return values


def _centre(picture: Picture, size: tuple[int, int]) -> Picture:
    """The central `size` (height, width) of a picture, which is first set on black where it is smaller."""
    height, width = picture.shape[:2]
    canvas_height, canvas_width = max(height, size[0]), max(width, size[1])
    if (canvas_height, canvas_width) != (height, width):
        canvas = np.zeros((canvas_height, canvas_width, 3), dtype=np.uint8)
        top, left = math.ceil((canvas_height - height) / 2), math.ceil((canvas_width - width) / 2)
        canvas[top : top + height, left : left + width] = picture
        picture = canvas
    # Counted from the original's corner, so that an odd remainder falls on the same side as in transformers.
    top = (height - size[0]) // 2 + math.ceil((canvas_height - height) / 2)
    left = (width - size[1]) // 2 + math.ceil((canvas_width - width) / 2)
    return np.ascontiguousarray(picture[top : top + size[0], left : left + size[1]])


def _triple(
    values: dict[str, Any], name: str, default: tuple[float, float, float], path: Path
) -> tuple[float, float, float]:
    chosen = values.get(name, default)
    if not isinstance(chosen, list | tuple) or len(chosen) != 3:
        raise UserError(f"{path}: {name} is {chosen!r}; three numbers are needed.")
    return (float(chosen[0]), float(chosen[1]), float(chosen[2]))


def thumbnails(pictures: Sequence[Picture], max_bytes: int = THUMBNAIL_BYTES) -> list[bytes]:
    """The pictures as PNG, longest edge at most 256 px, smaller where together they would pass `max_bytes`."""
    encoded: list[bytes] = []
    for edge in (THUMBNAIL_EDGE, 192, 128, 96, 64, 48, 32):
        encoded = [encode_png(picture, longest_edge=edge) for picture in pictures]
        if sum(map(len, encoded)) <= max_bytes:
            break
    return encoded


_LEVELS = 256


class PixelValues:
    """T pictures from `ClipTransform.cut` on their way to [T, 3, H, W] on a device. `begin`, `send` and `finish` follow
    in this order; a CPU normalises in `begin`, a GPU in `finish`."""

    def __init__(
        self, transform: ClipTransform, cuts: Sequence[Picture], device: torch.device, dtype: torch.dtype
    ) -> None:
        self._transform, self._cuts = transform, cuts
        self._device, self._dtype = device, dtype
        self._is_gpu = device.type == "cuda"
        self._held = torch.empty(0)

    def begin(self, spans: StageClock) -> None:
        if self._is_gpu:
            return
        with spans.child("normalise") as span:
            self._held = torch.from_numpy(self._transform.stacked(self._cuts))
            span.output("pixel_values", self._held)

    def send(self, span: OpenSpan) -> None:
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
    return torch.from_numpy(transform.levels).flatten().to(dtype)
