"""Draws every panel and every dialog of the window, to be looked at: python packaging/window_pictures.py [OUT] [WORDS]

In both themes, at 100 and 200 %, at 1280x720 and 1600x1000, with runs of the bundled pair and with an imported suite.
WORDS: only pictures whose names hold one of them. The pictures of the documentation are made by `site_pictures.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication, QWidget

    from ui.window.main_window import MainWindow

ROOT = Path(__file__).resolve().parents[1]
RUNS = (
    ("--mode", "side-by-side", "--repeat", "3"),
    ("--mode", "target", "--frames", "16"),
    ("--mode", "parallel-prefill", "--frames", "16"),
    ("--mode", "speculative", "--repeat", "3"),
)
LOOKS = (
    ("runs", "dark", "1", "1600x1000"),
    ("runs", "light", "1", "1280x720"),
    ("runs", "dark", "2", "1280x720"),
    ("runs", "light", "2", "1600x1000"),
    ("imported", "light", "1", "1280x720"),
    ("imported", "dark", "1", "1600x1000"),
)
"""Session, theme, scale and size in logical px."""

NO_PICTURE = {"quit", "theme", "contents", "troubleshooting", "run", "demo", "new_session"}
"""Actions that end the window, change all of it, open a browser, or begin to measure."""


def main(out: Path, words: list[str]) -> int:
    """Measures, then draws each look in a process of its own: Qt takes its scale once."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for run in RUNS:
            command = [sys.executable, "-m", "evprof", "run", *run, "-o", str(folder / "runs.evprof")]
            subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        traced = [*command[:4], "--mode", "speculative", "--torch-trace", str(folder / "traces"), *command[-2:]]
        subprocess.run(traced, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        _import(folder / "imported.evprof")
        for session, theme, scale, size in LOOKS:
            place = out / f"{session}-{theme}-{scale}00-{size}"
            place.mkdir(exist_ok=True)
            look = [str(folder / f"{session}.evprof"), theme, size, str(place), *words]
            environment = {**os.environ, "QT_SCALE_FACTOR": scale, "QT_QPA_PLATFORM": "offscreen"}
            subprocess.run([sys.executable, __file__, "--look", *look], check=True, env=environment)
            print(f"{place}: {len(list(place.glob('*.png')))} pictures", flush=True)
    return 0


def _import(path: Path) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from benchmarks.part_files import write_results
    from evprof.run.legacy_import import import_files

    import_files([write_results(path.with_suffix(".json"), 20)], path)


def draw_look(session: Path, theme: str, size: str, out: Path, words: list[str]) -> int:
    """One window: as it opens, with each panel shown, and what each action of the table opens."""
    from evprof.cli import build_parser
    from evprof.cli.work_forms import works
    from ui.style.theme import ThemeHolder, theme_named
    from ui.window import app
    from ui.window.main_window import MainWindow

    application = app._application()
    window = MainWindow(ThemeHolder(theme_named(theme)))
    window.long_work.offer(works(build_parser))
    window.resize(*map(int, size.split("x")))
    window.show()
    for name, paths in (("empty", ()), ("opened", (str(session),))):
        window.open_paths(paths, waits=True)
        app.settle(application, window)
        _save(window, out / f"{name}.png")
    _without_questions()
    for name, show, hide in _scenes(application, window):
        if words and not any(word in name for word in words):
            continue
        show()
        app.settle(application, window)
        for number, widget in enumerate(_opened(application, window)):
            _save(widget, out / (f"{name}.png" if number == 0 else f"{name}-{number}.png"))
        hide()
        _begin_anew(application, window, session)
    window.close()
    return 0


def _begin_anew(application: QApplication, window: MainWindow, session: Path) -> None:
    """Actions change what they meet: the next one finds the session as it opens, with the panels of the first start."""
    from PySide6.QtWidgets import QDockWidget

    from ui.window import app
    from ui.window.panels import PANELS

    window.messages.clear()
    for entry in PANELS:
        dock = window.findChild(QDockWidget, entry.name)
        if dock is not None:
            dock.setVisible(entry.make is None)
    window.open_paths([str(session)], waits=True)
    app.settle(application, window)


def _scenes(
    application: QApplication, window: MainWindow
) -> Iterator[tuple[str, Callable[[], object], Callable[[], object]]]:
    from ui.state.selection import TokenRef
    from ui.traces.window import TraceDialog
    from ui.window import app
    from ui.window.actions import ENTRIES
    from ui.window.panels import PANELS

    def close_all() -> None:
        for widget in _opened(application, window):
            if widget is not window:
                widget.close()
        window.finding.box.leave()

    def show_beside(panel: str) -> None:
        """Two runs on one axis, a token chosen and marked, and a panel in front."""
        first, *_, last = sorted(run.run_id for run in window.controller.runs.values() if not run.info.warmup)
        window.selection.set_runs(first, last)
        app.settle(application, window)
        window.selection.select(TokenRef(last, 3))
        window.actions_by_name["mark"].trigger()
        window.body.show_panel(panel)

    def show_trace(page: int) -> None:
        """A page of the window for traces, once it is read."""
        window.trace_pages.show_newest()
        dialog = window.findChildren(TraceDialog)[-1]
        while dialog.reading.is_busy:
            app.settle(application, window)
        dialog.pages.setCurrentIndex(page)

    if any(run.info.trace_path for run in window.controller.runs.values()):
        for page, name in enumerate(("overview", "operators", "kernels", "memory", "timeline")):
            yield f"trace-{name}", partial(show_trace, page), close_all
    for panel in PANELS:
        yield f"panel-{panel.name}", partial(window.body.show_panel, panel.name), close_all
        yield f"beside-{panel.name}", partial(show_beside, panel.name), close_all
    panels = {panel.name for panel in PANELS}
    for entry in ENTRIES:
        if entry is not None and entry.name not in panels | NO_PICTURE:
            yield f"action-{entry.name}", window.actions_by_name[entry.name].trigger, close_all


def _opened(application: QApplication, window: QWidget) -> list[QWidget]:
    """The newest dialogs, or else the window."""
    shown = [widget for widget in application.topLevelWidgets() if widget.isVisible() and widget is not window]
    return shown or [window]


def _without_questions() -> None:
    """Questions that would wait for a person are answered with nothing."""
    from PySide6.QtWidgets import QFileDialog, QInputDialog

    answers: dict[Any, dict[str, Any]] = {
        QFileDialog: {
            "getOpenFileName": ("", ""),
            "getOpenFileNames": ([], ""),
            "getSaveFileName": ("", ""),
            "getExistingDirectory": "",
        },
        QInputDialog: {"getText": ("", False), "getMultiLineText": ("", False), "getDouble": (0.0, False)},
    }
    for owner, found in answers.items():
        for name, answer in found.items():
            setattr(owner, name, lambda *_, answer=answer, **__: answer)


def _save(widget: QWidget, path: Path) -> None:
    if not widget.grab().save(str(path)):
        raise OSError(f"{path} cannot be written")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--look"]:
        session, theme, size, out = sys.argv[2:6]
        raise SystemExit(draw_look(Path(session), theme, size, Path(out), sys.argv[6:]))
    raise SystemExit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/pictures"), sys.argv[2:]))
