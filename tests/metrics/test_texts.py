"""Lengths and agreement of texts: against values worked out by hand, and against slow definitions."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.metrics.figures.scores import (
    jaccard,
    rouge_l,
    rouge_words,
    squad_words,
    token_f1,
    word_count,
    word_overlap,
    words,
)


def test_chinese_and_japanese_characters_are_words_of_their_own() -> None:
    assert words("一辆 red公交车") == ["一", "辆", "red", "公", "交", "车"]
    assert word_count("バスです") == 4
    assert words("버스가 온다") == ["버스가", "온다"]
    assert squad_words("公交车，the red 车。") == ["公", "交", "车", "red", "车"]
    assert rouge_words("公交车 X5") == ["公", "交", "车", "x5"]


def test_squad_drops_case_punctuation_and_articles() -> None:
    assert squad_words("The cat's state-of-the-art hat, an $5 A!") == ["cats", "stateoftheart", "hat", "5"]


def test_overlap_by_hand() -> None:
    one, other = "A bus is on a road", "The bus IS red"
    # Distinct: a, bus, is, on, road; the, bus, is, red.
    assert word_overlap(one, other) == pytest.approx(2 / 5)
    assert word_overlap(other, one) == pytest.approx(2 / 4)
    assert jaccard(one, other) == jaccard(other, one) == pytest.approx(2 / 7)
    # Punctuation stays with its word, as in the files this definition comes from.
    assert word_overlap("road.", "road") == 0


def test_token_f1_by_hand() -> None:
    score = token_f1("The cat sat on a mat.", "cat on the mat")
    assert (score.matched, score.candidate, score.reference) == (3, 4, 3)
    assert score.f1 == pytest.approx(6 / 7)
    twice = token_f1("bus bus bus", "bus bus road")
    assert twice.f1 == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("candidate", "f1"), [("police kill the gunman", 0.75), ("the gunman kill police", 0.5), ("gunman", 0.4)]
)
def test_rouge_l_of_lins_own_example(candidate: str, f1: float) -> None:
    score = rouge_l(candidate, "police killed the gunman")
    assert score.f1 == pytest.approx(f1)
    assert not score.is_cut


def test_nothing_is_none_and_an_empty_answer_scores_nothing() -> None:
    for measure in (word_overlap, jaccard):
        assert measure(None, "a") is None
        assert measure("a", None) is None
        assert measure("", "") is None
    assert word_overlap("", "a") is None
    assert word_overlap("a", "") == 0
    assert jaccard("", "a") == 0
    for score in (token_f1, rouge_l):
        assert score(None, "a") is None
        assert score("road", None) is None
        assert score("road", " ... ") is None
        empty = score("", "road")
        assert empty.f1 == 0


def longest_by_trying(one: list[str], other: list[str]) -> int:
    """Of all that is left of `one` when words are left out, the most that stands in `other` in that order."""

    def stands(words: tuple[str, ...]) -> bool:
        rest = iter(other)
        return all(word in rest for word in words)

    return max(size for size in range(len(one) + 1) if any(map(stands, combinations(one, size))))


short_texts = st.text("aAbB1 -.,'", max_size=16)


@given(short_texts, short_texts)
def test_rouge_l_is_what_the_rouge_score_package_says_it_is(candidate: str, reference: str) -> None:
    """Without its stemmer: runs of a-z and 0-9 of the lower-cased texts, F1 of the subsequence's two shares."""
    said, wanted = (re.findall("[a-z0-9]+", text.lower()) for text in (candidate, reference))
    score = rouge_l(candidate, reference)
    if not wanted:
        assert score is None
        return
    assert score is not None
    longest = longest_by_trying(said, wanted)
    precision, recall = longest / len(said) if said else 0.0, longest / len(wanted)
    expected = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    assert score.f1 == pytest.approx(expected)


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_texts_give_shares(one: str, other: str) -> None:
    for share in (word_overlap(one, other), jaccard(one, other)):
        assert share is None or 0 <= share <= 1
    for score in (token_f1(one, other), rouge_l(one, other)):
        assert score is None or (0 <= score.f1 <= 1 and score.matched <= min(score.candidate, score.reference))
    for score in (token_f1(one, one), rouge_l(one, one)):
        assert score is None or score.f1 == 1


def test_of_long_texts_the_beginning_is_compared() -> None:
    text = "a bus is on the road " * 480_000
    assert len(text) > 10_000_000
    score = rouge_l(text, text)
    assert score.is_cut
    assert score.f1 == 1
    assert word_count(text) == 2_880_000
    assert jaccard(text, text) == 1
    whole = token_f1(text, text)
    assert whole.f1 == 1
