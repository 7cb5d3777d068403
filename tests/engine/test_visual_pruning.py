"""Which visual tokens stay: the criteria by themselves, and in the models of every family."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import CLIPVisionConfig, CLIPVisionModel

from closeness import assert_close, is_close
from engines.families.clip_tower import ClipTower, class_attention
from engines.measuring.timing import NullClock
from engines.stages.visual_tokens import (
    choose_tokens,
    kept_count,
    most_attended,
    most_diverse,
)
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.inputs import InputSettings
from evprof.core.vocabulary.switches import PRUNINGS, Switches

pytestmark = pytest.mark.usefixtures("without_gradients")

FAMILIES = ("eventgpt", "llava", "video_llava", "llava_next_video")
TOKENS = {"eventgpt": 17, "llava": 16, "video_llava": 17, "llava_next_video": 4}
"""Visual tokens of one frame of `make_model`'s models."""


def tower(activation: str = "quick_gelu") -> CLIPVisionModel:
    torch.manual_seed(0)
    config = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        image_size=56,
        patch_size=14,
        hidden_act=activation,
    )
    model = CLIPVisionModel(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


@pytest.mark.parametrize("layer", [-3, -2, -1, 0, 2, 3])
def test_the_tower_stops_where_it_is_read_and_equals_transformers(layer: int) -> None:
    model, pixels = tower(), torch.randn(2, 3, 56, 56)
    states = model(pixel_values=pixels, output_hidden_states=True).hidden_states
    passes: list[int] = []
    for index, part in enumerate(model.encoder.layers):
        part.layer_norm2.register_forward_hook(lambda *_, index=index: passes.append(index))
    found = ClipTower(model, layer)(pixels)
    assert_close(found.last, states[layer])
    assert len(passes) == (layer if layer >= 0 else 4 + layer)
    assert_close(model(pixel_values=pixels, output_hidden_states=True).hidden_states[layer], states[layer])


@pytest.mark.parametrize("layer", [-1, -2])
def test_the_class_tokens_attention_is_that_of_the_last_layer_read(layer: int) -> None:
    model, pixels = tower(), torch.randn(3, 3, 56, 56)
    found = class_attention(ClipTower(model, layer)(pixels))
    model.set_attn_implementation("eager")
    per_layer = model(pixel_values=pixels, output_attentions=True).attentions
    assert_close(found, per_layer[layer][:, :, 0, 1:].mean(dim=1))
    assert not is_close(found, per_layer[layer - 1][:, :, 0, 1:].mean(dim=1))


@given(tokens=st.integers(1, 700), hundredths=st.integers(1, 100))
def test_the_share_is_rounded_up(tokens: int, hundredths: int) -> None:
    kept = kept_count(tokens, hundredths / 100)
    assert kept == -(-tokens * hundredths // 100)
    assert 1 <= kept <= tokens


@given(
    data=st.data(), tokens=st.integers(1, 12), frames=st.integers(1, 3), by=st.sampled_from(["attention", "similarity"])
)
def test_indices_are_in_order_and_never_twice(data: Any, tokens: int, frames: int, by: str) -> None:
    count = data.draw(st.integers(1, tokens))
    # Whole numbers, so that ties and copies are common.
    features = torch.tensor(
        data.draw(st.lists(st.integers(-1, 1), min_size=frames * tokens * 2, max_size=frames * tokens * 2)),
        dtype=torch.float32,
    ).view(frames, tokens, 2)
    found = choose_tokens(by, count, scores=lambda: features[..., 0], features=features)
    assert found.shape == (frames, count)
    assert all(a < b for row in found.tolist() for a, b in itertools.pairwise(row))
    assert found.min() >= 0
    assert found.max() < tokens


def test_the_most_attended_are_kept() -> None:
    scores = torch.tensor([[0.1, 0.5, 0.2, 0.4], [0.4, 0.3, 0.2, 0.1]])
    assert most_attended(scores, 2).tolist() == [[1, 3], [0, 1]]


def least_distance(features: torch.Tensor, chosen: tuple[int, ...]) -> float:
    unit = torch.nn.functional.normalize(features, dim=-1)
    return min(float(1 - unit[a] @ unit[b]) for a, b in itertools.combinations(chosen, 2))


def test_the_diverse_set_is_near_the_best_there_is() -> None:
    """Greedy max-min on a metric is at least half as good as the best; angles are one (1 - cos of them is checked)."""
    features = torch.randn(1, 9, 6, generator=torch.Generator().manual_seed(2))
    found = tuple(most_diverse(features, 4)[0].tolist())
    every = [least_distance(features[0], pick) for pick in itertools.combinations(range(9), 4)]
    best = math.acos(1 - max(every))
    assert math.acos(1 - least_distance(features[0], found)) >= best / 2
    assert least_distance(features[0], found) > sorted(every)[len(every) // 2]


def seen(model: Any, sample: Any, asked: GenerationSettings, clock: Any) -> tuple[Any, torch.Tensor]:
    inputs = model.preprocess(model.load(sample, asked, clock), "What?", asked, clock)
    return inputs, model.encode_vision(inputs, clock)


def asked(**switches: Any) -> GenerationSettings:
    return GenerationSettings(max_new_tokens=8, frames=3, event_frames=3, switches=Switches(**switches))


@pytest.mark.parametrize("by", PRUNINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_models_drop_what_is_not_kept(family: str, by: str, make_model: Callable[..., Any], sample: Any) -> None:
    model, clock, tokens = make_model(family), NullClock(), TOKENS[family]
    _, full = seen(model, sample, asked(), clock)
    _, unpruned = seen(model, sample, asked(visual_keep=1.0, prune_by=by), clock)
    assert torch.equal(unpruned, full)
    inputs, kept = seen(model, sample, asked(visual_keep=0.4, prune_by=by), clock)
    share = kept_count(tokens, 0.4)
    is_pooled = family == "eventgpt"
    assert inputs.lengths.visual == len(kept) == (3 + share if is_pooled else 3 * share)
    assert inputs.lengths.per_frame == ([1] * 3 if is_pooled else [share] * 3)
    assert model.embed_prompt(inputs, kept).shape[1] == inputs.lengths.input
    # Every kept row is a row of the unpruned ones, in their order.
    away = (kept[:, None] - full[None]).abs().amax(dim=-1)
    near = away < 1e-5 * float(full.abs().max())
    assert near.sum(dim=1).tolist() == [1] * len(kept)
    places = away.argmin(dim=1).tolist()
    assert places == sorted(places)
    if is_pooled:
        assert places[:4] == [0, 1, 2, 3]
    elif family == "video_llava":
        assert [place for place in places if place % tokens == 0] == [0, tokens, 2 * tokens]


@pytest.mark.parametrize("family", ["eventgpt", "llava"])
def test_attention_decides_in_the_models(family: str, make_model: Callable[..., Any], sample: Any) -> None:
    model, clock = make_model(family), NullClock()
    inputs, kept = seen(model, sample, asked(visual_keep=0.25), clock)
    _, full = seen(model, sample, asked(), clock)
    scores = class_attention(model.network.tower(inputs.pixel_values))
    if family == "eventgpt":
        best = sorted(scores.mean(dim=0).topk(4).indices.tolist())
        rows = [0, 1, 2, 3, *(4 + index for index in best)]
    else:
        rows = [16 * frame + index for frame in range(3) for index in sorted(scores[frame].topk(4).indices.tolist())]
    assert_close(kept, full[rows])


def test_a_single_unpooled_frame_is_pruned_too(make_model: Callable[..., Any], sample: Any) -> None:
    model, clock = make_model("eventgpt"), NullClock()
    settings = GenerationSettings(
        event_frames=1, input=InputSettings(pooling="none"), switches=Switches(visual_keep=0.5)
    )
    inputs, kept = seen(model, sample, settings, clock)
    assert inputs.lengths.per_frame == [9]
    assert kept.shape == (9, 48)
