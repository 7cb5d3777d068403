"""How inputs are shown: prompt styles, canvas, pooling, grids, either half of the sample to either model, limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from clip_pixels import pixel_values
from closeness import assert_close
from engines.families.eventgpt import SEQUENCE_LIMIT
from engines.measuring.timing import NullClock
from engines.stages.frames import grid_columns, tile_frames
from engines.stages.pixel_values import ClipTransform
from engines.tokens.prompts import SLOT
from evprof.core.errors import UserError
from evprof.core.messages import RunEnded, RunStarted, RunWarned
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.inputs import InputSettings
from evprof.core.vocabulary.switches import Switches
from evprof.loaders.events.opening import read_events
from evprof.loaders.pictures.render import render_event_frames
from evprof.loaders.videos.file import VideoFile

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
def test_prompt_styles(
    shown: dict[str, Any], name: str, texts: tuple[str, str], make_model: Callable[..., Any], sample: Sample
) -> None:
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


def test_a_fixed_canvas_is_every_frames_size(make_model: Callable[..., Any], sample: Sample) -> None:
    model = make_model("eventgpt")
    events = read_events(str(sample.events_path))
    wide = f"{events.width + 40}x{events.height}"
    inputs = prepared(model, sample, asked(canvas=wide))
    frames = render_event_frames(events, 5, width=events.width + 40, height=events.height)
    expected, _ = pixel_values(model.transform, frames)
    assert np.array_equal(inputs.pixel_values.numpy(), expected)
    assert not torch.equal(inputs.pixel_values, prepared(model, sample, asked()).pixel_values)


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
def test_several_unpooled_frames_are_refused(
    frames: int | None, make_model: Callable[..., Any], sample: Sample
) -> None:
    with pytest.raises(UserError, match="--event-frames 1") as caught:
        prepared(make_model("eventgpt"), sample, asked(event_frames=frames, pooling="none"))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("family", "per_frame", "visual"),
    [
        ("eventgpt", [1, 1, 1], 20),
        ("video_llava", [17, 17, 17], 51),
        ("llava", [16, 16, 16], 48),
        ("llava_next_video", [4, 4, 4], 12),
    ],
)
def test_positions_by_frame(
    family: str, per_frame: list[int], visual: int, make_model: Callable[..., Any], sample: Sample
) -> None:
    inputs = prepared(make_model(family), sample, asked(frames=3, event_frames=3))
    assert inputs.lengths.per_frame == per_frame
    assert inputs.lengths.visual == visual


def test_the_fused_projector_answers_alike(make_model: Callable[..., Any], sample: Sample) -> None:
    model = make_model("eventgpt")
    reference = model.encode_vision(prepared(model, sample, asked()), CLOCK)
    settings = GenerationSettings(switches=Switches(projector="fused"))
    model.make_ready(settings)
    fused = model.encode_vision(prepared(model, sample, settings), CLOCK)
    assert_close(fused, reference)


@pytest.mark.parametrize("family", ["video_llava", "llava", "llava_next_video"])
def test_event_frames_shown_as_video(family: str, make_model: Callable[..., Any], sample: Sample) -> None:
    model = make_model(family)
    inputs = prepared(model, sample, asked(frames=4), kind="events")
    frames = render_event_frames(read_events(str(sample.events_path)), 4)
    assert np.array_equal(inputs.pixel_values.numpy(), pixel_values(model.transform, frames)[0])
    assert inputs.lengths.visual == len(model.encode_vision(inputs, CLOCK))
    assert inputs.warnings == [f"tiny-{family} was shown 4 event frames as video."]
    assert inputs.labels[0].startswith("event frame 1")
    by_default = prepared(model, sample, asked(), kind="events")
    assert len(by_default.pictures) == 8
    assert prepared(model, sample, asked(frames=4)).warnings == []


def test_video_frames_shown_as_event_frames(make_model: Callable[..., Any], sample: Sample) -> None:
    model = make_model("eventgpt")
    inputs = prepared(model, sample, asked(), kind="video")
    with VideoFile(str(sample.video_path)) as file:
        file.index()
        frames = file.read_uniform(5).frames
    assert np.array_equal(inputs.pixel_values.numpy(), pixel_values(model.transform, frames)[0])
    assert inputs.lengths.per_frame == [1] * 5
    assert inputs.warnings == ["tiny-eventgpt was shown 5 video frames as event frames."]


def test_a_folder_of_event_frames_shown_as_video(tmp_path: Path, make_model: Callable[..., Any]) -> None:
    for index in range(3):
        Image.fromarray(np.full((30, 40, 3), 20 * index, dtype=np.uint8)).save(tmp_path / f"f{index}.png")
    inputs = prepared(make_model("video_llava"), Sample(events_path=str(tmp_path)), asked(), kind="events")
    assert inputs.labels == ("f0.png", "f1.png", "f2.png")
    assert "3 event frames as video" in inputs.warnings[0]


def test_long_recordings_worry_eventgpt_alone(make_model: Callable[..., Any], tmp_path: Path) -> None:
    columns = {"x": [0, 1], "y": [0, 1], "t": [0, 200_000], "p": [0, 1]}
    np.save(tmp_path / "e.npy", np.array({name: np.array(value) for name, value in columns.items()}, dtype=object))
    sample = Sample(events_path=str(tmp_path / "e.npy"))
    own = prepared(make_model("eventgpt"), sample, asked(event_frames=2))
    other = prepared(make_model("video_llava"), sample, asked(frames=2), kind="events")
    assert "200.0 ms" in own.warnings[0]
    assert other.warnings == ["tiny-video_llava was shown 2 event frames as video."]


@pytest.mark.parametrize(
    ("family", "settings", "idle"),
    [
        ("eventgpt", asked(image_layout="grid"), "--image-layout"),
        ("eventgpt", asked(prompt_style="training", canvas="640x480"), None),
        ("video_llava", asked(image_layout="grid"), "--image-layout"),
        ("llava_next_video", asked(canvas="640x480", pooling="none"), "--canvas and --pooling"),
        ("llava", asked(image_layout="grid"), None),
        ("llava", GenerationSettings(switches=Switches(projector="fused")), "--projector"),
    ],
)
def test_settings_without_use_are_named(
    family: str, settings: GenerationSettings, idle: str | None, make_model: Callable[..., Any], sample: Sample
) -> None:
    warnings = prepared(make_model(family), sample, settings).warnings
    said = [sentence for sentence in warnings if "no use for" in sentence]
    assert said == ([] if idle is None else [f"tiny-{family} has no use for {idle}; the setting changed nothing."])


Gray = npt.NDArray[np.uint8]


def plain(count: int, height: int = 40, width: int = 60) -> list[Gray]:
    return [np.full((height, width, 3), 10 + 5 * index, dtype=np.uint8) for index in range(count)]


@given(frames=st.integers(1, 400))
def test_a_grid_has_room_and_no_more_columns_than_it_needs(frames: int) -> None:
    columns = grid_columns(frames)
    assert (columns - 1) ** 2 < frames <= columns**2
    assert columns == math.ceil(math.sqrt(frames))


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
def test_positions_past_2048_are_cut_off_as_in_the_released_code(
    words: int, make_model: Callable[..., Any], sample: Sample
) -> None:
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


def test_a_cut_can_reach_the_frames(
    make_model: Callable[..., Any], sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engines.families.eventgpt.SEQUENCE_LIMIT", 100)
    model = make_model("eventgpt")
    inputs = prepared(model, sample, asked(event_frames=5))
    before = inputs.token_ids.index(SLOT)
    monkeypatch.setattr("engines.families.eventgpt.SEQUENCE_LIMIT", before + 3)
    cut = prepared(model, sample, asked(event_frames=5))
    visual = model.encode_vision(cut, CLOCK)
    prompt = model.embed_prompt(cut, visual)
    assert cut.lengths.per_frame == [1, 1, 1, 0, 0]
    assert cut.lengths.input == before + 3 == prompt.shape[1]
    assert torch.equal(prompt[0, before:], visual[:3])


def test_a_run_says_what_was_really_read(engine: Any, sample: Sample, sink: Any, never: Any) -> None:
    draft, target = ModelChoice("tiny-draft"), ModelChoice("tiny-target")
    settings = GenerationSettings(max_new_tokens=4, input=InputSettings(target_input="events", prompt_style="training"))
    engine.run(RunRequest("side-by-side", Sample(sample.events_path, prompt="?"), draft, target, settings), sink, never)
    started = [message.info for message in sink.messages if isinstance(message, RunStarted)]
    assert [message.status for message in sink.messages if isinstance(message, RunEnded)] == ["finished"] * 2
    assert [info.settings.input.draft_input for info in started] == ["events", "auto"]
    assert [info.settings.input.target_input for info in started] == ["events", "events"]
    said = [message.sentence for message in sink.messages if isinstance(message, RunWarned)]
    assert "tiny-target was shown 8 event frames as video." in said
