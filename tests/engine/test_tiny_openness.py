"""What a bundled model leaves open: its own distribution, repeats of its training, and a model that sees no scene."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import assets
from bundled_pair.blind_model import BlindModel
from bundled_pair.captions import detailed
from bundled_pair.held_out import Witness, load
from bundled_pair.openness import GENERAL_QUESTION, training_answers
from bundled_pair.training import SCENES
from evprof.core.records import TARGET
from evprof.loaders.bundled import bundled_samples
from evprof.run.demo import BUNDLED_TARGET


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


def test_every_training_scene_is_captioned_alike_each_time() -> None:
    first = list(training_answers(detailed, 7))
    assert len(first) == SCENES
    assert first == list(training_answers(detailed, 7))
    assert first != list(training_answers(detailed, 8))


def test_an_answer_tells_its_tokens_and_what_was_open_at_each() -> None:
    folder = Path(assets.__file__).parent / "models" / BUNDLED_TARGET
    witness = Witness(load(folder, TARGET), TARGET, bundled_samples()[:2])
    likeliest = witness.answers(GENERAL_QUESTION)
    drawn = [witness.answers(GENERAL_QUESTION, sampled=torch.Generator().manual_seed(3)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    for said in (*likeliest, *drawn[0]):
        assert len(said.ids) == len(said.bits) > 5
        assert said.text == witness.model.vocabulary.decode(said.ids[:-1])
        assert all(0.0 <= bits <= math.log2(768) for bits in said.bits)
    (alone,) = witness.answers(GENERAL_QUESTION, [1])
    assert alone.ids == likeliest[1].ids
    assert alone.bits == pytest.approx(likeliest[1].bits, abs=1e-4)
