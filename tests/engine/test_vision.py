"""Stage vision: pruning, kept embeddings, pixels."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from transformers import CLIPVisionModel
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from checkpoint_folders import preprocessor_json
from closeness import assert_close, is_close
from engines.families.clip_tower import ClipTower, class_attention
from engines.measuring.timing import NullClock
from engines.stages.pixel_values import ClipTransform, PixelValues, level_table, looked_up
from engines.stages.visual_tokens import choose_tokens, kept_count, most_diverse
from evprof.core.errors import UserError
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.inputs import InputSettings
from evprof.core.vocabulary.switches import PRUNINGS, Switches
from evprof.loaders.pictures.render import Picture
from pretended_cuda import GPU, PretendedCuda
from small_models import small_vision


def pixel_values(transform: ClipTransform, pictures: Sequence[Picture]) -> tuple[NDArray[np.float32], list[Picture]]:
    """T pictures of any sizes -> float32 [T, 3, H, W], and the T cut uint8 pictures it was made of."""
    cuts = [transform.cut(picture) for picture in pictures]
    return transform.stacked(cuts), cuts


pytestmark = pytest.mark.usefixtures("without_gradients")

FAMILIES = ("eventgpt", "llava", "video_llava", "llava_next_video")
TOKENS = {"eventgpt": 17, "llava": 16, "video_llava": 17, "llava_next_video": 4}
"""Visual tokens of one frame of `make_model`'s models."""


def tower(activation: str = "quick_gelu") -> CLIPVisionModel:
    torch.manual_seed(0)
    config = small_vision(num_hidden_layers=3, hidden_act=activation)
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


CPU = torch.device("cpu")


def every_level(edge: int = 28) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Pictures in which each channel has all of its levels."""
    pixels = np.arange(3 * edge * edge).reshape(edge, edge, 3) // 3
    return [((pixels + shift) % 256).astype(np.uint8) for shift in (0, 77)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("more", [{}, {"mean": (0.5, 0.4, 0.3), "std": (0.1, 0.2, 0.3), "rescale_factor": 1 / 127.5}])
def test_looked_up_numbers_are_the_cpus(dtype: torch.dtype, more: dict[str, Any]) -> None:
    transform, cuts = ClipTransform(28, (28, 28), **more), every_level()
    expected = torch.from_numpy(transform.stacked(cuts)).to(dtype)
    found = looked_up(torch.from_numpy(np.stack(cuts)), level_table(transform, dtype))
    assert found.is_contiguous()
    assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pictures_are_sent_as_bytes_and_nobody_waits(dtype: torch.dtype) -> None:
    transform, cuts, noted = ClipTransform.square(28), every_level(), []

    span: Any = type("Span", (), {"output": lambda self, name, value: noted.append((name, value.dtype))})()
    with PretendedCuda() as pretended:
        values = PixelValues(transform, cuts, GPU, dtype)
        values.begin(NullClock())
        values.send(span)
        found = values.finish(NullClock())
        assert found.device == GPU
        assert pretended.waits == []
    assert noted == [("pictures", torch.uint8)]
    on_cpu = PixelValues(transform, cuts, CPU, dtype)
    on_cpu.begin(NullClock())
    on_cpu.send(span)
    assert torch.equal(found, on_cpu.finish(NullClock()))


def picture(height: int, width: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """Noise over a gradient: every pixel matters and edges show."""
    rng = np.random.default_rng(seed)
    ramp = np.linspace(0, 160, width)[None, :, None] + np.linspace(0, 60, height)[:, None, None]
    return (ramp + rng.integers(0, 36, (height, width, 3))).astype(np.uint8)


def theirs(pictures: list[npt.NDArray[np.uint8]], edge: int) -> npt.NDArray[np.float32]:
    processor = CLIPImageProcessorPil(size={"shortest_edge": edge}, crop_size={"height": edge, "width": edge})
    images = [Image.fromarray(each) for each in pictures]
    return np.stack(processor(images, return_tensors="np")["pixel_values"])


@pytest.mark.parametrize(
    ("height", "width"),
    [
        (480, 640),
        (640, 480),
        (336, 336),
        (260, 346),
        (1, 1),
        (7, 500),
        (500, 7),
        (335, 337),
        (720, 1281),
        (224, 225),
        (2, 900),
        (900, 2),
    ],
)
@pytest.mark.parametrize("edge", [224, 336, 63])
def test_equal_to_transformers_pixel_for_pixel(height: int, width: int, edge: int) -> None:
    frame = picture(height, width)
    ours, _ = pixel_values(ClipTransform.square(edge), [frame])
    reference = theirs([frame], edge)
    assert ours.dtype == np.float32
    assert ours.shape == reference.shape == (1, 3, edge, edge)
    assert np.array_equal(ours, reference)


@given(height=st.integers(1, 300), width=st.integers(1, 300), edge=st.sampled_from([14, 33, 56]))
def test_equal_to_transformers_on_any_size(height: int, width: int, edge: int) -> None:
    frames = [picture(height, width, 1), picture(width, height, 2)]
    ours, _ = pixel_values(ClipTransform.square(edge), frames)
    assert np.array_equal(ours, theirs(frames, edge))


@pytest.mark.parametrize(("size", "crop"), [(30, 40), (30, 41), (50, 41)])
def test_a_crop_larger_than_the_picture_is_padded_like_transformers(size: int, crop: int) -> None:
    frame = picture(31, 33)
    processor = CLIPImageProcessorPil(size={"shortest_edge": size}, crop_size={"height": crop, "width": crop})
    reference = np.stack(processor([Image.fromarray(frame)], return_tensors="np")["pixel_values"])
    ours, _ = pixel_values(ClipTransform(size, (crop, crop)), [frame])
    assert np.array_equal(ours, reference)


def test_settings_are_read_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "preprocessor_config.json"
    values = preprocessor_json(28) | {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.5, 0.5]}
    path.write_text(json.dumps(values))
    frame = picture(40, 50)
    processor = CLIPImageProcessorPil(
        size={"shortest_edge": 28},
        crop_size={"height": 28, "width": 28},
        image_mean=[0.1, 0.2, 0.3],
        image_std=[0.5, 0.5, 0.5],
    )
    reference = np.stack(processor([Image.fromarray(frame)], return_tensors="np")["pixel_values"])
    ours, _ = pixel_values(ClipTransform.from_file(path, 28), [frame])
    assert np.array_equal(ours, reference)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"do_center_crop": False}, "do_center_crop"),
        ({"resample": 2}, "filter 2"),
        ({"crop_size": {"height": 30, "width": 30}}, "28 x 28"),
        ({"image_mean": [0.5]}, "image_mean"),
    ],
)
def test_a_preparation_that_is_not_clips_is_refused(tmp_path: Path, change: dict[str, object], named: str) -> None:
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps(preprocessor_json(28) | change))
    with pytest.raises(UserError, match=named) as caught:
        ClipTransform.from_file(path, 28)
    assert str(path) in caught.value.sentence
