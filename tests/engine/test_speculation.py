"""Speculation: lossless whatever the draft proposes, caches exact after every round, records that add up."""

from __future__ import annotations

import copy
from collections import Counter
from types import ModuleType
from typing import Any

import pytest
import torch

from engines.decoder import kv_cache
from engines.decoder.decoding import CachedModel, Limits
from engines.drafters.model_drafter import SelfDrafter
from evprof.core.records import KvRecord, RoundRecord, SpanRecord, TokenRecord

pytestmark = pytest.mark.usefixtures("without_gradients")

GAMMA = 4
ROWS = 257


@pytest.fixture(scope="session")
def kit(played_rounds: ModuleType) -> ModuleType:
    return played_rounds


@pytest.mark.parametrize("part", range(4))
def test_a_hundred_prompts_are_lossless_and_show_every_outcome(
    make_llama: Any, sink: Any, kit: ModuleType, part: int
) -> None:
    """Drafts are the target with 1 to 5 % of noise on its weights; the answers say at least 40 different things."""
    outcomes: Counter[int] = Counter()
    for seed in range(25 * part, 25 * part + 25):
        if seed % 5 == 0:
            target = make_llama(seed // 5, vocabulary=2000)
        draft = kit.noisy(target, (0.01, 0.02, 0.03, 0.04, 0.05)[seed % 5], seed)
        prompt = kit.prompt_of(seed)
        expected = kit.plain(target, prompt, Limits(64), sink)
        assert len(set(expected)) >= 40
        sink.records.clear()
        played = kit.play(target, kit.drafting(draft, prompt, 2000), prompt, Limits(64), sink)
        assert played.ids == expected
        outcomes.update(record.accepted for record in sink.of(RoundRecord) if record.drafted == GAMMA)
        sink.records.clear()
    assert set(outcomes) == set(range(GAMMA + 1)), outcomes


@pytest.mark.parametrize("share", [0.0, 0.03, 3.0])
def test_caches_hold_exactly_the_answer_and_records_add_up(
    make_llama: Any, sink: Any, kit: ModuleType, share: float
) -> None:
    target = make_llama(3)
    draft = kit.noisy(target, share)
    prompt, draft_prompt = kit.prompt_of(3), kit.prompt_of(4, length=7)
    for count in (1, 2, 3, 5, 6, 24):
        sink.records.clear()
        done = kit.play(target, kit.drafting(draft, draft_prompt, ROWS), prompt, Limits(count), sink)
        assert len(done.ids) == count
        kit.assert_cache_is_fresh(done.target, target, kit.sequence(prompt, done.ids[:-1]))
        kit.assert_cache_is_fresh(done.draft, draft, kit.sequence(draft_prompt, done.ids[:-1]))
        rounds = sink.of(RoundRecord)
        tokens = sink.of(TokenRecord)
        kept = [record for record in tokens if record.origin != "rejected"]
        assert [record.position for record in kept] == list(range(count))
        assert sum(record.emitted for record in rounds) == count - 1
        assert all(record.emitted == record.accepted + 1 for record in rounds)
        assert Counter(record.origin for record in tokens) == Counter(
            {
                "target": 1,
                "accepted": sum(record.accepted for record in rounds),
                "bonus": len(rounds),
                "rejected": sum(record.drafted - record.accepted for record in rounds),
            }
        )
        assert done.target.rolled_back == sum(record.drafted - record.accepted for record in rounds)
        last = [record for record in sink.of(KvRecord) if record.role == "target"][-1]
        assert last.length == prompt.shape[1] + count - 1


def test_a_draft_that_is_the_target_is_always_right(make_llama: Any, sink: Any, kit: ModuleType) -> None:
    """As a model of its own and as the target over a second cache: every drafted token stands."""
    target, prompt = make_llama(1), kit.prompt_of(1)
    for drafter in (kit.drafting(copy.deepcopy(target), prompt, ROWS), SelfDrafter):
        sink.records.clear()
        kit.play(target, drafter, prompt, Limits(41), sink)
        rounds = sink.of(RoundRecord)
        assert [record.accepted for record in rounds] == [GAMMA] * 8
        assert all(len(record.drafted_ids.split(",")) == GAMMA for record in rounds)


def test_eos_inside_a_block(make_llama: Any, sink: Any, kit: ModuleType) -> None:
    """Every token as the end in turn: it is found as an accepted, a bonus and a corrected token."""
    target = make_llama(2)
    draft, prompt = kit.noisy(target, 0.04), kit.prompt_of(2)
    free = kit.plain(target, prompt, Limits(40), sink)
    clipped = 0
    for place, eos in enumerate(free):
        if eos in free[:place]:
            continue
        sink.records.clear()
        ends = frozenset({eos})
        drafter = kit.drafting(draft, prompt, ROWS, eos_ids=ends)
        done = kit.play(target, drafter, prompt, Limits(40, ends), sink)
        assert done.ids == free[: place + 1]
        assert done.target.length == prompt.shape[1] + place
        assert done.draft.length == prompt.shape[1] + place
        assert next(done.target.opened.tensors(0)).shape[-2] == done.target.length
        rounds = sink.of(RoundRecord)
        clipped += sum(record.emitted == record.accepted for record in rounds)
        assert sum(record.emitted for record in rounds) == place
    assert clipped > 3


def test_cancel_inside_a_block(make_llama: Any, sink: Any, stop_after: Any, kit: ModuleType) -> None:
    target = make_llama(4)
    draft, prompt = kit.noisy(target, 0.02), kit.prompt_of(4)
    free = kit.plain(target, prompt, Limits(60), sink)
    lengths = set()
    for asked in range(0, 30, 3):
        sink.records.clear()
        done = kit.play(target, kit.drafting(draft, prompt, ROWS), prompt, Limits(60), sink, stop=stop_after(asked))
        assert done.cancelled
        assert done.ids == free[: len(done.ids)]
        assert done.target.length == prompt.shape[1] + len(done.ids) - 1
        assert done.draft.length <= prompt.shape[1] + len(done.ids) - 1
        assert kv_cache.weigh(done.draft.cache).logical == done.draft.length * 2 * 2 * 2 * 16 * 4
        assert len([record for record in sink.of(SpanRecord) if record.phase == 0]) == len(
            [record for record in sink.of(SpanRecord) if record.phase == 1]
        )
        lengths.add(len(done.ids))
    assert len(lengths) > 3


def test_draft_ids_the_target_does_not_know_are_never_proposed(make_llama: Any, sink: Any, kit: ModuleType) -> None:
    target, draft, prompt = make_llama(6, vocabulary=120), make_llama(5), kit.prompt_of(5, vocabulary=100)
    expected = kit.plain(target, prompt, Limits(32), sink)
    sink.records.clear()
    assert kit.play(target, kit.drafting(draft, prompt, 120), prompt, Limits(32), sink).ids == expected
    proposed = [int(part) for record in sink.of(RoundRecord) for part in record.drafted_ids.split(",") if part]
    assert proposed
    assert max(proposed) < 120


def test_what_is_drafted_by_a_captured_step_outlives_the_next_one(make_llama: Any, sink: Any, kit: ModuleType) -> None:
    """A captured step writes all logits into one buffer; judged are those of each step."""
    model, prompt = make_llama(1), kit.prompt_of(1)

    class OneBuffer:
        kind, problem = "graphs", None

        def __init__(self, one: CachedModel) -> None:
            self.decoder, self.buffer = one.decoder, torch.zeros(1, 1, ROWS)

        def __call__(self, ids: torch.Tensor, cache: Any, keep: int, shape: object = None) -> torch.Tensor:
            return self.buffer.copy_(self.decoder(self.decoder.embed(ids), cache, keep=keep))

    one = kit.cached(model, "draft")
    one.own_step = OneBuffer(one)
    drafter = kit.drafting(one, prompt, ROWS)
    proposal = drafter.propose([5], 3, kit.NEVER.is_set)
    assert [int(logits.argmax()) for logits in proposal.logits] == proposal.ids.tolist()
    assert len({id(logits) for logits in proposal.logits}) == 3
