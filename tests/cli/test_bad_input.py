"""Files and folders that are missing, empty, cut short or of another kind, to every command: one sentence, no more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bad_files import bad_files, mark_of
from evprof.loaders.bundled import bundled_sample
from evprof.session.tables import FORMAT


def refused(found: Any, code: int, *parts: object) -> str:
    """The one sentence of a refusal that began nothing: all of it on standard error, naming `parts`."""
    assert found.code == code, found.errors
    assert found.output == ""
    (line,) = found.errors.splitlines()
    assert line.startswith("evprof: ")
    assert line.endswith((".", "?"))
    assert "defect" not in line
    for part in parts:
        assert str(part) in line
    return line


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A folder of files that are nothing."""
    return bad_files(tmp_path / "bad", bundled_sample())


@pytest.fixture
def mark(bad: Path) -> Path:
    """A folder that exists only if something inside a file was run."""
    return mark_of(bad)


# Looking: nothing begins, so nothing is printed.

LOOKED_AT = {
    "gone.npy": "There is no file",
    "empty.npy": "is empty",
    "empty.mp4": "is empty",
    "empty.npz": "is empty",
    "text.npy": "is not an event recording",
    "text.mp4": "cannot be read as a video",
    "text.bin": "is of no known kind",
    "cut.npy": "cut short",
    "cut.mp4": "cut short",
    "harm.npy": "was blocked",
    "harm2.npy": "was blocked",
    "sound.mp4": "has no video track",
    "no-pictures": "neither a config.json, nor an event recording, nor pictures",
    "other.evprof": "no evprof session",
    "empty.evprof": "is empty",
}


@pytest.mark.parametrize("name", LOOKED_AT)
def test_inspect(evprof, bad, mark, name) -> None:
    line = refused(evprof("inspect", bad / name, "--json"), 1, name, LOOKED_AT[name])
    assert not mark.exists()
    assert ";" in line or "evprof reads" in line or "the file is empty" in line, "the way out is missing"


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("gone.evprof", "does not exist"),
        ("empty.evprof", "no evprof session"),
        ("text.evprof", "no evprof session"),
        ("other.evprof", "no evprof session"),
        ("cut.mp4", "no evprof session"),
        ("no-pictures", "; "),
    ],
)
def test_sessions_that_are_none(evprof, bad, tmp_path, name, fact) -> None:
    out = tmp_path / "out.json"
    for words in (
        ["show", bad / name],
        ["show", bad / name, "--json"],
        ["compare", bad / name, "--json"],
        ["export", bad / name, "--format", "json", "-o", out],
        ["gui", bad / name, "--screenshot", tmp_path / "no-folder" / "w.png"],
    ):
        refused(evprof(*words), 1, *([name, fact] if words[0] != "gui" else []))
    assert not out.exists()


def damaged(session: Path, how: str) -> Path:
    path = session.with_name(f"{how}.evprof")
    content = bytearray(session.read_bytes())
    if how == "cut":
        del content[len(content) // 2 :]
    elif how == "newer":
        content[60:64] = (FORMAT + 1).to_bytes(4, "big")
    elif how == "garbage":
        content[100:] = bytes(len(content) - 100)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("how", "fact"), [("cut", "cannot be read"), ("newer", "update evprof"), ("garbage", "cannot be read")]
)
def test_sessions_that_are_damaged_or_newer(evprof, session, tmp_path, how, fact) -> None:
    path = damaged(session, how)
    before = path.read_bytes()
    for words in (
        ["show", path],
        ["show", path, "--json"],
        ["inspect", path, "--json"],
        ["compare", session, path],
        ["export", path, "--format", "csv", "-o", tmp_path / "out.csv"],
    ):
        refused(evprof(*words), 1, path.name, fact)
    refused(evprof("run", "-o", path), 1, path.name)
    assert path.read_bytes() == before
    assert not (tmp_path / "out.csv").exists()


# Writing: what is in the way stays as it was.


@pytest.mark.parametrize("kind", ["chrome", "json", "csv"])
@pytest.mark.parametrize("place", ["no-folder/out", "folder", "a-file/out"])
def test_exports_to_places_that_cannot_be(evprof, session, tmp_path, kind, place) -> None:
    ending = "csv" if kind == "csv" else "json"
    place = f"{place}.{ending}"
    (tmp_path / f"folder.{ending}").mkdir()
    (tmp_path / "a-file").write_text("precious")
    refused(evprof("export", session, "--format", kind, "-o", tmp_path / place), 1, place.split("/")[-1])
    assert (tmp_path / "a-file").read_text() == "precious"
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are always text")
@pytest.mark.usefixtures("scripted")
def test_names_that_are_no_text_survive_every_way_out(evprof, tmp_path) -> None:
    events = tmp_path / "road\udcff.npy"
    events.write_bytes(b"not read by a script")
    path = tmp_path / "s.evprof"
    run = evprof("run", "--events", events, "-o", path, "--json").document["runs"][0]
    assert run["sample"]["events"]["path"] == str(events)
    for kind, name in (("json", "out.json"), ("chrome", "trace.json"), ("csv", "out.csv")):
        found = evprof("export", path, "--format", kind, "-o", tmp_path / name)
        assert found.code == 0, found.errors
    exported = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert exported["runs"][0]["sample"]["events"]["path"] == str(events)


def test_a_session_of_no_runs_cannot_be_compared_but_shown(evprof, tmp_path) -> None:
    from evprof.session.store import SessionFile

    SessionFile(tmp_path / "none.evprof").close()
    refused(evprof("compare", tmp_path / "none.evprof", "--json"), 1, "none.evprof", "two finished runs")
    assert evprof("show", tmp_path / "none.evprof", "--json").document["runs"] == []


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("command", ["run", "demo"])
def test_outputs_that_cannot_be_written(evprof, bad, inputs, command) -> None:
    words = ["--video", inputs[1]] if command == "run" else ["--headless"]
    for name in ("text.evprof", "empty.evprof", "other.evprof", "no-pictures", "cut.mp4"):
        path = bad / name
        before = path.read_bytes() if path.is_file() else None
        refused(evprof(command, *words, "--json", "-o", path), 1, "-o", name, "name a new file")
        assert before is None or path.read_bytes() == before
    refused(evprof(command, *words, "-o", bad / "text.bin" / "s.evprof"), 1, "-o", "text.bin")


@pytest.mark.usefixtures("scripted")
def test_a_place_that_may_not_be_written_to_is_told_before_anything_runs(
    evprof, session, tmp_path, monkeypatch
) -> None:
    # Tests may run as root, who may write anywhere: the operating system's answer is put in its mouth.
    for forbidden, path in ((tmp_path, tmp_path / "new.evprof"), (session, session)):
        monkeypatch.setattr(os, "access", lambda place, mode, forbidden=forbidden: Path(place) != forbidden)
        refused(evprof("run", "--json", "-o", path), 1, "-o", forbidden, "may not be written to")
    assert not (tmp_path / "new.evprof").exists()


WRONG = [
    ["run", "--events"],
    ["run", "--max-new-tokens", "many"],
    ["run", "--temperature", "nan"],
    ["run", "--top-p", "1.5"],
    ["run", "--seed", "1e3"],
    ["run", "--seed", str(1 << 64)],
    ["run", "--dtype", "int4"],
    ["run", "--warmup", "-1"],
    ["run", "--prompt", "\n\t"],
    ["run", "--prompt", "caf\udce9"],
    ["run", "surplus"],
    ["show"],
    ["show", "a.evprof", "b.evprof"],
    ["compare"],
    ["export", "s.evprof", "-o", "x"],
    ["export", "s.evprof", "--format", "xml", "-o", "x"],
    ["export", "s.evprof", "--format", "csv"],
    ["inspect", "x", "--frames", "few"],
    ["bench"],
    ["bench", "everything"],
    ["gui", "--size", "10"],
    ["gui", "--theme", "pink"],
    ["gui", "--screenshot", "w.png", "--scale", "0"],
    ["gui", "--screenshot", "w.png", "--scale", "nan"],
    ["gui", "--screenshot", "w.png", "--size", "9000x9000", "--scale", "2"],
    ["--nonsense"],
    ["nonsense"],
]


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("words", WRONG, ids=lambda words: " ".join(words).encode("ascii", "replace").decode())
def test_wrong_usage_is_told_apart_from_bad_input(evprof, tmp_path, monkeypatch, words) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.rglob("*"))
    refused(evprof(*words), 2)
    assert set(tmp_path.rglob("*")) == before


# Running: a run that began is saved and printed, with its stages up to where it failed. What is tried before is left
# out here, so that the engine meets it.


@pytest.fixture
def failed_run(evprof: Callable[..., Any], tmp_path: Path, anything_goes: None) -> Callable[..., dict[str, Any]]:
    """Runs what will fail and returns the run, the same from standard output and from the file."""

    def run(*words: object) -> dict[str, Any]:
        path = tmp_path / "failed.evprof"
        found = evprof("run", *words, "--max-new-tokens", 2, "-o", path, "--json")
        assert found.code == 1, found.errors
        assert "Traceback" not in found.errors
        (entry,) = found.document["runs"]
        assert entry["status"] == "failed"
        assert entry["error"].endswith(".")
        assert "\n" not in entry["error"]
        assert entry["error"] in found.errors
        assert evprof("show", path, "--json").document["runs"] == [entry]
        assert evprof("show", path).code == 0
        return dict(entry)

    return run


def stages_of(run: dict[str, Any]) -> list[str]:
    return [stage["name"] for stage in run["stages"]]


RUN_ON = {
    "empty.npy": "is empty",
    "text.npy": "is not an event recording",
    "cut.npy": "cut short",
    "video.npy": "is not an event recording",
    "harm.npy": "was blocked",
    "harm2.npy": "was blocked",
    "no-pictures": "holds no PNG files",
    "empty.mp4": "is empty",
    "text.mp4": "cannot be read as a video",
    "cut.mp4": "cut short",
    "events.mp4": "cannot be read as a video",
    "sound.mp4": "has no video track",
}


@pytest.mark.parametrize("name", RUN_ON)
def test_inputs_are_refused_before_anything_begins(evprof, bad, mark, tmp_path, name) -> None:
    words = ("run", "--video" if name.endswith(".mp4") else "--events", bad / name, "-o", tmp_path / "s.evprof")
    refused(evprof(*words), 1, name)
    assert not mark.exists()
    assert not (tmp_path / "s.evprof").exists()


@pytest.mark.usefixtures("computed")
@pytest.mark.parametrize("name", ["harm.npy", "cut.npy", "cut.mp4"])
def test_inputs_that_fail_in_stage_load(failed_run, bad, mark, name) -> None:
    run = failed_run("--video" if name.endswith(".mp4") else "--events", bad / name)
    assert name in run["error"]
    assert RUN_ON[name] in run["error"]
    assert stages_of(run) == ["load"]
    assert run["token_ids"] == []
    assert run["wall_ms"] >= 0
    assert not mark.exists()


@pytest.mark.usefixtures("computed")
@pytest.mark.parametrize("option", ["--events", "--video"])
def test_a_prompt_longer_than_the_context(failed_run, option) -> None:
    sample = bundled_sample()
    path = sample.events_path if option == "--events" else sample.video_path
    run = failed_run(option, path, "--prompt", "What is in the scene? " * 400)
    assert "2,048" in run["error"]
    assert "shorten the prompt" in run["error"]
    assert stages_of(run) == ["load", "preprocess"]


@pytest.mark.usefixtures("computed", "anything_goes")
def test_one_side_that_fails_does_not_take_the_other_along(evprof, bad, tmp_path) -> None:
    words = ["--events", bad / "cut.npy", "--video", bundled_sample().video_path, "--max-new-tokens", 2]
    found = evprof("run", *words, "-o", tmp_path / "s.evprof", "--json")
    assert found.code == 1
    assert [run["status"] for run in found.document["runs"]] == ["failed", "finished"]
    assert len(found.document["runs"][1]["token_ids"]) == 2


# Checkpoints.

BUNDLED = "evprof-tiny-video-llava"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A copy of the bundled target that may be spoiled."""
    pytest.importorskip("torch")
    import shutil

    from engines import bundled_folder

    source = bundled_folder(BUNDLED)
    assert source is not None
    return Path(shutil.copytree(source, tmp_path / "spoiled"))


def _truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _add_and_drop(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    tensors["language_model.model.third_eye.weight"] = tensors["language_model.model.norm.weight"]
    del tensors["language_model.model.layers.1.mlp.up_proj.weight"]
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, path, metadata={"format": "pt"})


SPOILED: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "missing key": (_add_and_drop, ("spoiled", "lacks", "layers.1.mlp.up_proj.weight")),
    "cut weights": (_truncate, ("model.safetensors", "damaged", "download it again")),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), ("spoiled", "holds no weights")),
    "no JSON": (lambda f: (f / "config.json").write_text("{nope"), ("config.json", "cannot be read as JSON")),
    "bad tokenizer": (lambda f: (f / "tokenizer.json").write_text("{}"), ("tokenizer.json", "download it again")),
}
"""Of each kind one: tests of the engine have the others."""


@pytest.mark.usefixtures("computed")
@pytest.mark.parametrize("name", SPOILED)
def test_spoiled_checkpoints(evprof, failed_run, checkpoint, name) -> None:
    spoil, parts = SPOILED[name]
    spoil(checkpoint)
    run = failed_run("--video", bundled_sample().video_path, "--target", checkpoint)
    for part in parts:
        assert part in run["error"]
    assert stages_of(run) == []
    assert run["model"] is None
    looked = evprof("inspect", checkpoint, "--json")
    if looked.code == 0:
        assert run["error"] in looked.document["problems"]
    else:
        refused(looked, 1, "spoiled")


@pytest.mark.usefixtures("computed")
def test_inspect_lists_what_is_missing_and_what_is_too_much(evprof, checkpoint) -> None:
    _add_and_drop(checkpoint)
    found = evprof("inspect", checkpoint, "--json").document
    assert found["missing"] == ["language_model.model.layers.1.mlp.up_proj.weight"]
    assert found["surplus"] == ["language_model.model.third_eye.weight"]


def test_the_program_itself_says_one_line_and_nothing_else(bad, mark) -> None:
    """As a person meets it: a process, its two streams and its exit code."""
    for words, code in ((["inspect", str(bad / "harm.npy"), "--json"], 1), (["run", "--frames", "0"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "evprof", *words], capture_output=True, text=True, timeout=300, check=False
        )
        assert (done.returncode, done.stdout) == (code, "")
        assert len(done.stderr.splitlines()) == 1
    assert not mark.exists()
