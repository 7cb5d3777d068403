"""`evprof bench`, and the benchmarks of evprof itself: documents with the promised keys, refusals in a sentence."""

from __future__ import annotations

import io

import pytest

from benchmarks import engine_process
from benchmarks.processes import run_argv
from evprof.cli.bench.model_reports import switch_blocks
from evprof.cli.terminal import program
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.tables import print_blocks

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
        "batch 2",
        "--repeat",
        "3",
    )
    found = evprof(*words, "--max-new-tokens", "4", "--json")
    assert found.code == 0, found.errors
    document = found.document
    assert set(document) == {"schema_version", "benchmark", "environment", "measured_at", "settings", "rows", "summary"}
    rows = {(row["switch"], row["role"]): row for row in document["rows"]}
    assert len(rows) == 8
    for role in ("draft", "target"):
        equal, pruned = rows["nothing", role], rows["visual-keep", role]
        assert equal["agreement"]["rate"] == 1.0
        assert 0.2 < equal["run_speed"] < 5
        assert pruned["kv_on_bytes"] < 0.9 * pruned["kv_off_bytes"]
        assert pruned["weights_on_bytes"] == pruned["weights_off_bytes"] > 1_000_000
        batch = rows["batch", role]
        assert batch["agreement"]["rate"] == 1.0
        assert 1.5 * batch["kv_off_bytes"] < batch["kv_on_bytes"] < 2.5 * batch["kv_off_bytes"]
    assert "eventgpt" in rows["projector", "target"]["reason"]


ROW = {
    "switch": "cache", "variant": "cache fp8", "title": "cache fp8", "against": "static", "off_is_plain": True,
    "role": "target", "model": "tiny", "stages": ["decode"], "expected": None, "status": "measured", "reason": None,
    "run_speed": 1.25, "run_speed_ci95": [1.2, 1.3], "stage_speed": 12.5, "stage_speed_ci95": None,
    "weights_off_bytes": 1 << 34, "weights_on_bytes": 1 << 33, "kv_off_bytes": 10 << 20, "kv_on_bytes": 5 << 20,
    "peak_off_bytes": 900, "peak_on_bytes": 900, "setup_on_ms": None, "warnings": [], "verdict": "faster",
    "agreement": {"matched": 30, "compared": 64, "first_divergence": 12},
}  # fmt: skip
REASON = "CUDA graphs need a GPU; leave --step out."
DOCUMENT = {
    "environment": {"device": "a machine", "threads": 1, "torch": "2", "transformers": "5"},
    "measured_at": "2026-01-02T03:04:05+00:00",
    "settings": {"dtype": "float32", "repeat": 15, "max_new_tokens": 64},
    "rows": [
        ROW,
        {
            **ROW,
            "title": "visual-keep 0.5 similarity",
            "stage_speed": 185.5,
            "stage_speed_ci95": [100.0, 300.0],
            "expected": "10-20 %",
            "verdict": "as expected",
            "agreement": {"matched": 130, "compared": 146, "first_divergence": 112},
        },
        {
            **ROW,
            "title": "visual-keep 0.5 similarity",
            "setup_on_ms": 2500.0,
            "warnings": ["Half is left."],
            "expected": "10-20 %",
            "verdict": "as expected",
        },
        {**ROW, "title": "dtype bfloat16", "against": "float16", "off_is_plain": False},
        {**ROW, "title": "step graphs", "status": "not here", "verdict": "not here", "reason": REASON},
        {**ROW, "title": "step graphs", "role": "draft", "status": "not here", "reason": REASON},
    ],
}


def test_the_table_of_switches_fits_a_terminal() -> None:
    stream = io.StringIO()
    print_blocks(switch_blocks(DOCUMENT), Console(stream))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 120
    assert "…" not in stream.getvalue()
    assert [" ".join(line.split()) for line in lines if "±" in line and "run:" not in line] == [
        "cache fp8 target decode 1.25±0.05 12.5 8.0G 5.0M 900B 30/64@12 - faster",
        "visual-keep 0.5 similarity target decode 1.25±0.05 186±100 8.0G 5.0M 900B 130/146@112 10-20 % as expected",
        "visual-keep 0.5 similarity target decode 1.25±0.05 12.5 8.0G 5.0M 900B 30/64@12 10-20 % as expected",
        "dtype bfloat16 / float16 target decode 1.25±0.05 12.5 8.0G 5.0M 900B 30/64@12 - faster",
    ]
    assert stream.getvalue().count("not here (1)") == 2
    assert lines.count(f"(1) {REASON}") == 1
    assert "visual-keep 0.5 similarity (target): Half is left." in lines
    assert "Setup, in no figure above: visual-keep 0.5 similarity (target) 2.50 s." in lines
