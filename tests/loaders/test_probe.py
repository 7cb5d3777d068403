"""What a path holds is told by its content; inspect documents and model frames."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from evprof.core.errors import UserError
from evprof.loaders.content import content_hash
from evprof.loaders.events.opening import read_events
from evprof.loaders.inspection import inspect_events, inspect_video
from evprof.loaders.pictures.png import encode_png
from evprof.loaders.probe import probe


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    random = np.random.default_rng(4)
    columns = {
        "x": random.integers(0, 34, 2000).astype(np.uint16),
        "y": random.integers(0, 26, 2000).astype(np.uint16),
        "t": np.sort(random.integers(100, 50_000, 2000)).astype(np.uint16),
        "p": random.integers(0, 2, 2000).astype(np.uint8),
    }
    np.save(tmp_path / "events.npy", np.array(columns), allow_pickle=True)
    return tmp_path / "events.npy"


def database(path: Path, application_id: int) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {application_id}")
        connection.execute("CREATE TABLE runs (id INTEGER)")
        connection.commit()
    return path


def test_kinds_are_told_by_content(tmp_path: Path, recording: Path, videos: dict[str, Path]) -> None:
    np.savez(tmp_path / "a.npz", x=[1], y=[2], t=[3], p=[1])
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "1.png").write_bytes(encode_png(np.zeros((2, 2, 3), np.uint8)))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    trace = json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": []})
    (tmp_path / "trace.json").write_text(trace)
    with gzip.open(tmp_path / "trace.gz", "wt") as file:
        file.write(trace)
    session = database(tmp_path / "session", 77)
    for name, kind in {
        recording: "events",
        tmp_path / "a.npz": "events",
        tmp_path / "frames": "events",
        tmp_path / "model": "checkpoint",
        tmp_path / "trace.json": "trace",
        tmp_path / "trace.gz": "trace",
        session: "session",
        videos["gop12"]: "video",
        videos["mkv"]: "video",
    }.items():
        path = name
        if path.is_file():
            path = tmp_path / "without-a-suffix"
            shutil.copyfile(name, path)
        assert probe(path) == kind
    assert probe(session, session_id=77) == "session"
    with pytest.raises(UserError, match="no evprof session"):
        probe(session, session_id=78)


def test_what_is_nothing_of_ours_hears_what_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Sir,\n")
    (tmp_path / "data.json").write_text('{"a": 1}')
    (tmp_path / "some.gz").write_bytes(gzip.compress(b"words"))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"words")[:9])
    (tmp_path / "folder").mkdir()
    (tmp_path / "ros2").mkdir()
    (tmp_path / "ros2" / "scene.mcap").write_bytes(b"-")
    nearest = {
        "letter.txt": "lists of samples with columns events and video",
        "data.json": "lists of samples, torch traces",
        "some.gz": "event recordings, videos",
        "cut.gz": "event recordings, videos",
        "folder": "event recordings, videos",
        "ros2": "ROS 1 bags; `rosbags-convert`",
    }
    for name, kinds in nearest.items():
        with pytest.raises(UserError, match=f"{name}.*accepted are {kinds}") as caught:
            probe(tmp_path / name)
        assert len(caught.value.sentence) - len(str(tmp_path)) < 300
    with pytest.raises(UserError, match="no such file"):
        probe(tmp_path / "gone")


def test_the_document_of_a_recording(tmp_path: Path, recording: Path) -> None:
    events = read_events(recording)
    document = inspect_events(recording)
    assert document == {
        "schema_version": 1,
        "path": str(recording),
        "kind": "events",
        "problems": [],
        "format": "npy",
        "events": 2000,
        "width": 34,
        "height": 26,
        "duration_us": events.duration_us,
        "t_min_us": events.t_min_us,
        "t_max_us": events.t_max_us,
        "positive_fraction": pytest.approx(float(events.p.mean())),
    }
    np.savez(tmp_path / "odd.npz", x=[1, 2, 3], y=[1, 2, 3], t=[200_000, 5, 9], p=[1, 0, 1])
    odd = inspect_events(tmp_path / "odd.npz")
    assert odd["format"] == "npz"
    assert [word for word in ("order", "100 ms", "too few") if word in " ".join(odd["problems"])] == [
        "order",
        "100 ms",
        "too few",
    ]
    np.savez(tmp_path / "still.npz", x=[1] * 9, y=[1] * 9, t=[5] * 9, p=[1] * 9)
    assert inspect_events(tmp_path / "still.npz")["problems"] == ["All events carry the same time."]


def test_the_document_of_a_video(videos: dict[str, Path]) -> None:
    document = inspect_video(videos["gop250"])
    assert document == {
        "schema_version": 1,
        "path": str(videos["gop250"]),
        "kind": "video",
        "problems": [],
        "codec": "h264",
        "frames": 300,
        "width": 160,
        "height": 48,
        "duration_ms": pytest.approx(10_000),
        "gop_frames": 250,
    }
    assert "single frame" in inspect_video(videos["one"])["problems"][0]


def test_hashes_of_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a" / "one.bin"
    file.parent.mkdir()
    file.write_bytes(b"abc")
    known = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert content_hash(file) == known
    before = content_hash(tmp_path / "a")
    (tmp_path / "a" / "two.bin").write_bytes(b"d")
    after = content_hash(tmp_path / "a")
    assert before != after
    (tmp_path / "a" / "two.bin").rename(tmp_path / "a" / "three.bin")
    assert content_hash(tmp_path / "a") != after
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *_: pytest.fail("read again"))
        assert content_hash(file) == known
    file.write_bytes(b"abcd")
    assert content_hash(file) != known
    with pytest.raises(UserError, match="gone"):
        content_hash(tmp_path / "gone")


def test_what_is_too_large_has_no_hash(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("one", "two"):
        (tmp_path / "a" / name).write_bytes(b"x" * 600)
    assert content_hash(tmp_path / "a" / "one", most_bytes=600) == content_hash(tmp_path / "a" / "one")
    assert content_hash(tmp_path / "a", most_bytes=1200) == content_hash(tmp_path / "a")
    for place, most in ((tmp_path / "a" / "one", 599), (tmp_path / "a", 1199)):
        with pytest.raises(UserError, match="is larger than"):
            content_hash(place, most_bytes=most)
