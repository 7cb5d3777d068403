"""Which frames are decoded to read some of them: few frames, each once, and the same pictures."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.loaders.videos.file import VideoFile
from evprof.loaders.videos.frame_table import FrameTable, PacketRow
from evprof.loaders.videos.opening import open_video
from painted_videos import number_of, write_video


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    numbers: list[int] = []
    decode_on = VideoFile._decode_on

    def noting(self: VideoFile) -> object:
        for number, frame in decode_on(self):
            numbers.append(number)
            yield number, frame

    monkeypatch.setattr(VideoFile, "_decode_on", noting)
    return numbers


@pytest.fixture(scope="module")
def hevc(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("hevc")
    return {
        name: write_video(
            folder / f"{place}.mp4",
            90,
            codec="libx265",
            gop=45,
            b_frames=4,
            options={"preset": "fast", "x265-params": f"log-level=none:bframes=4:keyint=45{more}"},
        )
        for place, (name, more) in enumerate({"hevc": "", "hevc layers": ":temporal-layers=2"}.items())
    }


@pytest.mark.parametrize("name", ["gop12", "gop250", "open_gop", "mkv", "vfr", "hevc", "hevc layers"])
def test_leaving_frames_out_changes_no_pixel(videos: dict[str, Path], hevc: dict[str, Path], name: str) -> None:
    videos = videos | hevc
    with VideoFile(videos[name]) as video:
        whole = [video.to_rgb(video.frame(index)) for index in range(len(video.table))]
    for count in (3, 8, 11):
        with VideoFile(videos[name]) as video:
            found = video.read_uniform(count)
        assert all((whole[index] == frame).all() for index, frame in zip(found.indices, found.frames, strict=True))


@pytest.mark.parametrize("name", ["vfr", "open_gop", "raw"])
def test_windows_and_times(videos: dict[str, Path], name: str) -> None:
    with open_video(videos[name]) as video:
        times = [video.table.time_us(index) for index in range(len(video.table))]
        found = video.read_uniform(4, (times[10], times[30]))
        assert found.indices == [10, 16, 23, 29]
        # One µs earlier the frame before is still on show; one µs later the last one has begun.
        assert video.read_uniform(2, (times[10] - 1, times[30] + 1)).indices == [9, 30]
        assert video.read_uniform(3, (times[12] + 5, times[12] + 6)).indices == [12, 12, 12]
        asked = video.read_at([times[20], times[5] + 1, times[20] - 1, 2**62, -(2**62)])
        assert asked.indices == [20, 5, 19, len(times) - 1, 0]
        for frames in (found, asked):
            assert [number_of(frame) for frame in frames.frames] == frames.indices
            assert frames.times_us == [times[index] for index in frames.indices]
        with pytest.raises(UserError, match="shows no frame"):
            video.read_uniform(2, (times[-1] + 1_000_000, times[-1] + 2_000_000))


def test_a_frame_asked_for_twice_is_decoded_once(videos: dict[str, Path], passed: list[int]) -> None:
    with open_video(videos["gop12"]) as video:
        assert video.read_at([0, 10, 0, 1_000_000, 5]).indices == [0, 0, 0, 30, 0]
    assert passed[0] == 0
    assert passed[-1] == 30
    assert len(passed) == len(set(passed)) <= 8


@pytest.mark.parametrize("name", ["gop12", "gop250", "vfr", "mkv"])
def test_a_seek_leads_to_the_key_frame_and_not_the_one_before(
    videos: dict[str, Path], passed: list[int], name: str
) -> None:
    with VideoFile(videos[name]) as video:
        for key in video.table.key_indices.tolist()[::-1]:
            passed.clear()
            video.frame(key)
            assert passed == [key]


def test_a_key_frame_is_sought_where_it_is_decoded_but_never_past_the_next() -> None:
    # Decoding time and presentation time of three key frames; the first one is delayed by 20.
    rows = [PacketRow(0, 1, True, dts=-20), PacketRow(100, 1, True, dts=90), PacketRow(105, 1, True, dts=95)]
    table = FrameTable.from_packets(rows, Fraction(1, 1000), None)
    assert [table.seek_ticks(index) for index in range(3)] == [0, 104, 115]
    steady = FrameTable.from_packets([row._replace(dts=(row.pts or 0) - 20) for row in rows], Fraction(1, 1000), None)
    assert [steady.seek_ticks(index) for index in range(3)] == [0, 100, 105]
