"""A film is asked for in the window and written by the queue of long work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from evprof.cli import build_parser
from evprof.cli.work_forms import works
from evprof.core.recording import RecordLog
from evprof.run.session_writer import SessionWriter
from ui.style.theme import ThemeHolder
from ui.window.main_window import MainWindow
from ui.work.work_dialog import WorkDialog
from ui.work.work_queue import DONE


@pytest.fixture
def window(application: QApplication, themes: ThemeHolder) -> Iterator[MainWindow]:
    made = MainWindow(themes)
    made.long_work.offer(works(build_parser))
    yield made
    made.close()
    made.deleteLater()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def dialog_of(window: MainWindow) -> WorkDialog:
    return next(found for found in window.findChildren(WorkDialog) if found.isVisible())


def test_the_shown_runs_are_filmed(
    window: MainWindow, scripted_recording: RecordLog, tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    path = tmp_path / "scripted.evprof"
    SessionWriter(scripted_recording, path).close()
    window.open_paths([str(path)], waits=True)
    window.following.show_run(1)
    window.actions_by_name["export_film"].trigger()
    dialog = dialog_of(window)
    assert (dialog.rows["session"].value, dialog.rows["runs"].value) == (str(path), "1,2")
    dialog.rows["output"].give(str(tmp_path / "a.mp4"))
    dialog.rows["seconds"].give("1")
    dialog.start()
    item = window.long_work.queue.items[0]
    wait_until(lambda: item.is_over)
    assert item.state == DONE
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert sum(1 for _ in container.decode(video=0)) == 30


def test_the_menu_of_exports_asks_for_a_film_too(window: MainWindow) -> None:
    window.exporting.ask("film")
    assert dialog_of(window).rows["runs"].value == ""
