"""A converted clip shows the same events and the same frames at the same moments as the clip it was made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evprof.core.sample import Sample
from evprof.loaders.clips import clip_frames, read_clip
from evprof.loaders.events.opening import open_recording
from evprof.loaders.manifests.manifest import read_manifest
from evprof.loaders.videos.opening import open_video
from evprof.loaders.writers.frames import write_manifest
from evprof.loaders.writers.npy import write_npy
from evprof.run.conversion.plan import converted, plan_rows
from evprof.run.conversion.task import ConversionRecipe, Step
from evprof.run.conversion.workers import convert
from made_conversions import some_events
from painted_videos import number_of, write_video

BEGAN_US = 3_000_000_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two seconds of events, and 60 frames at a variable rate."""
    folder = tmp_path_factory.mktemp("pair")
    write_npy(folder / "e.npy", [some_events(5, 30_000, 2_000_000, BEGAN_US)])
    return folder / "e.npy", write_video(folder / "v.mp4", 60, gop=12, ticks=lambda n: n * 33 + (n % 7) * 4)


def sample_of(pair: tuple[Path, Path], clip: tuple[int | None, int | None, int]) -> Sample:
    start_us, duration_us, offset_us = clip
    return Sample(
        events_path=str(pair[0]),
        video_path=str(pair[1]),
        name="clip",
        start_us=start_us,
        duration_us=duration_us,
        video_offset_us=offset_us,
    )


CLIPS = [
    (None, None, 0),
    (300_000, 400_000, 0),
    (300_000, 400_000, 150_000),
    (0, 500_000, -250_000),
    (700_000, None, 90_000),
]


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("way", [("npy", None), ("h5", "events"), ("mp4", None), ("frames", "video")])
def test_the_same_moments(way: tuple[str, str | None], clip, pair, tmp_path: Path) -> None:
    to, only = way
    sample = sample_of(pair, clip)
    plan = plan_rows([sample], tmp_path / "out", ConversionRecipe(to), only)
    written = {output: convert(task, Step()) for output, task in plan.tasks.items()}
    write_manifest(tmp_path / "out" / "manifest.csv", [converted(plan.rows[0], plan, written)])
    (result,) = read_manifest(tmp_path / "out" / "manifest.csv").samples

    before, after = read_clip(sample), read_clip(result)
    assert all(np.array_equal(getattr(before, name), getattr(after, name)) for name in ("x", "y", "t_us", "p"))
    shown_before, shown_after = shown(sample), shown(result)
    assert shown_before == shown_after


def shown(sample: Sample) -> list[tuple[int, int]]:
    """(number, time on the events' own clock) of 10 frames of the clip."""
    with open_recording(str(sample.events_path)) as recording:
        zero_us = recording.origin_us()
    with open_video(str(sample.video_path), sample.video_times_path) as video:
        video.index()
        found = clip_frames(video, sample, 10)
    times = [zero_us + sample.video_offset_us + time_us for time_us in found.times_us]
    return list(zip(map(number_of, found.frames), times, strict=True))


@pytest.mark.parametrize("clip", CLIPS)
def test_simulated_events_lie_on_the_videos_clock(clip, pair, tmp_path: Path) -> None:
    sample = sample_of(pair, clip)
    plan = plan_rows([sample], tmp_path, ConversionRecipe("npy", threshold=0.3, simulate_width=80), "video")
    written = {output: convert(task, Step()) for output, task in plan.tasks.items()}
    result = converted(plan.rows[0], plan, written)
    (tmp_path / "clip").mkdir(exist_ok=True)
    events = read_clip(result)
    frames = shown(result)
    # Events carry the video's own times, so frame n is shown at the time it was painted for.
    assert [time_us for _, time_us in frames] == [n * 33_000 + (n % 7) * 4_000 for n, _ in frames]
    assert frames[0][1] <= events.t_us[0] <= events.t_us[-1] <= 1_996_000
