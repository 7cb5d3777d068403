"""`evprof bench gpu` for real: a checkout, and nothing of what a lent GPU machine may lack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from evprof.cli._gpu_section import SECTION_WORK
from evprof.cli.bench.gpu import gpu_page
from evprof.run.gpu_bench.plan import SECTIONS

ROOT = Path(__file__).resolve().parents[2]

ABSENT = [
    "PySide6",
    "shiboken6",
    "pyqtgraph",
    "av",
    "platformdirs",
    "ijson",
    "hdf5plugin",
    "aedat",
    "tensorboard",
    "torch_tb_profiler",
    "torchao",
    "bitsandbytes",
    "hqq",
    "faery",
    "rosbags",
    "lz4",
    "torchcodec",
    "scipy",
    "evprof",
    "_evprof",
    "__editable__",
]
"""What docs/gpu.md says is not needed: beginnings of names below site-packages."""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment whose Python finds everything installed here but ABSENT, and evprof in the checkout alone."""
    site = tmp_path_factory.mktemp("site")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.suffix != ".pth" and not any(path.name.lower().startswith(name.lower()) for name in ABSENT):
            (site / path.name).symlink_to(path)
    for path in Path(sysconfig.get_path("purelib")).glob("av*"):
        if not path.name.lower().startswith(("av-", "av.")) and path.name != "av" and not (site / path.name).exists():
            (site / path.name).symlink_to(path)
    hidden = {name: "" for name in os.environ if name.startswith(("EVPROF", "PYTEST"))}
    return {**os.environ, **hidden, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "PYTHONNOUSERSITE": "1"}


def evprof_there(bare: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Runs it with the interpreter below the virtual environment, which knows no installed packages."""
    interpreter = getattr(sys, "_base_executable", sys.executable)
    argv = [interpreter, "-m", "evprof", *words]
    return subprocess.run(argv, cwd=ROOT, env=bare, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpu") / "out"


@pytest.fixture(scope="module")
def document(bare: dict[str, str], folder: Path) -> dict[str, Any]:
    """Everything, once."""
    done = evprof_there(bare, "bench", "gpu", "--out", str(folder), "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr + (done.stdout[-2000:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows_of(document: dict[str, Any], figure: str) -> list[dict[str, Any]]:
    return [row for row in document["rows"] if row["figure"] == figure]


def test_every_section_is_done_without_what_is_not_needed(document, folder) -> None:
    assert [section["name"] for section in document["sections"]] == [section.name for section in SECTIONS]
    assert {section["name"]: section["status"] for section in document["sections"]} == dict.fromkeys(
        SECTION_WORK, "done"
    )
    summary = document["summary"]
    assert (summary["sections"], summary["failed"], summary["is_complete"]) == (len(SECTIONS), 0, True)
    assert json.loads((folder / "gpu.json").read_text(encoding="utf-8")) == document
    assert sorted(path.name for path in (folder / "logs").iterdir()) == sorted(f"{name}.txt" for name in SECTION_WORK)


def test_a_cpu_promises_nothing(document) -> None:
    assert [document["summary"][key] for key in ("decode_mbu_640", "decode_mbu_4643", "ours_vs_hf_eager")] == [None] * 3
    assert {target["verdict"] for target in document["targets"]} == {"not measured"}
    assert document["settings"] == {"device": "cpu", "device_type": "cpu", "dtype": "float32", "size": "tiny"}


def test_each_section_left_what_it_measures(document) -> None:
    assert {row["section"] for row in document["rows"]} == set(SECTION_WORK)
    assert rows_of(document, "tests")[0]["skipped"] > 50
    steps = [row for row in rows_of(document, "step") if row["phase"] == "decode" and row["turns"]]
    assert {row["contender"] for row in steps} == {"ours", "hf_eager"}
    assert all(row["same_tokens"] == 1.0 for row in steps)
    assert any(row["phase"] == "vision" and row["turns"] for row in rows_of(document, "step"))
    assert rows_of(document, "overhead")[0]["pairs"] > 1
    assert {row["status"] for row in rows_of(document, "switch")} == {"measured"}
    parallel = rows_of(document, "parallel")[0]
    assert parallel["drafted"] > 0
    assert parallel["overlap_ms"] > 0
    assert {row["drafted"] for row in rows_of(document, "block")} == set(range(17))
    assert [row["role"] for row in rows_of(document, "memory")] == ["target", "draft"]
    trace = rows_of(document, "trace")[0]
    assert trace["operators"] > 100
    assert trace["kernels"] is None


def test_what_needs_a_gpu_says_so(document) -> None:
    for row in rows_of(document, "memory"):
        assert row["peak_allocated_bytes"] is None
        assert "GPU" in row["reason"]
    assert all(row["kernels_per_token"] is None for row in rows_of(document, "step") if "kernels_per_token" in row)


def test_the_page_tells_the_document(document, folder) -> None:
    page = (folder / "gpu.md").read_text(encoding="utf-8")
    assert page == gpu_page(document)
    assert page.startswith(document["environment"]["device"])
    for title in ("What was promised", "Sections", "Decode", "Prefill and vision", "Every switch once", "Memory"):
        assert f"**{title}**" in page
    for section in SECTIONS:
        assert f"| {section.name} | done |" in page
    assert page.count("| not measured |") == len(document["targets"])
    assert "None" not in page


def test_the_plan_is_printed_and_nothing_started(evprof) -> None:
    found = evprof("bench", "gpu", "--plan")
    assert found.code == 0
    assert all(section.name in found.output for section in SECTIONS)
    assert "540 s" in found.output
    assert evprof("bench", "gpu", "--plan", "--json").document["most_s"] == 540


def test_refusals(evprof, tmp_path) -> None:
    for words, sentence in (
        (["gpu"], "--out"),
        (["gpu", "--out", tmp_path, "--only", "nosuch"], "no section 'nosuch'"),
        (["gpu", "--out", tmp_path, "--shape", "160m"], "tiny or 7b"),
        (["engine", "--plan"], "bench gpu"),
    ):
        found = evprof("bench", *words, "--json")
        assert (found.code, found.output) == (2, ""), words
        assert sentence in found.errors


def test_a_device_that_is_not_there_fails_in_a_sentence(evprof, tmp_path) -> None:
    found = evprof("bench", "gpu", "--out", tmp_path, "--only", "ceilings", "--device", "cuda:9", "--json")
    assert found.code == 1
    (section,) = found.document["sections"]
    assert section["status"] == "failed"
    assert "cuda:9" in section["sentence"]
    assert "Traceback" not in section["sentence"]
