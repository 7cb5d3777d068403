"""Speculation: lossless whatever the draft proposes, caches exact after every round, records that add up."""

from __future__ import annotations

import copy
import threading
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import DynamicCache

from engines import kv_cache
from engines.answer import Answer
from engines.decoding import CachedModel, Limits, decode
from engines.kv_cache import DynamicKv
from engines.llama import LlamaDecoder
from engines.sampling import greedy
from engines.speculation import accept, speculate
from engines.timing import StageClock
from evprof.core.errors import Cancelled
from evprof.core.records import KvRecord, RoundRecord, SpanRecord, TokenRecord

pytestmark = pytest.mark.usefixtures("without_gradients")

PIECES = [f"<{index}>" for index in range(300)]
CPU = torch.device("cpu")
GAMMA = 4


def cached(model: Any, role: str) -> CachedModel:
    return CachedModel.over(LlamaDecoder.take_over(model), role, bytes_per_position=1)


def prompt_of(seed: int, length: int = 10, vocabulary: int = 250) -> torch.Tensor:
    return torch.randint(0, vocabulary, (1, length), generator=torch.Generator().manual_seed(seed))


def noisy(model: Any, share: float, seed: int = 9) -> Any:
    """The same model with every weight moved by `share` of its tensor's spread."""
    drawn = torch.Generator().manual_seed(seed)
    moved = copy.deepcopy(model)
    for weight in moved.parameters():
        weight.data += share * weight.data.std(correction=0) * torch.randn(weight.shape, generator=drawn)
    return moved


def plain(model: Any, prompt: torch.Tensor, limits: Limits, sink: Any) -> list[int]:
    stop, one = threading.Event(), cached(model, "target")
    answer = Answer(sink, 1, "target", PIECES)
    first = greedy(one.prefill(model.get_input_embeddings()(prompt), stop))
    answer.add(int(first))
    decode(one, first, answer, limits, sampler=greedy, clock=StageClock(sink, 1), stop=stop)
    return answer.ids


def speculated(
    target: Any,
    draft: Any,
    prompt: torch.Tensor,
    limits: Limits,
    sink: Any,
    *,
    gamma: int = GAMMA,
    draft_prompt: torch.Tensor | None = None,
    stop: Any = None,
) -> SimpleNamespace:
    stop = stop or threading.Event()
    speaker, drafter = cached(target, "target"), draft if isinstance(draft, CachedModel) else cached(draft, "draft")
    never = threading.Event()
    first = greedy(speaker.prefill(target.get_input_embeddings()(prompt), never))
    seen = prompt if draft_prompt is None else draft_prompt
    if isinstance(drafter.decoder, LlamaDecoder):
        drafter.prefill(drafter.decoder.embed(seen), never)
    answer = Answer(sink, 1, "target", PIECES)
    answer.add(int(first))
    result = SimpleNamespace(answer=answer, target=speaker, draft=drafter, cancelled=False)
    clock = StageClock(sink, 1)
    try:
        with clock.stage("decode", "target"):
            speculate(speaker, drafter, answer, limits, gamma=gamma, clock=clock, stop=stop)
    except Cancelled:
        result.cancelled = True
    result.ids = answer.ids
    return result


def assert_cache_is_fresh(one: CachedModel, model: Any, sequence: torch.Tensor) -> None:
    """The cache equals that of a fresh pass over the same tokens."""
    fresh = DynamicCache()
    model(input_ids=sequence, past_key_values=fresh, use_cache=True)
    assert one.length == sequence.shape[1]
    assert one.opened.layer_count == len(fresh.layers)
    for index, expected in enumerate(fresh.layers):
        keys, values = one.opened.tensors(index)
        assert keys.shape == expected.keys.shape
        torch.testing.assert_close(keys, expected.keys, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(values, expected.values, rtol=1e-3, atol=1e-3)


def test_fifty_prompts_are_lossless_and_show_every_outcome(make_llama: Any, sink: Any) -> None:
    outcomes: Counter[int] = Counter()
    for seed in range(50):
        target = make_llama(seed // 10, vocabulary=2000)
        draft = noisy(target, (0.01, 0.02, 0.03, 0.04, 0.05)[seed % 5], seed)
        prompt = prompt_of(seed)
        expected = plain(target, prompt, Limits(64), sink)
        assert len(set(expected)) >= 40
        sink.records.clear()
        assert speculated(target, draft, prompt, Limits(64), sink).ids == expected
        outcomes.update(record.accepted for record in sink.of(RoundRecord) if record.drafted == GAMMA)
        sink.records.clear()
    assert set(outcomes) == set(range(GAMMA + 1)), outcomes


@pytest.mark.parametrize("share", [0.0, 0.03, 3.0])
def test_caches_hold_exactly_the_answer_and_records_add_up(make_llama: Any, sink: Any, share: float) -> None:
    target = make_llama(3)
    draft = noisy(target, share)
    prompt, draft_prompt = prompt_of(3), prompt_of(4, length=7)
    for count in (1, 2, 3, 5, 6, 24):
        sink.records.clear()
        done = speculated(target, draft, prompt, Limits(count), sink, draft_prompt=draft_prompt)
        assert len(done.ids) == count
        behind = torch.tensor([done.ids[:-1]], dtype=torch.int64)
        assert_cache_is_fresh(done.target, target, torch.cat([prompt, behind], dim=1))
        assert_cache_is_fresh(done.draft, draft, torch.cat([draft_prompt, behind], dim=1))
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
        assert [record.length for record in sink.of(KvRecord) if record.role == "target"][-1:] == (
            [prompt.shape[1] + count - 1] if count > 1 else []
        )


def test_draft_that_is_the_target_is_always_right(make_llama: Any, sink: Any) -> None:
    target, prompt = make_llama(1), prompt_of(1)
    speculated(target, copy.deepcopy(target), prompt, Limits(41), sink)
    rounds = sink.of(RoundRecord)
    assert [record.accepted for record in rounds] == [GAMMA] * 8
    assert all(len(record.drafted_ids.split(",")) == GAMMA for record in rounds)


def test_eos_inside_a_block(make_llama: Any, sink: Any) -> None:
    """Every token as the end in turn: it is found as an accepted, a bonus and a corrected token."""
    target = make_llama(2)
    draft, prompt = noisy(target, 0.04), prompt_of(2)
    free = plain(target, prompt, Limits(40), sink)
    clipped = 0
    for place, eos in enumerate(free):
        if eos in free[:place]:
            continue
        sink.records.clear()
        done = speculated(target, draft, prompt, Limits(40, frozenset({eos})), sink)
        assert done.ids == free[: place + 1]
        assert done.target.length == prompt.shape[1] + place
        assert done.draft.length == prompt.shape[1] + place
        assert next(done.target.opened.tensors(0)).shape[-2] == done.target.length
        rounds = sink.of(RoundRecord)
        clipped += sum(record.emitted == record.accepted for record in rounds)
        assert sum(record.emitted for record in rounds) == place
    assert clipped > 3


def test_cancel_inside_a_block(make_llama: Any, sink: Any, stop_after: Any) -> None:
    target = make_llama(4)
    draft, prompt = noisy(target, 0.02), prompt_of(4)
    free = plain(target, prompt, Limits(60), sink)
    lengths = set()
    for asked in range(0, 30, 3):
        sink.records.clear()
        done = speculated(target, draft, prompt, Limits(60), sink, stop=stop_after(asked))
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


def test_target_ids_the_draft_does_not_know(make_llama: Any, sink: Any) -> None:
    target, draft, prompt = make_llama(5), make_llama(6, vocabulary=120), prompt_of(5)
    seen = prompt_of(5, vocabulary=100)
    expected = plain(target, prompt, Limits(48), sink)
    assert max(expected) >= 120 > min(expected)
    assert speculated(target, draft, prompt, Limits(48), sink, draft_prompt=seen).ids == expected


def test_draft_ids_the_target_does_not_know_are_never_proposed(make_llama: Any, sink: Any) -> None:
    target, draft, prompt = make_llama(6, vocabulary=120), make_llama(5), prompt_of(5, vocabulary=100)
    expected = plain(target, prompt, Limits(32), sink)
    sink.records.clear()
    assert speculated(target, draft, prompt, Limits(32), sink, draft_prompt=prompt).ids == expected
    proposed = [int(part) for record in sink.of(RoundRecord) for part in record.drafted_ids.split(",") if part]
    assert proposed
    assert max(proposed) < 120


class Scripted:
    """A drafter that proposes what it is told for each place of the answer."""

    def __init__(self, proposals: dict[int, int], start: int, vocabulary: int) -> None:
        self.proposals, self.start, self.vocabulary = proposals, start, vocabulary
        self.fed = 0

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return ids.float().unsqueeze(-1)

    def __call__(self, hidden: torch.Tensor, cache: Any, *, keep: int = 1, stop: Any = None) -> torch.Tensor:
        keys = torch.zeros(1, 1, hidden.shape[1], 1)
        cache.append(0, keys, keys)
        cache.advance(hidden.shape[1])
        logits = torch.zeros(1, 1, self.vocabulary)
        logits[0, 0, self.proposals.get(cache.length - self.start, 0)] = 1.0
        return logits


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_output_does_not_depend_on_the_drafter(make_llama: Any, sink: Any, data: st.DataObject) -> None:
    """Oracle, adversary and anything between: each place is proposed right or wrong as drawn."""
    sink.records.clear()
    target, prompt = make_llama(7, layers=1), prompt_of(7)
    gamma = data.draw(st.integers(1, 6))
    count = data.draw(st.integers(1, 20))
    expected = plain(target, prompt, Limits(count), sink)
    eos = data.draw(st.sampled_from([-1, *expected]))
    limits = Limits(count, frozenset({eos}) if eos >= 0 else frozenset())
    expected = plain(target, prompt, limits, sink)
    hits = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    proposals = {
        place: token if hits[place] else (token + 1) % 257 for place, token in enumerate(expected) if place < count
    }
    sink.records.clear()
    drafter = CachedModel(Scripted(proposals, 0, 257), "draft", CPU, 257, cache=DynamicKv(1))
    done = speculated(target, drafter, prompt, limits, sink, gamma=gamma)
    assert done.ids == expected
    assert done.target.length == prompt.shape[1] + len(expected) - 1
    assert done.draft.length == len(expected) - 1
    for record in sink.of(RoundRecord):
        assert 0 <= record.accepted <= record.drafted <= gamma
        assert record.emitted in (record.accepted, record.accepted + 1)


@pytest.mark.parametrize(
    ("drafted", "choices", "eos", "expected"),
    [
        ([], [5], set(), (0, [5])),
        ([1, 2], [1, 2, 3], set(), (2, [1, 2, 3])),
        ([1, 2], [1, 7, 3], set(), (1, [1, 7])),
        ([1, 2], [7, 2, 3], set(), (0, [7])),
        ([1, 2], [1, 2, 3], {1}, (1, [1])),
        ([1, 2], [1, 2, 3], {2}, (2, [1, 2])),
        ([1, 2], [1, 7, 3], {7}, (1, [1, 7])),
        ([7, 2], [1, 2, 3], {7}, (0, [1])),
    ],
)
def test_accept(drafted: list[int], choices: list[int], eos: set[int], expected: Any) -> None:
    assert accept(drafted, choices, frozenset(eos)) == expected


def test_rounds_have_draft_and_verify_parts_inside_decode(make_llama: Any, sink: Any) -> None:
    target, prompt = make_llama(1), prompt_of(1)
    speculated(target, noisy(target, 0.03), prompt, Limits(20), sink)
    settled = {record.span_id: record for record in sink.of(SpanRecord) if record.phase == 2}
    stage = next(record for record in settled.values() if record.parent_id < 0)
    parts = [record for record in settled.values() if record.parent_id == stage.span_id]
    assert {(record.name, record.role) for record in parts} == {("draft", "draft"), ("verify", "target")}
    assert all(stage.start_ns <= record.start_ns <= record.end_ns <= stage.end_ns for record in parts)
    rounds = sink.of(RoundRecord)
    verify = [record.end_ns - record.start_ns for record in parts if record.name == "verify"]
    assert [record.verify_ns for record in rounds] == verify
    assert all(record.draft_ns > 0 and record.rollback_ns > 0 for record in rounds)
