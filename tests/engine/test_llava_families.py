"""The LLaVA families compute what transformers computes."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentencepiece import SentencePieceProcessor

from checkpoint_folders import write_video_llava
from closeness import assert_close, is_close
from engines.decoder.kv_cache import DynamicKv
from engines.families.llava_model import LlavaConfig
from engines.families.networks import build_empty, parameter_shapes, read_config
from engines.inspection import inspect_checkpoint
from engines.loading.weights import load_model
from engines.measuring.timing import NullClock
from engines.tokens.prompts import SLOT
from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from small_models import CLASSES, ROWS, llava_config, random_network, transformers_ids, transformers_model, video_model
from tensor_names import LLAVA, LLAVA_NEXT_VIDEO, VIDEO_LLAVA

pytestmark = pytest.mark.usefixtures("without_gradients")

PATCH = 4
BUNDLED = Path(__file__).parents[2] / "assets" / "models"


@pytest.mark.parametrize(
    ("side", "pooling", "stride", "tokens"),
    [(4, "average", 2, 4), (5, "average", 2, 4), (6, "max", 3, 4), (7, "max", 2, 9), (3, "average", 1, 9)],
)
def test_patches_are_pooled_as_transformers_does_it(side: int, pooling: str, stride: int, tokens: int) -> None:
    """Also where a square of the grid is left over, which is dropped."""
    config = llava_config(LLAVA_NEXT_VIDEO, side=side, pooling=pooling, stride=stride)
    network = random_network(config)
    theirs = transformers_model(config, network)
    pixels = torch.randn(3, 3, side * PATCH, side * PATCH)
    found = network.encode_frames(pixels)
    # One tensor or one for each video: that has changed between versions.
    expected = torch.cat(tuple(theirs.model.get_video_features(pixels[None]).pooler_output))
    assert config.tokens_per_frame == network.tokens_per_frame == tokens
    assert found.shape == (3, tokens, 64)
    assert_close(found, expected.reshape(found.shape))
    assert found.std() > 0.1


CLIP = {
    "hidden_size": 1024,
    "image_size": 336,
    "intermediate_size": 4096,
    "model_type": "clip_vision_model",
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "patch_size": 14,
    "projection_dim": 768,
    "vocab_size": 32000,
}
VICUNA = {
    "_name_or_path": "lmsys/vicuna-7b-v1.5",
    "architectures": ["LlamaForCausalLM"],
    "max_position_embeddings": 4096,
    "model_type": "llama",
    "rms_norm_eps": 1e-05,
    "torch_dtype": "float16",
    "vocab_size": 32064,
}
THIRTEEN = VICUNA | {
    "hidden_size": 5120,
    "intermediate_size": 13824,
    "num_attention_heads": 40,
    "num_hidden_layers": 40,
    "num_key_value_heads": 40,
}


@pytest.mark.parametrize(
    ("model_type", "text", "vision", "parameters", "per_frame", "slot_id"),
    [
        ("llava", VICUNA, CLIP, 7_063_427_072, 576, 32_000),
        ("llava", THIRTEEN, CLIP, 13_351_494_656, 576, 32_000),
        ("video_llava", VICUNA, CLIP | {"image_size": 224}, 7_366_279_168, 257, 32_001),
        ("llava_next_video", VICUNA, CLIP, 7_063_431_168, 144, 32_000),
    ],
)
def test_published_configurations_say_little_and_mean_vicuna(  # noqa: PLR0917 - a table's columns
    model_type: str, text: Any, vision: Any, parameters: int, per_frame: int, slot_id: int, tmp_path: Path
) -> None:
    """They hold what differs from the defaults of their day."""
    values = {"model_type": model_type, "text_config": text, "vision_config": vision, "vision_feature_layer": -2}
    (tmp_path / "config.json").write_text(json.dumps(values | {"vision_feature_select_strategy": "default"}))
    config = read_config(tmp_path)
    shapes = parameter_shapes(build_empty(config)).values()
    assert sum(torch.Size(shape).numel() for shape in shapes) == parameters
    assert config.tokens_per_frame == per_frame
    assert isinstance(config, LlavaConfig)
    assert config.slot_id == slot_id
    assert config.keeps_cls == (model_type == "video_llava")


# Checkpoints of the families: published names, later names, what is refused.


def written(folder: Path, family: str) -> Path:
    """A checkpoint with the bundled pair's tokenizer, its tokens in the family's order."""
    vocabulary = SentencePieceProcessor(model_file=str(BUNDLED / "evprof-tiny-eventgpt" / "tokenizer.model"))
    plain = vocabulary.get_piece_size()
    config = llava_config(family)
    config.text.vocab_size = plain + 3
    tokenizer = json.loads((BUNDLED / "evprof-tiny-video-llava" / "tokenizer.json").read_text())
    order = ["<video>", "<image>", "<pad>"] if family == LLAVA_NEXT_VIDEO else ["<image>", "<video>", "<pad>"]
    for token in tokenizer["added_tokens"]:
        if token["content"] in order:
            token["id"] = plain + order.index(token["content"])
    slot = plain + order.index("<image>" if family == LLAVA else "<video>")
    config = replace(config, slot_id=slot, image_token_id=plain + order.index("<image>"))
    write_video_llava(
        folder, random_network(config), json.dumps(tokenizer).encode(), dtype=torch.float32, shard_bytes=100_000
    )
    return folder


def stored(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value for path in folder.glob("model-*.safetensors") for name, value in load_file(path).items()}


def loaded(folder: Path) -> Any:
    return load_model(ModelChoice(str(folder), device="cpu"), "target", lambda *_: None, threading.Event())


@pytest.mark.parametrize("family", [LLAVA, VIDEO_LLAVA, LLAVA_NEXT_VIDEO])
def test_transformers_reads_what_we_write_and_a_run_is_named_after_it(family: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "some-name", family)
    theirs, report = CLASSES[family][0].from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not any(report.values()), report
    ours = loaded(folder)
    assert (ours.facts.family, ours.facts.model_type, ours.facts.name) == (family, family, "some-name")
    pixels = torch.randn(2, 3, 4 * PATCH, 4 * PATCH)
    with torch.inference_mode():
        if family == LLAVA:
            expected = theirs.model.get_image_features(pixels).pooler_output
        else:
            expected = theirs.model.get_video_features(pixels[None]).pooler_output
        assert_close(ours.network.encode_frames(pixels), torch.cat(tuple(expected)).reshape(2, -1, 64))
    found = inspect_checkpoint(str(folder))
    assert found["problems"] == found["missing"] == found["surplus"] == []
    assert found["tensors"] == len(stored(folder))


def test_next_video_carries_the_published_names(tmp_path: Path) -> None:
    names = set(stored(written(tmp_path / "m", LLAVA_NEXT_VIDEO)))
    assert "image_newline" in names
    assert "vision_tower.vision_model.embeddings.class_embedding" in names
    assert "multi_modal_projector.linear_2.bias" in names
    assert "language_model.model.layers.2.mlp.up_proj.weight" in names
    assert "language_model.lm_head.weight" in names
    assert {name.split(".")[0] for name in names} == {
        "image_newline",
        "vision_tower",
        "multi_modal_projector",
        "language_model",
    }


@pytest.mark.parametrize("family", [LLAVA, VIDEO_LLAVA, LLAVA_NEXT_VIDEO])
def test_what_transformers_itself_writes_is_read(family: str, tmp_path: Path) -> None:
    """Its names of today, in one file, beside our small files."""
    folder = written(tmp_path / "m", family)
    before = loaded(folder)
    theirs = CLASSES[family][0].from_pretrained(folder, dtype=torch.float32)
    for path in folder.glob("model*"):
        path.unlink()
    theirs.save_pretrained(folder)
    after = loaded(folder)
    for one, other in zip(before.network.parameters(), after.network.parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(before.language_model.lm_head.weight, after.language_model.lm_head.weight)
    assert after.network.config.slot_id == before.network.config.slot_id
    assert inspect_checkpoint(str(folder))["problems"] == []


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"spatial_pool_mode": "conv"}, "spatial_pool_mode 'conv'"),
        ({"spatial_pool_stride": 0}, "spatial_pool_stride is 0"),
        ({"spatial_pool_stride": 99}, "from 1 to 4"),
        ({"spatial_pool_stride": "2"}, "spatial_pool_stride is '2'"),
        ({"vision_feature_select_strategy": "full"}, "'full'"),
        ({"vision_feature_layer": [-2, -5]}, "one layer"),
        ({"text_config": {"model_type": "mistral"}}, "type 'mistral'"),
        ({"vision_config": {"model_type": "siglip_vision_model"}}, "type 'siglip_vision_model'"),
    ],
)
def test_variants_that_are_not_built_are_refused_by_name(changes: dict[str, Any], part: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "m", LLAVA_NEXT_VIDEO)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(UserError) as caught:
        loaded(folder)
    assert part in caught.value.sentence
    assert str(path) in caught.value.sentence


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
    model, clock = video_model(random_network(llava_config(family))), NullClock()
    theirs = transformers_model(model.network.config, model.network)
    settings = GenerationSettings(max_new_tokens=8, frames=4)
    host = model.load(Sample(video_path=str(clip)), settings, clock)
    inputs = model.preprocess(host, "bada bede", settings, clock)
    visual = model.encode_vision(inputs, clock)
    prompt = model.embed_prompt(inputs, visual)
    cache = DynamicKv(len(model.language_model.layers))
    logits = model.language_model(prompt, cache, keep=prompt.shape[1])

    ids = transformers_ids(inputs, model.network.config.slot_id)
    pixels = inputs.pixel_values
    given = {"pixel_values_videos": pixels[None]} if family == VIDEO_LLAVA else {"pixel_values": pixels}
    reference = theirs(input_ids=torch.tensor([ids]), **given).logits

    assert logits.shape == reference.shape == (1, inputs.lengths.input, ROWS)
    assert_close(logits, reference)
    without_pixels = theirs(input_ids=torch.tensor([[*ids[:1], *ids[-8:]]])).logits
    assert not is_close(logits[0, -1], without_pixels[0, -1])


@pytest.mark.parametrize(("family", "tokens", "slots"), [(VIDEO_LLAVA, 17, 1), (LLAVA, 16, 3)])
def test_visual_tokens_and_slots(family: str, tokens: int, slots: int, clip: Path) -> None:
    model, clock = video_model(random_network(llava_config(family))), NullClock()
    settings = GenerationSettings(max_new_tokens=8, frames=3)
    inputs = model.preprocess(model.load(Sample(video_path=str(clip)), settings, clock), "bada", settings, clock)
    assert model.visual_tokens_per_frame == tokens
    assert inputs.lengths.visual == 3 * tokens
    assert inputs.token_ids.count(SLOT) == slots
    assert model.encode_vision(inputs, clock).shape == (3 * tokens, 64)
