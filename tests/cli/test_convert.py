"""`evprof convert` as a person calls it."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evprof.cli.convert.command import _add_convert_options as add_convert_options
from evprof.cli.convert.converting import recipe_of
from evprof.core.events import EventArray
from evprof.loaders.bundled import bundled_sample
from evprof.loaders.events.opening import read_events
from evprof.loaders.pictures.png import read_png
from evprof.loaders.pictures.render import render_event_frames
from evprof.loaders.videos.file import VideoFile
from evprof.loaders.writers.frames import write_frames
from evprof.loaders.writers.hdf5 import write_dsec
from evprof.loaders.writers.npy import write_npy
from evprof.run.conversion.task import TARGETS, ConversionRecipe
from painted_videos import number_of, paint, write_video

ROOT = Path(__file__).resolve().parents[2]


def some_events(count: int = 20_000, seed: int = 1) -> EventArray:
    random = np.random.default_rng(seed)
    columns = [random.integers(0, limit, count) for limit in (64, 48, 200_000, 2)]
    return EventArray.from_columns(columns[0], columns[1], np.sort(columns[2]), columns[3])


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "scene.npy"
    write_npy(path, iter([some_events()]))
    return path


@pytest.fixture(scope="session")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("video") / "road.mp4", 30, gop=30)


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.h5", "a.hdf5", "a.raw", "a.dat"])
def test_the_name_says_what_to_make(name: str, evprof, recording: Path, tmp_path: Path) -> None:
    found = evprof("convert", recording, "-o", tmp_path / "new" / name)
    assert found.code == 0, found.errors
    assert re.match(rf".*{name}: 20,000 events, [\d.]+ KiB in .* M events/s\)$", found.output.strip())
    there, wanted = read_events(tmp_path / "new" / name), some_events()
    assert all(np.array_equal(getattr(there, column), getattr(wanted, column)) for column in ("x", "y", "t_us", "p"))


def test_every_option_reaches_the_recipe(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_convert_options(parser)
    named = {action.dest for action in parser._actions}
    assert {field.name for field in fields(ConversionRecipe)} - {"window_us"} <= named | {"window_ms"}
    words = ["--layout", "structured", "--sort", "--threshold-off", "0.3", "--seed", "4"]
    recipe = recipe_of(parser.parse_args(["in", "-o", str(tmp_path / "a.npy"), *words]), is_list=False)
    assert (recipe.layout, recipe.sort, recipe.threshold_off, recipe.seed) == ("structured", True, 0.3, 4)


def test_frames_are_those_that_the_model_sees(evprof, tmp_path: Path) -> None:
    events = bundled_sample().events_path or ""
    assert evprof("convert", events, "-o", tmp_path / "pictures").code == 0
    frames = render_event_frames(read_events(events), 5)
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir())[-1] == "times.txt"
    for number, frame in enumerate(frames):
        assert (read_png(tmp_path / "pictures" / f"frame_{number:02d}.png") == frame).all()


def test_simulated_events_are_told_as_such(evprof, video: Path, tmp_path: Path) -> None:
    words = ("--seed", 5, "--threshold", 0.3, "--refractory-us", 200, "--simulate-width", 80)
    found = evprof("convert", video, "-o", tmp_path / "a.npy", *words)
    assert found.code == 0
    assert "simulated events" in found.output
    assert "interpolated, not measured" in found.errors
    document = evprof("convert", video, "-o", tmp_path / "b.npy", *words, "--json").document
    assert document["files"][0]["simulated"] is True
    assert any("simulated" in sentence for sentence in document["problems"])
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_the_documents_keys_are_documented(evprof, recording: Path, tmp_path: Path) -> None:
    text = (ROOT / "docs/json.md").read_text(encoding="utf-8")
    section = text.split("## The JSON of `convert`")[1].split("\n## ")[0]
    named = set(re.findall(r"`([a-z_]+)`", section)) | {"schema_version"}
    one = evprof("convert", recording, "-o", tmp_path / "a.npz", "--json").document
    assert set(one) | set(one["files"][0]) <= named
    (tmp_path / "list.csv").write_text("events\nscene.npy\n")
    many = evprof("convert", tmp_path / "list.csv", "-o", tmp_path / "out", "--to", "npz", "--json").document
    assert set(many) <= named
    assert (many["written"], many["kept"], many["failed"], many["samples"], many["rows"]) == (1, 0, 0, 1, 1)
    assert many["files"][0]["path"] == str(tmp_path / "out" / "scene" / "events.npz")


def test_nothing_is_replaced_unasked(evprof, recording: Path, video: Path, tmp_path: Path) -> None:
    taken = tmp_path / "a.npz"
    taken.write_text("precious")
    folder = tmp_path / "pictures"
    write_frames(folder, [(0, np.zeros((2, 2, 3), np.uint8))])
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("-")
    for output in (taken, folder, other):
        found = evprof("convert", recording, "-o", output)
        assert (found.code, found.output, len(found.errors.splitlines())) == (1, "", 1)
        assert "--overwrite" in found.errors
    assert evprof("convert", recording, "-o", taken, "--overwrite").code == 0
    assert evprof("convert", recording, "-o", folder, "--overwrite").code == 0
    refused = evprof("convert", recording, "-o", other, "--overwrite")
    assert (refused.code, "would be lost" in refused.errors) == (1, True)
    assert evprof("convert", recording, "-o", other, "--to", "npy").code == 1
    assert evprof("convert", recording, "-o", taken, "--to", "frames").code == 2
    assert (other / "thesis.tex").read_text() == "-"
    itself = evprof("convert", recording, "-o", recording, "--overwrite")
    assert (itself.code, "its own conversion" in itself.errors) == (1, True)
    assert len(read_events(recording)) == 20_000


@pytest.mark.parametrize(
    "words",
    [
        ["-o", "out.xyz"],
        ["-o", "out.npy", "--to", "npz"],
        ["-o", "out.npy", "--gop", "4"],
        ["-o", "out.npy", "--threshold", "0.4"],
        ["-o", "out.npy", "--only", "video"],
        ["-o", "out.npy", "--clip-ms", "50"],
        ["-o", "out.npy", "--video-times", "t.txt"],
        ["-o", "out.npy", "--start-ms", "-5"],
        ["-o", "out.npy", "--duration-ms", "0"],
        ["-o", "out.npy", "--start-ms", "nan"],
        ["-o", "out.npy", "--jobs", "0"],
        ["-o", "out.dat", "--raw-format", "evt3"],
        ["-o", "out", "--every", "2"],
        ["-o", "out", "--fps", "30"],
        ["-o", "out", "--frames", "0"],
        ["-o", "out", "--window-ms", "0"],
        ["-o", "out", "--canvas", "640"],
        ["-o", "out", "--rendering", "oil"],
        ["-o", "out.mp4", "--fps", "1/0"],
        ["-o", "out.mp4", "--fps", "1e9"],
        ["-o", "out.mp4", "--size", "0x0"],
        [],
    ],
)
def test_wrong_usage(words: list[str], evprof, recording: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(os.listdir(tmp_path))
    found = evprof("convert", recording, *words)
    assert (found.code, found.output, len(found.errors.splitlines())) == (2, "", 1), found.errors
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and limits of POSIX")
def test_odd_places(evprof, recording: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "list.csv").write_text("events\nscene.npy\n")
    long = "n" * 300
    for output in ("loop", "loop/x.npz", "pipe.npz", f"{long}.npz", long, "scene.npy/x.npz", "a\0b.npz"):
        for words in ([recording], ["list.csv", "--to", "npz"]):
            found = evprof("convert", *words, "-o", output, "--overwrite")
            if output == "pipe.npz" or "scene.npy" not in output or words[0] == recording:
                assert (found.code, found.output) == (1, ""), (output, found)
                assert "defect" not in found.errors
    assert (tmp_path / "pipe.npz").is_fifo()
    for path in (f"{long}.npy", "a\0b.npy", "pipe.npz"):
        found = evprof("convert", path, "-o", "x.npz")
        assert (found.code, "defect" in found.errors) == (1, False)
    assert evprof("convert", recording, "-o", "").code == 2
    # The folder itself is not replaced, for it holds other things.
    assert evprof("convert", recording, "-o", ".", "--overwrite").code == 1
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    assert evprof("convert", recording, "-o", "../other/").code == 0
    assert len(os.listdir(tmp_path / "other")) == 6


def test_a_list_whose_rows_fail_in_part(evprof, recording: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.npy").write_bytes(recording.read_bytes()[:5000])
    (tmp_path / "list.csv").write_text("name,events\ngood,scene.npy\nbad,bad.npy\n")
    found = evprof("convert", tmp_path / "list.csv", "-o", tmp_path / "out", "--to", "h5")
    assert found.code == 1
    assert "Sample 2, 'bad'" in found.errors
    assert "1 of 2 samples; files: 1 written, 0 there before, 1 failed" in found.output
    again = evprof("convert", tmp_path / "list.csv", "-o", tmp_path / "out", "--to", "h5", "--json")
    assert again.code == 1
    assert (again.document["kept"], again.document["failed"]) == (1, 1)
    for words in (
        [],
        ["--to", "npy", "--threshold", 0.3],
        ["--to", "mp4", "--window-ms", 5],
        ["--to", "mp4", "--only", "events", "--every", 2],
        ["--to", "frames", "--only", "video", "--rendering", "count"],
        ["--to", "npy", "--start-ms", 5],
        ["--to", "npy", "--clip-ms", 5],
        ["--to", "npy", "--rectify", "map.h5"],
    ):
        refused = evprof("convert", tmp_path / "list.csv", "-o", tmp_path / "new", *words)
        assert (refused.code, len(refused.errors.splitlines())) == (2, 1), (words, refused)
    assert not (tmp_path / "new").exists()


@pytest.fixture
def sequence(tmp_path: Path) -> Path:
    """Events of 200 ms and pictures every 20 ms on the same clock, as DSEC keeps them."""
    pytest.importorskip("hdf5plugin")
    folder = tmp_path / "zurich_00"
    events = some_events(40_000)
    shifted = EventArray(events.x, events.y, events.t_us + 7_000_000, events.p)
    (folder / "events" / "left").mkdir(parents=True)
    write_dsec(folder / "events" / "left" / "events.h5", iter([shifted]), width=64, height=48)
    images = folder / "images" / "left" / "rectified"
    write_frames(images, [(0, paint(number)) for number in range(10)])
    (images / "times.txt").unlink()
    times = "".join(f"{7_000_000 + 20_000 * number}\n" for number in range(10))
    (folder / "images" / "timestamps.txt").write_text(times)
    return folder


def test_a_folder_with_both_is_cut_into_clips(evprof, sequence: Path, tmp_path: Path) -> None:
    whole = evprof("convert", sequence, "-o", tmp_path / "whole", "--to", "npy")
    assert whole.code == 0, whole.errors
    assert len(read_events(tmp_path / "whole" / "zurich_00" / "events.npy")) == 40_000
    found = evprof("convert", sequence, "-o", tmp_path / "out", "--to", "npy", "--clip-ms", 50)
    assert found.code == 0, found.errors
    clips = sorted((tmp_path / "out").glob("zurich*/events.npy"))
    assert 3 <= len(clips) <= 4
    origin = 7_000_000 + int(some_events(40_000).t_us[0])
    for number, clip in enumerate(clips):
        events = read_events(clip)
        assert origin + number * 50_000 <= events.t_us[0] <= events.t_us[-1] < origin + (number + 1) * 50_000
    pictures = evprof("convert", sequence, "-o", tmp_path / "videos", "--to", "mp4", "--clip-ms", 60, "--limit", 2)
    assert pictures.code == 0, pictures.errors
    second = sorted((tmp_path / "videos").glob("zurich*/video.mp4"))[1]
    with VideoFile(second) as made:
        made.index()
        shown = [number_of(picture) for picture in made.read_uniform(len(made.table)).frames]
    assert shown[:3] in ([2, 3, 4], [3, 4, 5])


@pytest.mark.skipif(sys.platform == "win32", reason="limits and signals of POSIX")
@pytest.mark.parametrize("to", TARGETS)
def test_a_disk_that_fills_up(to: str, recording: Path, tmp_path: Path) -> None:
    """A limit on the size of files fails in the middle of writing, as a full disk does."""
    code = (
        "import resource, sys; from evprof.__main__ import main\n"
        "import evprof.run.conversion.from_events\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700)); sys.exit(main())"
    )
    out = tmp_path / "out"
    out.mkdir()
    output = out / f"result{ConversionRecipe(to).suffix}"
    words = ["convert", str(recording), "-o", str(output), "--to", to]
    found = run_python(code, words, tmp_path)
    assert found.returncode == 1, found.stderr
    assert [line for line in found.stderr.splitlines() if line.startswith("evprof:")]
    assert "defect" not in found.stderr
    assert os.listdir(out) == []


def run_python(code: str, words: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    environment: dict[str, Any] = {**os.environ, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=300, env=environment, check=False
    )


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_ctrl_c_in_a_single_conversion(tmp_path: Path) -> None:
    code = (
        "import sys; from evprof.__main__ import main; from evprof.run.conversion import workers\n"
        "real = workers.convert\n"
        "def told(task, step): print('begun', flush=True); return real(task, step)\n"
        "workers.convert = told; sys.exit(main())"
    )
    video = write_video(tmp_path / "long.mp4", 300, options={"preset": "ultrafast"})
    (tmp_path / "out").mkdir()
    output = tmp_path / "out" / "long.npz"
    words = ["convert", str(video), "-o", str(output), "--compressed", "--threshold", "0.02"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    text, errors = process.communicate(timeout=300)
    assert (process.returncode, text) == (130, ""), errors
    assert "was not written" in errors
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_a_second_ctrl_c_ends_the_process(recording: Path, tmp_path: Path) -> None:
    code = (
        "import sys, time; from evprof.__main__ import main; from evprof.run.conversion import workers\n"
        "def deaf(task, step): print('deaf', flush=True); time.sleep(3600)\n"
        "workers.convert = deaf; sys.exit(main())"
    )
    words = ["convert", str(recording), "-o", str(tmp_path / "a.npz")]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "deaf\n"
    process.send_signal(signal.SIGINT)
    while "stopping" not in (line := process.stderr.readline()):
        assert line, "it ended at the first"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
