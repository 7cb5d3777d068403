"""The bundled pair on the bundled sample, computed: the program as a stranger meets it, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

from shown_commands import ROOT

pytest.importorskip("torch")

SCENE_WORDS = ("road", "street", "left", "closer", "car", "coach", "truck", "tree", "house", "sky")


class RealDemo(NamedTuple):
    """What the demo printed on a terminal, and the document of the session that it saved."""

    printed: str
    document: dict[str, Any]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> RealDemo:
    """`demo --headless` as the page of the first ten minutes shows it."""
    from evprof.cli.run.recorded_session import read_runs
    from evprof.metrics.document import session_document

    folder = tmp_path_factory.mktemp("demo")
    words = ["-m", "evprof", "demo", "--headless", "-o", "demo.evprof"]
    environment = {
        **os.environ,
        "XDG_DATA_HOME": str(folder),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        cwd=folder,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    document = session_document(read_runs(str(folder / "demo.evprof")))
    return RealDemo(done.stdout, json.loads(json.dumps(document)))


def _shape(printed: str) -> list[str]:
    """The table, the answers and the last lines without what differs from machine to machine: progress, verdicts,
    numbers, units and the folder."""
    # A sentence that was wrapped may begin a line with its runs; an answer stands behind its runs.
    kept = re.compile(r"configuration|\d+ · |runs \d.*\"|session saved|picture of it")
    lines = [line for line in printed.splitlines() if kept.match(line)]
    return [" ".join(re.sub(r"[\d.,]+( (ms|µs|s)\b)?", "N", re.sub(r"/\S*/", "", line)).split()) for line in lines]


def test_the_page_shows_lines_as_the_demo_prints_them(demo: RealDemo) -> None:
    page = (ROOT / "docs" / "first-ten-minutes.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- demo -->\n.*?```text\n(.*?)```\n<!-- demo ends -->", page, re.DOTALL)
    assert _shape(demo.printed) == _shape(shown[1])
    assert len(_shape(demo.printed)) == 8


def test_sentences_name_what_is_in_the_scene(demo: RealDemo) -> None:
    for run in demo.document["runs"]:
        assert sum(word in run["text"].lower() for word in SCENE_WORDS) >= 2, run["text"]


def test_speculation_changes_no_token(demo: RealDemo) -> None:
    target, speculative = (
        next(run for run in demo.document["runs"] if (run["mode"], run["role"]) == wanted)
        for wanted in (("side-by-side", "target"), ("speculative", "target"))
    )
    assert speculative["token_ids"] == target["token_ids"]
    figures = speculative["speculation"]
    assert figures["emitted"] == figures["accepted"] + figures["bonus"] == len(target["token_ids"]) - 1
    assert sum(figures["accepted_per_position"]) == figures["accepted"] <= figures["drafted"]
    assert speculative["token_origin"].count("accepted") == figures["accepted"]
    assert figures["accepted"] > figures["drafted"] / 2, "a drafter that is worth showing"
