"""The palette of the rendered scenes: every surface is one material, with one colour and one luminance.

Paint of all four vehicle colours has the same luminance and night is day times a constant, so neither hue nor daylight
changes the logarithm of intensity by anything but an additive constant: no trace of them can reach the events.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Material(IntEnum):
    """Surfaces of a scene; the value is the index painted into a material map."""

    SKY = 0
    GRASS = 1
    ASPHALT = 2
    MARKING = 3
    KERB_LIGHT = 4
    KERB_DARK = 5
    TRUNK = 6
    FOLIAGE = 7
    WALL = 8
    WINDOW = 9
    POST = 10
    FURROW = 11
    PAINT = 12
    GLASS = 13
    TYRE = 14
    LAMP = 15
    TAIL_LAMP = 16
    RIDER = 17
    CARGO = 18
    BALLOON_LIGHT = 19
    BALLOON_DARK = 20


SURFACE_RGB: dict[Material, tuple[int, int, int]] = {
    Material.SKY: (150, 185, 225),
    Material.GRASS: (92, 120, 60),
    Material.ASPHALT: (52, 52, 56),
    Material.MARKING: (240, 240, 230),
    Material.KERB_LIGHT: (235, 235, 225),
    Material.KERB_DARK: (150, 40, 40),
    Material.TRUNK: (70, 45, 25),
    Material.FOLIAGE: (28, 66, 28),
    Material.WALL: (190, 150, 120),
    Material.WINDOW: (45, 50, 60),
    Material.POST: (225, 220, 210),
    Material.FURROW: (150, 140, 70),
    Material.PAINT: (100, 100, 100),
    Material.GLASS: (22, 26, 32),
    Material.TYRE: (14, 14, 14),
    Material.LAMP: (255, 250, 210),
    Material.TAIL_LAMP: (200, 50, 30),
    Material.RIDER: (36, 34, 40),
    Material.CARGO: (205, 200, 190),
    Material.BALLOON_LIGHT: (250, 246, 240),
    Material.BALLOON_DARK: (24, 20, 26),
}

PAINT_RGB: dict[str, tuple[int, int, int]] = {
    "red": (255, 34, 34),
    "green": (20, 148, 65),
    "blue": (28, 107, 252),
    "grey": (100, 100, 100),
}

ILLUMINATION: dict[str, float] = {"day": 1.0, "night": 0.3}
"""Light on the whole scene, relative to day."""


def luminance(rgb: tuple[int, int, int]) -> int:
    """Rec. 601 luma, rounded to the 8-bit grid the renderer works on."""
    red, green, blue = rgb
    return round(0.299 * red + 0.587 * green + 0.114 * blue)


def luminance_table(colour: str) -> NDArray[np.uint8]:
    """256-entry table from material index to day-time luminance; the same for every paint ``colour``."""
    table = np.zeros(256, dtype=np.uint8)
    for material, rgb in SURFACE_RGB.items():
        table[material] = luminance(PAINT_RGB[colour] if material is Material.PAINT else rgb)
    return table


def rgb_table(colour: str, daylight: str) -> NDArray[np.uint8]:
    """[256, 3] table from material index to what a colour camera records."""
    table = np.zeros((256, 3), dtype=np.uint8)
    for material, rgb in SURFACE_RGB.items():
        lit = np.array(PAINT_RGB[colour] if material is Material.PAINT else rgb) * ILLUMINATION[daylight]
        table[material] = np.rint(lit)
    return table
