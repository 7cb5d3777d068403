"""The five stages by hand against transformers' `generate` on the same weights, token for token in fp32."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaForConditionalGeneration,
    VideoLlavaForConditionalGeneration,
)
from transformers import LlavaConfig as TheirLlavaConfig
from transformers import VideoLlavaConfig as TheirVideoLlavaConfig

from engines.decoder.decoding import decode
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import greedy
from engines.families.llava_model import LlavaConfig, VideoLanguageModel
from engines.families.networks import build_network, engine_family, finish
from engines.loading.shapes import random_vocabulary
from engines.loading.weights import Checkpoint, model_facts
from engines.measuring.stage_memory import StageMemory
from engines.measuring.timing import StageClock
from engines.stages.pipeline import ModelPass
from engines.stages.pixel_values import ClipTransform
from engines.tokens.answer import Answer
from engines.tokens.prompts import SLOT
from evprof.core.errors import Cancelled
from evprof.core.records import STAGES, SpanRecord
from evprof.core.vocabulary.generation import GenerationSettings
from tensor_names import LLAVA, VIDEO_LLAVA, vendor_name

pytestmark = pytest.mark.usefixtures("without_gradients")

ROWS, EDGE, TOKENS = 32_064, 28, 40
CPU = torch.device("cpu")


def pair(family: str) -> tuple[VideoLanguageModel, Any]:
    """Our model and transformers' with the same random weights."""
    torch.manual_seed(5)
    vision = CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, image_size=EDGE, patch_size=14
    )
    text = LlamaConfig(
        vocab_size=ROWS,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=None,
    )
    is_video = family == VIDEO_LLAVA
    slot_id = 32_001 if is_video else 32_000
    config = LlavaConfig(vision, text, family=family, slot_id=slot_id, keeps_cls=is_video)
    network = build_network(config).eval().requires_grad_(False)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    finish(network, CPU)
    common: dict[str, Any] = {"vision_config": vision, "text_config": text, "image_seq_length": 4}
    theirs = (
        VideoLlavaForConditionalGeneration(TheirVideoLlavaConfig(**common, video_seq_length=40))
        if is_video
        else LlavaForConditionalGeneration(TheirLlavaConfig(**common))
    )
    theirs.load_state_dict({vendor_name(name): value for name, value in network.named_parameters()})
    facts = model_facts(Checkpoint("pair", config, None), network, CPU, torch.float32)
    ours = VideoLanguageModel(
        network,
        LlamaDecoder.take_over(network.language_model),
        random_vocabulary(config),
        ClipTransform.square(EDGE),
        facts=facts,
        template=engine_family(family).layout(config),
    )
    return ours, theirs.eval()


def make_pass(model: Any, settings: GenerationSettings, sink: Any, stop: Any) -> ModelPass:
    return ModelPass(model, "target", settings, clock=StageClock(sink, 1), memory=StageMemory([CPU]), stop=stop)


@pytest.mark.parametrize("family", [VIDEO_LLAVA, LLAVA])
def test_greedy_equals_generate(family: str, sample: Any, sink: Any, never: Any) -> None:
    ours, theirs = pair(family)
    settings = GenerationSettings(max_new_tokens=TOKENS, ignore_eos=True)
    one = make_pass(ours, settings, sink, never)
    told: dict[str, Any] = {}
    answer = Answer(sink, 1, "target", ours.vocabulary.pieces)
    visual = one.up_to_vision(sample, told.__setitem__)
    first = one.prefill(visual, answer, greedy)
    clock = StageClock(sink, 1)
    decode(one.cached, first, answer, one.limits(), sampler=greedy, clock=clock, stop=never)

    inputs = one.inputs
    share = len(visual) // inputs.token_ids.count(SLOT)
    slot_id = ours.network.config.slot_id
    ids = [part for token in inputs.token_ids for part in ([slot_id] * share if token == SLOT else [token])]
    pixels = inputs.pixel_values
    given = {"pixel_values_videos": pixels[None]} if family == VIDEO_LLAVA else {"pixel_values": pixels}
    expected = theirs.generate(torch.tensor([ids]), **given, max_new_tokens=TOKENS, do_sample=False)

    assert told["lengths"].input == len(ids) == one.cached.prompt_length
    assert answer.ids == expected[0, len(ids) :].tolist()
    assert len(set(answer.ids)) > 5
    assert one.cached.length == len(ids) + TOKENS - 1


def test_vision_is_a_stage_of_its_own_and_runs_once(sample: Any, sink: Any, never: Any) -> None:
    ours, _ = pair(VIDEO_LLAVA)
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
    assert inside == {"embeddings", "set cache aside", "language model"}


@pytest.mark.parametrize("asked", range(4))
def test_stop_between_stages(sample: Any, sink: Any, stop_after: Any, asked: int) -> None:
    ours, _ = pair(VIDEO_LLAVA)
    one = make_pass(ours, GenerationSettings(max_new_tokens=4), sink, stop_after(asked))
    with pytest.raises(Cancelled):
        one.prefill(one.up_to_vision(sample, lambda *_: None), Answer(sink, 1, "target", []), greedy)
    begun = {record.name for record in sink.of(SpanRecord) if record.parent_id < 0}
    assert begun == set(STAGES[:asked])
