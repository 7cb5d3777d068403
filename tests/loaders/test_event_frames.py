"""Folders of PNG event frames: order, choice, and pictures that are none."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from evprof.core.errors import UserError
from evprof.loaders.pictures.frame_folder import frame_paths, load_event_frames, natural_key
from evprof.loaders.pictures.png import encode_png, read_png


def write(path: Path, value: int, shape: tuple[int, int] = (4, 6)) -> None:
    path.write_bytes(encode_png(np.full((*shape, 3), value, np.uint8)))


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def test_frames_come_in_the_order_people_count(tmp_path: Path) -> None:
    for number in (10, 2, 1, 33):
        write(tmp_path / f"frame{number}.png", number)
    (tmp_path / "notes.txt").write_text("not a frame")
    write(tmp_path / "B.PNG", 200)
    assert [path.name for path in frame_paths(tmp_path)] == [
        "B.PNG",
        "frame1.png",
        "frame2.png",
        "frame10.png",
        "frame33.png",
    ]
    assert [int(frame[0, 0, 0]) for frame in load_event_frames(tmp_path).frames] == [200, 1, 2, 10, 33]
    assert [int(frame[0, 0, 0]) for frame in load_event_frames(tmp_path, 3).frames] == [200, 2, 33]
    assert [int(frame[0, 0, 0]) for frame in load_event_frames(tmp_path, 7).frames] == [200, 1, 1, 2, 10, 10, 33]


def test_any_names_can_be_sorted_together() -> None:
    names = ["2", "a", "10", "a2b", "a10b", "", "A2b", "02", "٣"]
    assert sorted(names, key=natural_key) == ["02", "2", "10", "", "A2b", "a2b", "a10b", "a", "٣"]
    assert sorted(["a10b", "a2b"], key=natural_key) == ["a2b", "a10b"]


def test_pngs_are_lossless_and_become_rgb(tmp_path: Path) -> None:
    from PIL import Image

    noise = np.random.default_rng(1).integers(0, 256, (31, 17, 3), dtype=np.uint8)
    (tmp_path / "a.png").write_bytes(encode_png(noise))
    assert (read_png(tmp_path / "a.png") == noise).all()
    for mode in ("L", "P", "RGBA", "1", "I;16"):
        image = Image.new(mode, (3, 2))
        image.save(tmp_path / "b.png")
        assert read_png(tmp_path / "b.png").shape == (2, 3, 3)
    assert len(encode_png(noise, longest_edge=10)) < len(encode_png(noise))


@pytest.mark.parametrize("size", [(100_000, 100_000), (20_000, 5), (15_000, 15_000), (10_000, 9_000)])
def test_a_decompression_bomb_is_refused_unopened(tmp_path: Path, size: tuple[int, int]) -> None:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + head + body)
    with pytest.raises(UserError, match=r"megapixels|far too large"):
        load_event_frames(tmp_path)


def test_damaged_and_foreign_pictures_get_one_sentence(tmp_path: Path) -> None:
    write(tmp_path / "a.png", 3, (90, 90))
    whole = (tmp_path / "a.png").read_bytes()
    for content in (whole[:40], whole[: len(whole) // 2], b"GIF89a" + b"\0" * 40, b"text", b""):
        (tmp_path / "a.png").write_bytes(content)
        with pytest.raises(UserError, match=r"a\.png"):
            load_event_frames(tmp_path)


def test_folders_without_frames(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no PNG"):
        load_event_frames(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        load_event_frames(tmp_path / "gone")
    write(tmp_path / "1.png", 1)
    with pytest.raises(UserError, match="at least 1"):
        load_event_frames(tmp_path, 0)
