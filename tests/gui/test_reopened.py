"""A session that is opened again looks as it did when it was measured, to the pixel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.loaders.bundled import bundled_sample
from evprof.run.processes.engine_host import EngineHost
from scripted_process import engine_argv
from ui.state.run_controller import Host
from ui.window.app import settle
from ui.window.main_window import MainWindow

Make = Callable[[], MainWindow]


def picture(application: QApplication, window: MainWindow) -> QImage:
    """Columns and panels; toolbar and status bar tell of the engine, which is another one."""
    settle(application, window)
    return window.body.grab().toImage().convertToFormat(QImage.Format.Format_ARGB32)


@pytest.mark.parametrize("mode", ["side-by-side", "speculative", "parallel-prefill"])
def test_a_reopened_session_looks_as_it_did_live(
    make_window: Make, application: QApplication, tmp_path: Path, wait_until: Callable[..., None], mode: str
) -> None:
    path = tmp_path / "live.evprof"
    live = make_window()
    live.session.path = path

    def make_host(recording: RecordLog) -> Host:
        host = EngineHost(engine_argv("script:50"), recording)
        host.start()
        return host

    live.start_engine(make_host)
    live.show_sample(bundled_sample())
    model = ModelChoice("scripted")
    settings = GenerationSettings(max_new_tokens=40)
    live.requests.submit(RunRequest(mode, bundled_sample(), model, model, settings=settings))
    wait_until(lambda: live.controller.runs and not live.controller.is_busy)
    settle(application, live)
    shown = live.selection.runs
    before = picture(application, live)
    live.close()
    again = make_window()
    again.open_paths([str(path)], waits=True)
    again.start_engine(make_host)
    settle(application, again)
    assert again.selection.runs == shown
    after = picture(application, again)
    if before != after:
        before.save(str(tmp_path / "live.png"))
        after.save(str(tmp_path / "reopened.png"))
    assert before == after, f"see live.png and reopened.png in {tmp_path}"
