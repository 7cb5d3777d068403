"""Videos: the frame asked for is the frame that comes, in every container and whichever way it is reached."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.loaders.pictures.frame_folder import uniform_indices
from evprof.loaders.videos import source as source_module
from evprof.loaders.videos.file import VideoFile
from evprof.loaders.videos.frame_table import FrameTable, PacketRow
from evprof.loaders.videos.opening import SeekableVideo, open_video
from evprof.loaders.videos.source import VideoFrames, VideoInfo
from example_counts import examples
from painted_videos import number_of

CLIPS = ["gop12", "gop250", "open_gop", "mkv", "vfr", "avi", "ts", "raw", "vp8", "one"]
FRAMES = {"gop12": 100, "gop250": 300, "open_gop": 90, "mkv": 80, "vfr": 60, "avi": 50, "ts": 50, "raw": 40, "vp8": 60}

Videos = dict[str, Path]


def frames_of(path: Path | str, count: int) -> VideoFrames:
    with open_video(path) as video:
        return video.read_uniform(count)


def info_of(path: Path) -> VideoInfo:
    with open_video(path) as video:
        return video.info()


@pytest.mark.parametrize("name", CLIPS)
@pytest.mark.parametrize("count", [1, 8])
def test_uniform_frames_are_the_right_ones(videos: Videos, name: str, count: int) -> None:
    found = frames_of(videos[name], count)
    total = FRAMES.get(name, 1)
    expected = np.linspace(0, total - 1, count).round().astype(int).tolist()
    assert found.indices == expected
    assert [number_of(frame) for frame in found.frames] == expected
    assert found.info.frames == total
    assert all(frame.dtype == np.uint8 and frame.shape == (48, 160, 3) for frame in found.frames)
    assert found.times_us == sorted(found.times_us)


@pytest.mark.parametrize("name", ["gop12", "open_gop", "vfr", "mkv", "raw", "vp8"])
@settings(max_examples=examples(0.5))
@given(data=st.data())
def test_any_order_of_frames(videos: Videos, name: str, data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, FRAMES[name] - 1), min_size=1, max_size=8))
    with VideoFile(videos[name]) as video:
        assert [number_of(video.to_rgb(video.frame(index))) for index in order] == order


def test_what_a_video_holds(videos: Videos) -> None:
    info = info_of(videos["gop12"])
    assert (info.codec, info.frames, info.width, info.height, info.gop_frames) == ("h264", 100, 160, 48, 12)
    assert info.duration_ms == pytest.approx(100 / 30 * 1000, abs=1)
    assert info_of(videos["gop250"]).gop_frames == 250
    assert info_of(videos["mkv"]).frames == 80
    assert info_of(videos["avi"]).codec == "mpeg4"


@pytest.mark.parametrize(("angle", "turns"), [(90, 1), (180, 2), (270, 3)])
def test_a_turned_video_stands_upright(videos: Videos, tmp_path: Path, angle: int, turns: int) -> None:
    whole = videos["one"].read_bytes()
    identity = b"".join(value.to_bytes(4, "big", signed=True) for value in (65536, 0, 0, 0, 65536, 0, 0, 0, 1 << 30))
    cos, sin = {90: (0, 1), 180: (-1, 0), 270: (0, -1)}[angle]
    matrix = (cos, sin, 0, -sin, cos, 0, 0, 0, 1)
    scaled = [value * (1 << 30 if place == 8 else 65536) for place, value in enumerate(matrix)]
    turned = b"".join(value.to_bytes(4, "big", signed=True) for value in scaled)
    track = whole.index(b"tkhd")
    place = whole.index(identity, track)
    (tmp_path / "turned.mp4").write_bytes(whole[:place] + turned + whole[place + 36 :])
    plain = frames_of(videos["one"], 1).frames[0]
    found = frames_of(tmp_path / "turned.mp4", 1)
    # The matrix turns the stored picture clockwise by `angle`.
    assert (found.frames[0] == np.rot90(plain, -turns)).all()
    assert (found.info.height, found.info.width) == found.frames[0].shape[:2]
    assert info_of(tmp_path / "turned.mp4").width == found.frames[0].shape[1]


def test_the_player_finds_the_frame_of_any_moment(videos: Videos) -> None:
    player = SeekableVideo(videos["vfr"])
    starts = [(n * 33 + (n % 7) * 4) * 1000 for n in range(60)]
    for t_us in (0, starts[7], starts[7] - 1, starts[30] + 500, starts[3], -5, 10**9):
        shown = player.frame_at(t_us)
        expected = max((n for n in range(60) if starts[n] <= t_us), default=0)
        assert (shown.index, number_of(shown.picture), shown.time_us) == (expected, expected, starts[expected])
    assert player.duration_us > starts[-1]
    player.close()
    with pytest.raises(UserError, match="closed"):
        player.frame_at(0)
    player.close()


def starts_of(path: Path) -> list[int]:
    with open_video(path) as video:
        assert isinstance(video, VideoFile)
        return [video.table.time_us(index) for index in range(len(video.table))]


def test_the_player_scales_down_and_keeps_what_it_passed(videos: Videos, monkeypatch: pytest.MonkeyPatch) -> None:
    player = SeekableVideo(videos["gop250"], longest_edge=80)
    starts = starts_of(videos["gop250"])
    assert player.frame_at(starts[40]).picture.shape == (24, 80, 3)
    monkeypatch.setattr(VideoFile, "walk", lambda *_: pytest.fail("decoded again"))
    assert [player.frame_at(starts[index]).index for index in range(40, 28, -1)] == list(range(40, 28, -1))
    player.close()


# What is no video


def test_missing_empty_and_foreign_files(tmp_path: Path) -> None:
    from evprof.loaders.pictures.png import encode_png

    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("not a video at all\n" * 50)
    (tmp_path / "list.mp4").write_text("ffconcat version 1.0\nfile '/etc/passwd'\n")
    (tmp_path / "play.m3u8").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://localhost/a.ts\n")
    (tmp_path / "note.txt").write_text("plain words " * 100)
    (tmp_path / "picture.mp4").write_bytes(encode_png(np.zeros((20, 20, 3), np.uint8)))
    for name in ("gone.mp4", "empty.mp4", "text.mp4", "list.mp4", "play.m3u8", "note.txt", "picture.mp4"):
        with pytest.raises(UserError, match=name) as caught:
            frames_of(tmp_path / name, 4)
        assert "\n" not in caught.value.sentence
    (tmp_path / "none").mkdir()
    with pytest.raises(UserError, match="holds no pictures"):
        frames_of(tmp_path / "none", 4)
    with pytest.raises(UserError, match="no such file"):
        frames_of("http://localhost/video.mp4", 4)


def test_a_file_with_sound_alone(tmp_path: Path) -> None:
    import av

    with av.open(str(tmp_path / "sound.wav"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with pytest.raises(UserError, match="no video track"):
        frames_of(tmp_path / "sound.wav", 4)


def test_a_video_without_frames(tmp_path: Path) -> None:
    import av

    with av.open(str(tmp_path / "none.mkv"), "w") as container:
        stream = container.add_stream("mpeg4", rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        container.start_encoding()
    with pytest.raises(UserError, match=r"none\.mkv: .*(no frames|damaged)"):
        frames_of(tmp_path / "none.mkv", 4)


@pytest.mark.parametrize("name", ["gop12", "faststart", "fragments", "mkv", "avi"])
@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.7, 0.85])
def test_a_video_cut_short_says_so(videos: Videos, tmp_path: Path, name: str, part: float) -> None:
    whole = videos[name].read_bytes()
    assert info_of(videos[name]).frames >= 50
    (tmp_path / "cut").write_bytes(whole[: int(len(whole) * part)])
    try:
        frames = frames_of(tmp_path / "cut", 4).info.frames
    except UserError as error:
        sentence = error.sentence
    else:
        # A fragmented file cut between two fragments is a whole, shorter video.
        assert name == "fragments"
        assert frames % 12 == 0
        return
    assert "cut" in sentence.removeprefix(str(tmp_path / "cut"))
    assert any(way_out in sentence for way_out in ("copy it again", "copy or export it", "no video"))


def test_absurd_sizes_are_refused(videos: Videos, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "MAX_PIXELS", 1000)
    with pytest.raises(UserError, match="160 x 48"):
        frames_of(videos["gop12"], 4)


def test_more_memory_than_allowed_is_refused(videos: Videos, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "MAX_READ_BYTES", 160 * 48 * 3 * 5)
    assert len(frames_of(videos["gop12"], 5).frames) == 5
    with pytest.raises(UserError, match="ask for fewer"):
        frames_of(videos["gop12"], 6)
    # Repeats cost nothing.
    assert len(frames_of(videos["one"], 50).frames) == 50


# The table


@given(st.sets(st.integers(-1000, 100_000), min_size=1, max_size=60), st.integers(-10_000, 4_000_000), st.data())
def test_the_frame_on_show_is_the_last_one_begun(pts: set[int], t_us: int, data: st.DataObject) -> None:
    rows = [PacketRow(value, 1, True) for value in data.draw(st.permutations(sorted(pts)))]
    table = FrameTable.from_packets(rows, Fraction(1, 30_000), None)
    index = table.index_at(t_us)
    begun = [number for number in range(len(table)) if table.time_us(number) <= t_us]
    assert index == max(begun, default=0)
    assert all(table.index_at(table.time_us(number)) == number for number in range(len(table)))


def test_key_frames_and_groups() -> None:
    rows = [PacketRow(pts, 1, pts % 4 == 2) for pts in range(11)]
    table = FrameTable.from_packets(rows, Fraction(1, 10), None)
    assert [table.key_before(index) for index in (0, 1, 2, 5, 6, 10)] == [0, 0, 2, 2, 6, 10]
    assert table.gop_frames == 4
    assert table.duration_us == 1_100_000
    assert (
        FrameTable.from_packets([PacketRow(0, 1, False), PacketRow(1, 1, False)], Fraction(1, 10), None).gop_frames == 2
    )


def test_missing_or_double_times_leave_counting() -> None:
    table = FrameTable.from_packets(
        [PacketRow(None, None, True), PacketRow(5, 1, False)], Fraction(1, 10), Fraction(20)
    )
    assert not table.is_timed
    assert table.time_us(1) == 50_000
    assert not FrameTable.from_packets([PacketRow(5, 1, True), PacketRow(5, 1, False)], Fraction(1, 10), None).is_timed


@given(st.integers(1, 500), st.integers(1, 64))
def test_uniform_indices_reach_from_first_to_last(total: int, count: int) -> None:
    indices = uniform_indices(total, count)
    assert len(indices) == count
    assert indices[0] == 0
    assert (np.diff(indices) >= 0).all()
    assert indices[-1] == (total - 1 if count > 1 else 0)
