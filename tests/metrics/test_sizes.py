"""What a session notes of models and machines is read with care, and the published sizes stand in for 7B layouts."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from evprof.core.run_info import ModelFacts
from evprof.core.run_log import RunLog
from evprof.metrics.limits.sizes import PUBLISHED_VISION, VICUNA_7B, ceiling_of, read_ceilings, read_models, sizes_of
from evprof.metrics.limits.workload import kv_bytes_per_position, vision_flops
from told import TINY_MODEL

SEVEN_B = {"layers": 32, "kv_heads": 32, "head_dim": 128, "kv_element_bytes": 2, "dtype": "bfloat16"}
CEILING = {
    "device": "cpu",
    "dtype": "float32",
    "threads": 1,
    "copy_bytes_s": 2e10,
    "read_bytes_s": 3e10,
    "matmul_flops_s": 6e10,
    "cache_bytes": 1 << 25,
}


def model(**changes: Any) -> ModelFacts:
    values: dict[str, Any] = {"family": "eventgpt", "parameters": 1, "weight_bytes": 4}
    return replace(TINY_MODEL, **(values | changes))


def noted(**changes: Any) -> dict[str, Any]:
    vision = asdict(PUBLISHED_VISION["llava"])
    entry = {
        "family": "llava",
        "text": asdict(VICUNA_7B),
        "vision": vision | {"projections": [list(pair) for pair in vision["projections"]]},
    }
    return {"m": entry | changes}


def test_the_published_sizes_are_those_of_the_configurations() -> None:
    """13.215 GB of weights a token in 16 bit, half a MiB of cache a position, 576 tokens a frame."""
    sizes = sizes_of(model(**SEVEN_B, family="llava"), {})
    assert sizes.is_published
    assert sizes.streamed_bytes(model(**SEVEN_B)) == pytest.approx(13.215e9, rel=1e-4)
    assert kv_bytes_per_position(sizes.text, 2) == 1 << 19
    assert [sizes.visual_tokens(frames) for frames in (1, 8)] == [576, 4608]
    assert VICUNA_7B.parameters == 6_738_415_616
    assert vision_flops(replace(PUBLISHED_VISION["video_llava"], frames=8)) < vision_flops(
        replace(PUBLISHED_VISION["llava"], frames=8)
    )


def test_eventgpt_pools_over_frames() -> None:
    """The released path brings 578, 582, 585, 609 visual tokens at 1, 5, 8, 32 frames: 59 less than 637 … 668."""
    sizes = sizes_of(model(**SEVEN_B), {})
    assert [59 + (sizes.visual_tokens(frames) or 0) for frames in (1, 5, 8, 32)] == [637, 641, 644, 668]
    assert sizes.visual_tokens(1, is_pooled=False) == 577


def test_quantized_weights_are_read_as_they_are_packed() -> None:
    sizes = sizes_of(model(**SEVEN_B), {})
    assert sizes is not None
    whole, int8, nf4 = (sizes.streamed_bytes(model(**SEVEN_B, quantization=kind)) for kind in (None, "int8", "nf4"))
    head = VICUNA_7B.head_weights + VICUNA_7B.norm_weights
    assert int8 == VICUNA_7B.layer_weights + 2 * head
    assert nf4 == VICUNA_7B.layer_weights / 2 + 2 * head
    assert whole == 2 * VICUNA_7B.streamed_weights
    assert sizes.streamed_bytes(model(dtype="float64")) is None


def test_other_layouts_have_no_sizes_but_noted_ones() -> None:
    assert sizes_of(None, {}) is None
    assert sizes_of(model(), {}) is None
    known = read_models([noted()])
    assert sizes_of(model(name="m"), known) == known["m"]
    assert known["m"].text == VICUNA_7B
    assert known["m"].vision == PUBLISHED_VISION["llava"]
    assert not known["m"].is_published


def test_a_family_that_was_not_noted_is_the_runs() -> None:
    known = read_models([noted(family=None)])
    sizes = sizes_of(model(name="m", family="video_llava"), known)
    assert sizes.family == "video_llava"


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {"m": None},
        noted(text=None),
        noted(text={"layers": 1}),
        noted(text=asdict(VICUNA_7B) | {"layers": "32"}),
        noted(text=asdict(VICUNA_7B) | {"layers": -1}),
        noted(text=asdict(VICUNA_7B) | {"layers": 1.5}),
    ],
)
def test_what_is_no_note_counts_as_not_there(broken: Any) -> None:
    assert read_models([broken]) == {}


@pytest.mark.parametrize(
    "vision", [None, {}, {"frames": 1}, asdict(PUBLISHED_VISION["llava"]) | {"projections": [[1]]}]
)
def test_a_model_without_a_readable_tower_keeps_its_language_model(vision: Any) -> None:
    known = read_models([noted(vision=vision)])
    assert known["m"].vision is None
    assert known["m"].visual_tokens(3) is None


def test_ceilings_are_those_of_where_a_run_computed(plain_run: RunLog) -> None:
    two = CEILING | {"threads": 2, "matmul_flops_s": 9e10}
    ceilings = read_ceilings([[CEILING, two, "x", CEILING | {"matmul_flops_s": 0}], None])
    assert len(ceilings) == 2
    assert ceilings[0].bandwidth_bytes_s == 3e10
    assert ceilings[0].balance == 2
    plain_run.info.environment = {"threads": 2}
    found = ceiling_of(plain_run, "target", ceilings)
    assert found.threads == 2
    plain_run.info.environment = {"threads": 3}
    assert ceiling_of(plain_run, "target", ceilings) is None
    assert ceiling_of(plain_run, "draft", ceilings) is None
    assert ceiling_of(plain_run, "target", read_ceilings([[CEILING | {"dtype": "bfloat16"}]])) is None
