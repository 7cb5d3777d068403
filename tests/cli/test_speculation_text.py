"""Speculation in the terminal: one verdict, every round on request, and parallel prefill."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evprof.cli.run.text import print_runs, rejection_text
from evprof.cli.terminal.console import Console
from evprof.core.records import SpanRecord, TokenRecord
from evprof.core.run_info import RunInfo, SpeculationFacts
from evprof.core.run_log import RunLog
from evprof.metrics.speculation.failure_modes import Rejection


@pytest.fixture
def weighed(scripted: None, evprof: Callable, inputs: tuple[Path, Path], tmp_path: Path) -> Path:
    """The target alone, then speculation, twice each."""
    path = tmp_path / "weighed.evprof"
    asked: tuple[Any, ...] = ("--events", inputs[0], "--video", inputs[1], "--warmup", 1, "--repeat", 2, "-o", path)
    for mode in ("target", "speculative"):
        assert evprof("run", "--mode", mode, *asked).code == 0
    return path


def test_show_prints_one_verdict_for_all_repeats(evprof: Callable, weighed: Path) -> None:
    output = evprof("show", weighed).output
    assert output.count("2 runs against baseline runs 2, 3") == 1
    assert "Draft acceptance" in output


def test_show_lists_rounds_on_request(evprof: Callable, weighed: Path) -> None:
    said = evprof("show", weighed, "--rounds").output
    lines = said.splitlines()
    heads = [number for number, line in enumerate(lines) if line.split()[:3] == ["round", "start", "draft"]]
    assert len(heads) == 3  # plain runs have no rounds
    first = lines[heads[0] + 1]
    assert "3 of 5" in first
    assert first.endswith(": content")
    assert "5 of 5" in lines[heads[0] + 2]


def test_json_of_the_same(evprof: Callable, weighed: Path) -> None:
    document = json.loads(evprof("show", weighed, "--json").output)
    blocks = [run["speculation"] for run in document["runs"]]
    assert blocks[:3] == [None] * 3
    assert blocks[5]["failures"]["counts"] == {"shifted": 1, "surface": 3, "content": 4}
    assert blocks[5]["prediction"]["measured"]["end-to-end"]["plain_runs"] == 2
    assert (blocks[5]["kind"], blocks[5]["is_lossless"]) == ("model", True)
    assert blocks[5]["window"] is None


def test_parallel_prefill_in_the_terminal_and_its_json(evprof: Callable, weighed: Path, inputs, tmp_path) -> None:
    asked: tuple[Any, ...] = (
        "--events",
        inputs[0],
        "--video",
        inputs[1],
        "--mode",
        "parallel-prefill",
        "--hidden-tokens",
        6,
    )
    asked += ("--warmup", 1)
    found = evprof("run", *asked, "-o", weighed, "--json")
    assert found.code == 0, found.errors
    [_, run] = json.loads(found.output)["runs"]
    window = run["speculation"]["window"]
    assert (window["drafted"], window["accepted"]) == (6, 5)
    assert window["net_gain_ms"] is not None  # weighed against the runs that were in the file already
    assert window["with_load_ms"] > window["prefill_ms"]
    said = evprof("show", weighed, "--rounds").output
    assert "5 of 6 hidden tokens were accepted" in said
    assert "hidden in the prefill" in said


def test_a_lossy_answer_says_so() -> None:
    run = RunLog(RunInfo(1, 1, 0, "target", "kv-adapted", status="finished"))
    run.info.speculation = SpeculationFacts("map", "kv", is_lossless=False)
    run.absorb(TokenRecord(1, "target", 0, 5, "target", -1, 1, "a"))
    run.absorb(SpanRecord(1, 0, -1, 1, "target", "decode", 0, 1))
    stream = io.StringIO()
    print_runs([run], Console(stream), [run], has_rounds=True)
    assert "  Lossy" in stream.getvalue() or "Lossy: the target" in stream.getvalue()


def test_words_for_what_is_not_known() -> None:
    bare = Rejection(0, 3, 5, 2, " a", "", None, None, None, "content")
    assert rejection_text(bare) == 'draft " a", target the end: content'
    full = Rejection(0, 3, 5, 2, " a", " b", 0.5, 0.25, 0.75, "shifted")
    assert rejection_text(full) == 'draft " a" (50.0 %), target " b" (75.0 %): shifted'
