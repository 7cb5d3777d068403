"""Attributes of the scenes are uniform and independent; captions say them and can be read back."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest

from bundled_pair.attributes import EVENT_VISIBLE, VALUES, Attributes, draw, draw_balanced
from bundled_pair.captions import answer, concise, detailed, parse

EVERY_SCENE = [Attributes(*combination) for combination in product(*VALUES.values())]


def test_a_caption_read_back_gives_the_scene() -> None:
    for scene in EVERY_SCENE:
        seen = {name: getattr(scene, name) for name in VALUES}
        assert parse(detailed(scene)) == seen
        assert parse(concise(scene)) == {name: seen[name] for name in EVENT_VISIBLE}


@pytest.mark.parametrize("name", list(VALUES))
def test_a_short_answer_names_its_attribute_and_no_other(name: str) -> None:
    for scene in EVERY_SCENE:
        assert parse(answer(scene, name)) == {name: getattr(scene, name)}


def test_a_text_that_names_two_values_names_none() -> None:
    assert "vehicle" not in parse("A car is approaching behind a truck.")
    assert parse("") == {}


def test_the_detailed_caption_is_about_twice_as_long() -> None:
    ratios = [len(detailed(scene).split()) / len(concise(scene).split()) for scene in EVERY_SCENE]
    assert 1.8 < float(np.mean(ratios)) < 2.6


def test_attributes_are_uniform_and_pairwise_independent() -> None:
    rng = np.random.default_rng(3)
    scenes = [draw(rng) for _ in range(6000)]
    for first, second in combinations(VALUES, 2):
        counts = Counter((getattr(scene, first), getattr(scene, second)) for scene in scenes)
        cells = len(VALUES[first]) * len(VALUES[second])
        expected = len(scenes) / cells
        chi_square = sum((counts[pair] - expected) ** 2 / expected for pair in product(VALUES[first], VALUES[second]))
        # Six standard deviations above the mean of a chi-square with cells - 1 degrees of freedom.
        assert chi_square < cells - 1 + 6.0 * (2.0 * (cells - 1)) ** 0.5


def test_held_out_attributes_are_balanced_to_within_one_scene() -> None:
    scenes = draw_balanced(200, np.random.default_rng(4))
    for name, values in VALUES.items():
        counts = Counter(getattr(scene, name) for scene in scenes)
        assert set(counts) == set(values)
        assert max(counts.values()) - min(counts.values()) <= 1


def test_an_unknown_attribute_value_is_refused() -> None:
    with pytest.raises(ValueError, match="vehicle cannot be 'tram'"):
        Attributes("left", "trees", "tram", "approaching", "day", "red")
