"""What a bundled model leaves open: its own distribution, repeats of its training, and a model that sees no scene."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path

import pytest
import torch

import assets
from bundled_pair.blind_model import BlindModel
from bundled_pair.export import EVENTGPT_NAME
from bundled_pair.held_out import Witness, load
from bundled_pair.openness import training_answers
from evprof.core.records import TARGET
from evprof.loaders.bundled import bundled_samples
from evprof.run.demo import BUNDLED_TARGET

QUESTION = "What do you see?"


def test_a_blind_model_foretells_what_always_follows_and_no_more() -> None:
    blind = BlindModel([[1, 2, 3], [1, 2, 4]] * 20, order=3, vocabulary=10)
    assert blind.guess([1]) == 2
    assert blind.probability([1], 2) > 0.95
    assert blind.probability([1, 2], 3) == pytest.approx(blind.probability([1, 2], 4))
    for before in ([], [1], [1, 2], [7, 7]):
        assert sum(blind.probability(before, token) for token in range(10)) == pytest.approx(1.0)
    assert 1.0 < blind.perplexity([[1, 2, 3]]) < blind.perplexity([[3, 1, 2]])
    assert blind.right([[1, 2]]) == 1.0


def test_a_blind_model_without_answers_knows_nothing() -> None:
    blind = BlindModel([], order=4, vocabulary=8)
    assert blind.guess([1, 2]) is None
    assert blind.perplexity([[1, 2, 3]]) == pytest.approx(8.0)


def test_what_was_said_in_training_can_be_said_again() -> None:
    first, again, other = (list(islice(training_answers(EVENTGPT_NAME, seed), 60)) for seed in (7, 7, 8))
    assert first == again
    assert len(set(first) & set(other)) < 6


def test_an_answer_tells_its_tokens_and_what_was_open_at_each() -> None:
    folder = Path(assets.__file__).parent / "models" / BUNDLED_TARGET
    witness = Witness(load(folder, TARGET), TARGET, bundled_samples()[:2])
    likeliest = witness.answers(QUESTION)
    drawn = [witness.answers(QUESTION, sampled=torch.Generator().manual_seed(3)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    for said in (*likeliest, *drawn[0]):
        assert len(said.ids) == len(said.bits) > 5
        assert said.text == witness.model.vocabulary.decode(said.ids[:-1])
        assert all(0.0 <= bits <= math.log2(768) for bits in said.bits)
    (alone,) = witness.answers(QUESTION, [1])
    assert alone.ids == likeliest[1].ids
    assert alone.bits == pytest.approx(likeliest[1].bits, abs=1e-4)
