"""On a GPU: late token ids, device times, both loops, captured and compiled steps. Skipped where there is none."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from engines.bench.batches import decode_batch
from engines.decoder.bucket_pass import JOINED, MASKED, STRIDE, Bucket, bucket_of, bucket_states, joined_attention
from engines.decoder.compiled_step import compiled
from engines.decoder.cuda_graphs import GraphStep, capture_stream
from engines.decoder.decoding import CachedModel, LateReader, Limits, decode
from engines.decoder.kv_cache import StaticKv
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
def test_plain_and_speculative_agree_and_spans_are_device_times(
    make_llama: Any, sink: Any, never: Any, played_rounds: Any, eos_place: int | None
) -> None:
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
def test_captured_and_compiled_steps_give_the_eager_tokens(
    make_llama: Any, sink: Any, never: Any, kind: str, kv_heads: int
) -> None:
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


def test_graphs_of_blocks_speculate_losslessly(make_llama: Any, sink: Any, never: Any, played_rounds: Any) -> None:
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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_joined_attention_is_the_masked_one(make_llama: Any, dtype: torch.dtype) -> None:
    """In half precision the front goes to the flash kernel, whose log-sum-exp joins it to the window."""
    decoder = LlamaDecoder.take_over(make_llama(3, std=0.05).to("cuda", dtype))
    ids = long_prompt(2 * STRIDE + 100)
    cache = StaticKv(decoder.config, 4 * STRIDE, device=decoder.device, dtype=dtype)
    decoder(decoder.embed(ids[:, :-3]), cache)
    start = torch.tensor([ids.shape[1] - 3], device="cuda")
    bucket = bucket_of(ids.shape[1] - 3, 3, cache.capacity)
    assert bucket.front == 2 * STRIDE
    joined, masked = (bucket_states(decoder, ids[:, -3:], start, cache, bucket, way=way)[0] for way in (JOINED, MASKED))
    assert torch.allclose(joined, masked, atol=0.03 * float(masked.abs().max()), rtol=0)


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("front", [0, STRIDE])
def test_the_joined_attention_weighs_as_exactly_as_its_dtype_can(
    front: int, dtype: torch.dtype, rows: int, is_compiled: bool
) -> None:
    """Scores are added up and kept in float32, in the products' way and in the flash kernel's."""
    torch.manual_seed(0)
    end, width = front + 48, 64
    queries, keys, values = (
        torch.randn(1, 4, length, width, device="cuda").mul(2.5).to(dtype) for length in (rows, end, end)
    )
    mask = torch.arange(front, end, device="cuda") <= torch.arange(end - rows, end, device="cuda")[:, None]
    attend = compiled(joined_attention, is_tuned=True) if is_compiled else joined_attention
    found = attend(queries, keys, values, mask[None, None], Bucket(front, end - front)).double()
    whole = torch.cat([mask.new_ones(rows, front), mask], dim=1)
    scores = (queries.double() @ keys.double().transpose(-1, -2) * width**-0.5).masked_fill(~whole, -torch.inf)
    expected = scores.softmax(dim=-1) @ values.double()
    assert float((found - expected).abs().max()) < 1.5 * torch.finfo(dtype).eps * float(values.abs().max())


def test_steps_are_recorded_again_after_longer_prompts_and_other_steps(make_llama: Any, sink: Any, never: Any) -> None:
    """The allocator refuses a pool whose graphs are gone while somebody holds a tensor of it."""
    decoder = LlamaDecoder.take_over(make_llama(1).cuda())
    steps, held = DecodeSteps(decoder), []
    for kind, length in (
        ("graphs", 20),
        ("graphs", STRIDE + 40),
        ("eager", 20),
        ("graphs", 20),
        ("compiled", 30),
        ("graphs", 2 * STRIDE),
        ("compiled", 2 * STRIDE),
    ):
        chosen = steps.choose(Switches(step=kind), StepPlan((1, 4), length, length + 48))
        assert (chosen.kind, chosen.sentence) == (kind, None)
        prompt = long_prompt(length)
        expected = plain(decoder, prompt, 40, sink, never)
        assert plain(decoder, prompt, 40, sink, never, step=chosen.step) == expected
        if isinstance(chosen.step, GraphStep):
            assert chosen.step.problem is None
            cache = chosen.step.open_cache(length)
            held.append((chosen.step(prompt[:, :1], cache, 1), chosen.step.features))


def test_a_pass_that_waits_is_told_and_the_next_is_recorded(make_llama: Any, sink: Any, never: Any) -> None:
    decoder = LlamaDecoder.take_over(make_llama(1).cuda())

    def waits(one: LlamaDecoder, ids: torch.Tensor, *given: Any, **named: Any) -> Any:
        assert int(ids.sum()) >= 0
        return bucket_states(one, ids, *given, **named)

    step = GraphStep(decoder, body=waits)
    with pytest.raises(RuntimeError, match="its pass waits for the device"):
        step.capture_for((1,), 20, 60)
    assert torch.cuda.get_sync_debug_mode() == 0
    prompt = long_prompt(20)
    expected = plain(decoder, prompt, 30, sink, never)
    assert plain(decoder, prompt, 30, sink, never, step=step) == expected
    assert "waits for the device" in str(step.problem)
    graphs = GraphStep(decoder)
    assert plain(decoder, prompt, 30, sink, never, step=graphs) == expected
    assert graphs.problem is None


WITH_A_FAILURE = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from engines.decoder.bucket_pass import bucket_states
from engines.decoder.compiled_step import compiled
from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.llama import LlamaDecoder

def fails(*given, **named):
    if torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()
    return bucket_states(*given, **named)

config = LlamaConfig(
    vocab_size=9, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=1
)
decoder = LlamaDecoder.take_over(LlamaForCausalLM(config).cuda())
before = torch.cuda.current_stream()
try:
    GraphStep(decoder, body=fails).capture_for((1,), 20, 60)
except RuntimeError:
    print("refused")
print(torch.cuda.current_stream() == before)
step = GraphStep(decoder)
step.capture_for((1,), 20, 60)
with torch.inference_mode():
    cache = step.open_cache(60)
    logits = step(torch.tensor([[3]], device="cuda"), cache, 1)
    print(bool(torch.isfinite(logits).all()), step.problem)
"""


def test_a_recording_that_fails_leaves_stream_and_pool_as_they_were() -> None:
    """Where torch's own way out leaves its stream in place. In a process of its own, for what it might do to others."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITH_A_FAILURE], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split() == ["refused", "True", "True", "None"]


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


def test_captures_take_one_workspace_for_a_model(make_llama: Any) -> None:
    decoder = LlamaDecoder.take_over(make_llama(1).to("cuda", torch.bfloat16))
    step, held = GraphStep(decoder), []
    for capacity in (60, STRIDE + 60, 2 * STRIDE + 60, 3 * STRIDE + 60):
        step.capture_for((1, 4), 20, capacity)
        step.release()
        torch.cuda.empty_cache()
        held.append(torch.cuda.memory_reserved())
    assert held[-1] - held[0] < 16 << 20


def test_a_compiled_step_compiles_a_layer_once(make_llama: Any) -> None:
    import torch._inductor.config as inductor
    from torch._dynamo.utils import counters

    decoder = LlamaDecoder.take_over(make_llama(1, layers=6).cuda())
    before = int(counters["stats"]["unique_graphs"])
    chosen = DecodeSteps(decoder).choose(Switches(step="compiled"), StepPlan((1,), STRIDE + 20, 2 * STRIDE + 60))
    assert (chosen.kind, chosen.sentence) == ("compiled", None)
    assert isinstance(chosen.step, GraphStep)
    # A layer over front and window, perhaps one under a mask, and the head.
    assert int(counters["stats"]["unique_graphs"]) - before <= 3
    assert inductor.compile_threads == 1


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


@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_rows_of_a_batch_equal_their_answers_alone(make_llama: Any, never: Any, kind: str) -> None:
    decoder = LlamaDecoder.take_over(make_llama(1).cuda())
    prompts = [decoder.embed(long_prompt(length))[0] for length in (9, 30, 14)]
    step = DecodeSteps(decoder).choose(Switches(step=kind), StepPlan((1,), 30, 128, batch=3)).step
    together = decode_batch(decoder, prompts, Limits(40), stop=never, step=step)
    assert together.ids == tuple(decode_batch(decoder, [prompt], Limits(40), stop=never).ids[0] for prompt in prompts)
