"""On a GPU: late token ids, device times and both decode loops. Skipped where there is none."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engines.answer import Answer
from engines.decoding import CachedModel, LateReader, Limits, decode
from engines.llama import LlamaDecoder
from engines.sampling import greedy
from engines.speculation import speculate
from engines.timing import StageClock, make_timers
from evprof.core.records import RoundRecord, SpanRecord

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.usefixtures("without_gradients"),
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
    make_llama: Any, sink: Any, never: Any, eos_place: int | None
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
    target, first = start(model, "target", never)
    draft, _ = start(make_llama(2).cuda(), "draft", never)
    answer = Answer(sink, 1, "target", PIECES)
    answer.add(int(first))
    device = torch.device("cuda:0")
    clock = StageClock(sink, 1, timers=make_timers([device], {}))
    with clock.stage("decode", "target", device) as span:
        speculate(target, draft, answer, limits, gamma=3, clock=clock, stop=never)
    clock.finish()
    assert answer.ids == expected
    assert all(record.draft_ns > 0 and record.verify_ns > 0 for record in sink.of(RoundRecord))
    settled = [record for record in sink.of(SpanRecord) if record.phase == 2]
    start_ns, end_ns = span.device_ns
    assert all(start_ns <= record.start_ns <= record.end_ns <= end_ns for record in settled)
