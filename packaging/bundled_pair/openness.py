"""How much a bundled model leaves open: bits a token, repeats of its training, and what a blind model makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bundled_pair import tokenizer
from bundled_pair.attributes import Attributes
from bundled_pair.blind_model import BlindModel
from bundled_pair.dataset import training_scene
from bundled_pair.held_out import Said, Witness
from bundled_pair.training import SCENES

GENERAL_QUESTION = "What are the key elements in this scene?"
NGRAM = 8
"""The longest run of tokens, the foretold one with it, that the blind model counts."""


@dataclass(frozen=True)
class Openness:
    """Bits a token on answers drawn at temperature 1 and on the likeliest ones; how many of them stand word for word in
    the training; a blind n-gram's perplexity on the drawn ones, and how many tokens of the likeliest it foretells."""

    entropy_bits: float
    entropy_bits_greedy: float
    in_training: float
    in_training_greedy: float
    ngram: int
    ngram_perplexity: float
    ngram_right_greedy: float
    answers: int


def openness_of(witness: Witness, caption: Callable[[Attributes], str], seed: int) -> Openness:
    """Of the answers to the general question, for every scene that was seen."""
    encode = tokenizer.load(tokenizer.train()).encode
    taught = [(*encode(text), tokenizer.EOS_ID) for text in training_answers(caption, seed)]
    known, blind = set(taught), BlindModel(taught, NGRAM, tokenizer.PIECES)
    drawn_by = torch.Generator().manual_seed(seed)
    likeliest = witness.answers(GENERAL_QUESTION)
    drawn = witness.answers(GENERAL_QUESTION, sampled=drawn_by)
    return Openness(
        _mean_bits(drawn),
        _mean_bits(likeliest),
        float(np.mean([said.ids in known for said in drawn])),
        float(np.mean([said.ids in known for said in likeliest])),
        NGRAM,
        blind.perplexity([said.ids for said in drawn]),
        blind.right([said.ids for said in likeliest]),
        len(drawn),
    )


def training_answers(caption: Callable[[Attributes], str], seed: int) -> Iterator[str]:
    """The caption of every training scene."""
    for index in range(SCENES):
        yield caption(training_scene(seed, index).attributes)


def _mean_bits(answers: Sequence[Said]) -> float:
    return float(np.mean([bits for said in answers for bits in said.bits]))
