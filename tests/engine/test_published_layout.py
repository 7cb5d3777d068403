"""EventGPT as it was published: every name of the 7B checkpoint, and small checkpoints in that layout, sharded.

The names are written out here by their own rule, from the published key tables, so that nothing of the program's
naming vouches for itself.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import CLIPConfig, CLIPModel, CLIPVisionModel

from checkpoint_folders import WEIGHTS, preprocessor_json, write_eventgpt
from engines.checkpoints.config import edge
from engines.families.eventgpt import EventGptConfig, EventGptModel
from engines.families.networks import build_empty, parameter_shapes, read_config
from engines.inspection import inspect_checkpoint
from engines.loading.shapes import random_config
from engines.loading.weights import find_checkpoint, load_model
from evprof.core.errors import UserError
from evprof.core.vocabulary.generation import ModelChoice
from qwen2_folders import Tower, tower_shapes
from small_models import small_text, small_vision
from tensor_names import tensor_names

NEVER = threading.Event()
INDEX = "model.safetensors.index.json"
TOWER = "model.visual_tower.visual_tower.vision_model."
BUNDLED = Path(__file__).parents[2] / "assets" / "models" / "evprof-tiny-eventgpt" / "tokenizer.model"


def published_shapes(
    layers: int, width: int, inner: int, rows: int, tower: Tower
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor."""
    yield "model.embed_tokens.weight", (rows, width)
    yield "lm_head.weight", (rows, width)
    yield "model.norm.weight", (width,)
    for layer in range(layers):
        for name in ("q", "k", "v", "o"):
            yield f"model.layers.{layer}.self_attn.{name}_proj.weight", (width, width)
        yield f"model.layers.{layer}.mlp.gate_proj.weight", (inner, width)
        yield f"model.layers.{layer}.mlp.up_proj.weight", (inner, width)
        yield f"model.layers.{layer}.mlp.down_proj.weight", (width, inner)
        yield f"model.layers.{layer}.input_layernorm.weight", (width,)
        yield f"model.layers.{layer}.post_attention_layernorm.weight", (width,)
    for name, columns in (("visual_projector.0", tower[1]), ("visual_projector.2", width), ("feature_adaptor", width)):
        yield f"model.{name}.weight", (width, columns)
        yield f"model.{name}.bias", (width,)
    yield from tower_shapes(TOWER, tower)


def test_the_7b_model_has_exactly_the_published_names_and_shapes() -> None:
    config = random_config("random:7b-eventgpt")
    expected = dict(published_shapes(32, 4096, 11_008, 32_000, (24, 1024, 4096, 14, 576)))
    shapes = dict(zip(tensor_names(config), parameter_shapes(build_empty(config)).values(), strict=True))
    assert shapes == expected
    assert len(expected) == 688
    assert sum(torch.Size(shape).numel() for shape in expected.values()) == 7_079_684_096
    found = inspect_checkpoint("random:7b-eventgpt", ModelChoice("", device="cpu", dtype="bfloat16"))
    assert (found["tensors"], found["parameters"]) == (688, 7_079_684_096)
    assert found["device_bytes"] == 2 * 7_079_684_096


ROWS = 765
"""Entries of the bundled vocabulary."""


def small_model() -> EventGptModel:
    torch.manual_seed(3)
    vision = small_vision(hidden_size=16, intermediate_size=32, num_attention_heads=2, image_size=28, projection_dim=16)
    text = small_text(ROWS, hidden_size=24, intermediate_size=32, num_attention_heads=2)
    return EventGptModel(EventGptConfig(vision, text))


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoints" / "EventGPT-small"
    write_eventgpt(folder, small_model(), BUNDLED.read_bytes(), shard_bytes=20_000)
    return folder


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value for path in folder.glob("model-*.safetensors") for name, value in load_file(path).items()}


def loaded(folder: Path, clip: Path | None = None) -> Any:
    choice = ModelChoice(str(folder), device="cpu", clip=str(clip) if clip else None)
    return load_model(choice, "draft", lambda *_: None, NEVER)


def fails(folder: Path) -> str:
    """The sentence with which a folder is refused, which is also what inspect says of it."""
    with pytest.raises(UserError) as caught:
        loaded(folder)
    assert caught.value.sentence in inspect_checkpoint(str(folder))["problems"]
    return caught.value.sentence


def test_a_sharded_checkpoint_loads_with_every_tensor_accounted_for(sharded: Path) -> None:
    shards = sorted(sharded.glob("model-*.safetensors"))
    index = json.loads((sharded / INDEX).read_text())
    stored = tensors_of(sharded)
    expected = dict(published_shapes(2, 24, 32, ROWS, (2, 16, 32, 14, 4)))
    assert len(shards) > 4
    assert set(index["weight_map"].values()) == {path.name for path in shards}
    assert {name: tuple(value.shape) for name, value in stored.items()} == expected
    assert index["metadata"]["total_size"] == sum(value.nbytes for value in stored.values())
    told: list[tuple[int, int]] = []
    model = load_model(ModelChoice(str(sharded), device="cpu"), "draft", lambda *pair: told.append(pair), NEVER)
    assert len(told) == len(stored) + 1
    assert told[-1] == (sum(value.nbytes for value in stored.values()),) * 2
    assert model.facts.parameters == sum(value.numel() for value in stored.values())
    assert model.facts.model_type == "EventChat_llama"
    found = inspect_checkpoint(str(sharded), ModelChoice("", device="cpu", dtype="float32"))
    assert (found["tensors"], found["missing"], found["surplus"], found["problems"]) == (len(stored), [], [], [])
    assert found["bytes"] * 2 == found["device_bytes"] == model.facts.weight_bytes
    assert "The CLIP tower's weights are the checkpoint's own." in found["assumptions"]


def shard_with(folder: Path, name: str) -> Path:
    weight_map = json.loads((folder / INDEX).read_text())["weight_map"]
    return folder / str(weight_map[name])


def edit(folder: Path, name: str, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    path = shard_with(folder, name)
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    return path


@pytest.mark.parametrize(
    "key",
    [
        "model.layers.2.self_attn.q_proj.weight",
        "model.layers.0.self_attn.q_proj.bias",
        "model.mm_projector.0.weight",
        f"{TOWER}encoder.layers.2.mlp.fc1.bias",
        "model.visual_tower.head.weight",
        "lora.weight",
    ],
)
def test_a_tensor_too_many_is_named(key: str, sharded: Path) -> None:
    edit(sharded, "lm_head.weight", lambda tensors: tensors.__setitem__(key, torch.zeros(2)))
    sentence = fails(sharded)
    assert f"'{key}'" in sentence
    assert "no place" in sentence
    assert inspect_checkpoint(str(sharded))["surplus"] == [key]


def test_a_head_of_other_rows_than_the_embeddings_is_named(sharded: Path) -> None:
    """Also when config.json agrees with one of them."""
    edit(sharded, "lm_head.weight", lambda tensors: tensors.update({"lm_head.weight": torch.zeros(ROWS + 3, 24)}))
    values = json.loads((sharded / "config.json").read_text())
    (sharded / "config.json").write_text(json.dumps(values | {"vocab_size": ROWS + 3}))
    assert "'model.embed_tokens.weight'" in fails(sharded)


def grow(tensors: dict[str, torch.Tensor], *, key: str, rows: int) -> None:
    tensors[key] = torch.zeros(rows, 24)


def test_rows_that_config_does_not_know_are_used_and_said(sharded: Path) -> None:
    """Embeddings grown for a few tokens, as EventGPT's own program does it, beside a config.json from before."""
    for key in ("lm_head.weight", "model.embed_tokens.weight"):
        edit(sharded, key, partial(grow, key=key, rows=32_003))
    model = loaded(sharded)
    assert model.language_model.embed_tokens.weight.shape == (32_003, 24)
    assert model.language_model.lm_head.weight.shape == (32_003, 24)
    said = [sentence for sentence in model.warnings if "32,003 rows" in sentence]
    assert len(said) == 2
    assert str(ROWS) in said[0]
    assert "32,000" in said[1]
    assert set(said) <= set(inspect_checkpoint(str(sharded))["assumptions"])


def test_tokens_added_above_the_vocabulary_need_rows(sharded: Path) -> None:
    (sharded / "added_tokens.json").write_text(json.dumps({"<ev_patch>": ROWS, "<x>": 3, "bad": "id"}))
    text = "a <ev_patch> b"
    plain = loaded(sharded).vocabulary
    assert plain.size == ROWS
    assert ROWS not in plain.encode(text)
    for key in ("lm_head.weight", "model.embed_tokens.weight"):
        edit(sharded, key, partial(grow, key=key, rows=ROWS + 1))
    grown = loaded(sharded).vocabulary
    assert grown.size == ROWS + 1
    assert grown.encode(text) == [*plain.encode("a "), ROWS, *plain.encode(" b")]
    assert grown.token_id("<ev_patch>") == ROWS
    assert grown.decode(grown.encode(text)) == plain.decode([*plain.encode("a "), *plain.encode(" b")])


# What config.json says.

PUBLISHED_CONFIG = {
    "_name_or_path": "./checkpoints/stage2",
    "architectures": ["EventChatModel"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "event_feature_adaptor": True,
    "freeze_mm_mlp_adapter": False,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "image_aspect_ratio": "square",
    "initializer_range": 0.02,
    "intermediate_size": 11008,
    "max_position_embeddings": 4096,
    "mm_projector_lr": None,
    "mm_use_im_patch_token": False,
    "mm_use_im_start_end": False,
    "mm_visual_tower": "clip-vit-large-patch14-336",
    "model_type": "EventChat_llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "pad_token_id": 0,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "stage3": True,
    "tie_word_embeddings": False,
    "tokenizer_model_max_length": 2048,
    "tokenizer_padding_side": "right",
    "torch_dtype": "bfloat16",
    "transformers_version": "4.37.2",
    "tune_mm_mlp_adapter": False,
    "use_cache": True,
    "use_feature_adaptor": True,
    "vocab_size": 32000,
}
"""The keys that EventGPT's training code writes, with the values its scripts give them."""


def test_a_published_configuration_is_the_7b_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "none"))
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED_CONFIG))
    config = read_config(tmp_path)
    expected = random_config("random:7b-eventgpt")
    assert parameter_shapes(build_empty(config)) == parameter_shapes(build_empty(expected))
    assert config.tokens_per_frame == 577
    assert config.text.rope_parameters == {"rope_type": "default", "rope_theta": 10_000.0}
    assert config.text.rms_norm_eps == 1e-5
    assert config.vision.hidden_act == "quick_gelu"
    assert [sentence for sentence in config.assumptions if "clip-vit-large-patch14-336" not in sentence] == []


# Where the tower comes from.


def without_tower(folder: Path) -> dict[str, torch.Tensor]:
    """Takes the tower out of a checkpoint's shards; its tensors by their names inside the tower."""
    removed: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("model-*.safetensors")):
        tensors = load_file(path)
        removed |= {name.removeprefix(TOWER): tensors.pop(name) for name in list(tensors) if name.startswith(TOWER)}
        save_file(tensors, path)
    return removed


def set_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def clip_folder(place: Path, tower: dict[str, torch.Tensor], style: str) -> Path:
    """A CLIP folder as three generations of transformers write it, with these tower weights."""
    vision = small_model().config.vision
    if style == "whole model":
        text = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        whole = CLIPModel(CLIPConfig(vision_config=vision.to_dict(), text_config=text | {"vocab_size": 50_000}))
        whole.vision_model.load_state_dict({name: value.float() for name, value in tower.items()}, strict=True)
        whole.save_pretrained(place)
    else:
        alone = CLIPVisionModel(vision)
        alone.load_state_dict({name: value.float() for name, value in tower.items()}, strict=True)
        alone.save_pretrained(place)
        stored = {name.removeprefix("vision_model."): value for name, value in load_file(place / WEIGHTS).items()}
        prefix = "" if style == "without prefix" else "vision_model."
        named = {prefix + name: value for name, value in stored.items()}
        save_file(named, place / WEIGHTS)
        if style == "bin":
            (place / WEIGHTS).unlink()
            named["vision_model.embeddings.position_ids"] = torch.arange(5)[None]
            torch.save({**named, "logit_scale": torch.zeros(())}, place / "pytorch_model.bin")
    (place / "preprocessor_config.json").write_text(json.dumps(preprocessor_json(edge(vision))))
    return place


def tower_weight(model: Any) -> torch.Tensor:
    return model.network.visual_tower.encoder.layers[1].mlp.fc1.weight


INSIDE = "encoder.layers.1.mlp.fc1.weight"


@pytest.mark.parametrize("style", ["whole model", "with prefix", "without prefix", "bin"])
def test_a_given_clip_folder_lends_its_tower(style: str, sharded: Path, tmp_path: Path) -> None:
    tower = without_tower(sharded)
    set_config(sharded, mm_visual_tower="clip-vit-large-patch14-336")
    given = clip_folder(tmp_path / "my-clip", tower, style)
    model = loaded(sharded, given)
    assert torch.equal(tower_weight(model), tower[INSIDE].float())
    assert any(str(given) in sentence and "--clip" in sentence for sentence in model.warnings)
    found = inspect_checkpoint(str(sharded), ModelChoice("", clip=str(given)))
    assert found["problems"] == found["missing"] == found["surplus"] == []
    assert any(str(given / "preprocessor_config.json") in sentence for sentence in found["assumptions"])


@pytest.mark.parametrize("place", ["inside", "beside", "absolute", "elsewhere"])
def test_the_folder_that_config_names_is_found(place: str, sharded: Path, tmp_path: Path) -> None:
    tower = without_tower(sharded)
    folder, value = {
        "inside": (sharded / "clip", "clip"),
        "beside": (sharded.parent / "clip-vit-large-patch14-336", "clip-vit-large-patch14-336"),
        "absolute": (tmp_path / "away", str(tmp_path / "away")),
        # Somebody else's home directory; here a folder of that name lies beside the checkpoint.
        "elsewhere": (sharded.parent / "clip-x", "/data/home/someone/checkpoints/clip-x"),
    }[place]
    clip_folder(folder, tower, "with prefix")
    set_config(sharded, mm_visual_tower=value)
    model = loaded(sharded)
    assert torch.equal(tower_weight(model), tower[INSIDE].float())
    assert any(str(folder) in sentence for sentence in model.warnings)
    assert find_checkpoint(str(sharded)).config.vision.image_size == 28


@pytest.mark.parametrize("value", ["clip-vit-large-patch14-336", "openai/clip-vit-large-patch14-336"])
def test_the_published_name_is_looked_up_in_the_cache(value: str, sharded: Path, tmp_path, monkeypatch) -> None:
    import huggingface_hub

    tower = without_tower(sharded)
    set_config(sharded, mm_visual_tower=value)
    cached = clip_folder(tmp_path / "cache", tower, "whole model")
    asked: list[str] = []

    def snapshot(name: str, **options: Any) -> str:
        asked.append(name)
        return str(cached)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    model = loaded(sharded)
    assert set(asked) == {"openai/clip-vit-large-patch14-336"}
    assert any(str(cached) in sentence and value in sentence for sentence in model.warnings)


def test_a_tower_that_is_nowhere_is_asked_for(sharded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    asked: list[dict[str, Any]] = []

    def nowhere(name: str, **options: Any) -> str:
        asked.append(options)
        raise LocalEntryNotFoundError("offline")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", nowhere)
    without_tower(sharded)
    set_config(sharded, mm_visual_tower="clip-vit-large-patch14-336")
    sentence = fails(sharded)
    assert "--clip" in sentence
    assert "'clip-vit-large-patch14-336'" in sentence
    assert all(options.get("local_files_only") for options in asked)


def test_the_checkpoints_own_tower_wins_and_it_is_said(sharded: Path, tmp_path: Path) -> None:
    own = tensors_of(sharded)[TOWER + INSIDE]
    other = {name.removeprefix(TOWER): 0 * value for name, value in tensors_of(sharded).items() if TOWER in name}
    given = clip_folder(tmp_path / "other-clip", other, "with prefix")
    model = loaded(sharded, given)
    assert torch.equal(tower_weight(model), own.float())
    assert any(str(given) in sentence and "own" in sentence for sentence in model.warnings)
    # It may still be needed to tell the tower's shape.
    set_config(sharded, mm_visual_tower="gone")
    assert torch.equal(tower_weight(loaded(sharded, given)), own.float())


# What is no whole model.


@pytest.mark.parametrize("name", ["mm_projector.bin", "feature_adaptor.bin", "non_lora_trainables.bin"])
def test_files_of_a_training_stage_are_no_model(name: str, sharded: Path) -> None:
    for path in [*sharded.glob("model*.safetensors"), sharded / INDEX]:
        path.unlink()
    torch.save({"model.feature_adaptor.bias": torch.zeros(24)}, sharded / name)
    with pytest.raises(UserError, match="training stage") as caught:
        loaded(sharded)
    assert name in caught.value.sentence
