"""Our decode loop against transformers' generate, and its ends: EOS, length, stop, late token ids."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engines.decoder import kv_cache
from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.kv_cache import DYNAMIC, STATIC
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import greedy
from engines.measuring.timing import StageClock
from engines.tokens.answer import Answer
from evprof.core.errors import Cancelled
from evprof.core.records import KvRecord, TokenRecord

pytestmark = pytest.mark.usefixtures("without_gradients")

PIECES = [f"<{index}>" for index in range(257)]


def cached(model: Any, role: str = "target", kind: str = STATIC) -> CachedModel:
    return CachedModel.over(LlamaDecoder.take_over(model), role, kind=kind, bytes_per_position=2)


def prompt_of(seed: int, length: int = 12, vocabulary: int = 257) -> torch.Tensor:
    return torch.randint(0, vocabulary, (1, length), generator=torch.Generator().manual_seed(seed))


def embed(model: Any, prompt: torch.Tensor) -> torch.Tensor:
    return model.get_input_embeddings()(prompt)


def run_plain(
    model: Any, prompt: torch.Tensor, limits: Limits, sink: Any, stop: Any, *, reader: Any = None, kind: str = STATIC
) -> Any:
    plain = cached(model, kind=kind)
    answer = Answer(sink, 1, "target", PIECES)
    first = greedy(plain.prefill(embed(model, prompt), stop))
    answer.add(int(first))
    clock = StageClock(sink, 1)
    with clock.stage("decode", "target"):
        decode(plain, first, answer, limits, sampler=greedy, clock=clock, stop=stop, reader=reader)
    return SimpleNamespace(ids=answer.ids, model=plain)


class OneStepLate:
    """What CUDA's reader does, without CUDA."""

    def __init__(self) -> None:
        self.waiting: list[int] = []

    def push(self, token: torch.Tensor) -> list[int]:
        ready, self.waiting = self.waiting, [int(token)]
        return ready

    def flush(self) -> list[int]:
        ready, self.waiting = self.waiting, []
        return ready


@pytest.mark.parametrize("kind", [STATIC, DYNAMIC])
@pytest.mark.parametrize("seed", range(5))
def test_greedy_equals_generate(make_llama: Any, sink: Any, never: Any, seed: int, kind: str) -> None:
    model, prompt = make_llama(seed), prompt_of(seed)
    expected = model.generate(prompt, max_new_tokens=48, do_sample=False)[0, prompt.shape[1] :].tolist()
    assert len(set(expected)) > 10
    assert run_plain(model, prompt, Limits(48), sink, never, kind=kind).ids == expected


@pytest.mark.parametrize("reader", [None, OneStepLate])
def test_eos_ends_the_answer_and_leaves_the_cache_exact(make_llama: Any, sink: Any, never: Any, reader: Any) -> None:
    model, prompt = make_llama(1), prompt_of(1)
    free = run_plain(model, prompt, Limits(40), sink, never).ids
    eos = next(token for place, token in enumerate(free) if place > 5 and token not in free[:place])
    done = run_plain(model, prompt, Limits(40, frozenset({eos})), sink, never, reader=reader() if reader else None)
    assert done.ids == free[: free.index(eos) + 1]
    assert done.model.length == prompt.shape[1] + len(done.ids) - 1
    assert kv_cache.weigh(done.model.cache).logical == done.model.length * 2 * 2 * 2 * 16 * 4


@pytest.mark.parametrize("count", [1, 2, 17])
@pytest.mark.parametrize("reader", [None, OneStepLate])
def test_length_limit(make_llama: Any, sink: Any, never: Any, count: int, reader: Any) -> None:
    model, prompt = make_llama(2), prompt_of(2)
    done = run_plain(model, prompt, Limits(count), sink, never, reader=reader() if reader else None)
    assert len(done.ids) == count
    assert done.model.length == prompt.shape[1] + count - 1
    assert done.ids == run_plain(model, prompt, Limits(30), sink, never).ids[:count]


def test_first_token_may_be_the_end(make_llama: Any, sink: Any, never: Any) -> None:
    model, prompt = make_llama(3), prompt_of(3)
    first = run_plain(model, prompt, Limits(1), sink, never).ids[0]
    assert run_plain(model, prompt, Limits(9, frozenset({first})), sink, never).ids == [first]


@pytest.mark.parametrize("reader", [None, OneStepLate])
def test_stop_between_tokens_keeps_what_came(
    make_llama: Any, sink: Any, never: Any, stop_after: Any, reader: Any
) -> None:
    model, prompt = make_llama(4), prompt_of(4)
    expected = run_plain(model, prompt, Limits(30), sink, never).ids
    sink.records.clear()
    with pytest.raises(Cancelled):
        run_plain(model, prompt, Limits(30), sink, stop_after(2 + 10), reader=reader() if reader else None)
    ids = [record.token_id for record in sink.of(TokenRecord)]
    assert 5 < len(ids) < 15
    assert ids == expected[: len(ids)]


def test_stop_between_layers_of_prefill(make_llama: Any, stop_after: Any) -> None:
    one = cached(make_llama(0, layers=6))
    reached: list[int] = []
    for index, layer in enumerate(one.decoder.layers):  # type: ignore[attr-defined]  # a LlamaDecoder here
        layer.register_forward_hook(lambda *_, index=index: reached.append(index))
    with pytest.raises(Cancelled):
        one.prefill(one.decoder.embed(prompt_of(0)), stop_after(3))
    assert reached == [0, 1, 2]


def test_every_token_has_a_record_and_a_cache_length(make_llama: Any, sink: Any, never: Any) -> None:
    model, prompt = make_llama(5), prompt_of(5)
    done = run_plain(model, prompt, Limits(9), sink, never)
    tokens, lengths = sink.of(TokenRecord), sink.of(KvRecord)
    assert [record.token_id for record in tokens] == done.ids
    assert [record.position for record in tokens] == list(range(9))
    assert [record.piece for record in tokens] == [PIECES[token] for token in done.ids]
    assert {record.origin for record in tokens} == {"target"}
    assert [record.length for record in lengths] == [prompt.shape[1] + count for count in range(1, 9)]
    assert lengths[-1].nbytes == 2 * lengths[-1].length
