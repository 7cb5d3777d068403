"""Rerun's recordings, read back with Rerun's own reader."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from evprof.core.errors import UserError
from evprof.core.run_log import RunLog
from evprof.export.files import check_name, write_export
from evprof.export.report.data import Source
from evprof.export.rerun_recording import NO_STAGE
from evprof.metrics.costs.two_clocks import slices_of

pytestmark = pytest.mark.leaves_threads


def read(path: Path) -> dict[str, list[Any]]:
    """The chunks of each entity."""
    chunk = pytest.importorskip("rerun.chunk")
    found: dict[str, list[Any]] = {}
    for one in chunk.RrdReader(path).stream():
        found.setdefault(one.entity_path, []).append(one)
    return found


def rows(chunks: list[Any]) -> int:
    return sum(one.num_rows for one in chunks)


def column(chunks: list[Any], ending: str) -> list[Any]:
    """The values of the one column whose name ends so, row by row."""
    found = []
    for one in chunks:
        batch = one.to_record_batch()
        (name,) = (name for name in batch.schema.names if name.endswith(ending))
        found += batch.column(name).to_pylist()
    return found


def exported(runs: list[RunLog], path: Path, **more: Any) -> dict[str, list[Any]]:
    pytest.importorskip("rerun")
    write_export([Source(Path("a.evprof"), runs)], "rerun", path, **more)
    return read(path)


def test_every_row_comes_back_on_its_clocks(runs: list[RunLog], tmp_path: Path) -> None:
    found = exported(runs, tmp_path / "s.rrd")
    for run in runs:
        for role, frames in run.frames.items():
            chunks = found[f"/run_{run.run_id}/{role}/{'events' if role == 'draft' else 'video'}"]
            assert rows(chunks) == len(frames)
            assert {clock for one in chunks for clock in one.timeline_names} == {"compute_time", "sensor_time"}
            sensed = [int(at.total_seconds() * 1e6 + 0.5) for at in column(chunks, "sensor_time")]
            assert sensed == [one.start_us for one in slices_of(run, role)]
        for role, records in run.kv.items():
            chunks = found[f"/run_{run.run_id}/{role}/kv_cache_bytes"]
            assert [value for (value,) in column(chunks, "scalars")] == [record.nbytes for record in records]
        for role in run.kv:
            told = [row.role for row in (*run.tokens, *run.rejected)].count(role)
            assert rows(found.get(f"/run_{run.run_id}/{role}/tokens", [])) == told
        for role in {span.role for span in run.stages()}:
            states = [state for (state,) in column(found[f"/run_{run.run_id}/{role}/stages"], "state")]
            assert [state for state in states if state != NO_STAGE] == [span.name for span in run.stages(role)]
            assert states[-1] == NO_STAGE
        assert column(found[f"/run_{run.run_id}/answer"], "text") == [[run.info.text]]
    accepted = [value for (value,) in column(found["/run_3/rounds/accepted"], "scalars")]
    assert accepted == [entry.accepted for entry in runs[2].rounds]


def test_memory_that_nobody_measured_is_not_there(speculative_run: RunLog, unborn_run: RunLog, tmp_path: Path) -> None:
    told: list[str] = []
    found = exported([speculative_run, unborn_run], tmp_path / "s.rrd", tell=told.append)
    assert rows(found["/run_3/memory/resident_bytes"]) == 2
    assert rows(found["/run_3/memory/gpu_bytes"]) == 1
    assert told == ["1 run that never began left out."]
    assert not [entity for entity in found if entity.startswith("/run_4")]


def test_without_the_package_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(UserError, match=r"evprof\[rerun\]"):
        write_export([], "rerun", tmp_path / "s.rrd")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match=r"\.rrd"):
        check_name("rerun", tmp_path / "s.json")
