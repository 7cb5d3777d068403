"""What is decoded to get some frames, and by how many: the fewest frames, within bounds, and the same pictures."""

from __future__ import annotations

import itertools
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.loaders.even_spread import uniform_indices
from evprof.loaders.videos import decoding_plan
from evprof.loaders.videos.decoding_plan import (
    DECODERS_BYTES,
    MAX_DECODERS,
    WORTH_PIXELS,
    DecodingRun,
    decoders_for,
    plan_runs,
    threads_for,
    usable_threads,
)
from evprof.loaders.videos.file import VideoFile
from evprof.loaders.videos.frame_finder import FrameFinder
from evprof.loaders.videos.frame_table import FrameTable, PacketRow
from evprof.loaders.videos.opening import open_video
from evprof.loaders.videos.spare_frames import spare_frames_of
from evprof.loaders.videos.track import VideoTrack
from painted_videos import number_of, write_video

HD = 1280 * 720


def table_of(total: int, keys: set[int], order: list[int] | None = None) -> FrameTable:
    rows = [PacketRow(pts, 1, pts in keys) for pts in order or range(total)]
    return FrameTable.from_packets(rows, Fraction(1, 30), None)


# The plan


@given(st.integers(1, 300), st.data())
def test_every_target_is_in_one_run_that_begins_at_a_key_frame(total: int, data: st.DataObject) -> None:
    keys = data.draw(st.sets(st.integers(0, total - 1))) | {0}
    targets = sorted(data.draw(st.sets(st.integers(0, total - 1), min_size=1, max_size=20)))
    runs = plan_runs(table_of(total, keys), targets)
    assert [target for run in runs for target in run.targets] == targets
    assert all(run.start in keys and run.start <= run.targets[0] for run in runs)
    # No frame is decoded twice: it is never more than decoding everything up to the last target.
    assert all(before.targets[-1] < after.start for before, after in itertools.pairwise(runs))
    assert sum(run.frames for run in runs) <= targets[-1] + 1
    # And no more than a seek for each, but for the few that a seek would lose.
    alone = sum(target - max(key for key in keys if key <= target) + 1 for target in targets)
    assert sum(run.frames for run in runs) <= alone + len(targets)


def test_runs_of_short_and_long_groups() -> None:
    short = table_of(300, set(range(0, 300, 12)))
    assert plan_runs(short, [0, 43, 85]) == [DecodingRun(0, (0,)), DecodingRun(36, (43,)), DecodingRun(84, (85,))]
    long = table_of(300, {0, 250})
    assert plan_runs(long, [0, 100, 214, 299]) == [DecodingRun(0, (0, 100, 214)), DecodingRun(250, (299,))]
    # The next key frame is as near as what is in the decoder already.
    assert plan_runs(short, [11, 12]) == [DecodingRun(0, (11, 12))]


def test_a_file_without_times_is_read_from_its_start() -> None:
    table = FrameTable.from_packets([PacketRow(None, None, True)] * 40, Fraction(1, 30), None)
    assert plan_runs(table, [5, 30]) == [DecodingRun(0, (5, 30))]


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=30),
    st.integers(1, 1 << 26),
    st.integers(1, 64),
)
def test_decoders_and_threads_stay_within_their_bounds(lengths: list[int], pixels: int, threads: int) -> None:
    runs = [DecodingRun(1000 * place, (1000 * place + length - 1,)) for place, length in enumerate(lengths)]
    decoders = decoders_for(runs, pixels, threads)
    assert 1 <= decoders <= min(threads, len(runs), MAX_DECODERS)
    assert decoders == 1 or decoders * pixels * 30 <= DECODERS_BYTES
    assert decoders == 1 or sum(lengths) * pixels >= decoders * WORTH_PIXELS
    each = threads_for(runs, decoders, threads)
    assert each >= 1
    assert each * decoders <= threads


def test_how_many_decoders_pay() -> None:
    eight = [DecodingRun(40 * n, (40 * n + 9,)) for n in range(8)]
    assert decoders_for(eight, HD, 4) == 4
    assert decoders_for(eight, HD, 1) == 1
    # One run that takes as long as all the others: frame threads do it.
    assert decoders_for([DecodingRun(0, (249,)), DecodingRun(250, (299,))], HD, 4) == 1
    assert threads_for([DecodingRun(0, (249,)), DecodingRun(250, (299,))], 1, 4) == 4
    # Nothing is won with a few small pictures, and 8K would fill the memory.
    assert decoders_for(eight, 160 * 48, 4) == 1
    assert decoders_for(eight, 7680 * 4320, 4) == 1
    assert threads_for([DecodingRun(0, (0,))], 1, 16) == 1
    assert usable_threads() >= 1


# Held back frames and frames nothing depends on


def test_frames_a_decoder_holds_back() -> None:
    assert table_of(4, {0}).reorder_frames == 0
    assert table_of(4, {0}, [0, 2, 1, 3]).reorder_frames == 1
    # A pyramid: 4 and 2 come before 1.
    assert table_of(5, {0}, [0, 4, 2, 1, 3]).reorder_frames == 2


AVCC, HVCC = b"\x01\x64\x00\x0a\xff\xe1\x00", bytes([1]) + bytes(20) + b"\x0f\x00"


@pytest.mark.parametrize(("codec", "record"), [("h264", AVCC), ("hevc", HVCC)])
@given(packets=st.lists(st.binary(max_size=80), max_size=5))
def test_any_packet_can_be_looked_at(codec: str, record: bytes, packets: list[bytes]) -> None:
    spare = spare_frames_of(codec, record)
    assert spare is not None
    for packet in packets:
        spare.look(memoryview(packet))
    assert len(spare.found()) == len(packets)


def spare_of(codec: str, record: bytes, packets: list[list[bytes]]) -> list[bool]:
    """Of packets made of these unit headers."""
    spare = spare_frames_of(codec, record)
    assert spare is not None
    for headers in packets:
        spare.look(memoryview(b"".join((4 + len(header)).to_bytes(4, "big") + header + b"body" for header in headers)))
    return spare.found()


def test_h264_slices_that_are_references() -> None:
    reference, spare, extra, key = b"\x61", b"\x01", b"\x06", b"\x65"
    packets = [[key], [spare], [extra, spare, spare], [reference], [spare, reference], [extra], []]
    assert spare_of("h264", AVCC, packets) == [False, True, True, False, False, False, False]
    assert spare_frames_of("h264", b"\x00\x00\x00\x01\x67\x64\x00") is None
    assert spare_frames_of("h264", None) is None
    assert spare_frames_of("vp9", AVCC) is None


def test_hevc_pictures_that_are_references() -> None:
    def unit(kind: int, layer: int) -> bytes:
        return bytes([kind << 1, layer + 1])

    trail_n, trail_r, key, prefix = 0, 1, 19, 39
    one_layer = [[unit(key, 0)], [unit(prefix, 0), unit(trail_n, 0)], [unit(trail_r, 0)], [unit(8, 0), unit(9, 0)]]
    assert spare_of("hevc", HVCC, one_layer) == [False, True, False, False]
    # A higher layer may refer to what its own layer does not.
    assert spare_of("hevc", HVCC, [[unit(key, 0)], [unit(trail_n, 0)], [unit(trail_n, 1)]]) == [False, False, True]
    assert spare_of("hevc", HVCC, [[unit(key, 0)], [unit(22, 0)], [unit(16, 0)]]) == [False, False, False]


@pytest.fixture(scope="module")
def hevc(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """With one temporal layer, and with two."""
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
        total = len(video.table)
        assert len(video.table.spare_pts) > total // 10
        whole = [video.to_rgb(video.frame(index)) for index in range(total)]
    for count in (3, 8, 11):
        with VideoFile(videos[name]) as video:
            found = video.read_uniform(count)
        assert all((whole[index] == frame).all() for index, frame in zip(found.indices, found.frames, strict=True))


# Several decoders


@pytest.fixture
def four_decoders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As many decoders as runs, up to four; the names of the threads that decoded."""
    monkeypatch.setattr(decoding_plan, "WORTH_PIXELS", 1)
    monkeypatch.setattr("evprof.loaders.videos.file.usable_threads", lambda: 4)
    names: list[str] = []
    find = FrameFinder.find

    def noting(self: FrameFinder, index: int) -> object:
        names.append(threading.current_thread().name)
        return find(self, index)

    monkeypatch.setattr(FrameFinder, "find", noting)
    return names


@pytest.mark.parametrize("name", ["gop12", "open_gop", "mkv", "vfr", "ts", "vp8", "avi"])
def test_several_decoders_bring_the_frames_of_one(videos: dict[str, Path], four_decoders: list[str], name: str) -> None:
    for _ in range(3):
        with VideoFile(videos[name]) as video:
            found = video.read_uniform(8)
            again = video.read_at([found.times_us[5], found.times_us[2]])
        assert [number_of(frame) for frame in found.frames] == found.indices
        assert again.indices == [found.indices[5], found.indices[2]]
        assert [number_of(frame) for frame in again.frames] == again.indices
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("evprof-decoder")]


def test_they_share_the_work(videos: dict[str, Path], four_decoders: list[str]) -> None:
    with VideoFile(videos["gop12"]) as video:
        runs = plan_runs(video.table, uniform_indices(100, 8).tolist())
    decoders = decoders_for(runs, 160 * 48, 4)
    assert decoders >= 3
    # Nobody goes on before all have begun.
    barrier = threading.Barrier(decoders, timeout=300)
    first: dict[int, VideoTrack] = {}
    seek = VideoTrack.seek

    def together(self: VideoTrack, ticks: int) -> None:
        if id(self) not in first:
            first[id(self)] = self
            barrier.wait()
        seek(self, ticks)

    with pytest.MonkeyPatch.context() as patch, VideoFile(videos["gop12"]) as video:
        video.index()
        patch.setattr(VideoTrack, "seek", together)
        before = video.bytes_read
        video.read_uniform(8)
        assert video.bytes_read > before
    assert {name for name in four_decoders if name.startswith("evprof")} == {
        f"evprof-decoder-{n}" for n in range(1, decoders)
    }


def test_the_error_of_any_decoder_reaches_who_asked(
    videos: dict[str, Path], four_decoders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    to_rgb = VideoFile._upright_rgb

    def failing(self: VideoFile, *arguments: object) -> object:
        if threading.current_thread() is not threading.main_thread():
            raise UserError("a decoder of its own could not.")
        release.wait(300)
        return to_rgb(self, *arguments)  # type: ignore[arg-type]  # whatever it was given

    release = threading.Event()
    monkeypatch.setattr(VideoFile, "_upright_rgb", failing)
    with VideoFile(videos["gop12"]) as video:
        threading.Timer(0.2, release.set).start()
        with pytest.raises(UserError, match="could not"):
            video.read_uniform(8)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("evprof-decoder")]


def test_a_file_that_cannot_be_opened_again_is_read_by_one(
    videos: dict[str, Path], four_decoders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: VideoTrack, threads: int) -> VideoTrack:
        raise UserError("too many open files.")

    monkeypatch.setattr(VideoTrack, "another", refuse)
    with VideoFile(videos["gop12"]) as video:
        found = video.read_uniform(8)
    assert [number_of(frame) for frame in found.frames] == found.indices
    assert set(four_decoders) == {"MainThread"}


# Windows and asked times of files


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


def test_a_frame_asked_for_twice_is_decoded_once(videos: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    find = FrameFinder.find

    def noting(self: FrameFinder, index: int) -> object:
        asked.append(index)
        return find(self, index)

    monkeypatch.setattr(FrameFinder, "find", noting)
    with open_video(videos["gop12"]) as video:
        assert video.read_at([0, 10, 0, 1_000_000, 5]).indices == [0, 0, 0, 30, 0]
    assert asked == [0, 30]


@pytest.mark.parametrize("name", ["gop12", "gop250", "vfr", "mkv"])
def test_a_seek_leads_to_the_key_frame_and_not_the_one_before(
    videos: dict[str, Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    passed: list[int] = []
    decode_on = FrameFinder._decode_on

    def noting(self: FrameFinder) -> object:
        for number, frame in decode_on(self):
            passed.append(number)
            yield number, frame

    monkeypatch.setattr(FrameFinder, "_decode_on", noting)
    with VideoFile(videos[name]) as video:
        keys = video.table.key_indices.tolist()
        for key in keys[::-1]:
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
