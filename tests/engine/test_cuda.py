"""On a GPU: late token ids, device times, both loops, captured and compiled steps. Skipped where there is none."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import played_rounds
from engines.decoder.bucket_pass import STRIDE
from engines.decoder.cuda_graphs import GraphStep, capture_stream
from engines.decoder.decoding import CachedModel, LateReader, Limits, decode
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import greedy
from engines.decoder.step_choice import DecodeSteps, StepPlan
from engines.measuring.device_timer import make_timers
from engines.measuring.timing import NullClock, StageClock
from engines.tokens.answer import Answer
from evprof.core.records import RoundRecord, SpanRecord
from evprof.core.vocabulary.switches import Switches

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.usefixtures("without_gradients"),
    # Told by inductor where a softmax is too long for one block of threads.
    pytest.mark.filterwarnings("ignore:\\s*Online softmax is disabled:UserWarning"),
]

PIECES = [str(index) for index in range(257)]


def cached(model: Any, role: str) -> CachedModel:
    return CachedModel.over(LlamaDecoder.take_over(model), role, bytes_per_position=1)


def start(model: Any, role: str, stop: Any) -> tuple[CachedModel, torch.Tensor]:
    one = cached(model, role)
    prompt = torch.arange(3, 15, device="cuda:0").unsqueeze(0)
    return one, greedy(one.prefill(one.decoder.embed(prompt), stop))


def test_late_ids_are_all_there_and_in_order() -> None:
    reader = LateReader(torch.device("cuda:0"))
    tokens = [torch.tensor([[index]], device="cuda:0") for index in range(50)]
    seen = [index for token in tokens for index in reader.push(token)]
    assert seen == list(range(49))
    assert reader.flush() == [49]
    assert reader.flush() == []


@pytest.mark.parametrize("eos_place", [None, 11])
def test_plain_and_speculative_agree_and_spans_are_device_times(make_llama, sink, never, eos_place: int | None) -> None:
    model = make_llama(1).cuda()
    one, first = start(model, "target", never)
    answer = Answer(sink, 1, "target", PIECES)
    answer.add(int(first))
    decode(one, first, answer, Limits(40), sampler=greedy, clock=StageClock(sink, 1), stop=never)
    assert len(answer.ids) == 40
    expected = answer.ids
    limits = Limits(40)
    if eos_place is not None:
        limits = Limits(40, frozenset({expected[eos_place]}))
        expected = expected[: expected.index(expected[eos_place]) + 1]
        one, first = start(model, "target", never)
        answer = Answer(sink, 1, "target", PIECES)
        answer.add(int(first))
        decode(one, first, answer, limits, sampler=greedy, clock=StageClock(sink, 1), stop=never)
        assert answer.ids == expected
        assert one.length == 12 + len(expected) - 1

    sink.records.clear()
    device = torch.device("cuda:0")
    prompt = torch.arange(3, 15, device=device).unsqueeze(0)
    clock = StageClock(sink, 1, timers=make_timers([device], {}))
    drafter = played_rounds.drafting(make_llama(2).cuda(), prompt, 257)
    played = played_rounds.play(model, drafter, prompt, limits, sink, gamma=3, clock=clock)
    clock.finish()
    assert played.ids == expected
    assert all(record.draft_ns > 0 and record.verify_ns > 0 for record in sink.of(RoundRecord))
    settled = [record for record in sink.of(SpanRecord) if record.phase == 2]
    start_ns, end_ns = played.span.device_ns
    assert all(start_ns <= record.start_ns <= record.end_ns <= end_ns for record in settled)


def long_prompt(length: int) -> torch.Tensor:
    return torch.randint(0, 257, (1, length), generator=torch.Generator().manual_seed(length)).cuda()


def plain(
    decoder: LlamaDecoder, prompt: torch.Tensor, count: int, sink: Any, stop: Any, *, step: Any = None
) -> list[int]:
    one = CachedModel.over(decoder, "target")
    one.own_step = step
    if isinstance(step, GraphStep):
        one.cache = step.open_cache(prompt.shape[1] + count + 8)
    answer = Answer(sink, 1, "target", PIECES)
    first = greedy(one.prefill(decoder.embed(prompt), stop))
    answer.add(int(first))
    decode(one, first, answer, Limits(count), sampler=greedy, clock=NullClock(), stop=stop)
    return answer.ids


@pytest.mark.parametrize("kv_heads", [2, 4])
@pytest.mark.parametrize("kind", ["auto", "graphs", "compiled"])
def test_captured_and_compiled_steps_give_the_eager_tokens(make_llama, sink, never, kind: str, kv_heads: int) -> None:
    decoder = LlamaDecoder.take_over(make_llama(1, kv_heads=kv_heads).cuda())
    steps = DecodeSteps(decoder)
    for length in (20, STRIDE - 12, 2 * STRIDE + 3):
        prompt = long_prompt(length)
        chosen = steps.choose(Switches(step=kind), StepPlan((1,), length, length + 72))
        assert chosen.sentence is None
        assert chosen.kind == ("fused" if kind == "auto" else kind)
        assert isinstance(chosen.step, GraphStep)
        expected = plain(decoder, prompt, 64, sink, never)
        for _ in range(2):
            assert plain(decoder, prompt, 64, sink, never, step=chosen.step) == expected
        assert chosen.step.problem is None


def test_graphs_of_blocks_speculate_losslessly(make_llama: Any, sink: Any, never: Any) -> None:
    target_decoder, draft_decoder = (LlamaDecoder.take_over(make_llama(seed).cuda()) for seed in (1, 2))
    prompt, gamma = long_prompt(STRIDE - 10), 4
    expected = plain(target_decoder, prompt, 40, sink, never)
    capacity = prompt.shape[1] + 40 + gamma + 1
    models = []
    for decoder, role, blocks in ((target_decoder, "target", (1, gamma + 1)), (draft_decoder, "draft", (1, 2))):
        step = GraphStep(decoder)
        step.capture_for(blocks, prompt.shape[1], capacity)
        one = CachedModel.over(decoder, role)
        one.own_step, one.cache = step, step.open_cache(capacity)
        models.append(one)
    target, draft = models
    drafter = played_rounds.drafting(draft, prompt, target_decoder.rows)
    assert played_rounds.play(target, drafter, prompt, Limits(40), sink, gamma=gamma).ids == expected


def test_two_models_replay_at_once_without_sharing_a_workspace(make_llama: Any) -> None:
    """Each on a stream of its own, as in a parallel prefill: what one computes must not reach the other's numbers."""
    cases = []
    for seed in (1, 2):
        decoder = LlamaDecoder.take_over(make_llama(seed, hidden=512).to("cuda", torch.bfloat16))
        step = GraphStep(decoder)
        step.capture_for((4,), 20, 60)
        cache = step.open_cache(60)
        decoder(decoder.embed(long_prompt(20)), cache)
        ids = long_prompt(4)
        alone = step(ids, cache, 4).clone()
        cases.append((step, cache, ids, alone, torch.cuda.Stream()))
    assert capture_stream(cases[0][0]._decoder) != capture_stream(cases[1][0]._decoder)
    torch.cuda.synchronize()
    found: list[list[torch.Tensor]] = [[], []]
    for _ in range(50):
        for (step, cache, ids, _, stream), kept in zip(cases, found, strict=True):
            with torch.cuda.stream(stream):
                cache.crop(20)
                kept.append(step(ids, cache, 4).clone())
    torch.cuda.synchronize()
    for (*_, alone, _), kept in zip(cases, found, strict=True):
        assert all(torch.equal(logits, alone) for logits in kept)


@pytest.mark.parametrize("kind", ["eager", "graphs"])
def test_a_decode_step_never_waits_for_the_device(make_llama: Any, sink: Any, never: Any, kind: str) -> None:
    decoder = LlamaDecoder.take_over(make_llama(1).cuda())
    step = DecodeSteps(decoder).choose(Switches(step=kind), StepPlan((1,), 20, 128)).step
    one = CachedModel.over(decoder, "target")
    one.own_step = step
    if isinstance(step, GraphStep):
        one.cache = step.open_cache(128)
    answer = Answer(sink, 1, "target", PIECES)
    first = greedy(one.prefill(decoder.embed(long_prompt(20)), never))
    answer.add(int(first))
    torch.cuda.set_sync_debug_mode("error")
    try:
        decode(one, first, answer, Limits(40), sampler=greedy, clock=NullClock(), stop=never)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(answer.ids) == 40
