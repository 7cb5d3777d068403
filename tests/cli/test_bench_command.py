"""`evprof bench`: documents with the promised keys, refusals in a sentence."""

from __future__ import annotations

import sys

import pytest

from evprof.cli import program

OVERHEAD_KEYS = {"instrumented_vs_off", "instrumented_vs_off_ci95_high", "a_vs_a", "windowed_vs_headless"}


def test_engine_process_answers(evprof, monkeypatch) -> None:
    argv = [sys.executable, "-m", "evprof", "_engine", "--synthetic", "rate:1:1"]
    monkeypatch.setattr(program, "engine_argv", lambda: argv)
    document = evprof("bench", "engine-process", "--json").document
    assert document["benchmark"] == "engine-process"
    assert document["environment"]["device"] == "synthetic"
    assert 0 < document["summary"]["ready_ms"] < 60_000


def test_an_engine_process_that_ends_at_once_is_told(evprof, monkeypatch) -> None:
    monkeypatch.setattr(program, "engine_argv", lambda: [sys.executable, "-c", "raise SystemExit(3)"])
    found = evprof("bench", "engine-process", "--json")
    assert (found.code, found.output) == (1, "")
    assert "engine process" in found.errors


def test_overhead(evprof) -> None:
    pytest.importorskip("torch")
    found = evprof("bench", "overhead", "--shape", "tiny", "--pairs", "2", "--json")
    assert found.code == 0, found.errors
    assert set(found.document["summary"]) >= OVERHEAD_KEYS
    assert len(found.document["rows"]) > 0


@pytest.mark.parametrize(
    "words", [["lunch"], ["engine"], ["overhead", "--shape", "huge"], ["overhead", "--pairs", "0"]]
)
def test_refusals(evprof, words) -> None:
    if words[0] == "overhead":
        pytest.importorskip("torch")
    found = evprof("bench", *words)
    assert found.code == 2
    assert len(found.errors.splitlines()) == 1
