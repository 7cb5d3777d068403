"""`make bench-check`: a ratio that left its bound is told and fails, one that was not measured too."""

from __future__ import annotations

import argparse
import shlex

import pytest

import bench_check
from bench_check import BENCHES, Bound, judged
from benchmarks.table import OwnBenchmarks
from evprof.cli import build_parser

DOCUMENT = {"summary": {"speed": 1.5, "gone": None}, "rows": [{"format": "csv", "ratio": 0.5}, {"format": "dat"}]}


@pytest.mark.parametrize(
    ("bound", "is_kept", "words"),
    [
        (Bound(("summary", "speed"), least=1.3), True, "speed: 1.5 (at least 1.3)"),
        (Bound(("summary", "speed"), least=1.6), False, "speed: 1.5 (at least 1.6)"),
        (Bound(("summary", "speed"), most=1.4), False, "speed: 1.5 (at most 1.4)"),
        (Bound(("rows", "csv", "ratio"), most=0.5), True, "csv ratio: 0.5 (at most 0.5)"),
        (Bound(("rows", "dat", "ratio"), least=0), False, "dat ratio: not measured"),
        (Bound(("rows", "es", "ratio"), least=0), False, "es ratio: not measured"),
        (Bound(("summary", "gone"), least=0), False, "gone: not measured"),
    ],
)
def test_a_bound_is_kept_or_broken(bound: Bound, is_kept: bool, words: str) -> None:
    kept, line = judged(bound, DOCUMENT)
    assert kept == is_kept
    assert line.startswith("kept" if is_kept else "BROKEN")
    assert words in line


@pytest.mark.parametrize("bench", BENCHES)
def test_its_programs_know_their_options(bench: str) -> None:
    program, *words = shlex.split(bench)
    if program == bench_check.OURS:
        parser = argparse.ArgumentParser()
        OwnBenchmarks().add_options(parser)
        assert parser.parse_args([*words, "--json"]).benchmark == words[0]
    else:
        assert [program, words[0]] == ["-m", "evprof"]
        assert build_parser().parse_args([*words[1:], "--json"]).command == "bench"
