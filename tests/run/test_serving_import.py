"""Requests of serving benchmarks as runs of a session: their figures, what is not known of them, and the way back."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import serving_shapes
from evprof.core.errors import UserError
from evprof.core.recording import RecordLog
from evprof.core.records import (
    END,
    ORIGIN_TARGET,
    SETTLED,
    STREAM_OF,
    TARGET,
    Record,
    RoundRecord,
    SpanRecord,
    TokenRecord,
)
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, LengthFacts, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.export.aiperf import METRICS, RECORDS, SUMMARY
from evprof.export.files import write_export
from evprof.export.report.data import Source
from evprof.metrics.comparison.differences import configuration_token_match
from evprof.metrics.comparison.rows import comparison_rows
from evprof.metrics.configurations.baselines import baseline_over
from evprof.metrics.configurations.gathering import configurations_of
from evprof.metrics.document import session_document
from evprof.metrics.figures import decoding, kv_cache, stages
from evprof.metrics.speculation.outcome import acceptance
from evprof.run import legacy_import
from evprof.run.legacy_import import ImportSummary, import_files
from evprof.session.opened import OpenedSession
from run_logs import saved_runs
from whole_session import load_session

LOAD = "without-load"


def imported(
    folder: Path, content: Any, name: str = "result.json"
) -> tuple[ImportSummary, OpenedSession, list[RunLog]]:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    (folder / "S.evprof").unlink(missing_ok=True)
    summary = import_files([path], folder / "S.evprof")
    session = load_session(summary.session)
    return summary, session, saved_runs(session.recording)


def test_a_request_has_the_figures_of_its_benchmark(tmp_path: Path) -> None:
    summary, session, runs = imported(tmp_path, serving_shapes.vllm_serving())
    run = runs[0]
    assert (summary.runs, summary.files[0].failed) == (4, 1)
    assert [entry.info.status for entry in runs] == [FINISHED] * 3 + [FAILED]
    assert decoding.time_to_first_token_ms(run, LOAD) == pytest.approx(81.0)
    assert decoding.time_to_first_token_ms(run) is None
    assert stages.total_ms(run, LOAD) == pytest.approx(116.3)
    assert stages.total_ms(run) is None
    assert decoding.inter_token_latency_ms(run) == pytest.approx(35.3 / 3)
    assert decoding.token_times_ms(run) == pytest.approx([81.0, 92.0, 104.5, 116.3])
    assert decoding.token_gaps_ms(run) == pytest.approx([11.0, 12.5, 11.8])
    assert (decoding.input_length(run), decoding.output_length(run)) == (512, 4)
    assert run.info.cell == "example/video-7b, vLLM, at most 2 at once · result.json"
    assert session_document([run])["runs"][0]["metrics"]["time_to_first_token_ms"] == pytest.approx(81.0)
    write_export([Source(summary.session, runs)], "csv", tmp_path / "tables")
    written = list(csv.DictReader((tmp_path / "tables" / "runs.csv").read_text(encoding="utf-8").splitlines()))
    assert float(written[0]["time_to_first_token_ms"]) == pytest.approx(81.0)
    (facts,) = session.facts["imports"]
    assert facts["config"]["model_id"] == "example/video-7b"


def test_an_invalid_gap_costs_the_decoding_and_not_the_first_token(tmp_path: Path) -> None:
    content = serving_shapes.vllm_serving(fails=False)
    del content["latencies"]
    content["itls"][0][0] = None
    _, _, runs = imported(tmp_path, content)
    assert decoding.time_to_first_token_ms(runs[0], LOAD) == pytest.approx(81.0)
    assert stages.stage_ms(runs[0], "decode") is None
    assert stages.stage_ms(runs[1], "decode") is not None


def test_an_answer_that_was_not_timed_did_not_fail(tmp_path: Path) -> None:
    content = serving_shapes.vllm_serving()
    for key in ("ttfts", "latencies"):
        content[key] = [0.0] * len(content[key])
    content["itls"] = [[] for _ in content["itls"]]
    summary, _, runs = imported(tmp_path, content)
    assert (summary.runs, summary.files[0].failed) == (4, 1)
    assert [run.info.status for run in runs] == [FINISHED] * 3 + [FAILED]
    assert [decoding.output_length(run) for run in runs[:3]] == content["output_lens"][:3]
    assert decoding.time_to_first_token_ms(runs[0], LOAD) is None


def test_what_nobody_knows_of_a_served_model_is_not_told(tmp_path: Path) -> None:
    _, _, runs = imported(tmp_path, serving_shapes.vllm_serving())
    document = session_document(runs[:1])["runs"][0]
    assert document["model"] == dict.fromkeys(document["model"]) | {"name": "example/video-7b"}
    assert document["kv_cache"]["formula_bytes"] is None
    assert kv_cache.bytes_by_origin(runs[0])["generated"] is None
    assert (document["token_ids"], document["token_pieces"], document["token_origin"]) == ([], [], [])
    assert len(document["token_times_ms"]) == 4
    assert document["metrics"]["visual_tokens"] is None


def test_tokens_without_ids_match_nothing(tmp_path: Path) -> None:
    _, _, runs = imported(tmp_path, serving_shapes.vllm_appended())
    first, second = configurations_of(runs)
    assert configuration_token_match(first, second)["compared"] == 0
    rows = {row.metric: row for row in comparison_rows((first, second), 0, LOAD)}
    assert rows["time_to_first_token_ms"].values == pytest.approx([81.8333] * 2, rel=1e-4)
    assert rows["total_ms"].ratio[1] == pytest.approx(1.0)


def test_a_failed_request_of_aiperf_may_have_been_cancelled(tmp_path: Path) -> None:
    summary, _, runs = imported(tmp_path, serving_shapes.aiperf_records(), "profile_export.jsonl")
    assert [run.info.status for run in runs] == [FINISHED] * 4 + [CANCELLED]
    assert [run.info.warmup for run in runs] == [True, False, False, False, False]
    assert (summary.files[0].warmups, summary.files[0].failed, summary.files[0].rows) == (1, 1, 5)
    lost = json.loads(serving_shapes.aiperf_records().splitlines()[-1])
    lost["metadata"]["was_cancelled"] = False
    _, _, runs = imported(tmp_path, json.dumps(lost))
    assert [run.info.status for run in runs] == [FAILED]


def test_acceptance_counts_rounds_where_they_are_told(tmp_path: Path) -> None:
    _, _, runs = imported(tmp_path, serving_shapes.aiperf_records(speculates=True))
    counts = acceptance(runs[1])
    assert (counts.draft_acceptance_rate, counts.mean_acceptance_length) == (0.5, 2.5)
    assert counts.per_position == (2, 1)
    assert (counts.token_acceptance_rate, counts.emitted, counts.bonus) == (None, None, None)
    _, _, runs = imported(tmp_path, serving_shapes.vllm_serving(is_speculative=True))
    (column,) = configurations_of(runs)
    rows = {row.metric: row for row in comparison_rows((column,), 0, LOAD)}
    assert rows["draft_acceptance_rate"].values[0] == 0.375
    assert rows["mean_acceptance_length"].values[0] == 1.75


def test_speculation_is_weighed_against_the_same_load_only(tmp_path: Path) -> None:
    paths = []
    for name in ("vllm.json", "vllm_speculative.json", "profile_export.jsonl", "profile_export_speculative.jsonl"):
        paths.append(tmp_path / name)
        paths[-1].write_text(serving_shapes.FILES[name](), "utf-8")
    other = serving_shapes.vllm_serving() | {"max_concurrency": 64}
    paths.append(tmp_path / "busy.json")
    paths[-1].write_text(json.dumps(other), "utf-8")
    import_files(paths, tmp_path / "S.evprof")
    runs = saved_runs(load_session(tmp_path / "S.evprof").recording)
    columns = {column.cell.rpartition(" · ")[2]: column for column in configurations_of(runs)}
    found = baseline_over(columns["vllm_speculative.json"].runs, runs)
    assert {run.info.cell for run in found.runs} == {columns["vllm.json"].cell}
    # Which model AIPerf measured, its records do not tell.
    assert baseline_over(columns["profile_export_speculative.jsonl"].runs, runs) is None


def test_a_file_without_single_requests_is_refused(tmp_path: Path) -> None:
    made = serving_shapes.vllm_serving(is_detailed=False)
    del made["latencies"], made["queue_times"]
    with pytest.raises(UserError, match="no run to import"):
        imported(tmp_path, made)
    assert not (tmp_path / "S.evprof").exists()


def test_a_session_keeps_no_more_than_it_can_open(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(legacy_import, "MOST_TIMED_TOKENS", 6)
    monkeypatch.setattr(legacy_import, "MOST_TEXT", 10)
    monkeypatch.setattr(legacy_import, "RECORDS_PER_COMMIT", 3)
    summary, _, runs = imported(tmp_path, serving_shapes.vllm_serving())
    assert [len(run.tokens) for run in runs] == [4, 0, 0, 0]
    assert [decoding.output_length(run) for run in runs] == [4, 3, 5, None]
    assert [run.info.text for run in runs] == ["answer 0", None, None, None]
    assert decoding.time_to_first_token_ms(runs[1], LOAD) == pytest.approx(93.3)
    assert sum("a session holds no more" in problem for problem in summary.files[0].problems) == 2


# What `evprof export --format aiperf` writes comes back as it was.


def run_of(number: int, before_us: list[int], gaps_us: list[int], accepted: list[int] | None, status: str) -> RunLog:
    """A run of four stages before the first token, whose tokens, or rounds of tokens, follow at these gaps."""
    log = RecordLog()
    records: list[Record] = []
    at = zero = 1_000_000
    for place, (name, duration) in enumerate(zip(("load", "preprocess", "vision", "prefill"), before_us, strict=True)):
        records += [
            SpanRecord(number, place, -1, phase, TARGET, name, at, at + 1000 * duration) for phase in (END, SETTLED)
        ]
        at += 1000 * duration
    decode, position = at, 1
    records.append(TokenRecord(number, TARGET, 0, 7, ORIGIN_TARGET, -1, at, "a"))
    for place, gap in enumerate(gaps_us):
        at += 1000 * gap
        count = 1 if accepted is None else accepted[place] + 1
        if accepted is not None:
            records.append(RoundRecord(number, place, at, 1, 1, 1, 4, accepted[place], count, "", 0))
        turn = -1 if accepted is None else place
        records += [
            TokenRecord(number, TARGET, position + each, 7, ORIGIN_TARGET, turn, at, "a") for each in range(count)
        ]
        position += count
    records += [SpanRecord(number, 9, -1, phase, TARGET, "decode", decode, at) for phase in (END, SETTLED)]
    for record in records:
        log.extend(STREAM_OF[type(record)], [record])
    info = RunInfo(
        run_id=number,
        group_id=number,
        repeat=0,
        role=TARGET,
        mode="target" if accepted is None else "speculative",
        sample=Sample(None, "a.mp4", "What?", f"scene {number}"),
        started_at="2026-07-14T10:15:02",
        status=status,
        error=None if status == FINISHED else "it broke",
        start_ns=zero,
        end_ns=at,
        lengths={TARGET: LengthFacts(600 + number, 10, 14 + number, 576, [576])},
        cell="one",
    )
    run = RunLog(info)
    for stream in ("spans", "tokens", "rounds"):
        for record in log.streams[stream].rows(0, len(log.streams[stream])):
            run.absorb(record)
    return run


RUNS = st.lists(
    st.tuples(
        st.lists(st.integers(60, 900_000), min_size=4, max_size=4),
        st.lists(st.integers(60, 90_000), max_size=6),
        st.lists(st.integers(0, 4), min_size=6, max_size=6),
        st.sampled_from([FINISHED, FINISHED, FAILED, CANCELLED]),
    ),
    min_size=1,
    max_size=4,
)

OF_CHUNKS = {"time_to_second_token", "inter_chunk_latency"}
"""Times of pieces of several tokens do not come back: no token of theirs has one."""


def exported(runs: list[RunLog], folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    write_export([Source(Path("a.evprof"), runs)], "aiperf", folder)
    lines = (folder / RECORDS).read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines], json.loads((folder / SUMMARY).read_text("utf-8"))


@given(made=RUNS, is_speculative=st.booleans())
def test_an_export_comes_back_with_equal_figures(made: list[Any], is_speculative: bool, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("export")
    runs = [
        run_of(number, before, gaps, accepted if is_speculative else None, status)
        for number, (before, gaps, accepted, status) in enumerate(made, start=1)
    ]
    records, document = exported(runs, folder / "one")
    import_files([folder / "one" / RECORDS], folder / "S.evprof")
    back = saved_runs(load_session(folder / "S.evprof").recording)
    again, summary = exported(back, folder / "two")
    assert [run.info.status for run in back] == [run.info.status for run in runs]
    assert [run.info.sample.name for run in back] == [run.info.sample.name for run in runs]
    for one, other in zip(records, again, strict=True):
        known = one["metrics"].keys() - (OF_CHUNKS if is_speculative else set())
        assert other["metrics"].keys() >= known - {"error_isl"}
        for name in known & METRICS.keys():
            # Times are kept in whole ns.
            assert other["metrics"][name]["value"] == pytest.approx(one["metrics"][name]["value"], rel=1e-9, abs=1e-6)
        for key in ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens", "acceptance_histogram"):
            assert other.get("spec_decode_acceptance", {}).get(key) == one.get("spec_decode_acceptance", {}).get(key)
        assert bool(other["error"]) == bool(one["error"])
    for name in ("request_count", "total_osl", "total_spec_decode_steps", "pooled_spec_decode_acceptance_histogram"):
        assert summary.get(name) == document.get(name)
