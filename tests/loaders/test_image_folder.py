"""Folders of pictures as videos: their order, their times, and pictures that are not what they should be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evprof.core.errors import UserError
from evprof.loaders.pictures.png import encode_png
from evprof.loaders.videos import source as source_module
from evprof.loaders.videos.folder import ImageFolder, read_times_us
from evprof.loaders.videos.opening import open_video
from painted_videos import number_of, paint


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve painted pictures, whose names sort differently as text, and things that are none."""
    found = tmp_path / "drive"
    found.mkdir()
    for number in range(12):
        (found / f"frame{number}.png").write_bytes(encode_png(paint(number)))
    (found / "._frame3.png").write_bytes(b"what a file system leaves behind")
    (found / "notes.txt").write_text("no picture")
    return found


def write_times(path: Path, times: Sequence[object], header: str = "") -> Path:
    path.write_text(header + "".join(f"{time}\n" for time in times))
    return path


def test_uniform_pictures_in_natural_order(folder: Path) -> None:
    with open_video(folder) as video:
        found = video.read_uniform(4)
        info = video.info()
    assert found.indices == [number_of(picture) for picture in found.frames] == [0, 4, 7, 11]
    assert found.times_us == [0, 160_000, 280_000, 440_000]
    assert (info.codec, info.frames, info.width, info.height, info.gop_frames) == ("png", 12, 160, 48, 1)
    assert info.duration_ms == 480
    assert found.decoder == "pillow"
    assert info.first_time_us is None
    assert len(info.problems) == 1
    assert "25 per second" in info.problems[0]


def test_times_from_a_file(folder: Path) -> None:
    times = [51_648_500_652 + 50_000 * n + n * n for n in range(12)]
    times_path = write_times(folder.parent / "timestamps.txt", times, "# image timestamps in microseconds\n")
    with open_video(folder, times_path) as video:
        assert video.info().first_time_us == times[0]
        assert video.info().problems == ()
        assert [video.table.time_us(n) for n in range(12)] == [time - times[0] for time in times]
        found = video.read_at([200_000, 0, 50_001, 50_000, 10**12, -7])
        assert [number_of(picture) for picture in found.frames] == [3, 0, 1, 0, 11, 0] == found.indices
        within = video.read_uniform(3, (100_000, 200_016))
        # Frame 1 is still on show when the window starts, frame 4 starts as it ends.
        assert within.indices == [1, 2, 3]


@pytest.mark.parametrize("name", ["times.txt", "timestamps.txt"])
def test_times_among_the_pictures_are_found(folder: Path, name: str) -> None:
    times = [7_000_000 + 10_000 * n for n in range(12)]
    write_times(folder / name, times)
    with open_video(folder) as video:
        assert video.info().first_time_us == times[0]
        assert video.info().problems == ()
        assert video.table.time_us(3) == 30_000
    named = write_times(folder.parent / "named.txt", range(12))
    with open_video(folder, named) as video:
        assert video.info().first_time_us == 0


@pytest.mark.parametrize(("text", "words"), [("5\n7\n", "holds 2 times for the 12"), ("soon\nlater\n", "times.txt: ")])
def test_a_text_among_the_pictures_that_is_not_theirs_is_told(folder: Path, text: str, words: str) -> None:
    (folder / "times.txt").write_text(text)
    with open_video(folder) as video:
        assert (video.info().first_time_us, video.info().duration_ms) == (None, 480)
        (problem,) = video.info().problems
    assert words in problem
    assert "25 pictures per second are assumed" in problem


def test_only_the_pictures_asked_for_are_decoded(folder: Path) -> None:
    (folder / "frame5.png").write_bytes(b"damaged")
    with open_video(folder) as video:
        assert video.read_uniform(2).indices == [0, 11]
        assert video.bytes_read < 4 * (folder / "frame0.png").stat().st_size
        with pytest.raises(UserError, match=r"frame5\.png: cannot be read"):
            video.read_at([200_000])


# The times


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("5\n7\n", [5, 7]),
        ("\ufefftimestamp\n5\n7\n\n", [5, 7]),
        ("# start, end in microseconds\n10, 20\n110, 121\n", [15, 116]),
        ("0.021 images/frame_00000000.png\n0.0654321 images/frame_00000001.png\n", [21_000, 65_432]),
        ("1305031102.175304 rgb/a.png\n1305031102.211214 rgb/b.png\n", [1305031102175304, 1305031102211214]),
        (
            "#timestamp [ns],filename\n1403636579763555584,a.png\n1403636579813555456,b.png\n",
            [1403636579763556, 1403636579813555],
        ),
        ("0\n33333333\n66666666\n", [0, 33333, 66667]),
        ("1612345678123456\n1612345678173456\n", [1612345678123456, 1612345678173456]),
        ("-100\n0\n", [-100, 0]),
    ],
)
def test_lists_of_times(tmp_path: Path, text: str, times: list[int]) -> None:
    (tmp_path / "times.txt").write_text(text)
    assert read_times_us(tmp_path / "times.txt").tolist() == times


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("5\nfive\n", "line 2 is no time"),
        ("5\n5\n", "line 2 is not later"),
        ("9\n\n5\n", "line 3 is not later"),
        ("1 2 3\n", "line 1 is no time"),
        ("nan\nnan\n", "holds no times"),
        ("1\ninf\n", "line 2 is no time"),
        ("1\n" + "9" * 60 + "\n", "line 2 is no time"),
        ("1\n1e30\n", "line 2 is no time"),
        ("# nothing\n", "holds no times"),
        ("\xff\xfe\x00", "times"),
    ],
)
def test_lists_that_are_none(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "times.txt").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=complaint) as caught:
        read_times_us(tmp_path / "times.txt")
    assert "\n" not in caught.value.sentence


@given(content=st.binary(max_size=60))
def test_any_text_gives_times_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(content)
    try:
        times = read_times_us(path)
    except UserError:
        return
    assert len(times) > 0
    assert (np.diff(times) > 0).all()


def test_as_many_times_as_pictures(folder: Path) -> None:
    with (
        open_video(folder, write_times(folder / "t.txt", range(11))) as video,
        pytest.raises(UserError, match="11 times for the 12 pictures"),
    ):
        video.index()
    with pytest.raises(UserError, match="no such file"):
        ImageFolder(folder, folder / "gone.txt").index()


# Windows


def test_windows_outside_are_told(folder: Path) -> None:
    with open_video(folder) as video:
        assert video.read_uniform(8, (470_000, 2**60)).indices == [11] * 8
        assert video.read_uniform(2, (-(2**60), 1)).indices == [0, 0]
        for window in ((480_000, 500_000), (-5, 0), (10, 10), (20, 10)):
            with pytest.raises(UserError, match=r"shows no frame .*lasts 480\.0 ms"):
                video.read_uniform(8, window)
        with pytest.raises(UserError, match="no frame from 500 ms on, counted"):
            video.read_uniform(8, (500_000, 2**60))
        with pytest.raises(UserError, match="at least 1"):
            video.read_at([])


# The pictures


def save(path: Path, image: Image.Image, **options: Any) -> np.ndarray:
    image.save(path, **options)
    with open_video(path.parent) as video:
        return video.read_uniform(1).frames[0]


def test_every_kind_of_pixel_becomes_rgb(tmp_path: Path) -> None:
    ramp = np.linspace(0, 65535, 64, dtype=np.uint16).reshape(8, 8)
    eight = (ramp >> 8).astype(np.uint8)
    color = np.stack([eight, eight[::-1], eight.T], axis=2)
    gray = np.repeat(eight[:, :, None], 3, axis=2)
    path = tmp_path / "a.png"
    assert (save(path, Image.fromarray(ramp)) == gray).all()
    assert (save(path, Image.fromarray(eight)) == gray).all()
    assert (save(path, Image.fromarray(color)) == color).all()
    assert (save(path, Image.fromarray(color).convert("RGBA")) == color).all()
    see_through = np.dstack([color, eight])
    assert (save(path, Image.fromarray(see_through)) == color).all()
    palette = Image.fromarray(color).quantize(64)
    assert (save(path, palette, transparency=3) == np.array(palette.convert("RGB"))).all()
    assert (save(path, Image.fromarray(eight > 100)) == np.where(gray > 100, 255, 0)).all()


def test_other_kinds_of_files(tmp_path: Path) -> None:
    for suffix in ("jpg", "JPEG", "bmp", "tiff", "webp"):
        folder = tmp_path / suffix
        folder.mkdir()
        for number in range(3):
            Image.fromarray(paint(number + 5)).save(folder / f"{number}.{suffix}")
        with open_video(folder) as video:
            assert [number_of(picture) for picture in video.read_uniform(3).frames] == [5, 6, 7]


def test_a_turned_photograph_stands_upright(tmp_path: Path) -> None:
    picture = np.zeros((8, 16, 3), np.uint8)
    picture[:, 8:] = 200
    exif = Image.Exif()
    exif[0x0112] = 6
    found = save(tmp_path / "a.png", Image.fromarray(picture), exif=exif)
    assert found.shape == (16, 8, 3)
    assert (found == np.rot90(picture, -1)).all()


def test_pictures_that_cannot_be_a_video(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no pictures"):
        open_video(tmp_path / "empty")
    (folder / "frame3.jpg").touch()
    with pytest.raises(UserError, match="JPEG and PNG"):
        open_video(folder)
    (folder / "frame3.jpg").unlink()
    Image.new("RGB", (20, 20)).save(folder / "frame4.png")
    with open_video(folder) as video, pytest.raises(UserError, match=r"frame4\.png: is 20 x 20 .* 160 x 48"):
        video.read_uniform(12)
    (tmp_path / "real").mkdir()
    Image.new("F", (4, 4)).save(tmp_path / "real" / "a.tiff")
    with open_video(tmp_path / "real") as video, pytest.raises(UserError, match="F pixels"):
        video.read_uniform(1)
    (folder / "frame4.png").unlink()
    monkeypatch.setattr(source_module, "MAX_READ_BYTES", 160 * 48 * 3 * 5)
    with open_video(folder) as video, pytest.raises(UserError, match="ask for fewer"):
        video.read_uniform(6)
    monkeypatch.setattr(source_module, "MAX_PIXELS", 1000)
    with open_video(folder) as video, pytest.raises(UserError, match="160 x 48"):
        video.read_uniform(1)


def test_a_bomb_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    Image.new("1", (16_000, 16_000)).save(tmp_path / "a.png")
    with open_video(tmp_path) as video, pytest.raises(UserError, match=r"16000 x 16000|far too large"):
        video.read_uniform(1)
