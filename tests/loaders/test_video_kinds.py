"""Kinds of video files that differ in how frames are timed, ordered and turned, and what damage does to some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from evprof.core.errors import UserError
from evprof.loaders.videos.file import VideoFile
from evprof.loaders.videos.opening import open_video
from painted_videos import number_of, paint, write_video

X264 = {"sc_threshold": "0", "preset": "veryfast"}
UNEVEN_MS = [40 + 10 * (n % 3) for n in range(30)]


def write_animation(path: Path, **options: Any) -> Path:
    pictures = [Image.fromarray(paint(n)) for n in range(30)]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=UNEVEN_MS, **options)
    return path


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("kinds")
    hevc = {"preset": "ultrafast", "x265-params": "log-level=none:bframes=3:keyint=20"}
    vp9 = {"deadline": "realtime", "cpu-used": "8", "auto-alt-ref": "1", "lag-in-frames": "16"}
    return {
        "hevc": write_video(folder / "hevc.mp4", 60, codec="libx265", gop=20, b_frames=3, options=hevc),
        "vp9": write_video(folder / "vp9.webm", 60, codec="libvpx-vp9", gop=20, b_frames=0, options=vp9),
        "mpeg2": write_video(folder / "mpeg2.mpg", 60, codec="mpeg2video"),
        "flv": write_video(folder / "h264.flv", 60, options=X264),
        "late mkv": write_video(folder / "late.mkv", 60, options=X264, ticks=lambda n: 5000 + n * 33),
        "late mp4": write_video(folder / "late.mp4", 60, options=X264, ticks=lambda n: 5000 + n * 33),
        "gif": write_animation(folder / "a.gif", loop=0),
        "apng": write_animation(folder / "a.png"),
    }


@pytest.mark.parametrize("name", ["hevc", "vp9", "mpeg2", "flv", "late mkv", "late mp4", "gif", "apng"])
def test_every_kind_gives_the_frames_asked_for(kinds: dict[str, Path], name: str) -> None:
    with open_video(kinds[name]) as video:
        total = len(video.table)
        assert total == (30 if name in ("gif", "apng") else 60)
        found = video.read_uniform(8)
        assert [number_of(picture) for picture in found.frames] == found.indices
        assert found.indices == np.linspace(0, total - 1, 8).round().astype(int).tolist()
        assert found.times_us[0] == 0
        order = [41 % total, 3, 40 % total, 4, total - 1, 0]
        again = video.read_at([video.table.time_us(index) for index in order])
        assert [number_of(picture) for picture in again.frames] == order


@pytest.mark.parametrize("name", ["gif", "apng"])
def test_animations_are_timed_and_drawn_as_they_are_played(kinds: dict[str, Path], name: str) -> None:
    played = []
    with Image.open(kinds[name]) as image:
        for index in range(30):
            image.seek(index)
            played.append(np.array(image.convert("RGB")))
    with open_video(kinds[name]) as video:
        assert [video.table.time_us(n) for n in range(30)] == [sum(UNEVEN_MS[:n]) * 1000 for n in range(30)]
        assert video.info().gop_frames == 30
        for index in (17, 3, 29, 11):
            found = video.read_at([video.table.time_us(index)]).frames[0]
            assert (found == played[index]).all()


def test_frames_before_an_edit_begins_do_not_count(tmp_path: Path) -> None:
    path = write_video(tmp_path / "edit.mp4", 60, options=X264, ticks=lambda n: n * 33 - 200)
    with open_video(path) as video:
        found = video.read_uniform(8)
    # 200 ms before zero are cut away by the edit list: the frames 0 to 6.
    assert [number_of(picture) for picture in found.frames] == [index + 7 for index in found.indices]
    assert found.info.frames == 53
    assert found.times_us[0] == 0


def test_frames_are_not_lost_where_nothing_tells_their_order(tmp_path: Path) -> None:
    import av

    x264 = X264 | {"x264-params": "b-pyramid=normal:b-adapt=0"}
    whole = write_video(tmp_path / "whole.mkv", 120, gop=60, b_frames=7, options=x264).read_bytes()
    with av.open(str(tmp_path / "whole.mkv")) as container:
        extradata = bytes(container.streams.video[0].codec_context.extradata or b"")

    def decoded(path: Path, options: dict[str, str]) -> int:
        try:
            with av.open(str(path), options=options) as container:
                container.streams.video[0].codec_context.skip_frame = "DEFAULT"
                return sum(1 for _ in container.decode(video=0))
        except av.FFmpegError:
            return 0

    path = tmp_path / "silent.mkv"
    place = whole.index(extradata) + 8
    for bit in range(8 * int.from_bytes(extradata[6:8], "big")):
        # A bit of the sequence parameters after which the decoder does not know how far frames are reordered.
        changed = bytearray(whole)
        changed[place + bit // 8] ^= 128 >> bit % 8
        path.write_bytes(changed)
        if decoded(path, {"skip_frame": "all"}) < 120 == decoded(path, {}):
            break
    else:
        pytest.fail("no such bit")
    with open_video(path) as video:
        found = video.read_uniform(120)
    assert [number_of(picture) for picture in found.frames] == list(range(120))
    with VideoFile(path) as video:
        assert [number_of(video.to_rgb(video.frame(index))) for index in range(120)] == list(range(120))


# Damage


@pytest.mark.parametrize(
    ("name", "options"),
    [("live.webm", {"live": "1"}), ("fragments.mp4", {"movflags": "frag_keyframe+empty_moov"})],
)
def test_of_a_live_recording_that_ends_in_a_box_is_said_so(tmp_path: Path, name: str, options: dict[str, str]) -> None:
    codec = "libvpx" if name.endswith("webm") else "mpeg4"
    path = write_video(tmp_path / name, 48, codec=codec, b_frames=0, container_options=options)
    with VideoFile(path) as video:
        assert (len(video.index()), video.info().problems) == (48, ())
    content = path.read_bytes()
    for share in (0.55, 0.75, 0.95):
        path.write_bytes(content[: int(len(content) * share)])
        with VideoFile(path) as video:
            assert 10 < len(video.index()) < 48
            assert video.info().problems == (
                "The file ends in the middle: it was cut short, and its last frames are missing.",
            )


def test_a_damaged_frame_in_the_middle_is_told_or_drawn(kinds: dict[str, Path], tmp_path: Path) -> None:
    whole = bytearray(kinds["gif"].read_bytes())
    del whole[len(whole) // 2 :]
    (tmp_path / "cut.gif").write_bytes(whole)
    with open_video(tmp_path / "cut.gif") as video:
        with pytest.raises(UserError, match=r"cut\.gif: .*cut short"):
            video.read_uniform(8)
        # What is whole is shown.
        assert video.read_at([0]).indices == [0]
