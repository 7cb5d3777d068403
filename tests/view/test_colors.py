"""The palettes can be read: WCAG contrast, and stages told apart with three kinds of colour blindness."""

from __future__ import annotations

from itertools import combinations

import pytest

from evprof.view import colors
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


THEMES = {
    "dark": (colors.GROUND_DARK, colors.STAGE_COLORS_DARK),
    "light": (colors.GROUND_LIGHT, colors.STAGE_COLORS_LIGHT),
}


def test_contrast_is_that_of_wcag() -> None:
    assert colors.contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert colors.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("ground", ["window", "panel", "raised"])
def test_words_can_be_read_on_every_ground(theme: str, ground: str) -> None:
    names, _ = THEMES[theme]
    for word in ("text", "text_dim", "good", "bad", "warn", "accent"):
        assert colors.contrast(names[word], names[ground]) >= 4.5, word


@pytest.mark.parametrize("theme", THEMES)
def test_bars_stand_out_and_carry_readable_labels(theme: str) -> None:
    names, stages = THEMES[theme]
    for stage, color in stages.items():
        assert colors.contrast(color, names["panel"]) >= 3, stage
        assert colors.contrast(color, colors.ink_on(color)) >= 4.5, stage


@pytest.mark.parametrize("theme", THEMES)
def test_small_words_can_be_read_on_a_chosen_line(theme: str) -> None:
    """The red of "failed" was 4.4 to 1 on it in the light theme."""
    names, _ = THEMES[theme]
    for word in ("bad", "good", "warn", "text_dim", "accent"):
        for ground in ("panel", "raised", "selection", "window"):
            shown = colors.readable_on(names[word], names[ground], names["text"])
            assert colors.contrast(shown, names[ground]) >= 4.5, (word, ground)
        assert colors.readable_on(names[word], names["panel"], names["text"]) == names[word]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("blindness", ["none", *BLINDNESS])
def test_stages_are_told_apart(theme: str, blindness: str) -> None:
    _, stages = THEMES[theme]
    seen = {name: color if blindness == "none" else seen_with(blindness, color) for name, color in stages.items()}
    for (one, a), (other, b) in combinations(seen.items(), 2):
        assert distance(a, b) >= 0.08, (one, other)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("blindness", ["none", *BLINDNESS])
def test_judgements_and_origins_of_tokens_are_told_apart(theme: str, blindness: str) -> None:
    """They stand beside each other in tables, in answers and on lanes; shapes say the same a second time."""
    names, stages = THEMES[theme]
    shown = {name: names[name] for name in ("good", "bad", "warn", "accent", "text")} | {"draft": stages["draft"]}
    seen = {name: color if blindness == "none" else seen_with(blindness, color) for name, color in shown.items()}
    for (one, a), (other, b) in combinations(seen.items(), 2):
        assert distance(a, b) >= 0.08, (one, other)
