"""Imported files as runs of a session: what is measured, what is not, and what the session keeps of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import legacy_shapes
from evprof.core.errors import UserError
from evprof.core.run_info import FAILED, FINISHED
from evprof.core.run_log import RunLog
from evprof.metrics.configurations.gathering import configurations_of
from evprof.metrics.document import session_document
from evprof.metrics.figures import decoding, kv_cache, stages
from evprof.metrics.figures.kept import KEPT
from evprof.metrics.figures.partition import measured_ms, shape_of
from evprof.metrics.run_summary import summary_of
from evprof.metrics.speculation.outcome import acceptance
from evprof.run.legacy_import import ImportSummary, import_files
from evprof.session.opened import OpenedSession, open_session
from legacy_shapes import RUNS
from run_logs import saved_runs
from whole_session import load_session


def written(folder: Path, value: Any, name: str) -> Path:
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def imported(folder: Path, value: Any, name: str = "result.json") -> tuple[ImportSummary, OpenedSession, list[RunLog]]:
    summary = import_files([written(folder, value, name)], folder / "S.evprof")
    session = load_session(summary.session)
    return summary, session, saved_runs(session.recording)


def test_a_file_becomes_runs_with_a_made_up_clock(tmp_path: Path) -> None:
    value = legacy_shapes.one_vs_eight(30)
    summary, _, runs = imported(tmp_path, value)
    assert [run.run_id for run in runs] == list(range(1, 61))
    run = runs[45]
    sample = value["videollava"]["samples"][15]
    assert (run.info.status, run.info.role, run.info.mode) == (FINISHED, "target", "side-by-side")
    assert run.info.cell == "LLaVA-1.5, 8 video frames · result.json"
    assert run.info.group_id == runs[15].info.group_id
    assert (run.info.start_ns, run.info.end_ns) == (0, None)
    assert [span.name for span in run.stages()] == ["preprocess", "vision", "vision+prefill", "decode"]
    assert stages.stage_ms(run, "prefill") == pytest.approx(sample["s4_time"] * 1000, abs=1e-5)
    assert stages.total_ms(run) is None
    assert stages.wall_ms(run) is None
    assert stages.total_ms(run, "without-load") == pytest.approx(sample["total_time"] * 1000, abs=1e-4)
    assert decoding.decode_throughput_tok_s(run) == pytest.approx(5 / sample["s5_time"], rel=1e-6)
    assert kv_cache.measured_bytes(run) == round(2321.5 * 2**20)
    assert (run.info.imported.row, run.info.imported.family) == (15, "one-vs-eight")
    assert summary.files[0].cells == {
        "EventGPT, 1 event frame · result.json": 30,
        "LLaVA-1.5, 8 video frames · result.json": 30,
    }


def test_the_first_row_is_warm_up_where_it_is_one(tmp_path: Path) -> None:
    summary, _, runs = imported(tmp_path, legacy_shapes.one_vs_eight(30))
    assert [run.run_id for run in runs if run.info.warmup] == [1, 31]
    assert summary.files[0].warmups == 2
    steady, _, runs = imported(tmp_path, legacy_shapes.one_vs_eight(30, first_is_slow=False), "steady.json")
    assert steady.files[0].warmups == 0
    assert not any(run.info.warmup for run in runs[60:])


def test_failed_rows_stay_failed(tmp_path: Path) -> None:
    summary, _, runs = imported(tmp_path, legacy_shapes.with_errors())
    assert [run.info.status for run in runs] == [FINISHED, FAILED, FAILED, FAILED]
    assert [bool(run.info.error) for run in runs] == [False, True, True, True]
    assert not any(run.stages() for run in runs[1:])
    assert summary.files[0].failed == 3
    assert [column.cell for column in configurations_of(runs)] == ["EventGPT · result.json"]


def test_acceptance_is_the_files_own_counts(tmp_path: Path) -> None:
    _, _, runs = imported(tmp_path, legacy_shapes.end_to_end(3))
    counts = acceptance(runs[3])
    assert (counts.drafted, counts.accepted, counts.draft_acceptance_rate) == (5, 1, 0.2)
    assert counts.mean_acceptance_length is None
    assert acceptance(runs[0]) is None
    assert {run.info.cell for run in runs} == {
        "Video-LLaVA 4bit, alone · result.json",
        "Video-LLaVA 4bit, L1+VL · result.json",
        "Video-LLaVA 4bit, L2+VL · result.json",
    }
    assert len({run.info.group_id for run in runs}) == 3


def test_the_session_keeps_what_is_known_of_the_file(tmp_path: Path) -> None:
    summary, session, _ = imported(tmp_path, legacy_shapes.one_vs_eight(30))
    (facts,) = session.facts["imports"]
    assert facts["path"] == str(tmp_path / "result.json")
    assert (facts["family"], facts["rows"], facts["runs"], facts["warmups"]) == ("one-vs-eight", 60, 60, 2)
    assert facts["problems"] == summary.files[0].problems
    assert facts["config"] == {"eventgpt_frames": 1, "videollava_frames": 8}
    assert facts["covers"]["target"]["s4_time"] == ["vision", "prefill"]
    assert facts["written_at"] == "2026-01-24T20:15:21"


def test_files_are_appended_and_none_goes_in_twice(tmp_path: Path) -> None:
    first = written(tmp_path, legacy_shapes.five_stages(2), "five.json")
    other = tmp_path / "other"
    other.mkdir()
    second = written(other, legacy_shapes.sample_rows(2), "five.json")
    session = tmp_path / "S.evprof"
    import_files([first], session)
    import_files([second], session)
    loaded = load_session(session)
    runs = saved_runs(loaded.recording)
    assert [run.run_id for run in runs] == list(range(1, 9))
    assert len(loaded.facts["imports"]) == 2
    assert runs[-1].info.cell == "LLaVA-1.5 · other/five.json"
    assert len({run.info.group_id for run in runs}) == 4
    size = session.stat().st_size
    with pytest.raises(UserError, match="imported into this session already"):
        import_files([second], session)
    with pytest.raises(UserError, match="imported into this session already"):
        import_files([first, first], tmp_path / "T.evprof")
    assert session.stat().st_size == size
    assert not (tmp_path / "T.evprof").exists()


def test_an_import_that_is_broken_off_changes_nothing(tmp_path: Path) -> None:
    first = written(tmp_path, legacy_shapes.five_stages(2), "first.json")
    second = written(tmp_path, legacy_shapes.sample_rows(2), "second.json")
    session = tmp_path / "S.evprof"

    def break_off(path: Path, _runs: int, _rows: int) -> None:
        if path == second:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_files([first, second], session, break_off)
    assert not session.exists()
    import_files([first], session)
    before = load_session(session)
    with pytest.raises(KeyboardInterrupt):
        import_files([second], session, break_off)
    after = load_session(session)
    assert after.facts == before.facts
    assert after.recording.row_count == before.recording.row_count
    assert after.recording.message_count == before.recording.message_count == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["S.evprof", "first.json", "second.json"]
    assert import_files([second], session).runs == 4


def test_a_file_that_is_none_leaves_nothing_behind(tmp_path: Path) -> None:
    good = written(tmp_path, legacy_shapes.five_stages(2), "good.json")
    bad = written(tmp_path, {"x": 1}, "bad.json")
    with pytest.raises(UserError, match="is no result file that evprof knows"):
        import_files([good, bad], tmp_path / "S.evprof")
    assert not (tmp_path / "S.evprof").exists()
    with pytest.raises(UserError, match="nothing to import"):
        import_files([], tmp_path / "S.evprof")
    note = tmp_path / "note.txt"
    note.write_text("mine" * 100)
    with pytest.raises(UserError, match="no evprof session"):
        import_files([good], note)
    assert note.read_text().startswith("mine")


def _figures(run: RunLog) -> dict[str, object]:
    values = run.kept or json.loads(json.dumps(summary_of(run)))
    return {name: values.get(name) for name in KEPT}


@pytest.mark.parametrize("shape", RUNS)
def test_every_family_gives_a_document_and_figures_without_rows(shape: str, tmp_path) -> None:
    """The figures that are kept beside the rows of every run are those of its rows."""
    summary, session, runs = imported(tmp_path, getattr(legacy_shapes, shape)())
    assert '"imported": {' in json.dumps(session_document(runs, session.environment), allow_nan=False)
    found = open_session(summary.session)
    assert list(found.runs) == [run.run_id for run in runs]
    for run in runs:
        kept = found.runs[run.run_id]
        assert _figures(kept) == _figures(run)
        assert not kept.is_read
        assert kept.info == run.info


def test_time_that_two_prefills_took_from_each_other_is_in_the_total(tmp_path: Path) -> None:
    _, _, runs = imported(tmp_path, legacy_shapes.end_to_end(3))
    run = runs[3]  # 500 ms of parallel prefill hold prefills of 100 and 330 ms; EventGPT decodes 350, the target 800
    assert stages.total_ms(run, "model-only") == pytest.approx(500 + 350 + 800)
    assert measured_ms(run, shape_of(run), ("vision", "prefill")) == pytest.approx(500)
    assert measured_ms(run, shape_of(run), ("decode",)) == pytest.approx(1150)


def test_a_token_costs_what_both_models_took_for_it(tmp_path: Path) -> None:
    _, _, runs = imported(tmp_path, legacy_shapes.end_to_end(3))
    assert decoding.decode_ms_per_token(runs[0]) == pytest.approx(700 / 49)
    assert decoding.decode_ms_per_token(runs[3]) == pytest.approx((350 + 800) / 49)
    assert decoding.decode_throughput_tok_s(runs[3]) == pytest.approx(1000 * 49 / (350 + 800))


@pytest.mark.parametrize(
    ("told", "paired"),
    [
        (({}, {}), True),
        (({"dataset_name": "driving"}, {"dataset_name": "driving"}), True),
        (({"dataset_name": "driving"}, {"dataset_name": "indoors"}), False),
        (({"dataset_name": "driving"}, {}), False),
        (({"config": {"dataset_dir": "/a/driving"}}, {"dataset_name": "driving"}), True),
        (({"config": {"dataset_dir": "C:\\data\\driving\\"}}, {"dataset_name": "driving"}), True),
        (({"dataset_name": 7, "config": {"dataset_dir": "/"}}, {}), True),
    ],
)
def test_rows_of_two_data_sets_are_different_samples(
    tmp_path: Path, told: tuple[dict[str, Any], dict[str, Any]], paired: bool
) -> None:
    """Samples that are named by their numbers alone are the same only where the data set is."""
    names = []
    for at, head in enumerate(told):
        folder = tmp_path / str(at)
        folder.mkdir()
        _, _, runs = imported(folder, legacy_shapes.five_stages() | head)
        names.append({run.info.sample.name for run in runs})
    assert (names[0] == names[1]) is paired
    assert bool(names[0] & names[1]) is paired
