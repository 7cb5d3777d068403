"""Drafts inside a prefill: lossless, exact caches, both threads end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engines.decoder.decoding import CachedModel, Limits
from engines.decoder.kv_cache import DYNAMIC, STATIC
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import greedy
from engines.drafters.drafter import Proposal
from engines.drafters.model_drafter import ModelDrafter
from engines.measuring.timing import StageClock
from engines.modes import concurrency
from engines.modes.concurrency import STREAMS, Concurrency, DraftThread, LinkedStop, SharedSink, make_draft_worker
from engines.modes.parallel_run import LAST_CHUNK, DraftWindow, ParallelPrefill
from engines.speculation.draft_length import draft_length
from engines.speculation.rounds import Rounds, Verifier
from engines.tokens.answer import Answer
from engines.tokens.vocabulary_alignment import Alignment, first_shared
from evprof.core.errors import Cancelled, UserError
from evprof.core.records import BEGIN, END, STAGES, KvRecord, RoundRecord, SpanRecord, TokenRecord
from evprof.core.request import RunRequest
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.metrics.figures.stages import unattributed_ms, wall_ms
from played_rounds import NEVER, PIECES, cached, noisy, prompt_of, sequence
from played_rounds import assert_cache_is_fresh as assert_fresh
from played_rounds import plain as plain_answer
from run_logs import carry_out, ids_of

pytestmark = pytest.mark.usefixtures("without_gradients")

HELD = SimpleNamespace(worker=None)


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    """The thread that all parts of a test draft in ends with it."""
    HELD.worker = make_draft_worker()
    yield
    HELD.worker.shutdown()


VOCABULARY = 257
CPU = torch.device("cpu")


class Pair:
    """Two models, their decoders over one set of weights, and a prompt for each."""

    def __init__(self, target: Any, draft: Any, prompt: torch.Tensor, draft_prompt: torch.Tensor) -> None:
        self.models = {"target": target, "draft": draft}
        self.decoders = {role: LlamaDecoder.take_over(model) for role, model in self.models.items()}
        self.prompts = {"target": prompt, "draft": draft_prompt}

    def cached(self, role: str, kind: str = STATIC, chunk: int = 0) -> CachedModel:
        model = cached(self.decoders[role], role, kind=kind)
        model.prefill_chunk = chunk
        return model

    def embedded(self, role: str) -> torch.Tensor:
        return self.decoders[role].embed(self.prompts[role])

    def plain(self, limits: Limits) -> list[int]:
        return plain_answer(self.decoders["target"], self.prompts["target"], limits, Nowhere())


class Nowhere:
    def append(self, record: Any) -> None:
        pass

    def post(self, message: Any) -> None:
        pass


def played(
    pair: Pair,
    limits: Limits,
    sink: Any,
    *,
    kind: str = STATIC,
    chunk: int = 0,
    stop: Any = NEVER,
    prepare: Any = None,
    before_take: Any = None,
    law: Any = None,
    drafts_on: torch.device = CPU,
    **asked: Any,
) -> SimpleNamespace:
    """One answer in mode parallel-prefill, without stages 1 to 3."""
    shared = SharedSink(sink)
    target, draft = pair.cached("target", kind, chunk), pair.cached("draft", kind)
    answer = Answer(shared, 1, "target", PIECES)
    clock = StageClock(shared, 1)
    concurrency = Concurrency(CPU, CPU, {})
    branch = concurrency.branch(clock, shared)
    draft_stop, target_stop = LinkedStop(stop), LinkedStop(stop)
    window = DraftWindow.of(SpeculationSettings(**asked), limits)
    generators = [torch.Generator().manual_seed(seed) for seed in (3, 4)]
    verifier = Verifier(law, generators[0] if law else None)
    drafter = ModelDrafter(
        "draft",
        draft,
        first_shared(VOCABULARY),
        limits.eos_ids,
        law=law,
        generator=generators[1],
        target_rows=VOCABULARY,
    )

    drafter.device = drafts_on

    def prefilled() -> torch.Tensor:
        if prepare is not None:
            prepare(draft_stop)
        with branch.stage("prefill", "draft", CPU):
            return draft.prefill(pair.embedded("draft"), draft_stop)

    thread = DraftThread(
        prefilled,
        drafter,
        most=window.most,
        eos_ids=limits.eos_ids,
        clock=branch,
        stop=draft_stop,
        beside=target_stop,
        side=concurrency.draft_side(),
        answer=answer,
        worker=HELD.worker,
        is_tree=window.is_tree,
    )
    rounds = Rounds(
        target,
        drafter,
        answer,
        limits,
        length=draft_length("fixed", 4),
        verifier=verifier,
        clock=clock,
        stop=target_stop,
    )
    work = ParallelPrefill(
        window,
        target,
        thread,
        drafter,
        answer=answer,
        sampler=verifier.sample,
        verifier=verifier,
        is_greedy=law is None,
        limits=limits,
        make_rounds=lambda: rounds,
        concurrency=concurrency,
        clock=clock,
        stop=target_stop,
    )
    concurrency.enter_target()
    thread.start()
    try:
        with clock.stage("prefill", "target", CPU):
            work.begin()
            logits = work.compute(target, pair.embedded("target"), target_stop)
            if before_take is not None:
                before_take(thread)
            first = work.take(logits)
        with clock.stage("decode", "target", CPU):
            work.decode(first)
    except Cancelled:
        if thread.failure is not None:
            raise thread.failure from None
        raise
    finally:
        thread.abandon()
        concurrency.leave_target()
        branch.finish()
        clock.finish()
    return SimpleNamespace(
        ids=answer.ids, target=target, draft=draft, window=window, thread=thread, crossings=work.crossings
    )


def assert_cache_is_fresh(one: CachedModel, pair: Pair, ids: list[int]) -> None:
    assert_fresh(one, pair.models[one.role], sequence(pair.prompts[one.role], ids))


def assert_records_add_up(sink: Any, ids: list[int]) -> RoundRecord | None:
    """Tokens in order, origins by rounds; returns the hidden round, if anything was hidden."""
    tokens, rounds = sink.of(TokenRecord), sink.of(RoundRecord)
    kept = [record for record in tokens if record.origin != "rejected"]
    assert [record.token_id for record in kept] == ids
    assert [record.position for record in kept] == list(range(len(ids)))
    origins = Counter(record.origin for record in tokens)
    assert origins["accepted"] == sum(record.accepted for record in rounds)
    assert origins["rejected"] == sum(record.drafted - record.accepted for record in rounds)
    assert origins["accepted"] + origins["bonus"] == sum(record.emitted for record in rounds)
    assert [record.round_index for record in rounds] == list(range(len(rounds)))
    hidden = [record for record in rounds if record.hidden]
    assert hidden == rounds[: len(hidden)]
    assert len(hidden) <= 1
    return hidden[0] if hidden else None


@pytest.fixture(scope="module")
def make_pair(make_llama: Any) -> Any:
    made: dict[tuple[int, float, int, int], Pair] = {}

    def make(seed: int, share: float, length: int = 10, draft_length: int = 7) -> Pair:
        key = (seed, share, length, draft_length)
        if key not in made:
            with torch.inference_mode(False):
                target = make_llama(seed)
                draft = noisy(target, share, seed)
            made[key] = Pair(target, draft, prompt_of(seed, length), prompt_of(seed, length)[:, -draft_length:])
        return made[key]

    return make


@given(
    seed=st.integers(0, 3),
    share=st.sampled_from([0.0, 0.02, 0.05, 3.0]),
    length=st.sampled_from([5, LAST_CHUNK, LAST_CHUNK + 9]),
    hidden=st.integers(0, 12),
    count=st.integers(1, 14),
    eos=st.none() | st.integers(0, 13),
    verify=st.sampled_from(["after", "last-chunk"]),
    afterwards=st.sampled_from(["plain", "rounds"]),
    chunk=st.sampled_from([0, 3, 40]),
    kind=st.sampled_from([STATIC, DYNAMIC]),
)
def test_every_forced_window_is_lossless_and_leaves_exact_caches(
    make_pair: Any,
    sink: Any,
    *,
    seed: int,
    share: float,
    length: int,
    hidden: int,
    count: int,
    eos: int | None,
    verify: str,
    afterwards: str,
    chunk: int,
    kind: str,
) -> None:
    sink.records.clear()
    # The same prompt for both, so that a draft of little noise is mostly right.
    pair = make_pair(seed, share, length, length)
    free = pair.plain(Limits(count))
    ends = frozenset() if eos is None or eos >= len(free) else frozenset({free[eos]})
    expected = free[: free.index(next(iter(ends))) + 1] if ends else free
    done = played(
        pair, Limits(count, ends), sink, kind=kind, chunk=chunk, hidden=hidden, verify=verify, afterwards=afterwards
    )
    assert done.ids == expected
    block = assert_records_add_up(sink, expected)
    assert_cache_is_fresh(done.target, pair, expected[:-1])
    most = min(hidden, count - 1)
    if most == 0:
        assert block is None
    else:
        drafted = [int(token) for token in block.drafted_ids.split(",")]
        assert len(drafted) == block.drafted <= most
        # Fewer than asked for only because the draft saw an end.
        assert block.drafted == most or drafted[-1] in ends
        assert block.emitted == block.accepted + 1 or drafted[block.accepted - 1] in ends
        assert done.draft.rolled_back <= block.drafted + sum(record.drafted for record in sink.of(RoundRecord)[1:])
    if afterwards == "rounds":
        assert_cache_is_fresh(done.draft, pair, expected[:-1])
    else:
        stands = 0 if block is None else min(block.emitted - 1, block.drafted - 1)
        assert_cache_is_fresh(done.draft, pair, expected[:stands])
    spans = sink.of(SpanRecord)
    assert Counter(record.phase for record in spans)[BEGIN] == Counter(record.phase for record in spans)[END]
    assert {record.role for record in sink.of(KvRecord)} <= {"target", "draft"}


@given(
    seed=st.integers(0, 3),
    share=st.sampled_from([0.0, 0.05, 0.3, 3.0]),
    hidden=st.integers(1, 14),
    count=st.integers(2, 16),
    eos=st.none() | st.integers(0, 15),
    afterwards=st.sampled_from(["plain", "rounds"]),
    kind=st.sampled_from([STATIC, DYNAMIC]),
    temperature=st.sampled_from([0.0, 1.0]),
)
def test_a_tree_inside_is_lossless_and_leaves_exact_caches(
    make_pair: Any,
    sink: Any,
    *,
    seed: int,
    share: float,
    hidden: int,
    count: int,
    eos: int | None,
    afterwards: str,
    kind: str,
    temperature: float,
) -> None:
    sink.records.clear()
    pair = make_pair(seed, share, 9, 9)
    free = pair.plain(Limits(count))
    ends = frozenset() if eos is None or eos >= len(free) else frozenset({free[eos]})
    law = (lambda logits: logits.softmax(dim=-1)) if temperature else None
    done = played(
        pair, Limits(count, ends), sink, kind=kind, hidden=hidden, shape="tree", afterwards=afterwards, law=law
    )
    if not temperature:
        assert done.ids == (free[: free.index(next(iter(ends))) + 1] if ends else free)
    block = assert_records_add_up(sink, done.ids)
    assert block.drafted == min(hidden, count - 1)
    assert_cache_is_fresh(done.target, pair, done.ids[:-1])
    if afterwards == "rounds":
        assert_cache_is_fresh(done.draft, pair, done.ids[:-1])
    else:
        stays = done.draft.length - pair.prompts["draft"].shape[1]
        assert_cache_is_fresh(done.draft, pair, done.ids[:stays])


class Late:
    """Reads ids one step late, as from a GPU."""

    def __init__(self) -> None:
        self.waiting: list[int] = []

    def push(self, token: torch.Tensor) -> list[int]:
        ready, self.waiting = self.waiting, token.flatten().tolist()
        return ready

    def flush(self) -> list[int]:
        ready, self.waiting = self.waiting, []
        return ready


@pytest.mark.parametrize("verify", ["after", "last-chunk"])
@pytest.mark.parametrize("reads_late", [False, True])
def test_the_end_of_the_answer_inside_the_block(make_pair, sink, monkeypatch, *, verify: str, reads_late: bool) -> None:
    """Every token as the end in turn; nothing is drafted after it, nothing emitted."""
    if reads_late:
        monkeypatch.setattr("engines.modes.concurrency.make_reader", lambda device: Late())
    pair = make_pair(1, 0.0, 10, 10)
    free = pair.plain(Limits(9))
    for place, end in enumerate(free):
        if end in free[:place]:
            continue
        sink.records.clear()
        done = played(pair, Limits(20, frozenset({end})), sink, hidden=8, verify=verify)
        assert done.ids == free[: place + 1]
        (block,) = sink.of(RoundRecord)
        drafted = min(place + 1, 8)
        assert (block.drafted, block.accepted, block.emitted) == (drafted, drafted, place + 1)
        assert_cache_is_fresh(done.target, pair, done.ids[:-1])


def test_a_wrong_first_token_costs_no_pass(make_pair: Any, sink: Any) -> None:
    pair = next(
        pair for seed in range(4) if (pair := make_pair(seed, 3.0, 10, 10)).plain(Limits(1)) != _drafted_first(pair)
    )
    done = played(pair, Limits(6), sink, hidden=4)
    (block,) = sink.of(RoundRecord)
    assert (block.drafted, block.accepted, block.emitted, block.verify_ns) == (4, 0, 1, 0)
    assert "verify" not in {record.name for record in sink.of(SpanRecord)}
    assert done.ids == pair.plain(Limits(6))
    assert [record.origin for record in sink.of(TokenRecord)][:5] == ["bonus"] + ["rejected"] * 4


def _drafted_first(pair: Pair) -> list[int]:
    return [int(greedy(pair.cached("draft").prefill(pair.embedded("draft"), NEVER)))]


@pytest.mark.parametrize("verify", ["after", "last-chunk"])
@pytest.mark.parametrize("wait_ms", [0, 1, 4, 12])
def test_whatever_the_window_happens_to_be_the_answer_is_the_same(make_pair, sink, verify: str, wait_ms: int) -> None:
    pair = make_pair(2, 0.02, LAST_CHUNK + 9, LAST_CHUNK + 9)
    expected = pair.plain(Limits(24))
    for afterwards in ("plain", "rounds"):
        sink.records.clear()
        done = played(
            pair,
            Limits(24),
            sink,
            verify=verify,
            afterwards=afterwards,
            prepare=lambda _: time.sleep(wait_ms / 1000),
            before_take=lambda _: time.sleep(0.004),
        )
        assert done.ids == expected
        assert_records_add_up(sink, expected)
        assert_cache_is_fresh(done.target, pair, expected[:-1])


def test_what_the_draft_fails_with_is_what_the_run_fails_with(make_pair: Any, sink: Any) -> None:
    pair = make_pair(2, 0.0, 10, 10)

    def fails(_: LinkedStop) -> None:
        raise UserError("No events in this file.")

    for asked in ({}, {"hidden": 3}, {"verify": "last-chunk"}, {"afterwards": "rounds"}):
        with pytest.raises(UserError, match="No events"):
            played(pair, Limits(8), sink, prepare=fails, before_take=lambda _: time.sleep(0.01), **asked)
    # A target in the middle of its prefill ends at its next layer.

    def until_failed(thread: DraftThread) -> None:
        while not thread.is_over:
            time.sleep(0.001)

    with pytest.raises(UserError, match="No events"):
        played(pair, Limits(8), sink, prepare=fails, before_take=until_failed)


def test_a_target_that_fails_ends_the_drafts_thread(make_pair: Any, sink: Any) -> None:
    pair = make_pair(2, 0.0, 10, 10)

    def broken(_: DraftThread) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        played(pair, Limits(400), sink, before_take=broken)
    assert HELD.worker.submit(lambda: True).result(timeout=10)
    begun = [record.span_id for record in sink.of(SpanRecord) if record.phase == BEGIN]
    assert sorted(begun) == sorted(record.span_id for record in sink.of(SpanRecord) if record.phase == END)


class Trusting(Verifier):
    """A mutant: in one round of five it takes what was drafted first for the target's own choice."""

    rounds = 0

    def look(self, proposal: Proposal, logits: torch.Tensor) -> torch.Tensor:
        read = super().look(proposal, logits)
        self.rounds += 1
        if self.rounds % 5 == 0:
            read[proposal.size] = proposal.ids[0]
        return read


@pytest.mark.parametrize(
    ("shape", "size", "verifying"), [("chain", 2, Verifier), ("tree", 4, Verifier), ("tree", 4, Trusting)]
)
def test_drawn_answers_follow_the_targets_law(make_llama, shape: str, size: int, verifying: type[Verifier]) -> None:
    """The first two tokens together, in a hidden block, against the law computed from the target: chi-square.

    The test finds out who trusts a draft.
    """
    from scipy.stats import chi2

    rows = 5
    with torch.inference_mode(False):
        target = make_llama(5, vocabulary=rows, hidden=32, std=0.08)
        draft = noisy(target, 0.5)
    prompt = torch.tensor([[1, 2, 3, 4]])
    pair = Pair(target, draft, prompt, prompt)
    law = lambda logits: logits.float().softmax(dim=-1)  # noqa: E731 - a law is a function
    speaker, drafter_model = pair.cached("target"), pair.cached("draft")
    logits = speaker.prefill(pair.embedded("target"), NEVER)
    drafted_from = drafter_model.prefill(pair.embedded("draft"), NEVER)
    drafter = ModelDrafter(
        "draft",
        drafter_model,
        first_shared(rows),
        frozenset(),
        law=law,
        generator=torch.Generator().manual_seed(1),
        target_rows=rows,
    )
    verifier = verifying(law, torch.Generator().manual_seed(2))
    sink, draws = Nowhere(), 2500
    counts: Counter[tuple[int, int]] = Counter()
    clock = StageClock(sink, 1)
    for _ in range(draws):
        answer = Answer(sink, 1, "target", PIECES)
        rounds = Rounds(
            speaker,
            drafter,
            answer,
            Limits(3),
            length=draft_length("fixed", 1),
            verifier=verifier,
            clock=clock,
            stop=NEVER,
        )
        tokens = drafter.grown(drafted_from) if shape == "tree" else drafter.drafted(drafted_from)
        chosen = tuple(islice(tokens, size))
        drafts: Any = SimpleNamespace(
            chosen=chosen, ids=tuple(int(one.token) for one in chosen), start_ns=0, spent_ns=0, size=size
        )
        nothing: Any = None
        block = ParallelPrefill(
            DraftWindow(size),
            speaker,
            nothing,
            drafter,
            answer=answer,
            sampler=verifier.sample,
            verifier=verifier,
            is_greedy=False,
            limits=Limits(3),
            make_rounds=nothing,
            concurrency=nothing,
            clock=clock,
            stop=NEVER,
        )
        with clock.stage("decode", "target"):
            block.verify(logits, drafts, rounds)
            block.align_draft()
        if len(answer.ids) < 2:
            answer.add(int(verifier.sample(speaker.step(torch.tensor([answer.ids]))[:, -1])))
        counts[answer.ids[0], answer.ids[1]] += 1
        speaker.crop(4)
        drafter_model.crop(4)
    first = law(logits)[0]
    expected: dict[tuple[int, int], float] = {}
    for token in range(rows):
        second = law(speaker.step(torch.tensor([[token]]))[:, -1])[0]
        speaker.crop(4)
        expected.update({(token, other): float(first[token] * second[other]) * draws for other in range(rows)})
    assert min(expected.values()) > 5
    statistic = sum((counts[cell] - mean) ** 2 / mean for cell, mean in expected.items())
    chance = chi2.sf(statistic, rows * rows - 1)
    assert chance < 1e-6 if verifying is Trusting else chance > 1e-3
    # The draft's own law would not pass.
    wrong = law(drafted_from)[0]
    assert float((wrong - first).abs().sum()) > 0.2


DRAFT, TARGET = ModelChoice("tiny-draft"), ModelChoice("tiny-target")


def request_for(sample: Any, mode: str = "parallel-prefill", count: int = 12, **asked: Any) -> RunRequest:
    speculation = SpeculationSettings(**asked)
    return RunRequest(mode, sample, DRAFT, TARGET, GenerationSettings(max_new_tokens=count, speculation=speculation))


@pytest.fixture
def plain(engine: Any, sample: Any) -> list[int]:
    return ids_of(carry_out(engine, request_for(sample, "target")))


@pytest.mark.parametrize("begins", ["load", "prefill"])
def test_both_models_go_through_their_stages_in_one_run(engine, sample, plain: list[int], begins: str) -> None:
    run = carry_out(engine, request_for(sample, hidden=4, begins=begins))
    info = run.info
    assert (info.status, info.error, info.mode, info.role) == ("finished", None, "parallel-prefill", "target")
    assert ids_of(run) == plain
    for role in ("draft", "target"):
        assert [span.name for span in run.stages(role)] == list(STAGES)
        assert info.lengths[role].input > 0
        assert run.frames[role]
        assert info.kv[role].measured_bytes > 0
    assert all(span.is_settled for span in run.spans.values())
    assert all(span.parent_id < 0 or run.spans[span.parent_id].role == span.role for span in run.spans.values())
    zero = run.stage("load", "target").start_ns
    assert info.start_ns == zero == min(span.start_ns for span in run.stages())
    prefill = run.stage("prefill", "target")
    drafting = run.stage("load", "draft")
    if begins == "load":
        assert zero < drafting.start_ns < run.stage("load", "target").end_ns
        assert info.loading["draft"].bytes_from_disk is info.loading["target"].bytes_from_disk is None
    else:
        assert prefill.start_ns < drafting.start_ns
    (block,) = run.rounds
    assert (block.drafted, block.hidden) == (4, 1)
    assert block.start_ns == run.stage("decode", "draft").start_ns
    assert 0 <= unattributed_ms(run) < wall_ms(run)
    facts = info.speculation
    assert (facts.kind, facts.concurrency, facts.draft_threads, facts.target_threads) == ("model", "threads", 1, 1)
    assert facts.transfer_bytes is None
    assert facts.is_lossless
    assert set(info.memory.by_stage) == set(STAGES)
    assert [record.round_index for record in run.judgements] == [0] * len(run.judgements)
    assert run.judgements


@pytest.mark.parametrize("hidden", [None, 0, 1, 5, 40])
@pytest.mark.parametrize("verify", ["after", "last-chunk"])
@pytest.mark.parametrize("afterwards", ["plain", "rounds"])
def test_answers_are_the_targets_own(
    engine: Any, sample: Any, plain: list[int], *, hidden: int | None, verify: str, afterwards: str
) -> None:
    run = carry_out(engine, request_for(sample, hidden=hidden, verify=verify, afterwards=afterwards))
    assert run.info.status == "finished"
    assert ids_of(run) == plain
    hidden_rounds = [entry for entry in run.rounds if entry.hidden]
    if hidden is not None:
        assert [entry.drafted for entry in hidden_rounds] == ([min(hidden, 11)] if hidden else [])
    lengths = run.info.lengths["target"].input
    assert run.kv["target"][-1].length == lengths + len(plain) - 1


def assert_both_ended(run: RunLog) -> None:
    assert all(span.end_ns is not None for span in run.spans.values())
    assert run.info.end_ns is not None


@pytest.mark.parametrize("asked", [{}, {"begins": "prefill"}, {"hidden": 5}, {"verify": "last-chunk"}])
def test_a_draft_that_cannot_read_its_input_fails_the_run(engine: Any, sample: Any, asked: dict[str, Any]) -> None:
    # A window that is forced waits for the draft; without one the answer may be there before the file was looked for.
    missing = replace(sample, events_path=str(Path(sample.events_path).with_name("nothing.npy")))
    run = carry_out(engine, request_for(missing, **{"hidden": 3, **asked}))
    assert run.info.status == "failed"
    assert "nothing.npy" in run.info.error
    assert_both_ended(run)


def test_memory_that_runs_out_in_the_draft_fails_the_run(engine, sample, tiny_models, monkeypatch) -> None:
    from engines.families.eventgpt import EventLanguageModel

    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("no more")

    monkeypatch.setattr(EventLanguageModel, "encode_vision", full)
    run = carry_out(engine, request_for(sample, hidden=3))
    assert run.info.status == "failed"
    assert run.info.error.startswith("Memory ran out on cpu")
    assert_both_ended(run)


@pytest.mark.parametrize("asked", [{}, {"hidden": 8}, {"afterwards": "rounds"}, {"verify": "last-chunk", "hidden": 8}])
def test_stop_ends_both_models(engine, sample, plain: list[int], stop_after, asked: dict[str, Any]) -> None:
    seen = set()
    for count in (3, 6, 9, 12, 15, 18):
        run = carry_out(engine, request_for(sample, **asked), stop_after(count))
        seen.add(run.info.status)
        assert ids_of(run) == plain[: len(run.tokens)]
        assert_both_ended(run)
    assert "cancelled" in seen


def test_pairs_that_share_no_ids_are_refused(engine: Any, sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Alignment, "kind", "re-encoded")
    run = carry_out(engine, request_for(sample))
    assert run.info.status == "failed"
    assert "--mode speculative" in run.info.error
    assert_both_ended(run)


GPU = torch.device("cuda:0")


class Event:
    """Stands for the work that its stream held when it was recorded."""

    def __init__(self) -> None:
        self.covers: list[str] = []

    def record(self, stream: Stream) -> None:
        self.covers = list(stream.queued)


class Stream:
    """`queued` is its work; `awaited` what of other streams has to be done before it goes on."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.priority = priority
        self.queued: list[str] = []
        self.awaited: list[str] = []

    def wait_event(self, event: Event) -> None:
        self.awaited += event.covers

    def wait_stream(self, other: Stream) -> None:
        self.awaited += other.queued


@pytest.fixture
def default(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    made = Stream()
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device=None: made)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: made)
    monkeypatch.setattr(concurrency, "make_timers", lambda devices, pools: {})
    concurrency._stream_of.cache_clear()
    yield made
    concurrency._stream_of.cache_clear()


def test_a_draft_waits_for_setup_and_not_for_the_targets_prefill(default: Stream) -> None:
    both = Concurrency(GPU, GPU, {})
    assert both.kind == STREAMS
    default.queued.append("weights and captures")
    both.note_ready()
    default.queued.append("the target's prefill")
    with both.draft_side():
        pass
    stream: Any = concurrency._stream_of(str(GPU))
    assert stream.awaited == ["weights and captures"]


def test_what_follows_drafting_waits_for_all_of_it(default: Stream) -> None:
    both = Concurrency(GPU, GPU, {})
    stream: Any = concurrency._stream_of(str(GPU))
    stream.queued.append("drafts")
    both.join_streams()
    assert default.awaited == ["drafts"]
