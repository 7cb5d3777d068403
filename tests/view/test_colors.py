"""The palettes can be read: WCAG contrast, and stages told apart with three kinds of colour blindness."""

from __future__ import annotations

from itertools import combinations

import pytest

from color_vision import BLINDNESS, distance, seen_with
from evprof.view import colors

THEMES = {
    "dark": (colors.GROUND_DARK, colors.STAGE_COLORS_DARK),
    "light": (colors.GROUND_LIGHT, colors.STAGE_COLORS_LIGHT),
}


def test_contrast_is_that_of_wcag() -> None:
    assert colors.contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert colors.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_simulation_leaves_greys_and_confuses_red_with_green() -> None:
    for blindness in BLINDNESS:
        assert distance(seen_with(blindness, "#808080"), "#808080") < 0.01
    red, green = (seen_with("deuteranopia", color) for color in ("#b05050", "#7a7a2e"))
    assert distance(red, green) < 0.5 * distance("#b05050", "#7a7a2e")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("ground", ["window", "panel", "raised"])
def test_words_can_be_read_on_every_ground(theme: str, ground: str) -> None:
    names, _ = THEMES[theme]
    for word in ("text", "text_dim", "good", "bad", "warn", "accent"):
        assert colors.contrast(names[word], names[ground]) >= 4.5, word


@pytest.mark.parametrize("theme", THEMES)
def test_selected_words_can_be_read(theme: str) -> None:
    names, _ = THEMES[theme]
    assert colors.contrast(names["text"], names["selection"]) >= 7
    assert colors.contrast(names["text_dim"], names["selection"]) >= 4


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


def test_both_themes_name_the_same_stages() -> None:
    assert list(colors.STAGE_COLORS_DARK) == list(colors.STAGE_COLORS_LIGHT)
    assert list(colors.GROUND_DARK) == list(colors.GROUND_LIGHT)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("blindness", ["none", *BLINDNESS])
def test_judgements_and_origins_of_tokens_are_told_apart(theme: str, blindness: str) -> None:
    """They stand beside each other in tables, in answers and on lanes; shapes say the same a second time."""
    names, stages = THEMES[theme]
    shown = {name: names[name] for name in ("good", "bad", "warn", "accent", "text")} | {"draft": stages["draft"]}
    seen = {name: color if blindness == "none" else seen_with(blindness, color) for name, color in shown.items()}
    for (one, a), (other, b) in combinations(seen.items(), 2):
        assert distance(a, b) >= 0.08, (one, other)


@pytest.mark.parametrize("theme", THEMES)
def test_what_is_provisional_is_told_from_what_is_settled_and_from_the_ground(theme: str) -> None:
    """A span that is not settled is drawn at less strength: on every ground it lies on it is still that stage's."""
    names, stages = THEMES[theme]
    for stage, color in stages.items():
        for blindness in ("none", *BLINDNESS):
            shown, ground = (
                one if blindness == "none" else seen_with(blindness, one) for one in (color, names["panel"])
            )
            assert distance(shown, ground) >= 0.2, (stage, blindness)
