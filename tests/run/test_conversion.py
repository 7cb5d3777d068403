"""Single conversions: nothing is lost on the way, and what cannot be is one sentence."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from evprof.core.errors import Cancelled, UserError
from evprof.core.events import EventArray
from evprof.core.sample import Sample
from evprof.loaders.events.opening import read_events
from evprof.loaders.pictures.png import read_png
from evprof.loaders.pictures.renderings import Painter
from evprof.loaders.videos.file import VideoFile
from evprof.loaders.writers.npy import write_npy
from evprof.run.conversion.task import TARGETS, ConversionRecipe, Step, Task, Written
from evprof.run.conversion.workers import convert
from painted_videos import number_of, write_video


@pytest.fixture(scope="session")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 numbered frames at a variable rate, 0 to 1.99 s."""
    folder = tmp_path_factory.mktemp("video")
    return write_video(folder / "vfr.mp4", 60, gop=30, ticks=lambda n: n * 33 + (n % 7) * 4)


def some_events(count: int = 20_000, seed: int = 1) -> EventArray:
    random = np.random.default_rng(seed)
    times = np.cumsum(random.integers(0, 10, count)) + 5_000_000_000
    return EventArray.from_columns(
        random.integers(0, 64, count), random.integers(0, 48, count), times, random.integers(0, 2, count)
    )


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 90 ms of events that begin 5000 s after the clock's zero."""
    path = tmp_path_factory.mktemp("events") / "scene.npy"
    write_npy(path, iter([some_events()]))
    return path


def task(path: Path, output: Path, to: str, *, clip: tuple[int, int] | None = None, **given: Any) -> Task:
    is_events = path.suffix not in (".mp4", "")
    sample = Sample(events_path=str(path)) if is_events else Sample(video_path=str(path))
    if clip is not None:
        sample = replace(sample, start_us=clip[0], duration_us=clip[1])
    return Task(sample, "events" if is_events else "video", output, ConversionRecipe.of(to, given))


def carried_out(*words: Any, **given: Any) -> Written:
    return convert(task(*words, **given), Step())


def same(one: EventArray, other: EventArray) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("x", "y", "t_us", "p"))


EVENT_FILES = [
    ("npy", "a.npy", {}),
    ("npy", "a.npy", {"layout": "structured"}),
    ("npz", "a.npz", {"compressed": True}),
    ("h5", "a.h5", {}),
    ("h5", "a.h5", {"compression": "gzip"}),
    ("raw", "a.raw", {"raw_format": "evt3"}),
    ("raw", "a.raw", {"raw_format": "evt2"}),
    ("raw", "a.dat", {"raw_format": "dat"}),
]


@pytest.mark.parametrize(("to", "name", "given"), EVENT_FILES)
def test_every_format_holds_the_same_events(
    to: str, name: str, given: dict[str, Any], recording: Path, tmp_path
) -> None:
    # RAW and DAT count µs in fewer bits: what lies beyond is told by the writer, so times begin near zero there.
    source, events = recording, some_events()
    if to == "raw":
        events = EventArray(events.x, events.y, events.t_us - 4_999_000_000, events.p)
        source = tmp_path / "early.npy"
        write_npy(source, iter([events]))
    found = carried_out(source, tmp_path / name, to, **given)
    assert found.kind == "events"
    assert found.events == len(events)
    assert found.bytes == (tmp_path / name).stat().st_size
    assert same(read_events(tmp_path / name), events)
    back = carried_out(tmp_path / name, tmp_path / "back.npy", "npy")
    assert back.events == len(events)
    if to != "raw":
        assert (tmp_path / "back.npy").read_bytes() == recording.read_bytes()


def test_times_that_run_backwards_are_kept_or_sorted(tmp_path: Path) -> None:
    events = some_events(1_000)
    mixed = EventArray(events.x[::-1], events.y[::-1], events.t_us[::-1], events.p[::-1])
    write_npy(tmp_path / "mixed.npy", iter([mixed]))
    found = carried_out(tmp_path / "mixed.npy", tmp_path / "a.npz", "npz")
    assert same(read_events(tmp_path / "a.npz"), mixed)
    assert any("backwards" in note for note in found.notes)
    with pytest.raises(UserError):
        carried_out(tmp_path / "mixed.npy", tmp_path / "a.h5", "h5")
    assert not (tmp_path / "a.h5").exists()
    carried_out(tmp_path / "mixed.npy", tmp_path / "a.h5", "h5", sort=True)
    order = np.argsort(mixed.t_us, kind="stable")
    wanted = EventArray(mixed.x[order], mixed.y[order], mixed.t_us[order], mixed.p[order])
    assert same(read_events(tmp_path / "a.h5"), wanted)


def test_a_rectification_map_is_applied(recording: Path, tmp_path: Path) -> None:
    """Everything moves a pixel to the right, and the last column out of the picture."""
    events = some_events()
    rows, columns = np.mgrid[0:48, 0:64]
    with h5py.File(tmp_path / "map.h5", "w") as file:
        file["rectify_map"] = np.stack([columns + 1, rows], axis=2).astype(np.float32)
    plain = task(recording, tmp_path / "a.npz", "npz")
    moved = replace(plain, sample=replace(plain.sample, rectify_path=str(tmp_path / "map.h5")))
    found = convert(moved, Step())
    there, left = read_events(tmp_path / "a.npz"), events.x < 63
    assert found.events == int(left.sum()) < len(events)
    assert np.array_equal(there.x, events.x[left] + 1)
    assert np.array_equal(there.t_us, events.t_us[left])
    first = int(events.t_us[left][0] - events.t_us[0])
    assert found.starts_us == first
    assert moved.key() != plain.key()


# Pictures


@pytest.mark.parametrize("rendering", ["eventgpt", "count", "time-surface"])
def test_windows_are_drawn_as_the_player_draws_them(rendering: str, recording: Path, tmp_path: Path) -> None:
    events = some_events()
    found = carried_out(recording, tmp_path / "f", "frames", rendering=rendering, window_us=7_000)
    origin, span = int(events.t_us[0]), int(events.t_us[-1] - events.t_us[0])
    assert found.frames == span // 7_000 + 1
    times = [int(line) for line in (tmp_path / "f" / "times.txt").read_text().split()]
    assert times == [origin + number * 7_000 for number in range(found.frames)]
    for number in (0, 3, found.frames - 1):
        start = origin + number * 7_000
        window = events.slice_time(start, start + 7_000)
        wanted = Painter(64, 48, rendering=rendering).paint(window, start, start + 7_000)
        assert np.array_equal(read_png(tmp_path / "f" / f"frame_{number:02d}.png"), wanted)


def test_a_rendered_video_is_in_real_time_unless_told(recording: Path, tmp_path: Path) -> None:
    found = carried_out(recording, tmp_path / "real.mp4", "mp4", fps="100")
    with VideoFile(tmp_path / "real.mp4") as video:
        video.index()
        assert [video.table.time_us(index) for index in range(found.frames or 0)] == [
            index * 10_000 for index in range(found.frames or 0)
        ]
    slow = carried_out(recording, tmp_path / "slow.mp4", "mp4", fps="25", window_us=10_000)
    assert slow.notes == ("The video plays at 0.25 times the speed of the recording.",)


def test_frames_of_a_video(video: Path, tmp_path: Path) -> None:
    wanted = [n * 33 + (n % 7) * 4 for n in range(60)]
    ways: list[tuple[dict[str, Any], list[int]]] = [
        ({}, list(range(60))),
        ({"every": 7}, list(range(0, 60, 7))),
        ({"frames": 8}, [int(index) for index in np.linspace(0, 59, 8).round()]),
        ({"frames": 100}, list(range(60))),
    ]
    for number, (given, indices) in enumerate(ways):
        folder = tmp_path / str(number)
        assert carried_out(video, folder, "frames", **given).frames == len(indices)
        pictures = sorted(folder.glob("*.png"))
        assert [number_of(read_png(path)) for path in pictures] == indices
        times = [int(line) for line in (folder / "times.txt").read_text().split()]
        assert times == [1000 * wanted[index] for index in indices]


def test_a_fixed_rate_shows_what_was_on_show(video: Path, tmp_path: Path) -> None:
    shown = [n * 33 + (n % 7) * 4 for n in range(60)]
    found = carried_out(video, tmp_path / "a.mp4", "mp4", fps="50", gop=5)
    assert found.frames == -(-1992 // 20)
    with VideoFile(tmp_path / "a.mp4") as made:
        made.index()
        numbers = [number_of(picture) for picture in made.read_uniform(len(made.table)).frames]
        assert made.table.is_key.nonzero()[0].tolist() == list(range(0, len(numbers), 5))
    assert numbers == [sum(time_ms <= 20 * place for time_ms in shown) - 1 for place in range(len(numbers))]


@pytest.mark.parametrize("clip", [None, (500_000, 1_000_000)])
def test_a_video_keeps_its_times_and_numbers(clip, video: Path, tmp_path: Path) -> None:
    shown = [n * 33_000 + (n % 7) * 4_000 for n in range(60)]
    found = carried_out(video, tmp_path / "a.mp4", "mp4", gop=8, b_frames=0, clip=clip)
    first, last = 0, 59
    if clip is not None:
        # The frame that is still on show when the clip starts belongs to it.
        first = max(n for n in range(60) if shown[n] <= clip[0])
        last = max(n for n in range(60) if shown[n] < sum(clip))
    assert found.starts_us == shown[first]
    with VideoFile(tmp_path / "a.mp4") as made:
        made.index()
        read = made.read_uniform(len(made.table))
    assert [number_of(picture) for picture in read.frames] == list(range(first, last + 1))
    assert read.times_us == [time_us - shown[first] for time_us in shown[first : last + 1]]


def test_pictures_become_a_video(video: Path, tmp_path: Path) -> None:
    carried_out(video, tmp_path / "f", "frames")
    assert carried_out(tmp_path / "f", tmp_path / "timed.mp4", "mp4").notes == ()
    (tmp_path / "f" / "times.txt").rename(tmp_path / "elsewhere.txt")
    named = task(tmp_path / "f", tmp_path / "named.mp4", "mp4")
    named = replace(named, sample=replace(named.sample, video_times_path=str(tmp_path / "elsewhere.txt")))
    assert convert(named, Step()).notes == ()
    for name in ("timed.mp4", "named.mp4"):
        with VideoFile(tmp_path / name) as made:
            assert made.table.time_us(10) == 342_000
            assert [number_of(made.to_rgb(frame)) for _, frame in made.walk(0)] == [0]
    guessed = carried_out(tmp_path / "f", tmp_path / "guessed.mp4", "mp4")
    assert "25 per second are assumed" in guessed.notes[0]
    paced = carried_out(tmp_path / "f", tmp_path / "paced.mp4", "mp4", fps="30000/1001")
    assert (paced.frames, paced.notes) == (60, ())
    with VideoFile(tmp_path / "paced.mp4") as made:
        made.index()
        assert made.table.time_us(30) == round(30 * Fraction(1001, 30000) * 1_000_000)


def test_rotation_is_applied(tmp_path: Path) -> None:
    import av

    plain = write_video(tmp_path / "plain.mp4", 10, b_frames=0)
    with av.open(str(plain)) as source, av.open(str(tmp_path / "turned.mp4"), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        if not hasattr(stream, "set_display_rotation"):
            pytest.skip("this PyAV writes no rotation")
        stream.set_display_rotation(90)
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    carried_out(tmp_path / "turned.mp4", tmp_path / "up.mp4", "mp4")
    with VideoFile(tmp_path / "turned.mp4") as before, VideoFile(tmp_path / "up.mp4") as after:
        before.index()
        after.index()
        assert before.info().rotation != 0
        assert after.info().rotation == 0
        assert (after.info().width, after.info().height) == (before.info().width, before.info().height)


# Events from a video


def test_simulated_events_say_so_and_depend_on_the_seed(video: Path, tmp_path: Path) -> None:
    made = {}
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        found = carried_out(video, tmp_path / f"{name}.npy", "npy", seed=seed, threshold_spread=0.1, simulate_width=80)
        assert found.is_simulated
        assert "interpolated" in found.notes[-1]
        made[name] = read_events(tmp_path / f"{name}.npy")
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    assert not same(made["a"], made["c"])
    events = made["a"]
    assert events.is_sorted
    assert found.starts_us == made["c"].t_us[0]
    assert (events.width, events.height) <= (80, 24)
    assert 0 < events.t_us[0] <= events.t_us[-1] <= 1_959_000


# What must not happen


def test_nothing_is_written_over_itself(recording: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.npy"
    own.write_bytes(recording.read_bytes())
    (tmp_path / "link.npy").symlink_to(own)
    os.link(own, tmp_path / "hard.npy")
    part = tmp_path / "x.npy.part"
    part.write_bytes(recording.read_bytes())
    for source, output in (
        (own, own),
        (own, tmp_path / "link.npy"),
        (own, tmp_path / "hard.npy"),
        (part, tmp_path / "x.npy"),
    ):
        with pytest.raises(UserError, match="written over"):
            carried_out(source, output, "npy")
    assert own.read_bytes() == part.read_bytes() == recording.read_bytes()


def test_frames_never_replace_the_folder_they_come_from(video: Path, tmp_path: Path) -> None:
    carried_out(video, tmp_path / "f", "frames", frames=3)
    with pytest.raises(UserError, match="written over"):
        carried_out(tmp_path / "f", tmp_path / "f", "frames")
    assert len(list((tmp_path / "f").iterdir())) == 4


@pytest.mark.parametrize("to", ["npy", "frames", "mp4"])
def test_a_stop_leaves_nothing(to: str, recording: Path, tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        convert(task(recording, tmp_path / f"out{ConversionRecipe(to).suffix}", to), Step(stop))
    assert os.listdir(tmp_path) == []


def test_damaged_sources_leave_nothing(recording: Path, video: Path, tmp_path: Path) -> None:
    for source in (recording, video):
        cut = tmp_path / f"cut{source.suffix}"
        cut.write_bytes(source.read_bytes()[: source.stat().st_size * 2 // 3])
        for to in TARGETS:
            with pytest.raises(UserError):
                carried_out(cut, tmp_path / f"out{ConversionRecipe(to).suffix}", to)
        cut.unlink()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("to", "given"),
    [
        ("npy", {"gop": 3}),
        ("mp4", {"gop": 0}),
        ("mp4", {"crf": 52}),
        ("mp4", {"size": (0, 4)}),
        ("frames", {"frames": 3, "every": 2}),
        ("frames", {"every": 2, "fps": "3"}),
        ("frames", {"rendering": "oil"}),
        ("mp4", {"window_events": 5}),
        ("h5", {"threshold": 0.0}),
        ("h5", {"layout": "dict"}),
        ("raw", {"seed": -1}),
    ],
)
def test_recipes_that_cannot_be_are_wrong_usage(to: str, given: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        ConversionRecipe.of(to, given)
    assert caught.value.exit_code == 2
