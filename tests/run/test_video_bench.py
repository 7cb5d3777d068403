"""The benchmark `video`, with clips that take no time: every way gives the right frames, and the figures add up."""

from __future__ import annotations

import json
import statistics
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import video as video_bench
from benchmarks import video_readers
from benchmarks.command import main
from benchmarks.video import measure_video
from benchmarks.video_clips import CLIPS, Clip, number_of, write_clip
from benchmarks.video_readers import FULL, OURS, SEEK
from evprof.core.errors import UserError

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


def test_who_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    rows = measure_video(1, clips=SMALL[:1])["rows"]
    absent = [row for row in rows if row["reader"].startswith("OpenCV")]
    assert len(absent) == 2
    assert all(
        row["median_ms"] is None and row["exact"] is None and "cv2 does not load" in row["reason"] for row in absent
    )


def test_wrong_frames_and_failures_of_a_library_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reader:
        def __init__(self, path: str) -> None:
            pass

        def __len__(self) -> int:
            return 40

        def get_batch(self, indices: list[int]) -> object:
            pictures = np.zeros((len(indices), 240, 320, 3), np.uint8)
            return types.SimpleNamespace(asnumpy=lambda: pictures)

    decord, cv2 = types.ModuleType("decord"), types.ModuleType("cv2")
    decord.VideoReader = Reader  # type: ignore[attr-defined]  # that is how a module is made up
    monkeypatch.setitem(sys.modules, "decord", decord)
    monkeypatch.setitem(sys.modules, "cv2", cv2)
    document = measure_video(1, clips=SMALL[:1])
    by_name = {row["reader"]: row for row in document["rows"]}
    assert by_name["decord get_batch"]["exact"] is False
    assert by_name["decord get_batch"]["median_ms"] > 0
    assert by_name["OpenCV grab all"]["median_ms"] is None
    assert by_name["OpenCV grab all"]["reason"].startswith("AttributeError")
    assert document["summary"]["ours_is_exact"]


def test_figures_follow_from_the_rows(measured: dict[str, Any]) -> None:
    summary = measured["summary"]
    assert [clip["clip"] for clip in summary["clips"]] == [clip.name for clip in SMALL]
    for found in summary["clips"]:
        rows = {row["reader"]: row for row in measured["rows"] if row["clip"] == found["clip"]}
        fixed = [row["median_ms"] for row in rows.values() if row["kind"] in (FULL, SEEK)]
        assert found["best_strategy_ms"] == min(fixed)
        assert found["ours_vs_best_strategy"] == pytest.approx(rows["evprof"]["median_ms"] / min(fixed))
        full = min(row["median_ms"] for row in rows.values() if row["kind"] == FULL)
        assert found["full_decode_vs_ours"] == pytest.approx(full / rows["evprof"]["median_ms"])
    worst = max(clip["ours_vs_best_strategy"] for clip in summary["clips"])
    assert summary["worst_vs_best_strategy"] == worst
    short = [clip["full_decode_vs_ours"] for clip in summary["clips"] if clip["gop_frames"] <= 12]
    assert len(short) == 2
    assert summary["short_gop_vs_full_decode"] == min(short)


def test_turns_are_interleaved_and_the_first_counts_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def recording(reader: video_readers.Reader) -> video_readers.Reader:
        def read(path: Path, count: int) -> video_readers.Frames:
            order.append(reader.name)
            return reader.read(path, count)

        return video_readers.Reader(reader.name, reader.kind, reader.needs, read)

    readers = tuple(recording(reader) for reader in video_readers.READERS[:3])
    monkeypatch.setattr(video_bench, "READERS", readers)
    times = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: next(times) ** 2 / 1000)
    rows = measure_video(2, clips=SMALL[:1])["rows"]
    names = [reader.name for reader in readers]
    assert order == [names[2], *names[:2], *names, *names[1:], names[0]]
    # The n-th reading lasts from (2n)² to (2n + 1)², that is 4n + 1.
    for row in rows:
        turns = [4 * place + 1 for place, name in enumerate(order) if name == row["reader"]][1:]
        assert row["median_ms"] == pytest.approx(statistics.median(turns))
        assert row["best_ms"] == pytest.approx(min(turns))


def test_the_painted_number_survives_encoding(tmp_path: Path) -> None:
    from evprof.loaders.videos.opening import open_video

    write_clip(tmp_path / "clip.mp4", SMALL[1])
    with open_video(tmp_path / "clip.mp4") as video:
        found = video.read_uniform(40)
        times = [number * 33_000 + number % 7 * 4000 for number in range(40)]
        assert video.info().gop_frames == 30
    assert [number_of(picture) for picture in found.frames] == list(range(40))
    assert found.times_us == times


def test_one_slice_for_each_frame(tmp_path: Path) -> None:
    import av

    write_clip(tmp_path / "clip.mp4", SMALL[0])
    with av.open(str(tmp_path / "clip.mp4")) as container:
        for packet in container.demux(container.streams.video[0]):
            content, place, slices = bytes(packet), 0, 0
            while place < len(content):
                slices += content[place + 4] & 31 in (1, 5)
                place += 4 + int.from_bytes(content[place : place + 4], "big")
            assert slices == (1 if content else 0)


def test_which_clips_are_measured() -> None:
    assert {clip.gop for clip in CLIPS if clip.width == 1280} == {12, 30, 250} == {clip.gop for clip in CLIPS}
    assert [clip.name for clip in video_bench._asked(CLIPS, ["mkv"], True)] == ["480p 10 s gop 30 mkv"]
    assert all(clip.width == 640 for clip in video_bench._asked(CLIPS, [], False))
    with pytest.raises(UserError, match="no clip 'webm'; there are 480p"):
        measure_video(1, only=["webm"])
    with pytest.raises(UserError, match="at least 1, not 0"):
        measure_video(0)


def test_the_command_prints_tables_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], measured: dict[str, Any]
) -> None:
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
