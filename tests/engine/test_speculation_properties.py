"""Whatever is proposed: the answer is the target's own, rounds add up, caches are as if nothing else had been fed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.decoder.decoding import CachedModel, Limits
from engines.decoder.kv_cache import DYNAMIC, STATIC
from engines.drafters.drafter import Verified
from engines.drafters.model_drafter import SelfDrafter
from engines.speculation.draft_length import draft_length
from evprof.core.records import RoundRecord
from evprof.core.vocabulary.settings import choices_of
from example_counts import examples

pytestmark = pytest.mark.usefixtures("without_gradients")

ROWS = 257
NO_EOS: frozenset[int] = frozenset()

CHAINS = ("oracle", "adversary", "guesser", "silent", "repeater", "hit and miss", "model", "self", "tree")


@st.composite
def shapes(draw: st.DrawFn, most: int = 9) -> tuple[int, ...]:
    """Trees of any shape: each node below the last token or below one before it."""
    count = draw(st.integers(1, most))
    return tuple(draw(st.integers(-1, node - 1)) for node in range(count))


def assert_rounds_add_up(rounds: Sequence[RoundRecord], ids: Sequence[int], limits: Limits) -> None:
    """Every round gives what stands and one more, but for the last, which ends with the answer."""
    for record in rounds:
        assert 0 <= record.accepted <= record.drafted
        assert 0 < record.emitted <= record.accepted + 1
    assert all(record.emitted == record.accepted + 1 for record in rounds[:-1])
    clipped = sum(record.accepted + 1 for record in rounds) - sum(record.emitted for record in rounds)
    assert sum(record.emitted for record in rounds) == len(ids) - 1
    if clipped:
        assert ids[-1] in limits.eos_ids or len(ids) == limits.max_new_tokens


@given(data=st.data())
def test_the_answer_does_not_depend_on_the_drafter(
    make_llama: Any, sink: Any, played_rounds: ModuleType, scripted_drafters: ModuleType, data: st.DataObject
) -> None:
    kit, drafters = played_rounds, scripted_drafters
    sink.records.clear()
    target, prompt = make_llama(7, layers=1), kit.prompt_of(7)
    count = data.draw(st.integers(1, 20), label="most tokens")
    expected = kit.plain(target, prompt, Limits(count), sink)
    eos = data.draw(st.sampled_from([-1, *expected]), label="end")
    limits = Limits(count, frozenset({eos}) if eos >= 0 else NO_EOS)
    expected = kit.plain(target, prompt, limits, sink)
    kind = data.draw(st.sampled_from((STATIC, DYNAMIC)), label="cache")
    who = data.draw(st.sampled_from(CHAINS), label="drafter")
    gamma = data.draw(st.integers(1, 6), label="gamma")
    hits = data.draw(st.lists(st.booleans(), min_size=20, max_size=20), label="hits") if who == "hit and miss" else []
    parents = data.draw(shapes(), label="tree") if who == "tree" else ()
    path = data.draw(st.sampled_from(drafters.paths_of(parents)), label="path") if who == "tree" else []
    make: dict[str, Callable[[], Any]] = {
        "oracle": lambda: drafters.oracle(expected),
        "adversary": lambda: drafters.adversary(expected, ROWS),
        "guesser": lambda: drafters.guesser(gamma, ROWS),
        "silent": drafters.silent,
        "repeater": drafters.repeater,
        "hit and miss": lambda: drafters.hit_and_miss(expected, hits, ROWS),
        "model": lambda: kit.drafting(kit.noisy(target, 0.03), prompt, ROWS, kind=kind, eos_ids=limits.eos_ids),
        "self": lambda: SelfDrafter,
        "tree": lambda: drafters.tree_with_a_path(parents, path, expected, ROWS),
    }
    length = draft_length(data.draw(st.sampled_from(choices_of("length")), label="length"), gamma)
    chunk = data.draw(st.sampled_from((0, 3)), label="chunk")
    sink.records.clear()
    done = kit.play(target, make[who](), prompt, limits, sink, kind=kind, chunk=chunk, length=length)
    assert done.ids == expected
    assert done.target.length == prompt.shape[1] + len(expected) - 1
    rounds = sink.of(RoundRecord)
    assert_rounds_add_up(rounds, done.ids, limits)
    if who in ("adversary", "silent"):
        assert not any(record.accepted for record in rounds)
    if who in ("oracle", "self"):
        assert all(record.accepted == record.drafted for record in rounds[:-1])


def watched_caches(kit: ModuleType, target: Any, draft: Any, prompt: torch.Tensor, seen: list[int]) -> Any:
    """After every round: the target's cache holds prompt and answer, the draft's a beginning of them, exactly."""

    def look(held: dict[str, CachedModel], ids: Sequence[int], verified: Verified) -> None:
        kit.assert_cache_is_fresh(held["target"], target, kit.sequence(prompt, ids[:-1]))
        if (own := held.get("draft")) is not None:
            fed = own.length - own.prompt_length
            assert len(ids) - 2 <= fed <= len(ids) - 1
            kit.assert_cache_is_fresh(own, draft, kit.sequence(prompt, ids[:fed]))
        seen.append(len(verified.path) - 1)

    return look


@pytest.mark.parametrize("kind", [STATIC, DYNAMIC])
@pytest.mark.parametrize("chunk", [0, 4])
def test_both_caches_after_every_round_are_those_of_a_fresh_prefill(
    make_llama: Any, sink: Any, played_rounds: ModuleType, scripted_drafters: ModuleType, *, kind: str, chunk: int
) -> None:
    kit = played_rounds
    target, prompt = make_llama(3), kit.prompt_of(3)
    draft = kit.noisy(target, 0.03)
    accepted: list[int] = []
    look = watched_caches(kit, target, draft, prompt, accepted)
    held = {"target": kit.cached(target, kind=kind), "draft": kit.cached(draft, "draft", kind=kind)}
    drafter = scripted_drafters.Watched(
        kit.drafting(held["draft"], prompt, ROWS), lambda ids, verified: look(held, ids, verified)
    )
    done = kit.play(held["target"], drafter, prompt, Limits(64), sink, chunk=chunk)
    assert set(accepted) == {0, 1, 2, 3, 4}
    kit.assert_cache_is_fresh(done.target, target, kit.sequence(prompt, done.ids[:-1]))
    kit.assert_cache_is_fresh(held["draft"], draft, kit.sequence(prompt, done.ids[:-1]))


@pytest.mark.parametrize("kind", [STATIC, DYNAMIC])
@given(parents=shapes(12), data=st.data())
@settings(max_examples=examples(0.6))
def test_behind_a_tree_the_cache_holds_one_branch(
    make_llama: Any,
    sink: Any,
    played_rounds: ModuleType,
    scripted_drafters: ModuleType,
    *,
    kind: str,
    parents: tuple[int, ...],
    data: st.DataObject,
) -> None:
    kit, drafters = played_rounds, scripted_drafters
    target, prompt = make_llama(3), kit.prompt_of(3)
    expected = kit.plain(target, prompt, Limits(14), sink)
    path = data.draw(st.sampled_from(drafters.paths_of(parents)))
    one, stood = kit.cached(target, kind=kind), []

    def look(ids: Sequence[int], verified: Verified) -> None:
        kit.assert_cache_is_fresh(one, target, kit.sequence(prompt, ids[:-1]))
        stood.append(list(verified.path))

    tree = drafters.Watched(drafters.tree_with_a_path(parents, path, expected, ROWS), look)
    assert kit.play(one, tree, prompt, Limits(14), sink).ids == expected
    assert stood[0][1:] == [node + 1 for node in path]
