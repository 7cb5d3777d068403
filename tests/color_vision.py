"""How colours look to people with each kind of colour blindness, and how different two colours look."""

from __future__ import annotations

from evprof.view.colors import channels, linear

BLINDNESS: dict[str, tuple[tuple[float, float, float], ...]] = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""Matrices on linear RGB at severity 1.0: Machado, Oliveira and Fernandes, IEEE TVCG 15 (2009), table 1."""


def seen_with(blindness: str, color: str) -> str:
    """The colour as a person with that dichromacy sees it; `blindness` is a key of BLINDNESS."""
    light = [linear(channel) for channel in channels(color)]
    mixed = (sum(weight * part for weight, part in zip(row, light, strict=True)) for row in BLINDNESS[blindness])
    return "#" + "".join(f"{round(255 * _encoded(min(1.0, max(0.0, part)))):02x}" for part in mixed)


def _encoded(part: float) -> float:
    return 12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055


def oklab(color: str) -> tuple[float, float, float]:
    """Lightness 0…1 and two opponent axes (Ottosson 2020), in which equal distances look about equally large."""
    red, green, blue = (linear(channel) for channel in channels(color))
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    middle = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def distance(first: str, second: str) -> float:
    """How different two colours look, as Euclidean distance in Oklab: 0.02 is just noticeable side by side."""
    a, b = oklab(first), oklab(second)
    return float(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5)
