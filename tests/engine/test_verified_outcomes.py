"""What a verifier decides, case by case: ends of sequence, trees, cold temperatures, seeds, chances of nought."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from engines.decoder.sampling import distribution, make_generator
from engines.drafters.drafter import Proposal
from engines.speculation.verification import Judged, Verifier, reject
from evprof.core.vocabulary.generation import GenerationSettings

pytestmark = pytest.mark.usefixtures("without_gradients")

V = 16
NO_EOS: frozenset[int] = frozenset()


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("is_drawn", [True, False])
def test_a_temperature_near_nothing_is_greedy(is_drawn: bool) -> None:
    settings = GenerationSettings(temperature=1e-6)
    law = partial(distribution, settings=settings)
    drawn, greedy = seeded(8), Verifier()
    cold = Verifier(law, drawn)
    for _ in range(300):
        logits = torch.randn(5, V, generator=drawn)
        own = logits[:4] + 0.5 * torch.randn(4, V, generator=drawn)
        ids = own.argmax(-1)
        proposal = Proposal(ids, law(own) if is_drawn else None)
        outcomes = [one.conclude(proposal, one.look(proposal, logits).tolist(), NO_EOS) for one in (cold, greedy)]
        assert outcomes[0] == outcomes[1]


def test_the_same_seed_decides_the_same_way() -> None:
    settings = GenerationSettings(temperature=1.0, seed=11)
    law = partial(distribution, settings=settings)
    logits = torch.randn(5, V, generator=seeded(9))
    own = law(torch.randn(4, V, generator=seeded(10)))
    told = []
    for _ in range(2):
        verifier = Verifier(law, make_generator(settings, torch.device("cpu"), stream=1))
        told.append([verifier.look(Proposal(torch.arange(4), own), logits).tolist() for _ in range(20)])
    assert told[0] == told[1]
    assert len({tuple(row) for row in told[0]}) > 1


def test_what_the_target_never_says_never_stands() -> None:
    """A token the target gives no chance, and laws that agree to the last bit."""
    law = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]).expand(2000, 2, 3)
    drafted = torch.tensor([[0.0, 0.0, 1.0]]).expand(2000, 1, 3)
    told = reject(torch.full((2000, 1), 2), drafted, law, seeded(1))
    assert set(told[:, 0].tolist()) == {0}
    assert set(told[:, 1].tolist()) == {0, 1}
    same = reject(torch.ones(2000, 1, dtype=torch.long), law[:, :1], law, seeded(1))
    assert set(same[:, 0].tolist()) == {1}
    assert set(same[:, 1].tolist()) == {0, 1, 2}


@pytest.mark.parametrize(
    ("drafted", "choices", "parents", "eos", "expected"),
    [
        ([], [5], None, set(), ((0,), (5,))),
        ([1, 2], [1, 2, 3], None, set(), ((0, 1, 2), (1, 2, 3))),
        ([1, 2], [1, 7, 3], None, set(), ((0, 1), (1, 7))),
        ([1, 2], [7, 2, 3], None, set(), ((0,), (7,))),
        ([1, 2], [1, 2, 3], None, {1}, ((0, 1), (1,))),
        ([1, 2], [1, 2, 3], None, {2}, ((0, 1, 2), (1, 2))),
        ([1, 2], [1, 7, 3], None, {7}, ((0, 1), (1, 7))),
        ([7, 2], [1, 2, 3], None, {7}, ((0,), (1,))),
        # A tree: 4 and 5 below the last token, 6 and 7 below 5.
        ([4, 5, 6, 7], [5, 0, 7, 0, 9], (-1, -1, 1, 1), set(), ((0, 2, 4), (5, 7, 9))),
        ([4, 5, 6, 7], [4, 7, 7, 0, 9], (-1, -1, 1, 1), set(), ((0, 1), (4, 7))),
        ([4, 5, 6, 7], [6, 7, 7, 0, 9], (-1, -1, 1, 1), set(), ((0,), (6,))),
        ([4, 5, 6, 7], [5, 0, 7, 0, 9], (-1, -1, 1, 1), {5}, ((0, 2), (5,))),
        ([4, 5, 6, 7], [5, 0, 7, 0, 9], (-1, -1, 1, 1), {7}, ((0, 2, 4), (5, 7))),
        # Of two siblings that say the same the first is followed.
        ([4, 4, 6, 7], [4, 6, 7, 0, 9], (-1, -1, 0, 1), set(), ((0, 1, 3), (4, 6, 0))),
    ],
)
def test_greedy_outcomes(
    drafted: list[int], choices: list[int], parents: tuple[int, ...] | None, eos: set[int], expected: Any
) -> None:
    proposal = Proposal(torch.tensor(drafted, dtype=torch.long), parents=parents)
    logits = torch.nn.functional.one_hot(torch.tensor(choices), V).float()
    verifier = Verifier()
    judged = verifier.conclude(proposal, verifier.look(proposal, logits).tolist(), frozenset(eos))
    assert judged == Judged(*expected)
    assert judged.accepted == len(expected[0]) - 1
