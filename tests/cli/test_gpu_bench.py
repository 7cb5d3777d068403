"""`evprof bench gpu` for real: a checkout, and nothing of what a lent GPU machine may lack."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from bare_machine import ROOT, bare_environment
from evprof.cli.bench.gpu import gpu_page
from evprof.cli.bench.gpu_section import SECTION_WORK
from evprof.run.gpu_bench.plan import SECTIONS, by_process


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that lack what such a machine lacks."""
    return bare_environment(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpu") / "out"


@pytest.fixture(scope="module")
def document(bare: dict[str, str], folder: Path) -> dict[str, Any]:
    """Everything, once."""
    argv = [sys.executable, "-m", "evprof", "bench", "gpu", "--out", str(folder), "--device", "cpu", "--json"]
    done = subprocess.run(argv, cwd=ROOT, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows_of(document: dict[str, Any], figure: str) -> list[dict[str, Any]]:
    return [row for row in document["rows"] if row["figure"] == figure]


@pytest.mark.whole
def test_every_section_is_done_without_what_is_not_needed(document, folder) -> None:
    assert [section["name"] for section in document["sections"]] == [section.name for section in SECTIONS]
    assert {section["name"]: section["status"] for section in document["sections"]} == dict.fromkeys(
        SECTION_WORK, "done"
    )
    summary = document["summary"]
    assert (summary["sections"], summary["failed"], summary["is_complete"]) == (len(SECTIONS), 0, True)
    assert json.loads((folder / "gpu.json").read_text(encoding="utf-8")) == document
    assert sorted(path.name for path in (folder / "logs").iterdir()) == ["1.txt", "2.txt"]
    assert len(document["start_seconds"]) == len(by_process(SECTIONS)) == 2


@pytest.mark.whole
def test_each_section_left_what_it_measures(document) -> None:
    assert {row["section"] for row in document["rows"]} == set(SECTION_WORK)
    steps = [row for row in rows_of(document, "step") if row["phase"] == "decode" and row["turns"]]
    assert {row["contender"] for row in steps} == {"ours", "ours_identical", "hf_eager"}
    away = {row["contender"]: row["reason"] for row in rows_of(document, "step") if not row["turns"]}
    assert {name for name, reason in away.items() if reason == "it needs a CUDA device"} == {
        "ours_graphs",
        "ours_fused",
    }
    assert all(row["same_tokens"] == 1.0 for row in steps)
    assert any(row["phase"] == "vision" and row["turns"] for row in rows_of(document, "step"))
    assert rows_of(document, "overhead")[0]["pairs"] > 1
    assert {row["status"] for row in rows_of(document, "switch")} == {"measured"}
    parallel = rows_of(document, "parallel")[0]
    assert parallel["drafted"] > 0
    assert parallel["overlap_ms"] > 0
    assert {row["drafted"] for row in rows_of(document, "block")} == set(range(17))
    assert [row["role"] for row in rows_of(document, "memory")] == ["target", "draft"]
    assert len(rows_of(document, "ceilings")) == 1
    assert rows_of(document, "energy")[0]["tokens"] == 32
    trace = rows_of(document, "trace")[0]
    assert trace["operators"] > 100
    assert trace["kernels"] is None


@pytest.mark.whole
def test_the_page_tells_the_document(document, folder) -> None:
    page = (folder / "gpu.md").read_text(encoding="utf-8")
    assert page == gpu_page(document)
    assert page.startswith(document["environment"]["device"])
    for title in ("Sections", "Decode, prefill and vision", "Every switch once", "Memory"):
        assert f"**{title}**" in page
    for section in SECTIONS:
        assert f"| {section.name} | done |" in page
    assert "None" not in page


def test_the_plan_is_printed_and_nothing_started(evprof) -> None:
    found = evprof("bench", "gpu", "--plan")
    assert found.code == 0
    assert re.findall(r"^(\w+): .* at most \d+ s$", found.output, re.MULTILINE) == [one.name for one in SECTIONS]
    assert "540 s" in found.output
    document = evprof("bench", "gpu", "--plan", "--json").document
    limits_s = sum(section["limit_s"] for section in document["plan"])
    assert document["limit_s"] == document["processes"] * document["start_s"] + limits_s <= document["most_s"] == 540


def test_refusals(evprof, tmp_path) -> None:
    for words, sentence in (
        (["gpu"], "--out"),
        (["gpu", "--out", tmp_path, "--only", "nosuch"], "no section 'nosuch'"),
        (["gpu", "--out", tmp_path, "--shape", "160m"], "tiny or 7b"),
        (["overhead", "--plan"], "no option --plan"),
    ):
        found = evprof("bench", *words, "--json")
        assert (found.code, found.output) == (2, ""), words
        assert sentence in found.errors


def test_a_device_that_is_not_there_fails_in_a_sentence(evprof, tmp_path) -> None:
    found = evprof("bench", "gpu", "--out", tmp_path, "--only", "steps", "--device", "cuda:9", "--json")
    assert found.code == 1
    (section,) = found.document["sections"]
    assert section["status"] == "failed"
    assert "cuda:9" in section["sentence"]
    assert "Traceback" not in section["sentence"]


# The pages


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(keys_of(each) for each in value.values()))
    return set().union(*(keys_of(each) for each in value)) if isinstance(value, list) else set()


@pytest.mark.whole
def test_the_json_page_names_every_key_of_ours(document) -> None:
    page = (ROOT / "docs/json.md").read_text(encoding="utf-8")
    own = page[page.index("## `evprof bench gpu`") :].partition("\n## `evprof bench repeatability`")[0]
    named = set(re.findall(r"`([a-z_0-9]+)`", page))
    taken = {"step", "overhead", "switch"}  # described with the benchmarks they come from
    found = keys_of([row for row in document["rows"] if row["figure"] not in taken])
    found |= keys_of([document[name] for name in ("sections", "summary", "settings")]) | set(document)
    endings = ("_low", "_high", "_least", "_most", "_together_ms", "_alone_ms", "_slowdown")
    assert {key for key in found if key not in named and not key.endswith(endings)} == {"engine_session"} & found
    assert set(document) - {"schema_version", "benchmark"} <= set(re.findall(r"`([a-z_0-9]+)`", own))
    steps = [row for row in rows_of(document, "step") if row["phase"] == "decode"]
    assert keys_of(steps) - {"section", "figure"} <= named


def test_the_page_of_gpu_machines_tells_the_plan() -> None:
    page = (ROOT / "docs/gpu.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(\w+)` \| .* \| (\d+) \|$", page, re.MULTILINE)
    assert told == [(section.name, str(section.limit_s)) for section in SECTIONS]
