"""What stage load read, from where and how fast, told from a run's log."""

from __future__ import annotations

import pytest

from evprof.core.run_info import LoadingFacts, RunInfo
from evprof.metrics.document import run_document
from evprof.metrics.figures.kv_cache import Loading, loading_of
from exported import tables


def with_load(script, parts, facts: LoadingFacts | None):
    run = script()
    run.begin(loading={} if facts is None else {"target": facts})
    load = run.span("load", 0, 20)
    for name, start, end in parts:
        run.span(name, start, end, parent=load)
    run.span("vision", 20, 30)
    return run.end(40)


def test_rates_count_the_parts_that_bring_things_in(script) -> None:
    turns = [("open", 0, 1), ("demux", 1, 2), ("decode", 2, 6), ("colour", 6, 7), ("decode", 7, 9), ("colour", 9, 10)]
    run = with_load(script, turns, LoadingFacts(1000, 0, frames=2, decoder="pyav"))
    found = loading_of(run)
    assert found.part_ms == pytest.approx({"open": 1, "demux": 1, "decode": 6, "colour": 2})
    assert found.frames_per_s == pytest.approx(200)
    assert found.events_per_s is None
    assert found.from_disk_share == 0
    events = with_load(script, [("open", 0, 2), ("read", 2, 10), ("rectify", 10, 20)], LoadingFacts(events=50_000))
    rate = loading_of(events)
    assert rate.events_per_s == pytest.approx(5_000_000)


def test_what_nothing_tells_is_none(script) -> None:
    run = with_load(script, [("read", 0, 5)], None)
    assert loading_of(run) is None
    assert run_document(run)["loading"] is None
    assert tables([run])["runs"][0]["load_bytes_read"] is None
    without_times = loading_of(with_load(script, [], LoadingFacts(events=5)))
    assert without_times.events_per_s is None
    assert Loading(LoadingFacts(bytes_read=0, bytes_from_disk=0)).from_disk_share is None
    assert Loading(LoadingFacts(bytes_read=10, bytes_from_disk=4096)).from_disk_share == 1


def test_facts_survive_the_session_file_and_older_ones_lack_them(script) -> None:
    info = with_load(script, [], LoadingFacts(1, 2, 3, decoder="dsec-h5")).info
    assert RunInfo.from_json(info.to_json()).loading == {"target": LoadingFacts(1, 2, 3, decoder="dsec-h5")}
    older = info.to_json()
    del older["loading"]
    assert RunInfo.from_json(older).loading == {}
