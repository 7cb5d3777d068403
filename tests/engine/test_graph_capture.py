"""Graphs recorded, given back and recorded again: pools, streams, passes that wait and captures that fail.

CUDA's part is played by `fake_cuda`, whose pools are refused as the allocator refuses them and whose graphs do again
what was recorded, so that what is replayed at a new position must be right.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from engines.decoder import cuda_graphs as graph_recording
from engines.decoder import step_choice
from engines.decoder.bucket_pass import STRIDE, bucket_states
from engines.decoder.cuda_graphs import GraphStep, capture_stream
from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import BlockShape, LlamaDecoder
from engines.decoder.sampling import greedy
from engines.decoder.step_choice import DecodeSteps, StepPlan
from engines.measuring.timing import NullClock
from engines.tokens.answer import Answer
from evprof.core.vocabulary.switches import Switches
from fake_cuda import FakeCuda

pytestmark = pytest.mark.usefixtures("without_gradients")

PIECES = [str(index) for index in range(257)]
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    monkeypatch.setattr(graph_recording, "cuda", fake)
    monkeypatch.setattr(graph_recording, "_streams", type(graph_recording._streams)())
    monkeypatch.setattr(step_choice, "is_on_cuda", lambda _: True)
    return fake


@pytest.fixture
def decoder(make_llama: Any) -> LlamaDecoder:
    return LlamaDecoder.take_over(make_llama(1))


def prompt_of(length: int) -> torch.Tensor:
    return torch.randint(0, 257, (1, length), generator=torch.Generator().manual_seed(length))


def answered(decoder: LlamaDecoder, length: int, sink: Any, step: Any = None, count: int = 12) -> list[int]:
    one = CachedModel.over(decoder, "target")
    one.own_step = step
    if isinstance(step, GraphStep):
        one.cache = step.open_cache(length + count + 8)
    never, answer = threading.Event(), Answer(sink, 1, "target", PIECES)
    first = greedy(one.prefill(decoder.embed(prompt_of(length)), never))
    answer.add(int(first))
    decode(one, first, answer, Limits(count), sampler=greedy, clock=NullClock(), stop=never)
    return answer.ids


def test_what_was_recorded_is_replayed_at_every_position(decoder: LlamaDecoder, cuda: FakeCuda, sink: Any) -> None:
    step = GraphStep(decoder)
    for length in (20, STRIDE - 4, STRIDE + 30):
        step.capture_for((1,), length, length + 20)
        assert answered(decoder, length, sink, step) == answered(decoder, length, sink)
        assert step.problem is None
    assert sum(graph.replays for graph in cuda.graphs) >= 11


def plain_body(*given: Any, **named: Any) -> Any:
    """Stands for a compiled one."""
    return bucket_states(*given, **named)


def test_one_stream_for_a_model_and_none_for_two(make_llama: Any, cuda: FakeCuda) -> None:
    decoders = [LlamaDecoder.take_over(make_llama(seed)) for seed in range(3)]
    for decoder in decoders:
        step = GraphStep(decoder)
        step.capture_for((1, 3), 20, STRIDE + 40)
        before = set(cuda.recorded_on)
        step.release()
        step.capture_for((1,), 20, 40)
        assert set(cuda.recorded_on) == before
    assert len(set(cuda.recorded_on)) == 3
    # Also where other streams were made in between, and torch begins its 32 again.
    for _ in range(31):
        cuda.Stream()
    assert capture_stream(LlamaDecoder.take_over(make_llama(4))) not in {capture_stream(one) for one in decoders}


def test_a_pass_that_waits_is_told_before_it_is_recorded(decoder: LlamaDecoder, cuda: FakeCuda, sink: Any) -> None:
    def waits(*given: Any, **named: Any) -> Any:
        cuda.wait()
        return plain_body(*given, **named)

    cuda.mode = 1
    step = GraphStep(decoder, body=waits)
    with pytest.raises(RuntimeError, match="its pass waits for the device"):
        step.capture_for((1,), 20, 40)
    assert (cuda.mode, cuda.modes) == (1, ["error", 1])
    # What is timed of its attention is all that was recorded, and outside the pool that graphs share.
    assert all(pool.use_count <= 0 for pool in cuda.pools.values())
    assert answered(decoder, 20, sink, step) == answered(decoder, 20, sink)
    assert "waits for the device" in str(step.problem)


def test_a_capture_that_fails_leaves_a_clean_pool(decoder: LlamaDecoder, cuda: FakeCuda, sink: Any) -> None:
    steps, plan = DecodeSteps(decoder), StepPlan((1,), 20, 40)
    before, cuda.fails = cuda.current_stream(), "operation not permitted when stream is capturing\nand more"
    chosen = steps.choose(Switches(step="graphs"), plan)
    assert chosen.step is None
    assert chosen.sentence == (
        "The decode step is not captured as a CUDA graph but runs eagerly: operation not permitted when stream is "
        "capturing."
    )
    # torch leaves the stream of a recording that failed in place; all that follows would go there.
    assert cuda.current_stream() is before
    assert cuda.emptied >= 1
    # Not tried again in each run, but once something else was asked for.
    cuda.fails = None
    assert steps.choose(Switches(step="graphs"), plan).sentence == chosen.sentence
    steps.choose(Switches(step="eager"), plan)
    again = steps.choose(Switches(step="graphs"), plan)
    assert (again.kind, again.sentence) == ("graphs", None)
    assert answered(decoder, 20, sink, again.step) == answered(decoder, 20, sink)


class FromDevice:
    """A pass without buckets, as a fused one is: reads the length from the device."""

    most_positions = 4

    def __init__(self) -> None:
        self.arranged: list[BlockShape | None] = []
        self.released = 0
        self.seen = torch.tril(torch.ones(4, 4, dtype=torch.bool))
        self.depths = torch.arange(4)

    def arrange(self, shape: BlockShape | None) -> None:
        self.arranged.append(shape)
        self.seen.copy_(torch.tril(torch.ones(4, 4, dtype=torch.bool)))
        self.depths.copy_(torch.arange(4))
        if shape is not None:
            count = len(shape.parents)
            self.seen[:count, :count] = shape.mask(0)[0, 0]
            self.depths[:count] = shape.depths

    def release(self) -> None:
        self.released += 1

    def __call__(self, decoder: LlamaDecoder, ids: torch.Tensor, start: torch.Tensor, cache: StaticKv) -> Any:
        new = ids.shape[1]
        places, held = start + torch.arange(new), torch.arange(cache.capacity)
        mask = (held < start).expand(new, -1).clone()
        mask.index_copy_(1, places, self.seen[:new, :new])
        turned = start + self.depths[:new]
        table = decoder.rotary

        def over(index: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            cache.keys[index].index_copy_(2, places, keys)
            cache.values[index].index_copy_(2, places, values)
            return torch.nn.functional.scaled_dot_product_attention(
                queries, cache.keys[index], cache.values[index], attn_mask=mask[None, None], enable_gqa=True
            )

        cos, sin = table.cos.index_select(0, turned), table.sin.index_select(0, turned)
        hidden = decoder.run_layers(decoder.embed(ids), cos, sin, over)
        return decoder.head(hidden), hidden


def test_a_pass_without_buckets_has_one_graph_for_a_size(decoder: LlamaDecoder, cuda: FakeCuda, sink: Any) -> None:
    body = FromDevice()
    step = GraphStep(decoder, body=body, kind="fused", has_buckets=False)
    step.capture_for((1, 4, 9), 20, 3 * STRIDE)
    assert sorted(len(graph.done) > 0 for graph in cuda.graphs) == [True, True]
    for length in (20, STRIDE + 7, 2 * STRIDE):
        assert answered(decoder, length, sink, step) == answered(decoder, length, sink)
    assert len(cuda.graphs) == 2
    before = body.released
    step.release()
    assert body.released == before + 1


@pytest.mark.parametrize("has_buckets", [True, False])
def test_trees_are_one_more_arrangement_or_the_decoders_own(
    decoder: LlamaDecoder, cuda: FakeCuda, has_buckets: bool
) -> None:
    body: Any = plain_body if has_buckets else FromDevice()
    step = GraphStep(decoder, body=body, has_buckets=has_buckets)
    assert step.takes_shapes is not has_buckets
    step.capture_for((1, 4), 20, 60)
    made, replays = len(cuda.graphs), sum(graph.replays for graph in cuda.graphs)
    own = StaticKv(decoder.config, 60, device=CPU, dtype=torch.float32)
    cache = step.open_cache(60)
    for each in (own, cache):
        decoder(decoder.embed(prompt_of(20)), each)
    ids = torch.tensor([[3, 4, 5, 6]])
    for shape in (BlockShape([-1, 0, 0, 1], CPU), None, BlockShape([-1, 0, 0], CPU)):
        fed = ids[:, : 4 if shape is None else len(shape.parents)]
        hidden = decoder.trunk(decoder.embed(fed), own, shape=shape)
        found = step(fed, cache, fed.shape[1], shape)
        assert torch.allclose(found, decoder.head(hidden), atol=1e-4)
        assert step.features is not None
        assert torch.allclose(step.features, hidden, atol=1e-4)
        for each in (own, cache):
            each.crop(20)
    assert len(cuda.graphs) == made
    assert sum(graph.replays for graph in cuda.graphs) - replays == (1 if has_buckets else 3)
