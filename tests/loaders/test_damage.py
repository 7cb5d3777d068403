"""Whatever happens to a file, reading it gives a result or one sentence, and never takes much memory."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.loaders.events.opening import read_events
from evprof.loaders.pictures.frame_folder import load_event_frames
from evprof.loaders.pictures.png import encode_png
from evprof.loaders.probe import KINDS, probe
from evprof.loaders.videos.opening import open_video
from evprof.loaders.videos.source import VideoFrames, VideoInfo

MEMORY_BYTES = 48 << 20


def frames_of(path: Path, count: int) -> VideoFrames:
    with open_video(path) as video:
        return video.read_uniform(count)


def info_of(path: Path) -> VideoInfo:
    with open_video(path) as video:
        return video.info()


@pytest.fixture(scope="module")
def originals(videos: dict[str, Path]) -> dict[str, bytes]:
    """One good file of each kind."""
    random = np.random.default_rng(3)
    columns = {name: random.integers(0, 2, 500).astype(np.uint16) for name in "xytp"}
    files: dict[str, bytes] = {}

    def keep(name: str, save: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        buffer = io.BytesIO()
        save(buffer, *arguments, **named)
        files[name] = buffer.getvalue()

    keep("dict.npy", np.save, np.array(columns), allow_pickle=True)
    keep("rows.npy", np.save, np.stack([columns[name] for name in "txyp"]).T)
    keep("plain.npz", np.savez, **columns)
    keep("packed.npz", np.savez_compressed, **columns)
    files["frame.png"] = encode_png(random.integers(0, 255, (40, 30, 3), dtype=np.uint8))
    files["trace.json.gz"] = gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": []}).encode())
    for name in ("gop12", "mkv", "avi", "ts", "vp8"):
        files[videos[name].name] = videos[name].read_bytes()
    return files


def damage(content: bytes, data: st.DataObject) -> bytes:
    """Cut, flipped, doubled or filled somewhere, more often near the start where the structure is."""
    whole = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        limit = len(whole) if data.draw(st.booleans()) else min(len(whole), 300)
        place = data.draw(st.integers(0, max(0, limit - 1)))
        match data.draw(st.sampled_from(["cut", "flip", "insert", "drop", "fill"])):
            case "cut":
                del whole[place:]
            case "flip":
                if whole:
                    whole[place] ^= data.draw(st.integers(1, 255))
            case "insert":
                whole[place:place] = data.draw(st.binary(min_size=1, max_size=12))
            case "drop":
                del whole[place : place + data.draw(st.integers(1, 64))]
            case _:
                whole[place : place + 8] = data.draw(st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7]))
    return bytes(whole)


def survives(read: Callable[[], object]) -> None:
    sentence = "read without complaint"
    tracemalloc.start()
    try:
        read()
    except UserError as error:
        sentence = error.sentence
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert sentence
    assert "\n" not in sentence
    assert peak < MEMORY_BYTES


fuzz = settings(derandomize=True)


@pytest.mark.parametrize("name", ["dict.npy", "rows.npy", "plain.npz", "packed.npz"])
@fuzz
@given(data=st.data())
def test_damaged_recordings(originals: dict[str, bytes], tmp_path: Path, name: str, data: st.DataObject) -> None:
    file = tmp_path / name
    file.write_bytes(damage(originals[name], data))
    survives(lambda: read_events(file))


@fuzz
@given(data=st.data())
def test_damaged_pictures(originals: dict[str, bytes], tmp_path: Path, data: st.DataObject) -> None:
    (tmp_path / "frame.png").write_bytes(damage(originals["frame.png"], data))
    survives(lambda: load_event_frames(tmp_path))


@pytest.mark.parametrize("name", ["gop12.mp4", "plain.mkv", "mpeg4.avi", "stream.ts", "altref.webm"])
@fuzz
@given(data=st.data())
def test_damaged_videos(originals: dict[str, bytes], tmp_path: Path, name: str, data: st.DataObject) -> None:
    file = tmp_path / name
    file.write_bytes(damage(originals[name], data))
    survives(lambda: frames_of(file, 3))
    survives(lambda: info_of(file))


@fuzz
@given(
    content=st.binary(min_size=0, max_size=400), start=st.sampled_from([b"", b"\x93NUMPY", b"PK\x03\x04", b"\x1f\x8b"])
)
def test_foreign_bytes(tmp_path: Path, content: bytes, start: bytes) -> None:
    file = tmp_path / "foreign"
    file.write_bytes(start + content)
    survives(lambda: read_events(file))
    survives(lambda: probe(file))
    survives(lambda: info_of(file))


@fuzz
@given(data=st.data())
def test_damaged_files_are_still_of_some_kind_or_none(
    originals: dict[str, bytes], tmp_path: Path, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(originals)))
    (tmp_path / "any").write_bytes(damage(originals[name], data))
    survives(lambda: KINDS.index(probe(tmp_path / "any")))


STEPS = [
    *(bytes([code]) for code in b"(.012N]})aesut\x85\x86\x87Rb\x94\x88\x93io"),
    *(b"q\x00", b"h\x00", b"K\x05", b"X\x01\x00\x00\x00x", b"C\x02ab"),
    *(b"cnumpy\nndarray\n", b"cnumpy\ndtype\n", b"cnumpy.core.multiarray\n_reconstruct\n"),
]


@fuzz
@given(steps=st.lists(st.sampled_from(STEPS), max_size=40))
def test_any_sequence_of_pickle_steps(originals: dict[str, bytes], tmp_path: Path, steps: list[bytes]) -> None:
    head = originals["dict.npy"][:128]
    (tmp_path / "steps.npy").write_bytes(head + b"\x80\x03" + b"".join(steps))
    survives(lambda: read_events(tmp_path / "steps.npy"))
