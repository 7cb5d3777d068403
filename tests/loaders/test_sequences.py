"""Folders with a recording and its video: found by what lies in them, on one clock, cut into clips."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from evprof.core.errors import UserError
from evprof.loaders.clips import read_clip
from evprof.loaders.pictures.png import encode_png
from evprof.loaders.probe import probe
from evprof.loaders.sequences.folder_content import folder_content
from evprof.loaders.sequences.sequence import find_sequence, open_sequence

ZERO_US = 51_648_000_000
"""DSEC's clock: µs since its computer was started."""


def write_events(path: Path, start_us: int, duration_us: int, count: int = 4001) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    t = np.linspace(start_us, start_us + duration_us, count).astype(np.int64)
    columns = {"x": np.arange(count) % 34, "y": np.arange(count) % 26, "t": t, "p": np.arange(count) % 2}
    np.save(path, np.array(columns), allow_pickle=True)
    return path


def write_pictures(folder: Path, count: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(3)
    for number in range(count):
        picture = noise.integers(0, 255, (12, 16, 3)).astype(np.uint8)
        (folder / f"{number:06d}.png").write_bytes(encode_png(picture))
    return folder


def write_times(path: Path, start_us: int, count: int, step_us: int = 50_000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{start_us + number * step_us}\n" for number in range(count)))
    return path


@pytest.fixture
def dsec(tmp_path: Path) -> Path:
    """Unpacked as DSEC's own code expects it: 2 s of events, pictures from 0.1 s before them to 1.9 s."""
    root = tmp_path / "zurich_city_00_a"
    for side in ("left", "right"):
        write_events(root / "events" / side / "events.npy", ZERO_US, 2_000_000)
        write_events(root / "events" / side / "rectify_map.npy", 0, 9, 10)
        write_pictures(root / "images" / side / "rectified", 40)
        write_pictures(root / "images" / side / "distorted", 40)
        (root / "images" / side / "exposure_timestamps.txt").write_text("# a, b\n" + "1, 2\n" * 40)
    write_times(root / "images" / "timestamps.txt", ZERO_US - 100_000, 40)
    write_pictures(root / "disparity" / "event", 3)
    write_times(root / "disparity" / "timestamps.txt", 0, 3)
    return root


def test_dsec_as_unpacked_is_the_left_half_on_the_cameras_clock(dsec: Path) -> None:
    found = find_sequence(dsec)
    assert found.events_path == str(dsec / "events" / "left" / "events.npy")
    assert found.video_path == str(dsec / "images" / "left" / "rectified")
    assert found.video_times_path == str(dsec / "images" / "timestamps.txt")
    assert found.rectify_path == str(dsec / "events" / "left" / "rectify_map.npy")
    assert found.clock.is_exact
    assert found.clock.offset_us == -100_000
    assert found.clock.problems == ()
    sample = found.sample("What is there?")
    assert (sample.name, sample.prompt, sample.video_offset_us) == ("zurich_city_00_a", "What is there?", -100_000)
    assert not sample.is_clip
    assert probe(dsec) == "sequence"


def test_dsec_as_downloaded(tmp_path: Path) -> None:
    root, name = tmp_path / "zurich_city_00_a", "zurich_city_00_a"
    write_events(root / f"{name}_events_left" / "events.npy", ZERO_US, 2_000_000)
    write_events(root / f"{name}_events_right" / "events.npy", ZERO_US, 2_000_000)
    write_pictures(root / f"{name}_images_rectified_left", 20)
    write_pictures(root / f"{name}_disparity_event", 3)
    write_times(root / f"{name}_image_timestamps.txt", ZERO_US + 500_000, 20)
    (root / f"{name}_image_exposure_timestamps_left.txt").write_text("1, 2\n" * 20)
    found = open_sequence(root)
    assert found.events_path.endswith("events_left/events.npy")
    assert found.video_path == str(root / f"{name}_images_rectified_left")
    assert found.video_times_path == str(root / f"{name}_image_timestamps.txt")
    assert found.clock.offset_us == 500_000


def test_a_recording_beside_a_video(tmp_path: Path, videos: dict[str, Path]) -> None:
    write_events(tmp_path / "pair" / "scene.npy", 0, 2_000_000)
    os.link(videos["gop12"], tmp_path / "pair" / "film.mp4")
    found = open_sequence(tmp_path / "pair")
    assert found.video_path == str(tmp_path / "pair" / "film.mp4")
    assert (found.clock.offset_us, found.clock.is_exact) == (0, False)
    assert "both are taken to begin together" in found.clock.problems[0]
    # Of several pairs none is meant, unless names say which belong together.
    write_events(tmp_path / "pair" / "other.npy", 0, 2_000_000)
    assert find_sequence(tmp_path / "pair") is None
    with pytest.raises(UserError, match=r"holds 2 event recordings \(other\.npy, scene\.npy\); give the folder"):
        probe(tmp_path / "pair")
    os.link(videos["gop12"], tmp_path / "pair" / "scene.mp4")
    paired = open_sequence(tmp_path / "pair")
    assert (Path(paired.events_path).name, Path(str(paired.video_path)).name) == ("scene.npy", "scene.mp4")


def test_times_of_different_clocks_are_told_and_not_trusted(dsec: Path) -> None:
    write_times(dsec / "images" / "timestamps.txt", 5, 40)
    found = open_sequence(dsec)
    assert (found.clock.offset_us, found.clock.is_exact) == (0, False)
    assert "carry times that do not overlap" in found.clock.problems[0]


def test_clips_cover_what_both_halves_have_in_common(dsec: Path) -> None:
    found = open_sequence(dsec)
    # Pictures last from -0.1 s to 1.9 s.
    assert found.clock.common_us == (0, 1_900_000)
    clips = found.clips(50_000)
    assert len(clips) == 38
    assert [clip.name for clip in clips[:2]] == ["zurich_city_00_a 0.00 s", "zurich_city_00_a 0.05 s"]
    assert (clips[-1].start_us, clips[-1].duration_us) == (1_850_000, 50_000)
    assert len({clip.name for clip in clips}) == 38
    stepped = found.clips(500_000, 700_000)
    assert [clip.start_us for clip in stepped] == [0, 700_000, 1_400_000]
    assert [clip.start_us for clip in found.clips(1_900_000)] == [0]
    with pytest.raises(UserError, match=r"have 1\.90 s in common, shorter than a clip of 2\.00 s"):
        found.clips(2_000_000)
    with pytest.raises(UserError, match="more than the 100,000 allowed"):
        found.clips(10, 10)
    with pytest.raises(UserError, match="longer than 0 ms"):
        found.clips(0)


def test_a_recording_alone_is_a_sequence_without_a_video(tmp_path: Path) -> None:
    write_events(tmp_path / "alone" / "car_urban.npy", 10, 100_000)
    found = open_sequence(tmp_path / "alone")
    assert found.video_path is None
    assert found.clock.common_us == (0, 100_001)
    assert len(found.clips(50_000)) == 2


def test_a_look_into_a_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "b" / "self").symlink_to(tmp_path / "a" / "b" / "self")
    write_events(tmp_path / "a" / "e.npy", 0, 10, 10)
    content = folder_content(tmp_path)
    assert [path.name for path in content.events] == ["e.npy"]
    write_events(tmp_path / "1" / "2" / "3" / "4" / "5" / "deep.npy", 0, 10, 10)
    assert len(folder_content(tmp_path).events) == 1
    monkeypatch.setattr("evprof.loaders.sequences.folder_content.MOST_FOLDERS", 1)
    assert folder_content(tmp_path).events == []


def test_folders_that_hold_none(tmp_path: Path) -> None:
    assert find_sequence(tmp_path) is None
    with pytest.raises(UserError, match="holds no event recording"):
        open_sequence(tmp_path)
    with pytest.raises(UserError, match="is no folder"):
        open_sequence(tmp_path / "gone")
    write_pictures(tmp_path / "photos", 2)
    assert find_sequence(tmp_path / "photos") is None
    assert probe(tmp_path / "photos") == "video"
    drawn = np.full((12, 16, 3), 255, np.uint8)
    drawn[:5] = np.random.default_rng(0).integers(0, 255, (5, 16, 3))
    (tmp_path / "photos" / "000000.png").write_bytes(encode_png(drawn))
    assert probe(tmp_path / "photos") == "events"


def test_dsec_in_hdf5_rectified(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    root = tmp_path / "interlaken_00_c"
    (root / "events" / "left").mkdir(parents=True)
    t = np.arange(0, 1_000_000, 500)
    with h5py.File(root / "events" / "left" / "events.h5", "w") as file:
        for name, values in (("x", t % 30), ("y", t % 20), ("t", t), ("p", t % 2)):
            file[f"events/{name}"] = values.astype(np.uint32 if name == "t" else np.uint16)
        file["ms_to_idx"] = np.searchsorted(t, np.arange(1000) * 1000).astype(np.uint64)
        file["t_offset"] = ZERO_US
    shift = np.stack(np.meshgrid(np.arange(32), np.arange(24)), axis=-1).astype(np.float32) + 1
    with h5py.File(root / "events" / "left" / "rectify_map.h5", "w") as file:
        file["rectify_map"] = shift
    write_pictures(root / "images" / "left" / "rectified", 20)
    write_times(root / "images" / "timestamps.txt", ZERO_US + 1000, 20)
    found = open_sequence(root)
    assert found.clock.is_exact
    assert found.clock.offset_us == 1000
    clip = found.clips(50_000)[1]
    events = read_clip(clip)
    assert events.t_us.min() == ZERO_US + 51_000
    plain = t[(t >= 51_000) & (t < 101_000)]
    assert (events.x == plain % 30 + 1).all()
    # With pictures as they were taken the events stay as they were, too.
    (root / "images" / "left" / "rectified").rename(root / "images" / "left" / "distorted")
    assert open_sequence(root).rectify_path is None


def test_event_frames_beside_their_recording_are_no_video(tmp_path: Path) -> None:
    write_events(tmp_path / "clip" / "e.npy", 0, 100_000)
    write_pictures(tmp_path / "clip", 2)
    assert open_sequence(tmp_path / "clip").video_path == str(tmp_path / "clip")
    drawn = np.full((12, 16, 3), 255, np.uint8)
    (tmp_path / "clip" / "000000.png").write_bytes(encode_png(drawn))
    assert open_sequence(tmp_path / "clip").video_path is None
