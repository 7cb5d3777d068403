"""Our CLIP preparation against transformers' own, and the pictures that are kept of a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from checkpoint_folders import preprocessor_json
from clip_pixels import pixel_values
from engines.stages.pixel_values import ClipTransform
from evprof.core.errors import UserError


def picture(height: int, width: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """Noise over a gradient: every pixel matters and edges show."""
    rng = np.random.default_rng(seed)
    ramp = np.linspace(0, 160, width)[None, :, None] + np.linspace(0, 60, height)[:, None, None]
    return (ramp + rng.integers(0, 36, (height, width, 3))).astype(np.uint8)


def theirs(pictures: list[npt.NDArray[np.uint8]], edge: int) -> npt.NDArray[np.float32]:
    processor = CLIPImageProcessorPil(size={"shortest_edge": edge}, crop_size={"height": edge, "width": edge})
    images = [Image.fromarray(each) for each in pictures]
    values: npt.NDArray[np.float32] = np.stack(processor(images, return_tensors="np")["pixel_values"])
    return values


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


def test_centre_crop_loses_a_quarter_of_a_wide_frame() -> None:
    frame = np.zeros((480, 640, 3), dtype=np.uint8)
    frame[:, :79] = 255
    _, cuts = pixel_values(ClipTransform.square(336), [frame])
    assert cuts[0].shape == (336, 336, 3)
    assert cuts[0][:, 4:].max() < 8


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
