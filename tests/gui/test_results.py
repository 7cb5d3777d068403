"""Importing results of earlier scripts into a session of the window, and writing reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication

from ui.comparison.book import read_any
from ui.window import exporting
from ui.window.main_window import MainWindow
from window_driver import drop, sentences

Wait = Callable[..., None]


@pytest.fixture(autouse=True)
def imports_in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports are kept in the test's folder."""
    monkeypatch.setattr(exporting, "_place", lambda paths: tmp_path / "kept" / f"{paths[0].stem}.evprof")


def _sample(number: int, factor: float) -> dict[str, Any]:
    return {
        "sample": number,
        "prefill_len": 636,
        "kv_cache_mb": 318.0,
        "stage12_time": 0.004,
        "s3_time": 0.006 * factor,
        "s4_time": 0.066 * factor,
        "s5_time": 0.093,
        "total_time": 0.006 * factor + 0.066 * factor + 0.093,
    }


@pytest.fixture
def legacy(tmp_path: Path) -> Path:
    """A small file of the family of document 002: three rows of each model."""
    path = tmp_path / "one_vs_eight.json"
    rows = {
        name: {"stats": {"n_samples": 3}, "samples": [_sample(number, factor) for number in range(3)]}
        for name, factor in (("eventgpt", 1.0), ("videollava", 8.0))
    }
    document = {"timestamp": "20260124_193405", "config": {"eventgpt_frames": 1, "videollava_frames": 8}, **rows}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_dropped_results_become_a_session(window: MainWindow, legacy: Path, tmp_path, wait_until) -> None:
    drop(window, legacy)
    wait_until(lambda: len(window.controller.runs) == 6)
    assert window.session.path == tmp_path / "kept" / "one_vs_eight.evprof"
    assert window.session.facts["imports"][0]["path"] == str(legacy)
    assert all(run.info.imported is not None for run in window.controller.runs.values())
    assert [line.fold for line in window.runs.list.lines] == ["closed", "closed"]
    told = sentences(window)
    assert any("Imported 6 runs of one_vs_eight.json" in sentence for sentence in told)
    assert not any("Importing" in sentence for sentence in told)


def test_results_that_came_during_a_run_are_opened_after_it(
    window: MainWindow, legacy: Path, tmp_path: Path, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ["", "A run goes on."]  # it began while the file was read
    monkeypatch.setattr(window.session, "refusal_to_leave", lambda: told.pop(0) if told else "")
    window.results.take([legacy])
    wait_until(lambda: window.messages.shown is not None and "Imported" in window.messages.shown.sentence)
    notice = window.messages.shown
    assert f"It lies at {tmp_path / 'kept' / 'one_vs_eight.evprof'}, and is not opened yet" in notice.sentence
    assert not window.controller.runs
    window.messages.act()
    wait_until(lambda: len(window.controller.runs) == 6)


def test_damaged_results_are_told(window: MainWindow, legacy: Path, wait_until: Wait) -> None:
    text = legacy.read_text(encoding="utf-8")
    legacy.write_text(text[: len(text) // 2], encoding="utf-8")
    window.results.take([legacy])
    wait_until(lambda: window.session.is_idle)
    QApplication.processEvents()
    assert any(legacy.name in sentence for sentence in sentences(window))
    assert window.controller.runs == {}


def test_results_stand_beside_sessions_in_the_comparison(legacy: Path) -> None:
    read = read_any(legacy)
    assert read.title == "one_vs_eight.json"
    assert len(read.runs) == 6


@pytest.mark.parametrize("suffix", [".html", ".md"])
def test_a_report_is_written_and_offered(
    window: MainWindow, session_file: Path, wait_until: Wait, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    window.session.read(session_file)
    output = session_file.parent / f"report{suffix}"
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    window.results.report(output)
    wait_until(lambda: output.exists() and window.session.is_idle)
    QApplication.processEvents()
    while window.messages.shown is not None and window.messages.shown.action != "Open":
        window.messages.dismiss()
    window.messages.act()
    assert opened == [str(output)]
    assert "evprof" in output.read_text(encoding="utf-8")


def test_nothing_to_report_is_told(window: MainWindow, tmp_path: Path) -> None:
    window.results.report(tmp_path / "no.html")
    assert "nothing to report" in sentences(window)[0]
    assert not (tmp_path / "no.html").exists()
