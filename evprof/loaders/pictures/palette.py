"""Colours of everything that draws events: one value object, and the palettes people choose from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Color = tuple[int, int, int]
"""Red, green, blue, each 0…255."""

Colors: TypeAlias = "npt.NDArray[np.uint8]"
"""uint8 [n, 3], RGB."""


@dataclass(frozen=True)
class Palette:
    """The colour of pixels without events, with a darker and with a brighter one, and a ramp for amounts.

    `ramp` are the colours from least to most, evenly spaced, with everything between interpolated; it never begins at
    `none`, so that a single event can be told from no event.
    """

    name: str
    title: str
    none: Color
    darker: Color
    brighter: Color
    ramp: tuple[Color, ...]

    @cached_property
    def polarities(self) -> Colors:
        """[3, 3]: no event, p = 0, p = 1."""
        return _frozen(np.array([self.none, self.darker, self.brighter], dtype=np.uint8))

    @cached_property
    def amounts(self) -> Colors:
        """[256, 3]: 0 is no event, 1…255 run along the ramp."""
        return _frozen(np.concatenate([np.array([self.none], np.uint8), _between(self.ramp, 255)]))

    @cached_property
    def signed(self) -> Colors:
        """[256, 3]: 128 is no event, towards 1 ever darker, towards 255 ever brighter; 0 is never used."""
        half = _between((self.darker, self.none), 128)
        other = _between((self.none, self.brighter), 128)
        return _frozen(np.concatenate([half[:1], half, other[1:]]))


def _between(colors: tuple[Color, ...], count: int) -> Colors:
    """[count, 3]: linear between the colours, both ends included."""
    anchors = np.array(colors, dtype=np.float64)
    places = np.linspace(0, len(colors) - 1, count)
    parts = [np.interp(places, np.arange(len(colors)), anchors[:, part]) for part in range(3)]
    return np.rint(np.stack(parts, axis=1)).astype(np.uint8)


def _frozen(colors: Colors) -> Colors:
    colors.setflags(write=False)
    return colors


PALETTES: Mapping[str, Palette] = MappingProxyType(
    {
        palette.name: palette
        for palette in (
            # White, blue, red are the model's own: EventGPT was trained on pictures of exactly these colours.
            Palette(
                "eventgpt",
                "EventGPT (blue, red on white)",
                none=(255, 255, 255),
                darker=(0, 0, 255),
                brighter=(255, 0, 0),
                ramp=((206, 214, 255), (86, 96, 226), (150, 0, 120), (96, 0, 0)),
            ),
            Palette(
                "dark",
                "Dark",
                none=(20, 22, 26),
                darker=(64, 156, 255),
                brighter=(255, 236, 200),
                ramp=((58, 44, 96), (150, 50, 120), (240, 110, 70), (255, 232, 150)),
            ),
            Palette(
                "light",
                "Light",
                none=(246, 246, 244),
                darker=(58, 84, 148),
                brighter=(216, 120, 20),
                ramp=((206, 222, 226), (110, 164, 178), (40, 98, 130), (14, 32, 66)),
            ),
            # Okabe and Ito's blue, vermillion and black, told apart under every common colour vision deficiency.
            Palette(
                "colour-blind",
                "Colour-blind safe (Okabe-Ito)",
                none=(255, 255, 255),
                darker=(0, 114, 178),
                brighter=(213, 94, 0),
                ramp=((240, 228, 66), (86, 180, 233), (0, 114, 178), (0, 0, 0)),
            ),
        )
    }
)
"""By name, in the order they are offered."""

EVENTGPT_PALETTE = PALETTES["eventgpt"]
