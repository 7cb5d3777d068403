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


ENGINE_KEYS = {"ours_vs_hf_eager", "ours_compiled_vs_hf_eager", "decode_mbu", "prefill_mfu", "vision_mfu"}
QUICK_ENGINE = ["engine", "--shape", "tiny", "--tokens", "4", "--repeat", "2", "--contenders", "ours,hf_eager"]


def test_engine(evprof) -> None:
    pytest.importorskip("torch")
    found = evprof("bench", *QUICK_ENGINE, "--device", "cpu", "--json")
    assert found.code == 0, found.errors
    assert found.document["benchmark"] == "engine"
    assert set(found.document["summary"]) >= ENGINE_KEYS
    assert {row["contender"] for row in found.document["rows"]} == {"ours", "hf_eager"}
    assert "ceilings" in found.errors


def test_engine_for_people(evprof) -> None:
    pytest.importorskip("torch")
    found = evprof("bench", *QUICK_ENGINE, "--device", "cpu")
    lines = found.output.splitlines()
    assert [line.split()[:2] for line in lines[1:5]] == [
        ["decode", "ours"],
        ["decode", "hf_eager"],
        ["prefill", "ours"],
        ["prefill", "hf_eager"],
    ]
    assert "100%" in lines[1]
    assert "ours_vs_hf_eager" in found.output


def test_a_shape_that_does_not_fit_is_refused_in_a_sentence(evprof, monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("engines.bench.engine.free_bytes", lambda _device: 16 << 30)
    found = evprof("bench", "engine", "--shape", "7b-llava", "--device", "cpu")
    assert (found.code, found.output) == (1, "")
    assert "16.00 GiB is free" in found.errors
    assert len(found.errors.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["lunch"],
        ["engine", "--shape", "huge"],
        ["engine", "--tokens", "1"],
        ["engine", "--contenders", "nobody"],
        ["engine", "--dtype", "int3"],
        ["overhead", "--shape", "huge"],
        ["overhead", "--pairs", "0"],
    ],
)
def test_refusals(evprof, words) -> None:
    if words[0] in ("overhead", "engine"):
        pytest.importorskip("torch")
    found = evprof("bench", *words)
    assert found.code == 2
    assert len(found.errors.splitlines()) == 1
