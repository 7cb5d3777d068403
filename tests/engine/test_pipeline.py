"""The five stages by hand against transformers' `generate` on the same weights, token for token in fp32."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch

from engines.decoder.decoding import decode
from engines.decoder.sampling import greedy
from engines.families.llava_model import VideoLanguageModel
from engines.measuring.stage_memory import StageMemory
from engines.measuring.timing import StageClock
from engines.stages.pipeline import ModelPass
from engines.tokens.answer import Answer
from evprof.core.errors import Cancelled
from evprof.core.records import STAGES, SpanRecord
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.switches import Switches
from small_models import (
    CPU,
    llava_config,
    random_network,
    transformers_ids,
    transformers_model,
    video_model,
)
from tensor_names import LLAVA, LLAVA_NEXT_VIDEO, VIDEO_LLAVA

pytestmark = pytest.mark.usefixtures("without_gradients")

TOKENS = 64


def model_of(family: str) -> VideoLanguageModel:
    return video_model(random_network(llava_config(family)))


def make_pass(model: Any, settings: GenerationSettings, sink: Any, stop: Any) -> ModelPass:
    return ModelPass(model, "target", settings, clock=StageClock(sink, 1), memory=StageMemory([CPU]), stop=stop)


@pytest.mark.parametrize(("frames", "cache"), [(1, "static"), (8, "static"), (1, "dynamic"), (8, "dynamic")])
@pytest.mark.parametrize("family", [LLAVA, VIDEO_LLAVA, LLAVA_NEXT_VIDEO])
def test_greedy_equals_generate(  # noqa: PLR0917 - a table's columns
    family: str, frames: int, cache: str, sample: Any, sink: Any, never: Any
) -> None:
    ours = model_of(family)
    theirs = transformers_model(ours.network.config, ours.network)
    switches = Switches(cache=cache)
    settings = GenerationSettings(max_new_tokens=TOKENS, ignore_eos=True, frames=frames, switches=switches)
    one = make_pass(ours, settings, sink, never)
    told: dict[str, Any] = {}
    answer = Answer(sink, 1, "target", ours.vocabulary.pieces)
    visual = one.up_to_vision(sample, told.__setitem__)
    first = one.prefill(visual, answer, greedy)
    clock = StageClock(sink, 1)
    decode(one.cached, first, answer, one.limits(), sampler=greedy, clock=clock, stop=never)

    inputs = one.inputs
    ids = transformers_ids(inputs, ours.network.config.slot_id)
    pixels = inputs.pixel_values
    given = {"pixel_values": pixels} if family == LLAVA else {"pixel_values_videos": pixels[None]}
    expected = theirs.generate(torch.tensor([ids]), **given, max_new_tokens=TOKENS, do_sample=False)

    assert told["lengths"].input == len(ids) == one.cached.prompt_length
    assert answer.ids == expected[0, len(ids) :].tolist()
    assert len(set(answer.ids)) >= 40
    assert one.cached.length == len(ids) + TOKENS - 1


def test_vision_is_a_stage_of_its_own_and_runs_once(sample: Any, sink: Any, never: Any) -> None:
    ours = model_of(VIDEO_LLAVA)
    passes: list[int] = []
    ours.network.video_tower.embeddings.register_forward_hook(lambda *_: passes.append(1))
    one = make_pass(ours, GenerationSettings(max_new_tokens=4), sink, never)
    answer = Answer(sink, 1, "target", ours.vocabulary.pieces)
    told: dict[str, Any] = {}
    one.prefill(one.up_to_vision(sample, told.__setitem__), answer, greedy)
    assert passes == [1]
    settled = {record.span_id: record for record in sink.of(SpanRecord) if record.phase == 2}
    stages = {record.name: record for record in settled.values() if record.parent_id < 0}
    assert list(stages) == list(STAGES[:4])
    assert told["start_ns"] == stages["load"].start_ns
    ends = [stages[name] for name in STAGES[:4]]
    assert all(before.end_ns <= after.start_ns for before, after in pairwise(ends))
    inside = {record.name for record in settled.values() if record.parent_id == stages["vision"].span_id}
    assert inside == {"tower", "projector"}
    inside = {record.name for record in settled.values() if record.parent_id == stages["prefill"].span_id}
    assert inside == {"embeddings", "allocate cache", "language model"}


@pytest.mark.parametrize("asked", range(4))
def test_stop_between_stages(sample: Any, sink: Any, stop_after: Any, asked: int) -> None:
    ours = model_of(VIDEO_LLAVA)
    one = make_pass(ours, GenerationSettings(max_new_tokens=4), sink, stop_after(asked))
    with pytest.raises(Cancelled):
        one.prefill(one.up_to_vision(sample, lambda *_: None), Answer(sink, 1, "target", []), greedy)
    begun = {record.name for record in sink.of(SpanRecord) if record.parent_id < 0}
    assert begun == set(STAGES[:asked])
