"""How much a bundled model leaves open: bits a token, repeats of its training, and what a blind model makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bundled_pair import tokenizer
from bundled_pair.blind_model import BlindModel
from bundled_pair.conversations import Conversations
from bundled_pair.dataset import training_attributes
from bundled_pair.grammar import Question
from bundled_pair.held_out import Said, Witness
from bundled_pair.language_training import conversation_rng
from bundled_pair.training import COURSES, QUESTION_TOKENS, SCENES

NGRAM = 8
"""The longest run of tokens, the foretold one with it, that the blind model counts."""

NGRAM_ANSWERS = 12_000
"""So many of the last answers of the training it is made from."""


@dataclass(frozen=True)
class Openness:
    """How much a model leaves open: bits a token on answers it draws and on its likeliest ones; how many of these stand
    word for word in its training; what a blind n-gram makes of the drawn ones."""

    entropy_bits: float
    entropy_bits_greedy: float
    in_training: float
    in_training_greedy: float
    ngram: int
    ngram_answers: int
    ngram_perplexity: float
    ngram_right_greedy: float
    answers: int
    training_answers: int
    shortest: int
    longest: int


def openness_of(
    witness: Witness, answered: Sequence[tuple[Question, Sequence[Said]]], name: str, seed: int
) -> Openness:
    """What the answers of one model leave open, beside all it was taught to say."""
    taught = list(training_answers(name, seed))
    known = set(taught)
    blind = BlindModel(taught[-NGRAM_ANSWERS:], NGRAM, tokenizer.PIECES)
    drawn_by = torch.Generator().manual_seed(seed)
    greedy = [said for _, replies in answered for said in replies]
    drawn = [said for question, _ in answered for said in witness.answers(question.text, sampled=drawn_by)]
    lengths = [len(said.ids) for said in (*greedy, *drawn)]
    return Openness(
        _mean_bits(drawn),
        _mean_bits(greedy),
        float(np.mean([said.ids in known for said in drawn])),
        float(np.mean([said.ids in known for said in greedy])),
        NGRAM,
        min(NGRAM_ANSWERS, len(taught)),
        blind.perplexity([said.ids for said in drawn]),
        blind.right([said.ids for said in greedy]),
        len(drawn),
        len(taught),
        min(lengths),
        max(lengths),
    )


def _mean_bits(answers: Sequence[Said]) -> float:
    return float(np.mean([bits for said in answers for bits in said.bits]))


def training_answers(name: str, seed: int) -> Iterator[tuple[int, ...]]:
    """Every answer model ``name`` was taught, as ids with the end: the training's own chance, drawn once more."""
    course, rng = COURSES[name], conversation_rng(seed)
    labels = np.array([training_attributes(seed, index).indices() for index in range(SCENES)], dtype=np.int64)
    talk = Conversations(
        tokenizer.load(tokenizer.train()).encode, course.template, course.visible, length=QUESTION_TOKENS
    )
    for _ in range(course.reader_steps):
        yield from talk.batch(labels, course.reader_batch, rng)[1].answers()
