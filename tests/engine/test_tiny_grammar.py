"""Scenes are uniform and independent; the grammar says them, keeps a fifth of itself back, and can be read back."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest

from bundled_pair.attributes import EVENT_VISIBLE, VALUES, VIDEO_VISIBLE, Attributes, draw, draw_balanced
from bundled_pair.grammar import SUBJECTS, Question, draw_answer, draw_question, parse
from bundled_pair.productions import ANSWERS, DESCRIBE, IS_THERE, QUESTIONS, WHERE


def drawn(seed: int, count: int, *, held_out: bool) -> list[tuple[Attributes, Question, str, tuple[str, ...]]]:
    """Scenes, questions on every subject in turn, and answers with their productions."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        scene = draw(rng)
        question = draw_question(rng, scene, SUBJECTS[number % len(SUBJECTS)], held_out=held_out)
        reply = draw_answer(rng, scene, question, VIDEO_VISIBLE, held_out=held_out)
        found.append((scene, question, reply.text, reply.productions))
    return found


@pytest.mark.parametrize("held_out", [False, True])
def test_an_answer_read_back_is_right_and_says_nothing_wrong(*, held_out: bool) -> None:
    for scene, question, text, _ in drawn(1, 2400, held_out=held_out):
        if question.about:
            assert question.said(text) == question.truth(scene), (question, text)
        assert all(getattr(scene, name) == value for name, value in parse(text).items() if name in VALUES), text


def test_held_out_productions_are_a_fifth_and_never_drawn_in_training() -> None:
    taught = {each for _, _, _, used in drawn(2, 12000, held_out=False) for each in used}
    unseen = [set(used) - taught for _, _, _, used in drawn(3, 1200, held_out=True)]
    assert all(unseen)
    held_out = set().union(*unseen)
    assert 0.1 < len(held_out) / len(held_out | taught) < 0.3


def test_held_out_questions_are_worded_as_no_training_question() -> None:
    asked = {question.text for _, question, _, _ in drawn(4, 6000, held_out=False)}
    assert asked.isdisjoint(question.text for _, question, _, _ in drawn(5, 1200, held_out=True))


def test_answers_are_many_and_leave_much_open() -> None:
    answers = [text for _, _, text, _ in drawn(6, 3000, held_out=False)]
    assert len(set(answers)) > 0.95 * len(answers)
    assert len([template for templates in ANSWERS.values() for template in templates]) >= 30
    assert set(ANSWERS) == set(QUESTIONS) == set(SUBJECTS)


def test_what_is_not_seen_is_not_said_unasked_and_guessed_when_asked() -> None:
    rng, scene = (
        np.random.default_rng(7),
        Attributes("left", "trees", "bus", "crossing", "night", "red", "two", "right"),
    )
    for subject in SUBJECTS:
        for _ in range(40):
            question = draw_question(rng, scene, subject, held_out=False)
            told = parse(draw_answer(rng, scene, question, EVENT_VISIBLE, held_out=False).text)
            assert {"daylight", "colour"} & set(told) <= {question.about}
    asked = Question("What colour is it?", "what", "colour")
    said = {asked.said(draw_answer(rng, scene, asked, EVENT_VISIBLE, held_out=False).text) for _ in range(80)}
    assert set(VALUES["colour"]) <= said


def test_what_is_right_depends_on_the_kind_of_question() -> None:
    scene = Attributes("left", "trees", "bus", "crossing", "night", "red", "none")
    assert Question("", IS_THERE, "vehicle", "bus").truth(scene) == "yes"
    assert Question("", IS_THERE, "vehicle", "car").truth(scene) == "no"
    where = Question("", WHERE, "side")
    assert (where.truth(scene), where.said("The sky is empty."), where.said("A car.")) == ("none", "none", None)
    assert {subject[0] for subject in SUBJECTS} > {DESCRIBE, IS_THERE, WHERE}


def test_a_text_that_names_two_values_names_none() -> None:
    assert "vehicle" not in parse("A car comes near as a truck drives off.")
    assert parse("") == {}


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
