"""`evprof inspect` and `evprof run` on lists of samples."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from evprof.loaders.bundled import bundled_samples

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Bundled samples as EventGPT lists them: the second without video, the third without events, one without both."""
    entries = []
    for number, sample in enumerate(bundled_samples()):
        stem = f"drive/{number:06d}"
        for folder, suffix, source in (("event_npy", ".npy", sample.events_path), ("mp4", ".mp4", sample.video_path)):
            place = tmp_path / folder / f"{stem}{suffix}"
            place.parent.mkdir(parents=True, exist_ok=True)
            if source is not None and (number, folder) not in {(1, "mp4"), (2, "event_npy")}:
                shutil.copyfile(source, place)
        conversations = [
            {"from": "human", "value": f"<event>\n{sample.prompt}"},
            {"from": "gpt", "value": "A street." if number == 0 else ""},
            {"from": "human", "value": "And then?"},
        ]
        entries.append(
            {"id": sample.name, "event_data": f"{stem}.npy", "video_data": stem, "conversations": conversations}
        )
    entries.append({"id": "gone", "event_data": "drive/9.npy", "video_data": "drive/9", "conversations": []})
    path = tmp_path / "EventGPT_Instruction_Subset.json"
    path.write_text(json.dumps(entries))
    return path


def test_the_document_of_a_manifest(evprof, dataset: Path) -> None:
    found = evprof("inspect", dataset, "--json")
    assert found.code == 0, found.errors
    prompts = {sample.prompt for sample in bundled_samples()}
    assert found.document == {
        "schema_version": 1,
        "path": str(dataset),
        "kind": "manifest",
        "problems": [
            "Row 2: its video 'mp4/drive/000001.mp4' is not there; the sample has only its events.",
            "Row 3: its events 'event_npy/drive/000002.npy' are not there; the sample has only its video.",
            "Row 4 is skipped, because its events 'event_npy/drive/9.npy' are not there and its video "
            "'mp4/drive/9.mp4' is not there.",
            "3 later questions left out; --questions all takes them.",
        ],
        "format": "instruction",
        "rows": 4,
        "samples": 3,
        "clips": 0,
        "with_events": 2,
        "with_video": 2,
        "with_both": 1,
        "with_reference": 1,
        "prompts": len(prompts),
    }


def test_a_manifest_for_people_to_read(evprof, dataset: Path) -> None:
    output = evprof("inspect", dataset).output
    assert re.search(r"^with video +2 \(67 %\)$", output, re.MULTILINE)
    assert re.search(r"^with a reference answer +1 \(33 %\)$", output, re.MULTILINE)
    assert re.search(r"^problems:\n  Row 2: its video 'mp4/drive/000001.mp4' is not there;", output, re.MULTILINE)
    assert max(map(len, output.splitlines())) <= 120 or str(dataset) in output


def test_a_list_without_problems_has_none(evprof, inputs, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("events,video\nroad.npy,road.mp4\n")
    output = evprof("inspect", tmp_path / "list.csv").output
    assert "problems:" not in output
    assert re.search(r"^with both +1$", output, re.MULTILINE)


def test_what_is_no_list_says_why(evprof, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text('events,video\nroad.npy,"road.mp4\n')
    found = evprof("inspect", tmp_path / "list.csv")
    assert found.code == 1
    assert "is no valid CSV in row 1" in found.errors
    assert "Traceback" not in found.errors


def test_a_manifest_has_no_frames_and_fits_nowhere(evprof, dataset: Path, tmp_path: Path) -> None:
    frames = evprof("inspect", dataset, "--save-frames", tmp_path / "frames")
    assert frames.code == 1
    assert "is a manifest, which has no frames" in frames.errors
    assert evprof("inspect", dataset, "--memory", "24GB").code == 2


def test_the_pages_name_every_key(evprof, dataset: Path) -> None:
    named = set(re.findall(r"`([a-z_0-9]+)", (ROOT / "docs/json.md").read_text(encoding="utf-8")))
    assert set(evprof("inspect", dataset, "--json").document) <= named | {"path"}


def test_a_run_takes_the_frames_of_one_clip_among_others(scripted, evprof, tmp_path: Path) -> None:
    for name in ("1_0.png", "1_1.png", "2_0.png"):
        (tmp_path / name).write_bytes(b"not read by a script")
    found = evprof("run", "--events", tmp_path / "1_*.png", "-o", tmp_path / "s.evprof", "--json")
    assert found.code == 0, found.errors
    assert found.document["runs"][0]["sample"]["events"]["path"] == str(tmp_path / "1_*.png")
    gone = evprof("run", "--events", tmp_path / "3_*.png", "-o", tmp_path / "s.evprof")
    assert gone.code == 1
    assert "holds no PNG files" in gone.errors


def test_the_frames_of_one_clip_are_inspected(evprof, tmp_path: Path) -> None:
    sample = bundled_samples()[0]
    assert evprof("inspect", sample.events_path, "--save-frames", tmp_path / "all", "--frames", 5).code == 0
    for number in range(5):
        shutil.copyfile(tmp_path / "all" / f"frame_{number:02d}.png", tmp_path / "all" / f"7_{number}.png")
    found = evprof("inspect", tmp_path / "all" / "7_*.png", "--json")
    assert found.code == 0, found.errors
    assert (found.document["kind"], found.document["frames"]) == ("events", 5)
