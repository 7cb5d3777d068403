"""Clips of recordings and folders with both halves, through `run`, `show`, `suite` and `inspect`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evprof.core.sample import Sample
from evprof.loaders.pictures.png import encode_png

ZERO_US = 10**10


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    """1 s of events and 20 pictures, which begin 0.2 s after them."""
    folder = tmp_path / "drive"
    (folder / "images").mkdir(parents=True)
    noise = np.random.default_rng(5)
    count = 20_000
    columns: dict[str, Any] = {
        "x": noise.integers(0, 34, count),
        "y": noise.integers(0, 26, count),
        "t": ZERO_US + np.arange(count) * 50,
        "p": noise.integers(0, 2, count),
    }
    np.savez(folder / "events.npz", **columns)
    times = []
    for number in range(20):
        picture = noise.integers(0, 255, (24, 32, 3)).astype(np.uint8)
        (folder / "images" / f"{number}.png").write_bytes(encode_png(picture))
        times.append(f"{ZERO_US + 200_000 + number * 50_000}")
    (folder / "image_timestamps.txt").write_text("\n".join(times))
    return folder


@pytest.mark.usefixtures("computed")
def test_a_clip_is_what_both_models_see(evprof: Any, drive: Path, tmp_path: Path) -> None:
    words = ["--start-ms", "400", "--duration-ms", "50", "--max-new-tokens", "2", "-o", tmp_path / "s.evprof"]
    found = evprof("run", "--sample", drive, *words, "--json")
    assert found.code == 0, found.errors
    draft, target = found.document["runs"]
    assert draft["sample"]["clip"] == {"start_ms": 400, "duration_ms": 50}
    assert draft["sample"]["name"] == "drive 0.40 s"
    assert draft["sample"]["video"]["offset_ms"] == 200
    events = next(tensor for stage in draft["stages"] for tensor in stage["outputs"] if tensor["name"] == "events")
    assert events["shape"] == [1000]
    # 0.4 s of the sample is 0.2 s of the video: pictures 4 alone, then shown as often as it takes.
    assert (target["loading"]["frames"], target["loading"]["decoder"]) == (1, "pillow")
    assert (draft["loading"]["events"], draft["loading"]["decoder"]) == (1000, "npz")
    assert draft["loading"]["bytes_read"] == (drive / "events.npz").stat().st_size
    assert draft["loading"]["events_per_s"] > 0
    parts = {run["role"]: [part["name"] for part in run["stages"][0]["children"]] for run in (draft, target)}
    assert parts == {"draft": ["open", "read"], "target": ["open", "demux", "decode"]}
    shown = evprof("show", tmp_path / "s.evprof")
    assert "clip: 0.40 s to 0.45 s of drive\n" in shown.output
    assert re.search(r"^  Loading +events +1,000$", shown.output, re.MULTILINE)
    again = Sample.from_facts(draft["sample"])
    assert (again.start_us, again.duration_us, again.video_offset_us) == (400_000, 50_000, 200_000)
    report = tmp_path / "r.md"
    assert evprof("report", tmp_path / "s.evprof", "-o", report).code == 0
    assert "--start-ms=400 --duration-ms=50 --video-offset-ms=200" in report.read_text()


@pytest.mark.usefixtures("computed")
def test_an_empty_clip_fails_with_what_there_is(evprof: Any, drive: Path) -> None:
    found = evprof("run", "--events", drive / "events.npz", "--start-ms", "5000", "--json")
    assert found.code == 1, found.errors
    assert "no event lies from 5.00 s on of the recording, which spans 0.99995 s" in found.errors


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--start-ms", "-1"), "A clip starts at 0 ms or later"),
        (("--duration-ms", "0"), "A clip lasts longer than 0 ms"),
        (("--start-ms", "nan"), "--start-ms must be a time in ms, not nan"),
        (("--video-offset-ms", "5"), "--video-offset-ms needs a video"),
        (("--rectify", "gone.h5"), "there is no file or folder 'gone.h5'"),
    ],
)
@pytest.mark.usefixtures("scripted")
def test_clips_that_cannot_be_are_refused(evprof: Any, drive: Path, words: tuple[str, ...], sentence: str) -> None:
    found = evprof("run", "--events", drive / "events.npz", *words)
    assert found.code in (1, 2)
    assert sentence in found.errors


@pytest.mark.usefixtures("scripted")
def test_what_samples_cannot_be(evprof: Any, drive: Path, tmp_path: Path) -> None:
    assert "names events and video itself" in evprof("run", "--sample", drive, "--events", drive / "events.npz").errors
    (tmp_path / "empty").mkdir()
    assert "holds no event recording" in evprof("run", "--sample", tmp_path / "empty").errors
    pictures = evprof("run", "--events", drive / "images", "--start-ms", "3")
    assert (pictures.code, "carry no times" in pictures.errors) == (2, True)
