"""Sessions joined: what they say stays true."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from benchmarks.many_runs import ManyRuns, write_many_runs
from evprof.core.errors import Cancelled
from evprof.core.run_log import RunBook
from evprof.export.report.data import Source, gather
from evprof.export.report.rendering import html
from evprof.export.report.writing import build_report
from evprof.metrics.comparison.document import compare_document
from evprof.metrics.configurations.baselines import engine_session
from evprof.metrics.configurations.gathering import configurations_of
from evprof.run.merging import merge_sessions
from evprof.session.facts import MERGED, add_facts, told_facts
from evprof.session.opened import open_session
from whole_session import load_session

GOLDEN = Path(__file__).parents[1] / "session" / "golden"
GO_ON = threading.Event()


def nothing(*_: object) -> None:
    """Nobody watches."""


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "many.evprof"
    write_many_runs(path, ManyRuns(60, configurations=6))
    return path


def compared(path: Path) -> dict[str, object]:
    listed = configurations_of(list(open_session(path).runs.values()))
    return compare_document(listed, listed[0])


def test_joined_runs_are_numbered_on_and_keep_all_they_say(session: Path, tmp_path: Path) -> None:
    joined = tmp_path / "joined.evprof"
    older = GOLDEN / "format_2.evprof"
    before = session.read_bytes(), older.read_bytes()
    sources = merge_sessions([older, session], joined, GO_ON, nothing)
    assert [(source.runs, source.first_run, source.last_run) for source in sources] == [(3, 1, 3), (60, 4, 63)]
    assert (session.read_bytes(), older.read_bytes()) == before
    found, one, two = open_session(joined), open_session(older), open_session(session)
    for run_id, run in found.runs.items():
        source = one.runs[run_id] if run_id <= 3 else two.runs[run_id - 3]
        assert [token.piece for token in run.tokens] == [token.piece for token in source.tokens]
        assert run.span_columns.starts.tolist() == source.span_columns.starts.tolist()
        assert (run.info.text, run.info.sample, run.info.models) == (
            source.info.text,
            source.info.sample,
            source.info.models,
        )
    assert load_session(joined).recording.row_count == found.row_count


def test_what_refers_to_runs_is_numbered_on_too(session: Path, tmp_path: Path) -> None:
    other, joined = tmp_path / "other.evprof", tmp_path / "joined.evprof"
    write_many_runs(other, ManyRuns(12, configurations=6))
    suite = {"name": "a suite"}
    add_facts(other, {"marks": [{"run_id": 2, "start_ns": 0, "end_ns": 5, "note": "here"}], "suite": suite})
    merge_sessions([session, other], joined, GO_ON, nothing)
    found = open_session(joined)
    assert [mark["run_id"] for mark in found.facts["marks"]] == [62]
    assert "suite" not in found.facts
    assert [source["facts"].get("suite") for source in found.facts[MERGED]] == [None, suite]
    again = tmp_path / "again.evprof"
    merge_sessions([GOLDEN / "format_2.evprof", joined], again, GO_ON, nothing)
    assert told_facts(open_session(again).facts, "suite") == [suite]


def test_facts_of_sources_that_are_none_are_passed_over() -> None:
    deep: dict[str, object] = {"facts": {"suite": 0}}
    for _ in range(5000):
        deep = {"sources": [deep]}
    assert told_facts({MERGED: [None, {"facts": 3}, {"facts": {"suite": 1}}, deep], "suite": 2}, "suite") == [2, 1]
    assert told_facts({MERGED: "nothing"}, "suite") == []


def test_rows_that_both_have_are_further_repeats(session: Path, tmp_path: Path) -> None:
    other, joined = tmp_path / "other.evprof", tmp_path / "joined.evprof"
    other.write_bytes(session.read_bytes())
    merge_sessions([session, other], joined, GO_ON, nothing)

    def counts(path: Path) -> list[int]:
        return [len(column.runs) for column in configurations_of(list(open_session(path).runs.values()))]

    assert counts(joined) == [2 * count for count in counts(session)]


def test_processes_without_a_name_are_known_apart(tmp_path: Path) -> None:
    joined = tmp_path / "joined.evprof"
    merge_sessions([GOLDEN / "format_1.evprof", GOLDEN / "format_2.evprof"], joined, GO_ON, nothing)
    runs = list(open_session(joined).runs.values())
    assert {engine_session(run.info) for run in runs[:3]}.isdisjoint(engine_session(run.info) for run in runs[3:])


def test_a_report_is_the_same_with_and_without_summaries(session: Path) -> None:
    """Kept figures are those that the rows give: of every section, not a letter differs."""
    opened = open_session(session)
    read = RunBook(load_session(session).recording)
    read.update()
    assert all(run.kept is None for run in read.runs.values())
    sources = [
        Source(session, list(runs.values()), opened.environment, opened.facts) for runs in (opened.runs, read.runs)
    ]
    reports = [html(build_report(gather([source]))) for source in sources]
    assert "Why drafts fail" in reports[0]
    assert reports[0] == reports[1]


def test_who_stops_it_finds_everything_as_it_was(session: Path, tmp_path: Path) -> None:
    stop, before = threading.Event(), session.read_bytes()
    stop.set()
    with pytest.raises(Cancelled):
        merge_sessions([session], tmp_path / "joined.evprof", stop, nothing)
    assert session.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.endswith("-lock")) == ["many.evprof"]
