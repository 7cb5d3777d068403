"""How right answers are: planted answers have planted scores, and choices are found by the stated rule."""

import pytest

from cell_runs import Cell
from evprof.core.run_info import RUNNING
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.scoring import CHOICE, EXACT, RIGHT, ROUGE_L, SCORING_RULES, TOKEN_F1, ExpectedAnswer
from evprof.metrics.figures.kept import KEPT
from evprof.metrics.figures.scores import named_choice, score, score_of, scores_document

CHOICES = ("a red car", "a car", "a bus", "no car at all")


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ("B", 1),
        ("b", 1),
        ("(C) because it is long", 2),
        ("**D**", 3),
        ("C. a bus", 2),
        ("A\nIt is red.", 0),
        ("I think the answer is C.", 2),
        ("The answer is A, not B. No: the answer is B", 1),
        ("Answer: (b)", 1),
        ("It must be option D", 3),
        ("It is (C).", 2),
        ("Either (A) or (C)? I cannot say.", None),
        ("There is a bus.", 2),
        ("A red car crosses the road", 0),
        ("the answer is a bus", 2),
        ("A dog", None),
        ("", None),
        ("E", None),
        ("a bus, or a red car", None),
    ],
)
def test_a_choice_is_found_by_the_stated_rule(answer, place):
    assert named_choice(answer, CHOICES) == place


def scores_of(answer, sample):
    """Every score of an answer by its rule."""
    return {key: value for key in SCORING_RULES if (value := score_of(key, answer, sample)) is not None}


def test_planted_answers_have_planted_scores():
    open_question = Sample(reference="The red car.", expected=ExpectedAnswer(also=("a crimson automobile",)))
    assert scores_of("red CAR!", open_question) == {RIGHT: 1.0, EXACT: 1.0, TOKEN_F1: 1.0, ROUGE_L: pytest.approx(0.8)}
    assert scores_of("A crimson automobile", open_question)[EXACT] == 1.0
    # two of three words said, both of the two wanted
    assert scores_of("one red car", open_question)[TOKEN_F1] == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))
    assert scores_of("", open_question) == dict.fromkeys((RIGHT, EXACT, TOKEN_F1, ROUGE_L), 0.0)
    choice = Sample(reference="a bus", expected=ExpectedAnswer((), CHOICES, 2))
    assert scores_of("C", choice) == {RIGHT: 1.0, CHOICE: 1.0}
    assert scores_of("A", choice) == {RIGHT: 0.0, CHOICE: 0.0}
    assert scores_of("C", Sample(expected=ExpectedAnswer((), CHOICES))) == {}
    assert scores_of("anything", Sample()) == {}


def _run(text: str | None, sample: Sample) -> RunLog:
    run = Cell(samples=1, text=text).runs()[0]
    run.info.sample = sample
    return run


def test_a_run_tells_its_scores_with_their_rules():
    run = _run("(c)", Sample(reference="a bus", expected=ExpectedAnswer((), CHOICES, 2, "vehicles")))
    found = scores_document(run)
    assert found["scores"] == {RIGHT: 1.0, CHOICE: 1.0}
    assert found["named"] == "C"
    assert "version 1" in found["rules"][CHOICE]
    assert scores_document(_run("a bus", Sample())) is None
    run.info.status = RUNNING
    assert score(run, RIGHT) is None


def test_kept_scores_are_of_one_version_of_their_rule():
    for key, rule in SCORING_RULES.items():
        assert f"score {key} {rule.version}" in KEPT
    run = _run("A bus", Sample(reference="bus"))
    run.kept = {"score exact_match 0": 0.0}
    assert score(run, EXACT) == 1.0, "what an older rule gave stands for nothing"
    run.kept = {"score exact_match 1": 0.25}
    assert score(run, EXACT) == 0.25
