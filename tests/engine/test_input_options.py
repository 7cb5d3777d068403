"""How inputs are shown: prompt styles, canvas, pooling, grids, either half of the sample to either model, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from closeness import assert_close
from engines.families.eventgpt import SEQUENCE_LIMIT
from engines.measuring.timing import NullClock
from engines.stages.frames import grid_columns, tile_frames
from engines.stages.pixel_values import ClipTransform
from engines.tokens.prompts import SLOT
from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.inputs import InputSettings
from evprof.core.vocabulary.switches import Switches
from evprof.loaders.events.opening import read_events

pytestmark = pytest.mark.usefixtures("without_gradients")

CLOCK = NullClock()


def asked(*, frames: int | None = None, event_frames: int | None = None, **shown: Any) -> GenerationSettings:
    return GenerationSettings(max_new_tokens=8, frames=frames, event_frames=event_frames, input=InputSettings(**shown))


def prepared(model: Any, sample: Sample, settings: GenerationSettings, *, kind: str | None = None) -> Any:
    host = model.load(sample, settings, CLOCK, kind=kind)
    return model.preprocess(host, "What is there?", settings, CLOCK)


@pytest.mark.parametrize(
    ("shown", "name", "texts"),
    [
        ({}, "eventgpt_v1", ("human's questions. USER: <ev_start>", "<ev_end>\nWhat is there? ASSISTANT:")),
        (
            {"event_markers": False},
            "eventgpt_v1_unmarked",
            ("human's questions. USER: ", "\nWhat is there? ASSISTANT:"),
        ),
        (
            {"prompt_style": "training"},
            "eventgpt_training",
            ("user's questions. USER: ", "\nWhat is there? ASSISTANT:"),
        ),
    ],
)
def test_prompt_styles(shown: dict[str, Any], name: str, texts: tuple[str, str], make_model, sample) -> None:
    model = make_model("eventgpt")
    inputs = prepared(model, sample, asked(**shown))
    vocabulary, template = model.vocabulary, model.template_of(asked(**shown))
    slot = inputs.token_ids.index(SLOT)
    assert template.name == name
    assert template.before.endswith(texts[0])
    assert ("curious user" in template.system) == ("user's" in template.system) == (name == "eventgpt_training")
    assert inputs.token_ids[0] == vocabulary.bos_id
    assert list(inputs.token_ids[1:slot]) == vocabulary.encode(template.before)
    assert list(inputs.token_ids[slot + 1 :]) == vocabulary.encode(texts[1])


def test_events_outside_the_canvas_are_refused(make_model: Callable[..., Any], sample: Sample) -> None:
    events = read_events(str(sample.events_path))
    with pytest.raises(UserError, match=f"--canvas {events.width}x{events.height}") as caught:
        prepared(make_model("eventgpt"), sample, asked(canvas=f"{events.width - 1}x{events.height}"))
    assert f"x = {events.width - 1}" in caught.value.sentence


def test_an_unpooled_frame_keeps_every_token(make_model: Callable[..., Any], sample: Sample) -> None:
    model = make_model("eventgpt")
    settings = asked(event_frames=1, pooling="none")
    inputs = prepared(model, sample, settings)
    visual = model.encode_vision(inputs, CLOCK)
    assert torch.equal(visual, model.network.encode_frames(inputs.pixel_values)[0])
    assert inputs.lengths.per_frame == [17]
    assert inputs.lengths.visual == 17 == len(visual)
    fused = GenerationSettings(
        event_frames=1, input=InputSettings(pooling="none"), switches=Switches(projector="fused")
    )
    other = model.encode_vision(prepared(model, sample, fused), CLOCK)
    assert_close(other, visual)


@pytest.mark.parametrize("frames", [None, 2])
def test_several_unpooled_frames_are_refused(frames: int | None, make_model, sample) -> None:
    with pytest.raises(UserError, match="--event-frames 1") as caught:
        prepared(make_model("eventgpt"), sample, asked(event_frames=frames, pooling="none"))
    assert caught.value.exit_code == 2


def test_the_fused_projector_answers_alike(make_model: Callable[..., Any], sample: Sample) -> None:
    model = make_model("eventgpt")
    reference = model.encode_vision(prepared(model, sample, asked()), CLOCK)
    settings = GenerationSettings(switches=Switches(projector="fused"))
    model.make_ready(settings)
    fused = model.encode_vision(prepared(model, sample, settings), CLOCK)
    assert_close(fused, reference)


Gray = npt.NDArray[np.uint8]


def plain(count: int, height: int = 40, width: int = 60) -> list[Gray]:
    return [np.full((height, width, 3), 10 + 5 * index, dtype=np.uint8) for index in range(count)]


@given(frames=st.integers(1, 20))
def test_tiles_lie_row_by_row(frames: int) -> None:
    transform = ClipTransform.square(56)
    grid = tile_frames(plain(frames), transform)
    columns = grid_columns(frames)
    edge = 56 // columns
    assert grid.shape == (columns * edge, columns * edge, 3)
    tiles = grid.reshape(columns, edge, columns, edge, 3).transpose(0, 2, 1, 3, 4).reshape(columns**2, -1)
    assert [set(tile.tolist()) for tile in tiles] == [
        {10 + 5 * index} if index < frames else {0} for index in range(columns**2)
    ]


def test_a_tile_shows_what_clip_shows_of_the_frame() -> None:
    frame: Gray = np.random.default_rng(0).integers(0, 256, (48, 80, 3), dtype=np.uint8)
    transform = ClipTransform.square(56)
    grid = tile_frames([frame] * 4, transform)
    assert np.array_equal(grid[:28, 28:], ClipTransform.square(28).cut(frame))
    assert np.array_equal(transform.cut(grid), grid)


def test_llava_reads_a_grid_as_one_image(make_model: Callable[..., Any], sample: Sample) -> None:
    model = make_model("llava")
    inputs = prepared(model, sample, asked(frames=8, image_layout="grid"))
    assert inputs.pixel_values.shape == (1, 3, 56, 56)
    assert inputs.lengths.per_frame == [16]
    assert inputs.token_ids.count(SLOT) == 1
    assert model.encode_vision(inputs, CLOCK).shape == (16, 48)
    (frame,) = inputs.frames
    apart = prepared(model, sample, asked(frames=8)).times_us
    assert frame.label.startswith("grid of 8: frame 0 at 0 ms to frame ")
    assert (frame.start_us, frame.end_us) == (apart[0][0], apart[-1][1])


@pytest.mark.parametrize("words", [300, 2200])
def test_positions_past_2048_are_cut_off_as_in_the_released_code(words: int, make_model, sample) -> None:
    model = make_model("eventgpt", limit=20_000)
    settings = asked()
    host = model.load(sample, settings, CLOCK)
    whole = model.preprocess(host, "What is there?", settings, CLOCK)
    question = "bada " * words
    inputs = model.preprocess(host, question, settings, CLOCK)
    template = model.template_of(settings)
    head, tail = (model.vocabulary.encode(text) for text in template.chunks(question))
    total = 1 + len(head) + 22 + len(tail)
    prompt = model.embed_prompt(inputs, model.encode_vision(inputs, CLOCK))
    assert inputs.lengths.input == min(total, SEQUENCE_LIMIT) == prompt.shape[1] == len(inputs.text_ids) + 22
    assert inputs.lengths.visual == whole.lengths.visual == 22
    kept = SEQUENCE_LIMIT - 1 - len(head) - 22
    assert list(inputs.token_ids) == [model.vocabulary.bos_id, *head, SLOT, *tail[:kept]]
    said = [sentence for sentence in inputs.warnings if "cut off" in sentence]
    assert bool(said) is (total > SEQUENCE_LIMIT)
    assert all(f"{total:,}" in sentence and str(total - SEQUENCE_LIMIT) in sentence for sentence in said)
