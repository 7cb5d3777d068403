"""Compiled and captured decode steps: the eager step's tokens, one compilation for all lengths, fallbacks that say why.

What a CUDA graph would hold runs here uncaptured, so that on a machine without a GPU only the capture goes untested.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

import played_rounds
from closeness import assert_close
from engines.decoder.bucket_pass import STRIDE
from engines.decoder.compiled_step import CompiledStep
from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import greedy
from engines.decoder.step_choice import DecodeSteps, StepPlan
from engines.measuring.timing import NullClock
from engines.tokens.answer import Answer
from evprof.core.protocols import RunDescribed, RunWarned
from evprof.core.records import TokenRecord
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.switches import Switches
from small_models import UNENDING, small_text

pytestmark = pytest.mark.usefixtures("without_gradients")

CPU = torch.device("cpu")
TOKENS = 64
PIECES = [str(index) for index in range(257)]


@pytest.fixture(scope="module", autouse=True)
def own_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


def llama(seed: int = 0, *, kv_heads: int = 2, positions: int = 4096, layers: int = 1) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = small_text(
        257,
        num_hidden_layers=layers,
        num_key_value_heads=kv_heads,
        max_position_embeddings=positions,
        initializer_range=0.2,
        **UNENDING,
    )
    return LlamaForCausalLM(config).eval()


def prompt_of(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 257, (1, length), generator=torch.Generator().manual_seed(seed))


def opened(decoder: LlamaDecoder, capacity: int, step: Any = None, role: str = "target") -> CachedModel:
    cache = StaticKv(decoder.config, capacity, device=CPU, dtype=torch.float32)
    return CachedModel(decoder, role, CPU, decoder.rows, cache=cache, own_step=step)


def answered(one: CachedModel, prompt: torch.Tensor, sink: Any, count: int = TOKENS) -> list[int]:
    never, answer = threading.Event(), Answer(sink, 1, "target", PIECES)
    first = greedy(one.prefill(one.decoder.embed(prompt), never))
    answer.add(int(first))
    decode(one, first, answer, Limits(count), sampler=greedy, clock=NullClock(), stop=never)
    assert one.length == prompt.shape[1] + count - 1
    return answer.ids


@pytest.fixture(scope="module")
def compiled_pair() -> tuple[LlamaForCausalLM, LlamaDecoder, CompiledStep]:
    """A model and its compiled step, the verified block's too."""
    with torch.inference_mode():
        model = llama(1)
        decoder = LlamaDecoder.take_over(model)
        step = CompiledStep(decoder)
        assert (step.compile_for((1, 4)) or 0) > 100
        assert step.compile_for((1, 4, 6)) is None
    return model, decoder, step


@pytest.mark.whole
def test_one_compilation_serves_all_lengths_capacities_and_runs(compiled_pair: Any, sink: Any) -> None:
    model, decoder, step = compiled_pair
    before = graphs_made()
    for length, capacity in ((9, 128), (40, 104), (130, 500), (64, 128), (500, 600), (9, 73)):
        prompt = prompt_of(length, length)
        expected = model.generate(prompt, max_new_tokens=TOKENS, do_sample=False)[0, length:].tolist()
        assert len(set(expected)) >= 40
        assert answered(opened(decoder, capacity, step), prompt, sink) == expected
    assert graphs_made() == before
    assert step.problem is None


@pytest.mark.whole
def test_verified_blocks_of_every_size_share_the_second_one(compiled_pair: Any, sink: Any) -> None:
    _, decoder, step = compiled_pair
    before = graphs_made()
    prompt = prompt_of(21, 5)
    expected = answered(opened(decoder, 128), prompt, sink)
    for gamma in (1, 3, 6):
        target, draft = opened(decoder, 128, step), opened(decoder, 128, step, "draft")
        drafter = played_rounds.drafting(draft, prompt, decoder.rows)
        assert played_rounds.play(target, drafter, prompt, Limits(TOKENS), sink, gamma=gamma).ids == expected
    assert graphs_made() == before
    assert step.problem is None


def graphs_made() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


@pytest.mark.parametrize("attention", ["eager", "flash"])
def test_every_attention_compiles(attention: str, sink: Any) -> None:
    decoder = LlamaDecoder.take_over(llama(2))
    decoder.attention = attention
    step = CompiledStep(decoder)
    step.compile_for((1,))
    assert answered(opened(decoder, 128, step), prompt_of(20), sink) == answered(
        opened(decoder, 128), prompt_of(20), sink
    )
    assert step.problem is None


def test_a_step_that_cannot_be_compiled_says_why_and_runs_eagerly(sink: Any, monkeypatch: Any) -> None:
    model = llama(3)
    decoder = LlamaDecoder.take_over(model)
    monkeypatch.setattr(decoder.layers[0], "activation", breaks_the_graph)
    steps = DecodeSteps(decoder)
    chosen = steps.choose(Switches(step="compiled"), StepPlan((1,), 20, 128))
    assert (chosen.step, chosen.kind) == (None, "eager")
    assert str(chosen.sentence).startswith("The decode step is not compiled but runs eagerly: ")
    assert steps.choose(Switches(step="compiled"), StepPlan((1,), 20, 128)).sentence == chosen.sentence

    step = CompiledStep(decoder)
    ids = answered(opened(decoder, 128, step), prompt_of(20), sink)
    assert step.problem is not None
    assert ids == answered(opened(decoder, 128), prompt_of(20), sink)


def breaks_the_graph(values: torch.Tensor) -> torch.Tensor:
    print(end="", file=sys.stderr)
    return torch.nn.functional.silu(values) if float(values[0, 0, 0]) < 1e9 else values


WITHOUT_COMPILER = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from engines.decoder.llama import LlamaDecoder
from engines.decoder.step_choice import DecodeSteps, StepPlan
from evprof.core.vocabulary.switches import Switches

torch._inductor.config.cpp.cxx = ("no-such-compiler",)
config = LlamaConfig(
    vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1
)
steps = DecodeSteps(LlamaDecoder.take_over(LlamaForCausalLM(config)))
chosen = steps.choose(Switches(step="compiled"), StepPlan((1,), 4, 8))
print(chosen.step, chosen.kind, chosen.sentence)
"""


@pytest.mark.whole
def test_without_a_compiler_the_run_goes_on(tmp_path: Any) -> None:
    """In a process of its own, because what a compiler search found stays found."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_COMPILER],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.startswith("None eager The decode step is not compiled but runs eagerly: ")
    assert "compiler" in done.stdout.split(":", 1)[1]


class Uncaptured(GraphStep):
    """A GraphStep that runs its body where a graph would be replayed: buffers, buckets and blocks are the same."""

    def __init__(self, decoder: LlamaDecoder, **options: Any) -> None:
        super().__init__(decoder, **options)
        self.made: list[tuple[int, Any]] = []

    def _capture(self, block: int, cache: StaticKv, bucket: Any, start: int) -> Any:
        self.made.append((block, bucket))
        decoder = self._decoder
        decoder.rotary.reach(cache.capacity)
        ids, begin = torch.zeros(1, block, dtype=torch.long), torch.full((1,), start)
        logits, hidden = torch.empty(1, block, decoder.rows), torch.empty(1, block, decoder.config.hidden_size)
        body = self._body

        class Replay:
            def replay(self) -> None:
                for held, made in zip((logits, hidden), body(decoder, ids, begin, cache, bucket), strict=True):
                    held.copy_(made)

        from engines.decoder.cuda_graphs import _Captured

        return _Captured(Replay(), ids, begin, logits, hidden, ())


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("length", [5, STRIDE - 20, STRIDE, 3 * STRIDE - 1])
def test_buckets_give_the_eager_tokens(attention: str, kv_heads: int, length: int, sink: Any) -> None:
    decoder = LlamaDecoder.take_over(llama(kv_heads, kv_heads=kv_heads))
    prompt = prompt_of(length, length)
    expected = answered(opened(decoder, length + 80), prompt, sink)
    assert len(set(expected)) >= 40
    decoder.attention = attention
    step = Uncaptured(decoder)
    step.capture_for((1,), length, length + TOKENS + 6)
    made = len(step.made)
    one = opened(decoder, 2, step)
    one.cache = step.open_cache(length + TOKENS + 6)
    assert answered(one, prompt, sink) == expected
    # All that the run needs was made in setup: the prompt's bucket and those the answer grows into.
    assert len(step.made) == made == len({start // STRIDE for start in range(length, length + TOKENS)})


@pytest.mark.parametrize("gamma", [1, 4])
def test_verified_blocks_and_shorter_ones_in_buckets(gamma: int, sink: Any) -> None:
    decoder = LlamaDecoder.take_over(llama(6))
    other = LlamaDecoder.take_over(llama(7))
    prompt = prompt_of(STRIDE - 10, 6)
    expected = answered(opened(decoder, 1024), prompt, sink, 40)
    target_step, draft_step = Uncaptured(decoder), Uncaptured(other)
    capacity = prompt.shape[1] + 40 + gamma + 1
    target_step.capture_for((1, gamma + 1), prompt.shape[1], capacity)
    draft_step.capture_for((1, 2), prompt.shape[1], capacity)
    target, draft = opened(decoder, 2, target_step), opened(other, 2, draft_step, "draft")
    target.cache, draft.cache = target_step.open_cache(capacity), draft_step.open_cache(capacity)
    drafter = played_rounds.drafting(draft, prompt, decoder.rows)
    assert played_rounds.play(target, drafter, prompt, Limits(40), sink, gamma=gamma).ids == expected
    assert {block for block, _ in target_step.made} == {1, gamma + 1}


@pytest.mark.parametrize("kind", ["captured", pytest.param("compiled", marks=pytest.mark.whole), "captured and full"])
def test_steps_give_the_hidden_states_that_heads_draft_from(kind: str, sink: Any) -> None:
    """Also where a block is filled up for its graph, and where the decoder's own pass stands in."""
    decoder = LlamaDecoder.take_over(llama(9))
    step: Any = CompiledStep(decoder) if kind == "compiled" else Uncaptured(decoder)
    one, plain = opened(decoder, 128, step), opened(decoder, 128)
    if isinstance(step, Uncaptured):
        one.cache = step.open_cache(128)
        step._blocks = (1,) if kind == "captured and full" else (1, 6)
    one.keeps_features = plain.keeps_features = True
    for model in (one, plain):
        model.prefill(decoder.embed(prompt_of(20)), threading.Event())
    for ids in ([[3]], [[4, 5, 6, 7]], [[1, 2]]):
        found, expected = (model.step(torch.tensor(ids), keep=len(ids[0])) for model in (one, plain))
        assert_close(found, expected)
        assert one.features.shape == plain.features.shape
        assert_close(one.features, plain.features)


def refused(*_: Any) -> Any:
    raise RuntimeError("capture refused.\nmore of it")


@pytest.mark.whole
def test_a_run_compiles_in_setup_and_says_so(engine: Any, sample: Any, sink: Any, never: Any) -> None:
    request = RunRequest(
        "target", sample, None, ModelChoice("tiny"), GenerationSettings(max_new_tokens=9, ignore_eos=True), repeat=2
    )
    engine.run(request, sink, never)
    eager = [record.token_id for record in sink.of(TokenRecord)]
    sink.records.clear()
    sink.messages.clear()
    compiled = GenerationSettings(max_new_tokens=9, ignore_eos=True, switches=Switches(step="compiled"))
    engine.run(RunRequest("target", sample, None, ModelChoice("tiny"), compiled, repeat=2), sink, never)
    assert [record.token_id for record in sink.of(TokenRecord)] == eager
    told = [message.facts for message in sink.messages if isinstance(message, RunDescribed)]
    assert [facts["models"]["target"].step for facts in told if "models" in facts][1::2] == ["compiled"] * 2
    took = [facts["setup"]["target"].compile_ms for facts in told if "setup" in facts][1::2]
    assert took[0] > 100
    assert took[1] is None
    assert [message.sentence for message in sink.messages if isinstance(message, RunWarned)] == []
