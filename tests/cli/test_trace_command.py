"""`evprof show TRACE`: tables on a terminal, one JSON document, a trace to compare with, and what cannot be read."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

from made_traces import write_decoding

ROOT = Path(__file__).resolve().parents[2]
OPERATOR = {"name", "calls", "host_self_ms", "host_total_ms", "device_self_ms", "device_total_ms"}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "decoding.pt.trace.json"
    write_decoding(path, 3, 2)
    return path


def test_what_a_person_sees(evprof: Any, trace: Path) -> None:
    found = evprof("show", trace, "--rows", "2")
    assert (found.code, found.errors) == (0, "")
    assert "Time of 3 steps" in found.output
    shares = [
        float(share) for share in re.findall(r"^[A-Z][\w ]+?  +[\d.]+ .s +([\d.]+) %$", found.output, re.MULTILINE)
    ]
    assert sum(shares) == pytest.approx(100, abs=0.3)
    assert "Operators (the first 2 of 14)" in found.output
    for part in ("Kernels", "Memory", "Stages", "NVIDIA H100 80GB HBM3", "aten::mm"):
        assert part in found.output


def test_a_folder_is_its_only_trace(evprof: Any, trace: Path) -> None:
    """Also one that `--torch-trace` wrote, with a folder for each run."""
    run = trace.parent / "traces" / "run1"
    run.mkdir(parents=True)
    inside = run / "vm_7.pt.trace.json"
    inside.write_bytes(trace.read_bytes())
    for folder in (run, run.parent):
        found = evprof("show", folder, "--json", "--against", folder)
        assert (found.code, found.document["path"]) == (0, str(inside))


def test_a_folder_of_no_or_several_traces_says_so(evprof: Any, trace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pt.trace.json.gz"
    other.write_bytes(gzip.compress(trace.read_bytes()))
    (tmp_path / "scene.json").write_text("{}")
    found = evprof("show", tmp_path)
    assert found.code == 1
    assert found.errors == f"evprof: {tmp_path} holds 2 traces; name one: {trace}, {other}.\n"
    (tmp_path / "empty").mkdir()
    found = evprof("show", tmp_path / "empty")
    assert found.code == 1
    assert "holds no *.pt.trace.json[.gz]" in found.errors


def test_the_document(evprof: Any, trace: Path) -> None:
    found = evprof("show", trace, "--json")
    assert found.code == 0
    document = found.document
    assert (document["schema_version"], document["path"], document["problems"]) == (1, str(trace), [])
    assert sum(one["ms"] for one in document["categories"]) == pytest.approx(document["wall_ms"])
    assert sum(one["share"] for one in document["categories"]) == pytest.approx(1)
    assert all(row.keys() >= OPERATOR for row in document["operators"])
    assert [step["name"] for step in document["steps"]] == ["0", "1", "2"]
    assert document["memory"]["devices"][0]["device"] == "GPU 0"
    assert document["difference"] is None


def keys_of(value: Any) -> set[str]:
    """Every key of a document, names of steps' categories apart."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value)) if value else set()
    if isinstance(value, dict):
        return set(value).union(*(keys_of(inner) for inner in value.values()))
    return set()


def test_the_page_names_every_key(evprof: Any, trace: Path) -> None:
    text = (ROOT / "docs/json.md").read_text(encoding="utf-8")
    text = text[text.index("## The JSON of `trace`") : text.index("## The JSON of `doctor`")]
    document = evprof("show", trace, "--against", trace, "--json").document
    named = set(re.findall(r"`([a-z_]+)`", text)) | {"schema_version"}
    keys = keys_of(document)
    assert {key for key in keys if key == key.lower()} <= named


def test_what_changed(evprof: Any, trace: Path, tmp_path: Path) -> None:
    longer = tmp_path / "longer.pt.trace.json.gz"
    write_decoding(tmp_path / "longer.json", 6, 2)
    longer.write_bytes(gzip.compress((tmp_path / "longer.json").read_bytes()))
    found = evprof("show", longer, "--against", trace, "--json").document
    now = {row["name"]: row for row in found["operators"]}
    before = {row["name"]: row for row in evprof("show", trace, "--json").document["operators"]}
    assert {row["name"] for row in found["difference"]["operators"]} == now.keys() | before.keys()
    for row in found["difference"]["operators"]:
        assert row["now"]["calls"] == now[row["name"]]["calls"] == 2 * row["against"]["calls"]
        assert row["against"]["host_self_ms"] == before[row["name"]]["host_self_ms"]
        delta = now[row["name"]]["device_self_ms"] - before[row["name"]]["device_self_ms"]
        assert row["device_self_delta_ms"] == pytest.approx(delta)
    changes = [abs(row["device_self_delta_ms"]) for row in found["difference"]["operators"]]
    assert changes == sorted(changes, reverse=True)
    text = evprof("show", longer, "--against", trace).output
    assert "against" in text
    assert re.search(r"aten::mm +84 +42 ", text) or re.search(r"aten::mm +\d+ +\d+ .*\+", text)


def test_a_damaged_trace_is_shown_as_far_as_it_is_whole(evprof: Any, trace: Path) -> None:
    content = trace.read_bytes()
    trace.write_bytes(content[: len(content) // 2])
    found = evprof("show", trace)
    assert found.code == 0
    assert "aten::mm" in found.output
    assert "The trace is damaged" in found.errors


@pytest.mark.parametrize("content", [b"", b"{}", b"no trace", b"\x1f\x8bno gzip"])
def test_what_is_no_trace_is_a_sentence(evprof: Any, trace: Path, content: bytes) -> None:
    trace.write_bytes(content)
    found = evprof("show", trace, "--json")
    assert (found.code, found.output) == (1, "")
    assert str(trace) in found.errors
    assert found.errors.count("\n") == 1


def test_slips(evprof: Any, trace: Path) -> None:
    assert evprof("show", trace, "--rows", "0").code == 2
    assert evprof("show", trace.parent / "none.json").code == 1
    assert "--runs is for a session" in evprof("show", trace, "--runs", "1").errors
