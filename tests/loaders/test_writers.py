"""What the writers leave, read by somebody else's code wherever there is one."""

from __future__ import annotations

import csv
import io
import os
import pickletools
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.core.sample import Sample
from evprof.loaders.events.opening import read_events
from evprof.loaders.manifests.manifest import read_manifest
from evprof.loaders.videos.file import VideoFile
from evprof.loaders.videos.opening import open_video
from evprof.loaders.writers import mp4
from evprof.loaders.writers.frames import TIMES, write_frames, write_manifest
from evprof.loaders.writers.mp4 import MPEG4, X264, Encoding, write_mp4
from evprof.loaders.writers.npy import RECORD, write_npy, write_npz
from made_events import same
from painted_videos import number_of

WRITERS: dict[str, Callable[..., int]] = {
    "dict.npy": write_npy,
    "structured.npy": lambda path, chunks: write_npy(path, chunks, layout="structured"),
    "plain.npz": write_npz,
    "small.npz": lambda path, chunks: write_npz(path, chunks, compressed=True),
}


def some_events(count: int, seed: int = 0) -> EventArray:
    random = np.random.default_rng(seed)
    times = np.cumsum(random.integers(0, 50, count)) + 2**33
    return EventArray.from_columns(
        random.integers(0, 640, count), random.integers(0, 480, count), times, random.integers(0, 2, count)
    )


def chunks_of(events: EventArray, size: int) -> Iterator[EventArray]:
    for start in range(0, len(events), size):
        yield events.slice_count(start, start + size)


@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 16_383), st.integers(0, 16_383), st.integers(-(10**17) + 1, 10**17 - 1), st.integers(0, 1)
        ),
        min_size=1,
        max_size=60,
    ),
    size=st.integers(1, 61),
)
def test_any_events_survive(rows: list[tuple[int, int, int, int]], size: int, tmp_path: Path) -> None:
    x, y, t, p = (np.array(column) for column in zip(*rows, strict=True))
    events = EventArray.from_columns(x, y, t, p)
    for name, write in WRITERS.items():
        assert write(tmp_path / name, chunks_of(events, size)) == len(rows)
        assert same(read_events(tmp_path / name), events)


def test_eventgpts_own_loader_reads_the_dict(tmp_path: Path) -> None:
    events = some_events(5_000)
    write_npy(tmp_path / "a.npy", chunks_of(events, 1000))
    found = np.array(np.load(tmp_path / "a.npy", allow_pickle=True)).item()
    assert list(found) == ["x", "y", "t", "p"]
    assert {name: str(column.dtype) for name, column in found.items()} == {
        **dict.fromkeys("xy", "uint16"),
        "t": "int64",
        "p": "uint8",
    }
    assert same(EventArray(found["x"], found["y"], found["t"], found["p"]), events)
    found["t"] += 1  # as programs that shift times in place do


def test_the_pickle_names_what_every_numpy_has(tmp_path: Path) -> None:
    """numpy 1.26, which EventGPT is pinned to, writes `numpy.core`; numpy 2 reads both, older ones only that."""
    write_npy(tmp_path / "a.npy", iter([some_events(3)]))
    content = (tmp_path / "a.npy").read_bytes()
    stream = io.BytesIO(content[10 + int.from_bytes(content[8:10], "little") :])
    names = {argument for opcode, argument, _ in pickletools.genops(stream) if opcode.name == "GLOBAL"}
    assert names == {"numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"}
    assert stream.read() == b""


def test_events_that_are_mapped_from_a_file_are_written_as_plain_arrays(tmp_path: Path) -> None:
    """A pickle of numpy.memmap is refused by every careful reader, ours included."""
    events = some_events(2_000)
    mapped: list[Any] = []
    columns: tuple[Any, ...] = (events.x, events.y, events.t_us, events.p)
    for number, column in enumerate(columns):
        np.save(tmp_path / f"{number}.npy", column)
        mapped.append(np.load(tmp_path / f"{number}.npy", mmap_mode="r"))
    write_npy(tmp_path / "dict.npy", iter([EventArray(mapped[0], mapped[1], mapped[2], mapped[3])]))
    assert same(read_events(tmp_path / "dict.npy"), events)


def test_structured_and_npz_need_no_pickle(tmp_path: Path) -> None:
    events = some_events(2_000)
    write_npy(tmp_path / "s.npy", iter([events]), layout="structured")
    array = np.load(tmp_path / "s.npy", allow_pickle=False)
    assert array.dtype == RECORD
    assert np.array_equal(array["t"], events.t_us)
    for is_small in (False, True):
        write_npz(tmp_path / "a.npz", chunks_of(events, 300), compressed=is_small)
        with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
            assert sorted(archive) == ["p", "t", "x", "y"]
            assert same(EventArray(archive["x"], archive["y"], archive["t"], archive["p"]), events)


@pytest.mark.parametrize("name", WRITERS)
def test_a_source_that_fails_leaves_what_was_there(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"before")

    def failing() -> Iterator[EventArray]:
        yield some_events(10)
        raise UserError("the source is cut short")

    with pytest.raises(UserError, match="cut short"):
        WRITERS[name](tmp_path / name, failing())
    assert (tmp_path / name).read_bytes() == b"before"
    assert os.listdir(tmp_path) == [name]


# Pictures


def test_frames_are_numbered_and_timed(tmp_path: Path) -> None:
    from PIL import Image

    pictures = [(1000 * number, np.full((4, 6, 3), number, np.uint8)) for number in range(101)]
    assert write_frames(tmp_path / "f", iter(pictures)) == 101
    assert sorted(os.listdir(tmp_path / "f")) == [*(f"frame_{number:03d}.png" for number in range(101)), TIMES]
    with Image.open(tmp_path / "f" / "frame_042.png") as image:
        assert np.array_equal(np.array(image), pictures[42][1])
    with open_video(tmp_path / "f", tmp_path / "f" / TIMES) as video:
        assert video.read_uniform(101).times_us == [time_us for time_us, _ in pictures]


def test_a_folder_is_replaced_only_as_a_whole(tmp_path: Path) -> None:
    picture = np.zeros((2, 2, 3), np.uint8)
    write_frames(tmp_path / "f", [(0, picture), (1, picture), (2, picture)])

    def failing() -> Iterator[tuple[int, np.ndarray]]:
        yield 0, picture
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_frames(tmp_path / "f", failing())
    assert len(os.listdir(tmp_path / "f")) == 4
    assert os.listdir(tmp_path) == ["f"]
    write_frames(tmp_path / "f", [(0, picture)])
    assert sorted(os.listdir(tmp_path / "f")) == ["frame_00.png", TIMES]
    with pytest.raises(UserError, match="no pictures"):
        write_frames(tmp_path / "g", [])
    assert os.listdir(tmp_path) == ["f"]


# Videos


def decoded(video: VideoFile) -> Iterator[tuple[int, object]]:
    for index in range(len(video.table)):
        for _, frame in video.walk(index):  # noqa: B007 - the last one
            pass
        yield int(video.table.pts[index] - video.table.pts[0]), frame


@pytest.fixture(params=[X264, MPEG4])
def encoder_in_use(request, monkeypatch) -> str:
    monkeypatch.setattr(mp4, "encoder_name", lambda: request.param)
    return request.param


@pytest.mark.parametrize(("gop", "b_frames"), [(1, 0), (4, 0), (7, 3), (12, 2)])
def test_key_frames_stand_where_they_are_asked_for(gop: int, b_frames: int, videos, tmp_path, encoder_in_use) -> None:
    import av

    with VideoFile(videos["vfr"]) as source:
        source.index()
        wanted = [source.table.time_us(index) for index in range(len(source.table))]
        count = write_mp4(tmp_path / "a.mp4", decoded(source), source.table.time_base, Encoding(gop, b_frames))
    assert count == 60
    with av.open(str(tmp_path / "a.mp4")) as container:
        frames = list(container.decode(video=0))
        assert [index for index, frame in enumerate(frames) if frame.key_frame] == list(range(0, 60, gop))
        types = {frame.pict_type for frame in frames}
        assert (av.video.frame.PictureType.B in types) == bool(b_frames and gop > 1)
    with VideoFile(tmp_path / "a.mp4") as video:
        found = video.read_uniform(60)
        assert [number_of(picture) for picture in found.frames] == list(range(60))
        assert found.times_us == wanted
    if encoder_in_use == X264:
        assert slices_of(tmp_path / "a.mp4") == {1}


def test_lossless_video_needs_x264(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(mp4, "encoder_name", lambda: MPEG4)
    with pytest.raises(UserError, match="needs the encoder x264"):
        write_mp4(tmp_path / "a.mp4", [(0, np.zeros((16, 16, 3), np.uint8))], Fraction(1, 25), Encoding(crf=0))
    assert os.listdir(tmp_path) == []


def slices_of(path: Path) -> set[int]:
    """How many slices the pictures of an MP4 have: NAL units 1 and 5 of each packet."""
    import av

    found = set()
    with av.open(str(path)) as container:
        for packet in container.demux(video=0):
            content, place, slices = bytes(packet), 0, 0
            while place + 4 < len(content):
                length = int.from_bytes(content[place : place + 4], "big")
                slices += content[place + 4] & 31 in (1, 5)
                place += 4 + length
            if slices:
                found.add(slices)
    return found


def test_times_of_every_clock_survive(tmp_path: Path, encoder_in_use) -> None:
    picture = np.zeros((16, 16, 3), np.uint8)
    for base in (Fraction(1, 30), Fraction(1001, 30000), Fraction(1, 90000), Fraction(1, 1_000_000)):
        ticks = [0, 3, 4, 9, 100]
        write_mp4(tmp_path / "a.mp4", [(tick, picture) for tick in ticks], base, Encoding())
        with VideoFile(tmp_path / "a.mp4") as video:
            video.index()
            assert [video.table.time_us(index) for index in range(5)] == [
                round(tick * base * 1_000_000) for tick in ticks
            ]
            # The last one lasts as long as the one before.
            assert abs(video.table.duration_us - round(191 * base * 1_000_000)) <= 1


def test_decoded_pictures_are_not_converted_on_the_way(videos, tmp_path: Path) -> None:
    """Lossless from YUV to YUV: through RGB and back it would not be."""
    with VideoFile(videos["gop12"]) as source:
        source.index()
        write_mp4(tmp_path / "a.mp4", decoded(source), source.table.time_base, Encoding(crf=0, b_frames=0))
        before = source.read_uniform(20).frames
    with VideoFile(tmp_path / "a.mp4") as video:
        video.index()
        assert all(np.array_equal(one, other) for one, other in zip(video.read_uniform(20).frames, before, strict=True))


def test_odd_sizes_are_extended_and_sizes_must_agree(tmp_path: Path) -> None:
    odd = np.full((15, 21, 3), 200, np.uint8)
    write_mp4(tmp_path / "a.mp4", [(0, odd), (1, odd)], Fraction(1, 25), Encoding())
    with VideoFile(tmp_path / "a.mp4") as video:
        video.index()
        assert (video.info().width, video.info().height) == (22, 16)
        assert np.abs(video.read_uniform(1).frames[0].astype(int) - 200).max() < 6
    with pytest.raises(UserError, match="give --size"):
        write_mp4(tmp_path / "b.mp4", [(0, odd), (1, odd[:8])], Fraction(1, 25), Encoding())
    assert os.listdir(tmp_path) == ["a.mp4"]
    write_mp4(tmp_path / "b.mp4", [(0, odd), (1, odd[:8])], Fraction(1, 25), Encoding(size=(40, 31)))
    with VideoFile(tmp_path / "b.mp4") as video:
        video.index()
        assert (video.info().width, video.info().height) == (40, 32)


# Lists


@given(
    prompt=st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30),
    reference=st.none() | st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30),
    start=st.none() | st.integers(0, 2**40),
    duration=st.none() | st.integers(1, 2**40),
    offset=st.integers(-(2**40), 2**40),
)
@example(prompt="=cmd|calc", reference="'tis", start=None, duration=None, offset=0)
def test_a_list_reads_back_as_the_same_samples(*, prompt, reference, start, duration, offset, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(exist_ok=True)
    for name in ("a/e.npy", "v.mp4", "times.txt", "map.h5"):
        (tmp_path / name).write_bytes(b"-")
    sample = Sample(
        events_path=str(tmp_path / "a" / "e.npy"),
        video_path=str(tmp_path / "v.mp4"),
        prompt=prompt.strip() or "What?",
        name="one",
        reference=(reference or "").strip() or None,
        start_us=start,
        duration_us=duration,
        video_offset_us=offset,
        rectify_path=str(tmp_path / "map.h5"),
    )
    write_manifest(tmp_path / "manifest.csv", [sample])
    with (tmp_path / "manifest.csv").open(encoding="utf-8", newline="") as stream:
        assert not any(cell.startswith(("=", "@", "+")) for row in csv.reader(stream) for cell in row)
    found = read_manifest(tmp_path / "manifest.csv")
    assert list(found.samples) == [sample]
    assert str(tmp_path) not in (tmp_path / "manifest.csv").read_text(encoding="utf-8")
