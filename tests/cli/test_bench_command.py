"""`evprof bench`, and the benchmarks of evprof itself: documents with the promised keys, refusals in a sentence."""

from __future__ import annotations

import pytest

from benchmarks import engine_process
from benchmarks.processes import run_argv
from evprof.cli.terminal import program

OVERHEAD_KEYS = {"instrumented_vs_off", "instrumented_vs_off_ci95_high", "a_vs_a"}


def test_engine_process_answers(bench, monkeypatch) -> None:
    argv = run_argv("_engine", "1", "1")
    monkeypatch.setattr(program, "engine_argv", lambda: argv)
    monkeypatch.setattr(engine_process, "arrival_ms", lambda: 21.5)
    document = bench("engine-process", "--json").document
    assert document["benchmark"] == "engine-process"
    assert document["environment"]["device"] == "synthetic"
    assert document["summary"]["ready_ms"] > 0
    assert document["summary"]["arrival_ms"] == 21.5


def test_records_of_an_engine_process_arrive() -> None:
    assert engine_process.arrival_ms() > 0


@pytest.mark.whole
def test_overhead(evprof) -> None:
    pytest.importorskip("torch")
    found = evprof("bench", "overhead", "--shape", "tiny", "--pairs", "2", "--json")
    assert found.code == 0, found.errors
    assert set(found.document["summary"]) >= OVERHEAD_KEYS
    assert len(found.document["rows"]) > 0


ENGINE_KEYS = {"ours_vs_hf_eager", "ours_compiled_vs_hf_eager", "decode_mbu", "prefill_mfu", "vision_mfu"}
QUICK_ENGINE = ["engine", "--shape", "tiny", "--tokens", "4", "--repeat", "2", "--contenders", "ours,hf_eager"]


def test_engine(bench) -> None:
    pytest.importorskip("torch")
    found = bench(*QUICK_ENGINE, "--device", "cpu", "--json")
    assert found.code == 0, found.errors
    assert found.document["benchmark"] == "engine"
    assert set(found.document["summary"]) >= ENGINE_KEYS
    assert {row["contender"] for row in found.document["rows"]} == {"ours", "hf_eager"}
    assert "ceilings" in found.errors


def test_a_shape_that_does_not_fit_is_refused_in_a_sentence(bench, monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("benchmarks.engine.free_bytes", lambda _device: 16 << 30)
    found = bench("engine", "--shape", "7b-llava", "--device", "cpu")
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
    ],
)
def test_refusals_of_benchmarks_of_evprof(bench, words) -> None:
    pytest.importorskip("torch")
    found = bench(*words)
    assert found.code == 2
    assert len(found.errors.splitlines()) == 1


@pytest.mark.parametrize("words", [["lunch"], ["overhead", "--shape", "huge"], ["overhead", "--pairs", "0"]])
def test_refusals(evprof, words) -> None:
    pytest.importorskip("torch")
    found = evprof("bench", *words)
    assert found.code == 2
    assert len(found.errors.splitlines()) == 1


def test_switches_of_the_bundled_pair(computed, evprof) -> None:
    words = (
        "bench",
        "switches",
        "--only",
        "nothing",
        "visual-keep 0.5 similarity",
        "projector",
        "--repeat",
        "3",
    )
    found = evprof(*words, "--max-new-tokens", "4", "--json")
    assert found.code == 0, found.errors
    document = found.document
    assert set(document) == {"schema_version", "benchmark", "environment", "measured_at", "settings", "rows", "summary"}
    rows = {(row["switch"], row["role"]): row for row in document["rows"]}
    assert len(rows) == 6
    for role in ("draft", "target"):
        equal, pruned = rows["nothing", role], rows["visual-keep", role]
        assert equal["agreement"]["rate"] == 1.0
        assert 0.2 < equal["run_speed"] < 5
        assert pruned["kv_on_bytes"] < 0.9 * pruned["kv_off_bytes"]
        assert pruned["weights_on_bytes"] == pruned["weights_off_bytes"] > 1_000_000
    assert "eventgpt" in rows["projector", "target"]["reason"]
