"""AIPerf's files: its names and units, its definitions, and nothing that is not measured."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evprof.core.run_info import CANCELLED, FAILED
from evprof.core.run_log import RunLog
from evprof.export.aiperf import METRICS, RECORDS, SUMMARY, TOTALS
from evprof.export.files import write_export
from evprof.export.report.data import Source
from evprof.metrics.speculation.outcome import acceptance

RECORD_STATISTICS = {"unit", "avg", "min", "max", "std", "count", "sum"} | {
    f"p{percent}" for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99)
}
"""What AIPerf's schema 1.4 says of the block of a record metric."""


def exported(runs: list[RunLog], folder: Path, tell: Any = None) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    files = write_export([Source(Path("a.evprof"), runs)], "aiperf", folder, tell=tell)
    found = []
    for path in files:
        assert path.is_file()
        if path.name == SUMMARY:
            records = [json.loads(line) for line in (path.parent / RECORDS).read_text("utf-8").splitlines()]
            found.append((json.loads(path.read_text("utf-8")), records))
    return found


def repeated(run: RunLog, *changes: dict[str, Any]) -> list[RunLog]:
    """The run several times over, as repeats of one request, each with some facts changed."""
    found = []
    for number, changed in enumerate(changes):
        copy = RunLog(replace(run.info, run_id=run.run_id + number, repeat=number, **changed))
        for stream in ("spans", "tokens", "rounds"):
            for block in run.blocks(stream):
                for record in block.rows():
                    copy.absorb(record._replace(run_id=copy.run_id))
        found.append(copy)
    return found


def test_a_request_has_the_fields_metrics_and_units(speculative_run: RunLog, tmp_path: Path) -> None:
    run = speculative_run
    [(_, [record])] = exported([run], tmp_path)
    assert (tmp_path / SUMMARY).is_file()
    assert set(record["metadata"]) >= {
        *("session_num", "conversation_id", "turn_index", "request_start_ns", "request_end_ns"),
        *("worker_id", "record_processor_id", "benchmark_phase", "was_cancelled", "cancellation_time_ns"),
    }
    assert record["error"] is None
    metrics = record["metrics"]
    assert {name: value["unit"] for name, value in metrics.items()} == {
        name: METRICS[name].unit for name in METRICS if name in metrics
    }
    latency, first = metrics["request_latency"]["value"], metrics["time_to_first_token"]["value"]
    # Both models' load, 30 µs, is no part of a request.
    assert first == pytest.approx((70 - 30) / 1000)
    assert latency == pytest.approx((74 - 30) / 1000)
    # AIPerf's own definitions.
    count = metrics["output_sequence_length"]["value"]
    assert count == len(run.tokens) == 5
    assert metrics["inter_token_latency"]["value"] == pytest.approx((latency - first) / (count - 1))
    assert metrics["output_token_throughput_per_user"]["value"] == pytest.approx(
        1000 / metrics["inter_token_latency"]["value"]
    )
    assert metrics["time_to_second_token"]["value"] == metrics["inter_chunk_latency"]["value"][0]
    assert sum(metrics["inter_chunk_latency"]["value"]) == pytest.approx(latency - first)
    taken = record["metadata"]["request_end_ns"] - record["metadata"]["request_start_ns"]
    assert taken == pytest.approx(latency * 1e6, abs=1)


def test_speculation_has_aiperfs_names(speculative_run: RunLog, tmp_path: Path) -> None:
    [(document, [record])] = exported([speculative_run], tmp_path)
    counts = acceptance(speculative_run)
    told = record["spec_decode_acceptance"]
    assert told["num_spec_steps"] == counts.rounds == sum(told["acceptance_histogram"].values())
    assert told["num_draft_tokens"] == counts.drafted
    assert told["num_accepted_draft_tokens"] == sum(int(j) * n for j, n in told["acceptance_histogram"].items())
    assert told["mean_acceptance_length"] == 1 + counts.accepted / counts.rounds
    metrics = record["metrics"]
    assert metrics["spec_decode_draft_acceptance_rate"] == {"value": 75.0, "unit": "%"}
    assert metrics["spec_decode_accepted_per_verified"]["value"] == (counts.accepted + counts.rounds) / (
        counts.drafted + counts.rounds
    )
    assert document["pooled_spec_decode_acceptance_histogram"] == told["acceptance_histogram"]
    assert document["total_spec_decode_steps"] == {"unit": "count", "avg": counts.rounds}
    assert document["spec_decode_overall_draft_acceptance_rate"] == {"unit": "%", "avg": 75.0}


def test_statistics_are_those_of_the_records(speculative_run: RunLog, tmp_path: Path) -> None:
    runs = repeated(speculative_run, {}, {}, {})
    for number, run in enumerate(runs):
        # Each repeat began a little earlier, so that its first token took longer.
        run.info.start_ns -= 1_000_000 * number
    [(document, records)] = exported(runs, tmp_path)
    assert document["request_count"] == {"unit": "requests", "avg": 3.0}
    assert document["schema_version"] == "1.4"
    measured = Counter(name for record in records for name in record["metrics"])
    assert set(measured.values()) == {3}
    for name in measured:
        values = [record["metrics"][name]["value"] for record in records]
        flat = [each for value in values for each in (value if isinstance(value, list) else [value])]
        block = document[name]
        assert set(block) == RECORD_STATISTICS
        assert block["avg"] == pytest.approx(statistics.fmean(flat))
        assert block["std"] == pytest.approx(statistics.stdev(flat))
        assert (block["min"], block["max"], block["count"]) == (min(flat), max(flat), len(flat))
        assert block["sum"] == pytest.approx(sum(flat))
    for name, of in TOTALS.items():
        if of in measured:
            assert document[name] == {"unit": METRICS[of].unit, "avg": pytest.approx(document[of]["sum"])}
    assert document["time_to_first_token"]["max"] > document["time_to_first_token"]["min"] + 1.9


def test_what_failed_and_what_warmed_up_stands_apart(speculative_run: RunLog, tmp_path: Path) -> None:
    runs = repeated(
        speculative_run,
        {"warmup": True},
        {},
        {"status": FAILED, "error": "out of memory"},
        {"status": CANCELLED},
        {"profiled": True},
    )
    told: list[str] = []
    [(document, records)] = exported(runs, tmp_path, told.append)
    assert [record["metadata"]["benchmark_phase"] for record in records] == ["warmup", *["profiling"] * 3]
    assert document["request_latency"]["count"] == document["warmup_metrics"]["request_latency"]["count"] == 1
    assert document["error_request_count"]["avg"] == 2
    assert told == ["1 run under a profiler, which slows everything down, left out."]
    assert document["was_cancelled"] is True
    assert {entry["error_details"]["message"]: entry["count"] for entry in document["error_summary"]} == {
        "out of memory": 1,
        "cancelled": 1,
    }
    failed, cancelled = records[2:]
    assert failed["error"]["type"] == "failed"
    assert "request_latency" not in failed["metrics"]
    assert cancelled["metadata"]["was_cancelled"] is True
    assert cancelled["metadata"]["cancellation_time_ns"] == cancelled["metadata"]["request_end_ns"]


def test_every_configuration_has_a_folder(runs: list[RunLog], speculative_run: RunLog, tmp_path: Path) -> None:
    found = exported([*runs, speculative_run], tmp_path)
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert (
        len(found)
        == len(folders)
        == len({(r.info.group_id, r.info.mode, r.info.role) for r in [*runs, speculative_run]})
    )
    assert [name[:4] for name in folders] == [f"{number + 1:03}-" for number in range(len(folders))]


def test_a_run_that_never_began_breaks_nothing(unborn_run: RunLog, tmp_path: Path) -> None:
    [(document, [record])] = exported([unborn_run], tmp_path)
    assert document["request_count"]["avg"] == 1
    assert "request_latency" not in document
    assert record["metrics"] == {}
