"""EventGPT's network and its five stages against a straight-line account of the published computation."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch.nn import functional

from closeness import assert_close
from engines.decoder.llama import LlamaDecoder
from engines.families.eventgpt import EVENTGPT_V1, EventGptConfig, EventGptModel, EventLanguageModel
from engines.measuring.timing import NullClock
from engines.stages.pixel_values import CLIP_MEAN, CLIP_STD, ClipTransform
from engines.tokens.prompts import SLOT
from engines.tokens.tokenization import SyntheticVocabulary
from evprof.core.errors import UserError
from evprof.core.run_info import ModelFacts
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings
from small_models import small_text, small_vision
from told import TINY_MODEL

EDGE, PATCH, WIDTH, HIDDEN = 28, 14, 32, 48
HEADS = 4


def tiny_config(*, has_adaptor: bool = True) -> EventGptConfig:
    vision = small_vision(
        hidden_size=WIDTH,
        num_hidden_layers=3,
        num_attention_heads=HEADS,
        image_size=EDGE,
        patch_size=PATCH,
        hidden_act="quick_gelu",
    )
    text = small_text(32_000, hidden_size=HIDDEN, intermediate_size=96, num_key_value_heads=4)
    return EventGptConfig(vision, text, has_adaptor)


def network(*, has_adaptor: bool = True) -> EventGptModel:
    torch.manual_seed(3)
    model = EventGptModel(tiny_config(has_adaptor=has_adaptor)).eval().requires_grad_(False)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def facts(limit: int = 512) -> ModelFacts:
    return replace(TINY_MODEL, family="eventgpt", kv_heads=4, head_dim=12, context_limit=limit)


def loaded(limit: int = 512) -> EventLanguageModel:
    made = network()
    return EventLanguageModel(
        made,
        LlamaDecoder.take_over(made.language_model),
        SyntheticVocabulary(),
        ClipTransform.square(EDGE),
        facts=facts(limit),
        template=EVENTGPT_V1,
    )


def tower_by_hand(model: EventGptModel, frame: torch.Tensor) -> torch.Tensor:
    """CLIP's vision transformer on one frame [3, H, W], from the weights alone: the last layer's output, no norm."""
    weights = dict(model.visual_tower.state_dict())
    grid = EDGE // PATCH
    patches = frame.reshape(3, grid, PATCH, grid, PATCH).permute(1, 3, 0, 2, 4).reshape(grid * grid, -1)
    tokens = patches @ weights["embeddings.patch_embedding.weight"].reshape(WIDTH, -1).T
    state = torch.cat([weights["embeddings.class_embedding"][None], tokens])
    state = state + weights["embeddings.position_embedding.weight"]

    def norm(name: str, value: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(value, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-5)

    def linear(name: str, value: torch.Tensor) -> torch.Tensor:
        return value @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    state = norm("pre_layrnorm", state)
    for layer in range(3):
        at = f"encoder.layers.{layer}"
        inner = norm(f"{at}.layer_norm1", state)
        heads = []
        query, key, value = (linear(f"{at}.self_attn.{name}_proj", inner) for name in "qkv")
        size = WIDTH // HEADS
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = query[:, part] @ key[:, part].T / math.sqrt(size)
            heads.append(scores.softmax(dim=-1) @ value[:, part])
        state = state + linear(f"{at}.self_attn.out_proj", torch.cat(heads, dim=1))
        inside = linear(f"{at}.mlp.fc1", norm(f"{at}.layer_norm2", state))
        state = state + linear(f"{at}.mlp.fc2", inside * torch.sigmoid(1.702 * inside))
    return state


def encode_by_hand(model: EventGptModel, frames: torch.Tensor, *, has_adaptor: bool = True) -> torch.Tensor:
    """Frame by frame: tower, Linear, erf-GELU, Linear, adaptor; then [mean over tokens ; mean over frames]."""
    weights = model.state_dict()
    rows = []
    for frame in frames:
        features = tower_by_hand(model, frame)
        inner = features @ weights["visual_projector.0.weight"].T + weights["visual_projector.0.bias"]
        inner = 0.5 * inner * (1 + torch.erf(inner / math.sqrt(2)))
        out = inner @ weights["visual_projector.2.weight"].T + weights["visual_projector.2.bias"]
        if has_adaptor:
            out = out @ weights["feature_adaptor.weight"].T + weights["feature_adaptor.bias"]
        rows.append(out)
    temporal = [row.sum(dim=0) / len(row) for row in rows]
    spatial = [sum(row[token] for row in rows) / len(rows) for token in range(len(rows[0]))]
    return torch.stack([*temporal, *spatial])


@pytest.mark.parametrize(("frames", "has_adaptor"), [(1, True), (5, True), (3, False)])
def test_forward_equals_the_published_computation(frames: int, has_adaptor: bool) -> None:
    model = network(has_adaptor=has_adaptor)
    pixels = torch.randn(frames, 3, EDGE, EDGE, generator=torch.Generator().manual_seed(1))
    expected = encode_by_hand(model, pixels, has_adaptor=has_adaptor)
    found = model.pool(model.encode_frames(pixels))
    tokens = (EDGE // PATCH) ** 2 + 1
    assert found.shape == (frames + tokens, HIDDEN)
    assert expected.abs().max() > 0.1
    assert_close(found, expected)


@pytest.mark.parametrize(("frames", "has_adaptor"), [(1, True), (5, True), (3, False)])
def test_the_fused_order_equals_the_published_computation(frames: int, has_adaptor: bool) -> None:
    model = network(has_adaptor=has_adaptor)
    pixels = torch.randn(frames, 3, EDGE, EDGE, generator=torch.Generator().manual_seed(1))
    expected = encode_by_hand(model, pixels, has_adaptor=has_adaptor)
    found = model.map_fused(model.pool(model.activate(model.tower_features(pixels))))
    assert_close(found, expected)


def write_events(path: Path, *, last_us: int = 49_000) -> dict[str, npt.NDArray[Any]]:
    rng = np.random.default_rng(5)
    count = 603
    columns: dict[str, npt.NDArray[Any]] = {
        "x": rng.integers(0, 40, count).astype(np.uint16),
        "y": rng.integers(0, 30, count).astype(np.uint16),
        "t": np.linspace(0, last_us, count).astype(np.int64),
        "p": rng.integers(0, 2, count).astype(np.uint8),
    }
    np.save(path, np.array(columns, dtype=object), allow_pickle=True)
    return columns


def frame_by_hand(columns: dict[str, npt.NDArray[Any]], start: int, stop: int) -> npt.NDArray[np.uint8]:
    xs, ys, ps = (columns[name][start:stop].tolist() for name in ("x", "y", "p"))
    canvas = np.full((max(ys) + 1, max(xs) + 1, 3), 255, dtype=np.uint8)
    for x, y, p in zip(xs, ys, ps, strict=True):
        canvas[y, x] = (255, 0, 0) if p else (0, 0, 255)
    return canvas


def test_five_stages_from_a_file_to_the_prompt(tmp_path: Path) -> None:
    columns = write_events(tmp_path / "e.npy")
    model = loaded()
    settings, clock = GenerationSettings(max_new_tokens=8), NullClock()
    host = model.load(Sample(events_path=str(tmp_path / "e.npy")), settings, clock)
    inputs = model.preprocess(host, "What is there?", settings, clock)
    assert inputs.pixel_values.shape == (5, 3, EDGE, EDGE)
    cut = ClipTransform.square(EDGE).cut(frame_by_hand(columns, 480, 603))
    last = (cut / 255.0 - np.array(CLIP_MEAN)) / np.array(CLIP_STD)
    assert_close(inputs.pixel_values[4], torch.from_numpy(last.transpose(2, 0, 1)))
    visual = model.encode_vision(inputs, clock)
    expected = encode_by_hand(model.network, inputs.pixel_values)
    assert_close(visual, expected)
    prompt = model.embed_prompt(inputs, visual)
    lengths = inputs.lengths
    assert prompt.shape == (1, lengths.input, HIDDEN)
    assert lengths.visual == 5 + 5
    assert lengths.input == lengths.system + lengths.text + lengths.visual
    assert lengths.system == 1 + len(model.vocabulary.encode(EVENTGPT_V1.system))
    slot = inputs.token_ids.index(SLOT)
    table = model.network.language_model.model.embed_tokens.weight
    assert torch.equal(prompt[0, :slot], table[list(inputs.token_ids[:slot])])
    assert torch.equal(prompt[0, slot : slot + 10], visual)
    assert torch.equal(prompt[0, slot + 10 :], table[list(inputs.token_ids[slot + 1 :])])
    assert inputs.warnings == []
    assert [frame.label.split(":")[0] for frame in inputs.frames] == [f"event frame {n}" for n in range(1, 6)]
    assert (inputs.frames[0].start_us, inputs.frames[4].end_us) == (0, 49_000)
    assert all(frame.png.startswith(b"\x89PNG") for frame in inputs.frames)


def test_a_prompt_past_the_trained_positions_runs_with_a_warning(tmp_path: Path) -> None:
    write_events(tmp_path / "e.npy")
    model, clock = loaded(limit=300), NullClock()
    settings = GenerationSettings(max_new_tokens=8)
    host = model.load(Sample(events_path=str(tmp_path / "e.npy")), settings, clock)
    assert model.preprocess(host, "What?", settings, clock).warnings == []
    long_answer = model.preprocess(host, "What?", GenerationSettings(max_new_tokens=100), clock)
    assert "300" in long_answer.warnings[0]
    words = 0
    while (inputs := model.preprocess(host, "What? " * words, settings, clock)).lengths.input <= 300:
        words += 1
    assert f"{inputs.lengths.input} positions" in inputs.warnings[0]
    assert "300" in inputs.warnings[0]
    with pytest.raises(UserError, match="shorten the prompt") as caught:
        model.preprocess(host, "What? " * 80, settings, clock)
    assert "300" in caught.value.sentence


def test_a_video_alone_is_refused() -> None:
    with pytest.raises(UserError, match="--events"):
        loaded().load(Sample(video_path="v.mp4"), GenerationSettings(), NullClock())
