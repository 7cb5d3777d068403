"""Token recycling keeps what the target thought likely last, drafts it as a chain or a tree, and changes no answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engines.decoder.decoding import Limits
from engines.drafters.drafter import Verified
from engines.drafters.lookup_drafter import KEPT, RecyclingDrafter
from engines.speculation.verification import Verifier
from evprof.core.records import RoundRecord

pytestmark = pytest.mark.usefixtures("without_gradients")

CPU = torch.device("cpu")
ROWS = 12


def going() -> bool:
    return False


def thinking(*orders: Sequence[int]) -> torch.Tensor:
    """Logits [n, ROWS] that rank some tokens in this order, all others below."""
    logits = torch.full((len(orders), ROWS), -9.0)
    for row, order in enumerate(orders):
        for rank, token in enumerate(order):
            logits[row, token] = 9.0 - rank
    return logits


def test_a_chain_follows_the_likeliest_and_ends_after_what_is_new() -> None:
    drafter = RecyclingDrafter(CPU, ROWS)
    assert drafter.propose([3], 4, going).size == 0
    drafter.observe([3, 5], Verified((0,), block=(3,), logits=thinking([5, 6])))
    assert drafter.propose([3], 4, going).ids.tolist() == [5]
    drafter.observe([3, 5, 3], Verified((0,), block=(5,), logits=thinking([3, 7])))
    assert drafter.propose([3], 4, going).ids.tolist() == [5, 3, 5, 3]
    assert drafter.propose([3], 1, going).parents is None


def test_a_tree_takes_the_likeliest_of_each_on_every_level() -> None:
    drafter = RecyclingDrafter(CPU, ROWS, widths=(2, 2))
    drafter.observe([1], Verified((0,), block=(1, 2, 3), logits=thinking([2, 3], [4, 5], [6, 7])))
    tree = drafter.propose([1], 5, going)
    assert (tree.ids.tolist(), tree.parents) == ([2, 3, 4, 5, 6, 7], (-1, -1, 0, 0, 1, 1))
    first = drafter.propose([1], 1, going)
    assert (first.ids.tolist(), first.parents) == ([2, 3], (-1, -1))


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=5), st.integers(0, 4), st.integers(0, 99)),
        min_size=1,
        max_size=6,
    )
)
def test_the_table_is_what_the_target_thought_last(rounds: list[tuple[list[int], int, int]]) -> None:
    """Held against a dictionary that is filled place by place."""
    drafter, known = RecyclingDrafter(CPU, ROWS, widths=(KEPT,)), dict[int, list[int]]()
    for block, accepted, seed in rounds:
        logits = torch.randn(len(block), ROWS, generator=torch.Generator().manual_seed(seed))
        path = range(min(accepted + 1, len(block)))
        drafter.observe([0], Verified(path, block=block, logits=logits))
        for place in [*range(len(block)), *path]:
            known[block[place]] = logits[place].topk(KEPT).indices.tolist()
    for token in range(ROWS):
        assert drafter.propose([token], 1, going).ids.tolist() == known.get(token, [])


@pytest.mark.parametrize("widths", [(), (3, 2), (9, 1, 1)], ids=str)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_it_is_lossless(
    make_llama: Any, sink: Any, played_rounds: ModuleType, temperature: float, widths: tuple[int, ...]
) -> None:
    """Greedy answers stay as they are; drawn ones leave clean caches. All outcomes of rounds occur."""
    outcomes: set[str] = set()
    for seed in range(6):
        target = make_llama(seed, vocabulary=40, std=0.35)
        prompt = played_rounds.prompt_of(seed, vocabulary=40)
        verifier = Verifier()
        if temperature:
            verifier = Verifier(partial(torch.softmax, dim=-1), torch.Generator().manual_seed(seed))
        expected = played_rounds.plain(target, prompt, Limits(48), sink)
        sink.records.clear()
        drafter = RecyclingDrafter(CPU, 40, widths=widths)
        played = played_rounds.play(target, drafter, prompt, Limits(48), sink, gamma=4, verifier=verifier)
        assert temperature or played.ids == expected
        behind = played_rounds.sequence(prompt, played.ids[:-1])
        played_rounds.assert_cache_is_fresh(played.target, target, behind)
        for one in sink.of(RoundRecord):
            outcomes.add("nothing" if not one.drafted else "some" if one.accepted else "none")
    assert outcomes == {"nothing", "some", "none"}
