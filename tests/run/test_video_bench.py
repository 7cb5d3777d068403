"""The benchmark `video`, with clips that take no time: every way gives the right frames, and the figures add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import video as video_bench
from benchmarks.command import main
from benchmarks.video import measure_video
from benchmarks.video_clips import Clip, number_of, write_clip
from benchmarks.video_readers import FULL, OURS, SEEK

SMALL = (
    Clip("small gop 6", 320, 240, 40, 6),
    Clip("small gop 30 vfr", 320, 240, 40, 30, is_vfr=True),
    Clip("small gop 12 mkv", 320, 240, 40, 12, suffix=".mkv"),
)


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    return measure_video(3, clips=SMALL)


def test_every_way_in_pyav_gives_the_right_frames(measured: dict[str, Any]) -> None:
    rows = [row for row in measured["rows"] if row["kind"] in (OURS, FULL, SEEK)]
    assert len(rows) == 5 * len(SMALL)
    assert all(row["exact"] and row["median_ms"] >= row["best_ms"] > 0 and row["reason"] is None for row in rows)
    assert measured["summary"]["ours_is_exact"]


def test_the_painted_number_survives_encoding(tmp_path: Path) -> None:
    from evprof.loaders.videos.opening import open_video

    write_clip(tmp_path / "clip.mp4", SMALL[1])
    with open_video(tmp_path / "clip.mp4") as video:
        found = video.read_uniform(40)
        times = [number * 33_000 + number % 7 * 4000 for number in range(40)]
        assert video.info().gop_frames == 30
    assert [number_of(picture) for picture in found.frames] == list(range(40))
    assert found.times_us == times


def test_the_command_prints_tables_and_json(monkeypatch, capsys, measured: dict[str, Any]) -> None:
    monkeypatch.setattr(
        video_bench, "measure_video", lambda rounds, note, *, only: measured | {"asked": [rounds, *only]}
    )
    assert main(["video", "--json", "--repeat", "2", "--only", "mkv"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["benchmark"] == "video"
    assert document["asked"] == [2, "mkv"]
    assert document["rows"] == measured["rows"]
    assert main(["video"]) == 0
    text = capsys.readouterr().out
    assert "small gop 30 vfr" in text
    assert "PyAV seek per frame, AUTO threads" in text
    assert main(["video", "--markdown"]) == 0
    assert "| evprof | " in capsys.readouterr().out
