"""Video-LLaVA and LLaVA-1.5 against transformers' own classes on the same weights, in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
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

from closeness import assert_close, is_close
from engines.decoder.kv_cache import DynamicKv
from engines.decoder.llama import LlamaDecoder
from engines.families.llava_model import LlavaConfig, LlavaModel, VideoLanguageModel
from engines.families.networks import build_network, engine_family
from engines.measuring.timing import NullClock
from engines.stages.pixel_values import ClipTransform
from engines.tokens.prompts import SLOT
from engines.tokens.tokenization import SyntheticVocabulary
from evprof.core.run_info import ModelFacts
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings
from tensor_names import LLAVA, VIDEO_LLAVA, vendor_name

EDGE, PATCH, HIDDEN, ROWS = 28, 14, 48, 32_064
IMAGE_ID, VIDEO_ID = 32_000, 32_001


def configs() -> tuple[CLIPVisionConfig, LlamaConfig]:
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        image_size=EDGE,
        patch_size=PATCH,
    )
    text = LlamaConfig(
        vocab_size=ROWS,
        hidden_size=HIDDEN,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    return vision, text


def pair(family: str) -> tuple[Any, Any]:
    """Our network and transformers' with the same weights."""
    vision, text = configs()
    torch.manual_seed(11)
    is_video = family == VIDEO_LLAVA
    config = LlavaConfig(vision, text, family=family, slot_id=VIDEO_ID if is_video else IMAGE_ID, keeps_cls=is_video)
    ours = build_network(config).eval().requires_grad_(False)
    assert isinstance(ours, LlavaModel)
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    patches = (EDGE // PATCH) ** 2
    common: dict[str, Any] = {"vision_config": vision, "text_config": text, "image_seq_length": patches}
    theirs = (
        VideoLlavaForConditionalGeneration(TheirVideoLlavaConfig(**common, video_seq_length=8 * (patches + 1)))
        if is_video
        else LlavaForConditionalGeneration(TheirLlavaConfig(**common))
    )
    state = {vendor_name(name): parameter for name, parameter in ours.named_parameters()}
    theirs.load_state_dict(state, strict=True)
    return ours, theirs.eval().requires_grad_(False)


def loaded(network: LlavaModel, limit: int = 256) -> VideoLanguageModel:
    family = network.config.family
    facts = ModelFacts("tiny", family, family, 1, 1, "float32", "cpu", None, 2, 2, 12, 4, limit, "sdpa", "dynamic", "x")
    extra = ("<image>", "<video>", "<pad>") if family == VIDEO_LLAVA else ("<image>", "<pad>")
    return VideoLanguageModel(
        network,
        LlamaDecoder.take_over(network.language_model),
        SyntheticVocabulary(extra),
        ClipTransform.square(EDGE),
        facts=facts,
        template=engine_family(family).layout(network.config),
    )


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A short video whose brightness tells the frames apart."""
    path = tmp_path / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for index in range(30):
            picture = np.full((48, 64, 3), 8 * index, dtype=np.uint8)
            picture[:, : 2 * index + 2, 0] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize("family", [VIDEO_LLAVA, LLAVA])
def test_logits_equal_transformers(family: str, clip: Path) -> None:
    ours, theirs = pair(family)
    model, clock = loaded(ours), NullClock()
    settings = GenerationSettings(max_new_tokens=8, frames=4)
    host = model.load(Sample(video_path=str(clip)), settings, clock)
    inputs = model.preprocess(host, "bada bede", settings, clock)
    visual = model.encode_vision(inputs, clock)
    prompt = model.embed_prompt(inputs, visual)
    cache = DynamicKv(len(model.language_model.layers))
    logits = model.language_model(prompt, cache, keep=prompt.shape[1])

    slot_id = ours.config.slot_id
    share = len(visual) // inputs.token_ids.count(SLOT)
    ids: list[int] = []
    for token in inputs.token_ids:
        ids += [slot_id] * share if token == SLOT else [token]
    pixels = inputs.pixel_values
    given = {"pixel_values_videos": pixels[None]} if family == VIDEO_LLAVA else {"pixel_values": pixels}
    reference = theirs(input_ids=torch.tensor([ids]), **given).logits

    assert logits.shape == reference.shape == (1, inputs.lengths.input, ROWS)
    assert_close(logits, reference)
    without_pixels = theirs(input_ids=torch.tensor([[*ids[:1], *ids[-8:]]])).logits
    assert not is_close(logits[0, -1], without_pixels[0, -1])


@pytest.mark.parametrize(("family", "tokens", "slots"), [(VIDEO_LLAVA, 5, 1), (LLAVA, 4, 3)])
def test_visual_tokens_and_slots(family: str, tokens: int, slots: int, clip: Path) -> None:
    model, clock = loaded(pair(family)[0]), NullClock()
    settings = GenerationSettings(max_new_tokens=8, frames=3)
    inputs = model.preprocess(model.load(Sample(video_path=str(clip)), settings, clock), "bada", settings, clock)
    assert model.visual_tokens_per_frame == tokens
    assert inputs.lengths.visual == 3 * tokens
    assert inputs.token_ids.count(SLOT) == slots
    assert model.encode_vision(inputs, clock).shape == (3 * tokens, HIDDEN)
