"""Speculative rounds are lossless for any drafter; caches hold exactly the answer."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import played_rounds as kit
import scripted_drafters as drafters
from engines.adapters.hidden_states import AdaptedDecoder, HiddenAdapter, HiddenSizes
from engines.adapters.ngram import NgramCounts
from engines.adapters.published import Eagle1Head, layer_like
from engines.decoder import kv_cache
from engines.decoder.decoding import CachedModel, Limits
from engines.decoder.kv_cache import DYNAMIC, STATIC
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import distribution
from engines.drafters.drafter import Drafter, Verified
from engines.drafters.eagle_drafter import EagleDrafter
from engines.drafters.lookup_drafter import LookupDrafter, NgramDrafter, RecyclingDrafter
from engines.drafters.model_drafter import HiddenDrafter, ModelDrafter, SelfDrafter
from engines.drafters.suffix_drafter import SuffixDrafter
from engines.measuring.timing import StageClock
from engines.speculation.draft_length import Budgeted, Heuristic, draft_length
from engines.speculation.rounds import Verifier
from engines.tokens.vocabulary_alignment import Alignment, first_shared
from evprof.core.records import KvRecord, RoundRecord, SpanRecord, TokenRecord
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.settings import choices_of
from example_counts import examples
from pretended_cuda import GPU, PretendedCuda

pytestmark = pytest.mark.usefixtures("without_gradients")

GAMMA = 4
ROWS = 257


@pytest.mark.parametrize("part", range(4))
def test_a_hundred_prompts_are_lossless_and_show_every_outcome(make_llama, sink, part: int) -> None:
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
def test_caches_hold_exactly_the_answer_and_records_add_up(make_llama, sink, share: float) -> None:
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


def test_eos_inside_a_block(make_llama: Any, sink: Any) -> None:
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


def test_cancel_inside_a_block(make_llama: Any, sink: Any, stop_after: Any) -> None:
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


def test_draft_ids_the_target_does_not_know_are_never_proposed(make_llama: Any, sink: Any) -> None:
    target, draft, prompt = make_llama(6, vocabulary=120), make_llama(5), kit.prompt_of(5, vocabulary=100)
    expected = kit.plain(target, prompt, Limits(32), sink)
    sink.records.clear()
    assert kit.play(target, kit.drafting(draft, prompt, 120), prompt, Limits(32), sink).ids == expected
    proposed = [int(part) for record in sink.of(RoundRecord) for part in record.drafted_ids.split(",") if part]
    assert proposed
    assert max(proposed) < 120


def test_what_is_drafted_by_a_captured_step_outlives_the_next_one(make_llama: Any, sink: Any) -> None:
    """A captured step writes all logits into one buffer; judged are those of each step."""
    model, prompt = make_llama(1), kit.prompt_of(1)

    class OneBuffer:
        kind, problem = "graphs", None

        def __init__(self, one: CachedModel) -> None:
            self.decoder, self.buffer = one.decoder, torch.zeros(1, 1, ROWS)

        def __call__(self, ids: torch.Tensor, cache: Any, keep: int, shape: object = None) -> torch.Tensor:
            return self.buffer.copy_(self.decoder(self.decoder.embed(ids), cache, keep=keep))

    one: Any = kit.cached(model, "draft")
    one.own_step = OneBuffer(one)
    drafter = kit.drafting(one, prompt, ROWS)
    proposal = drafter.propose([5], 3, kit.NEVER.is_set)
    assert [int(logits.argmax()) for logits in proposal.logits] == proposal.ids.tolist()
    assert len({id(logits) for logits in proposal.logits}) == 3


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
def test_the_answer_does_not_depend_on_the_drafter(make_llama: Any, sink: Any, data: st.DataObject) -> None:
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


def watched_caches(target: Any, draft: Any, prompt: torch.Tensor, seen: list[int]) -> Any:
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
def test_both_caches_after_every_round_are_those_of_a_fresh_prefill(make_llama, sink, *, kind: str, chunk: int) -> None:
    target, prompt = make_llama(3), kit.prompt_of(3)
    draft = kit.noisy(target, 0.03)
    accepted: list[int] = []
    look = watched_caches(target, draft, prompt, accepted)
    held = {"target": kit.cached(target, kind=kind), "draft": kit.cached(draft, "draft", kind=kind)}
    drafter: Any = drafters.Watched(
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
    make_llama, sink, *, kind: str, parents: tuple[int, ...], data: st.DataObject
) -> None:
    target, prompt = make_llama(3), kit.prompt_of(3)
    expected = kit.plain(target, prompt, Limits(14), sink)
    path = data.draw(st.sampled_from(drafters.paths_of(parents)))
    one, stood = kit.cached(target, kind=kind), []

    def look(ids: Sequence[int], verified: Verified) -> None:
        kit.assert_cache_is_fresh(one, target, kit.sequence(prompt, ids[:-1]))
        stood.append(list(verified.path))

    tree: Any = drafters.Watched(drafters.tree_with_a_path(parents, path, expected, ROWS), look)
    assert kit.play(one, tree, prompt, Limits(14), sink).ids == expected
    assert stood[0][1:] == [node + 1 for node in path]


MS = 1_000_000


def play(length: Any, rounds: int, rate: float, draft_ms: float, verify_ms: Any) -> list[int]:
    """Rounds in which each token is right with a chance of `rate`; returns what was asked for."""
    dice, asked = random.Random(3), []
    for _ in range(rounds):
        count = length.next()
        asked.append(count)
        accepted = 0
        while accepted < count and dice.random() < rate:
            accepted += 1
        length.learn(count, accepted, round(count * draft_ms * MS), round(verify_ms(count) * MS))
    return asked


def best(rate: float, draft_ms: float, verify_ms: Any, most: int = 16) -> tuple[int, float]:
    """The number of most tokens per time when everything is known, and that pace."""
    paces = {
        count: sum(rate**place for place in range(count + 1)) / (count * draft_ms + verify_ms(count))
        for count in range(1, most + 1)
    }
    count = max(paces, key=lambda one: paces[one])
    return count, paces[count]


def test_the_heuristic_goes_up_by_two_and_down_by_one_within_its_bounds() -> None:
    length = Heuristic(3, 6)
    steps = [(3, 3, 5), (5, 4, 4), (4, 4, 6), (6, 6, 6), (6, 0, 5), (0, 0, 5), (2, 2, 6)]
    for drafted, accepted, expected in steps:
        length.learn(drafted, accepted, 1, 1)
        assert length.next() == expected
    for _ in range(9):
        length.learn(4, 1, 1, 1)
    assert length.next() == 1


def test_the_budget_finds_the_best_length_for_costs_and_acceptance() -> None:
    """Against the length that would be best if everything were known: at most a tenth slower."""

    def flat(_: int) -> float:
        return 10.0

    def growing(count: int) -> float:
        return 1.0 + 0.2 * count

    for rate, draft_ms, verify_ms in (
        (0.9, 0.1, flat),
        (0.9, 3.0, flat),
        (0.5, 3.0, flat),
        (0.2, 5.0, flat),
        (0.95, 0.0, growing),
        (0.6, 0.05, growing),
        (0.3, 0.4, growing),
    ):
        asked = play(Budgeted(5, 16), 400, rate, draft_ms, verify_ms)
        _, pace = best(rate, draft_ms, verify_ms)
        settled = asked[100:]
        reached = [
            sum(rate**place for place in range(count + 1)) / (count * draft_ms + verify_ms(count)) for count in settled
        ]
        assert sum(reached) / len(reached) >= 0.9 * pace, (rate, draft_ms, asked[-20:])


PRETENDED_ROWS = 64
NEVER = threading.Event()
Make = Callable[[CachedModel], Drafter]
KINDS = (
    *("model", "model, drawn", "mapped", "hidden", "hidden, mapped"),
    *("chain", "chain, drawn", "tree", "lookup", "ngram", "suffix", "recycled", "recycled tree", "self"),
)


class Rounds(StageClock):
    """Notes what was waited for before the first round."""

    def __init__(self, sink: Any, pretended: PretendedCuda) -> None:
        super().__init__(sink, 1)
        self._pretended = pretended
        self.before: int | None = None

    def begin_step(self, kind: str = "token") -> None:
        if self.before is None:
            self.before = len(self._pretended.waits)


@pytest.fixture(scope="module")
def decoders(make_llama: Any) -> tuple[LlamaDecoder, LlamaDecoder]:
    target, draft = (LlamaDecoder.take_over(make_llama(seed, vocabulary=PRETENDED_ROWS)) for seed in (1, 2))
    return target, draft


def prefilled(decoder: LlamaDecoder, prompt: torch.Tensor) -> CachedModel:
    one = CachedModel.over(decoder, "draft")
    one.prefill(decoder.embed(prompt), NEVER)
    return one


def makers(draft: LlamaDecoder, prompt: torch.Tensor, expected: list[int], drawn: dict[str, Any]) -> dict[str, Make]:
    def model(one: CachedModel, alignment: Alignment, **more: Any) -> ModelDrafter:
        return ModelDrafter(
            "draft", prefilled(draft, prompt), alignment, frozenset(), target_rows=PRETENDED_ROWS, **more
        )

    def eagle(one: CachedModel, **more: Any) -> EagleDrafter:
        assert isinstance(one.decoder, LlamaDecoder)
        head = Eagle1Head(layer_like(one.decoder.config), bias=False).requires_grad_(False)
        return EagleDrafter("head", head, one, frozenset(), **more)

    def hidden(one: CachedModel, alignment: Alignment) -> HiddenDrafter:
        assert isinstance(one.decoder, LlamaDecoder)
        adapted = AdaptedDecoder(draft, one.decoder, HiddenAdapter(HiddenSizes(64, 64, 8)).requires_grad_(False))
        return HiddenDrafter("d", prefilled(draft, prompt), adapted, alignment, frozenset(), target_rows=PRETENDED_ROWS)

    turned = Alignment(
        [*range(1, PRETENDED_ROWS), 0],
        [PRETENDED_ROWS - 1, *range(PRETENDED_ROWS - 1)],
        PRETENDED_ROWS,
        is_prefix=False,
    )
    counts = NgramCounts.of([expected, expected[5:]], order=3)
    return {
        "model": partial(model, alignment=first_shared(PRETENDED_ROWS)),
        "model, drawn": partial(model, alignment=first_shared(PRETENDED_ROWS), **drawn),
        "mapped": partial(model, alignment=turned),
        "hidden": partial(hidden, alignment=first_shared(PRETENDED_ROWS)),
        "hidden, mapped": partial(hidden, alignment=turned),
        "chain": eagle,
        "chain, drawn": partial(eagle, **drawn),
        "tree": partial(eagle, widths=(4, 2, 1)),
        "lookup": lambda one: LookupDrafter(one.device),
        "suffix": lambda one: SuffixDrafter(one.device),
        "recycled": lambda one: RecyclingDrafter(one.device, PRETENDED_ROWS),
        "recycled tree": lambda one: RecyclingDrafter(one.device, PRETENDED_ROWS, widths=(4, 2, 1)),
        "ngram": lambda one: NgramDrafter("counts", counts, one.device, least=0.1),
        "self": SelfDrafter,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_waits_once(kind: str, decoders: Any, sink: Any) -> None:
    target, draft = decoders
    prompt = kit.prompt_of(1, vocabulary=PRETENDED_ROWS)
    expected = kit.plain(target, prompt, Limits(24), sink)
    verifier, drawn = Verifier(), {}
    if "drawn" in kind:
        law = partial(distribution, settings=GenerationSettings(temperature=0.8))
        drawn = {"law": law, "generator": torch.Generator().manual_seed(3)}
        verifier = Verifier(law, torch.Generator().manual_seed(4))
    with PretendedCuda() as pretended:
        clock = Rounds(sink, pretended)
        make = makers(draft, prompt, expected, drawn)[kind]
        sink.records.clear()
        one = CachedModel.over(target, "target")
        assert one.device == GPU
        played = kit.play(one, make, prompt, Limits(24), sink, gamma=3, clock=clock, verifier=verifier)
        assert pretended.waits[clock.before :] == ["tolist"] * len(sink.of(RoundRecord))
    assert len(sink.of(RoundRecord)) > 1
    assert max(record.drafted for record in sink.of(RoundRecord)) > 0
    if "drawn" not in kind:
        assert played.ids == expected
