"""The front door loads nothing heavy, and every module keeps to its floor. Each import in a process of its own."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from apart import run_apart

ROOT = Path(__file__).resolve().parents[2]

HEAVY = (
    *("torch", "transformers", "safetensors", "sentencepiece", "tokenizers", "huggingface_hub", "tensorboard"),
    *("PySide6", "pyqtgraph", "av", "PIL", "h5py", "psutil", "rich", "pynvml"),
)

LIGHT = (
    *(
        "evprof",
        "evprof.cli",
        "evprof.cli.commands",
        "evprof.__main__",
        "evprof.core.run_book",
        "evprof.core.run_log",
        "evprof.run.processes.runner",
    ),
    *(
        "evprof.session.store",
        "evprof.session.reading",
        "evprof.metrics.document",
        "evprof.metrics.comparison.document",
        "evprof.notebook.session",
        "evprof.notebook.profiling",
    ),
    *("evprof.export.chrome_trace", "evprof.loaders.probe", "evprof.loaders.bundled", "evprof.view.lanes", "engines"),
)


def loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nimport json; print(json.dumps([name.split('.')[0] for name in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=300
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("module", LIGHT)
def test_importing_loads_nothing_heavy(module: str) -> None:
    assert loaded_by(f"import {module}").isdisjoint(HEAVY)


def test_the_check_itself_sees_what_is_loaded() -> None:
    assert "psutil" in loaded_by("import psutil")


def test_importing_evprof_loads_nothing_but_itself() -> None:
    """A script pays for what it asks for: what stands behind `open` and `profile` comes with the first call."""
    code = "import sys\nbefore = set(sys.modules)\nimport evprof\nprint(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=300
    )
    new = set(done.stdout.split()) - {"__future__", "typing", "collections", "re"}
    assert {name for name in new if name.split(".")[0] == "evprof"} == {"evprof", "evprof.version"}
    assert {name.split(".")[0] for name in new} - sys.stdlib_module_names == {"evprof"}


def test_building_every_command_loads_no_numpy() -> None:
    # The window must be visible within a second: arguments are read before anything is computed.
    assert "numpy" not in loaded_by("import evprof.cli; evprof.cli.build_parser()")


def test_the_window_s_modules_are_imported_without_their_sources_being_read() -> None:
    code = (
        "import linecache, sys\nimport ui.window.main_window\n"
        "read = [name for name in linecache.cache if name.startswith(sys.argv[1]) and 'site-packages' not in name]\n"
        "print(read)"
    )
    argv = [sys.executable, "-c", code, str(ROOT)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT, timeout=300)
    assert done.stdout.strip() == "[]"


def test_a_window_without_runs_loads_nothing_that_compares_them() -> None:
    # It shows no run yet: the document of a comparison is for when it does.
    code = (
        "import sys\nfrom PySide6.QtWidgets import QApplication\napplication = QApplication([])\n"
        "from ui.style.theme import ThemeHolder\nfrom ui.window.main_window import MainWindow\n"
        "window = MainWindow(ThemeHolder())\nprint('evprof.metrics.comparison.document' in sys.modules)"
    )
    assert run_apart(code, QT_QPA_PLATFORM="offscreen") == "False"


def test_a_session_is_known_without_the_readers_of_other_files() -> None:
    # They take a quarter of a second, a fifth of what a large session takes until its first picture.
    session = sorted((ROOT / "tests" / "session" / "golden").glob("*.evprof"))[-1]
    code = (
        "import sys\nfrom ui.samples.openings import look_at\n"
        f"kind = look_at({str(session)!r}).kind\nprint(kind, 'evprof.loaders.probe' in sys.modules)"
    )
    assert run_apart(code) == "session False"


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["inspect"]])
def test_small_commands_load_neither_torch_nor_qt(words: list[str]) -> None:
    loaded = loaded_by(f"from evprof.cli import main; assert main({words!r}) == 0")
    assert loaded.isdisjoint({"torch", "transformers", "PySide6", "pyqtgraph"})


def _imports(path: Path) -> list[tuple[str, bool]]:
    """Every module that a file imports, and whether at its top level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = set(map(id, tree.body))
    found = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        found += [(name, id(node) in top) for name in names]
    return found


PACKAGES = ("evprof", "engines", "ui")
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
OUTSIDE = {
    path.stem for folder in ("tests", "packaging") for path in (ROOT / folder).iterdir() if path.suffix in ("", ".py")
}
"""What can be imported while tests run, and is not there when evprof is installed."""


def slips(path: Path, root_folder: Path = ROOT) -> Iterator[str]:
    """Imports of a file that its package may not have."""
    parts = path.relative_to(root_folder).parts
    for name, is_top in _imports(path):
        root = name.split(".")[0]
        if root in OUTSIDE:
            yield f"{name}: is not installed with evprof"
        if parts[0] != "engines" and root in ("torch", "transformers"):
            yield f"{name}: only engines computes"
        if parts[0] != "ui" and root in ("PySide6", "pyqtgraph"):
            yield f"{name}: only ui draws"
        if root == {"ui": "engines", "engines": "ui"}.get(parts[0]):
            yield f"{name}: ui and engines are siblings"
        if parts[0] == "evprof" and root in ("ui", "engines") and (is_top or parts[1] != "cli"):
            yield f"{name}: only evprof.cli puts the parts together, inside functions"


def test_every_file_keeps_to_its_floor() -> None:
    assert [f"{path.relative_to(ROOT)}: {slip}" for path in SOURCES for slip in slips(path)] == []


@pytest.mark.parametrize(
    ("place", "line"),
    [
        *(("ui/a.py", "import torch"), ("evprof/run/a.py", "def f():\n    from ui.window import app")),
        *(("evprof/cli/a.py", "import engines.engine"), ("engines/a.py", "from PySide6 import QtCore")),
        *(("engines/a.py", "import ui"), ("evprof/a.py", "from scripted_engine import ScriptedEngine")),
    ],
)
def test_an_import_off_its_floor_is_seen(tmp_path: Path, place: str, line: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert len(list(slips(path, tmp_path))) == 1


def test_every_file_says_what_it_is_for() -> None:
    silent = []
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
        silent += [f"{path.relative_to(ROOT)}: module"] * (not ast.get_docstring(tree))
        silent += [f"{path.relative_to(ROOT)}: {node.name}" for node in classes if not ast.get_docstring(node)]
    assert silent == []


def test_no_file_has_a_name_that_says_nothing() -> None:
    empty = {"utils", "util", "helpers", "helper", "common", "manager", "types", "misc"}
    assert [str(path) for path in SOURCES if path.stem in empty] == []


def test_tests_have_no_packages() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []
    assert not (ROOT / "packaging" / "__init__.py").exists()


NOT_FOR_THE_FIRST_PICTURE = (
    *("psutil", "pyqtgraph", "h5py", "av", "asyncio", "ssl", "http", "sqlite3"),
    "PIL",
    *("evprof.loaders.adapters", "evprof.loaders.events", "evprof.loaders.pictures.palette", "evprof.loaders.videos"),
    *("evprof.metrics.comparison.answers", "evprof.metrics.configurations"),
    *("evprof.metrics.estimates", "evprof.metrics.speculation", "evprof.session.store", "evprof.session.reading"),
    *("evprof.metrics.figures.energy", "evprof.session.opened"),
    *("evprof.run.session_writer", "ui.clinic", "ui.comparison", "ui.costs", "ui.distributions"),
    *("ui.runs.run_details", "ui.runs.run_summary", "ui.welcome.recent_sessions", "ui.welcome.session_card"),
)
"""What the window imports only once something is asked of it, each with all that is in it."""

_AT_FIRST_PICTURE = """
import sys
from evprof.cli.terminal.program import loading_window
loading = loading_window()
loading.__enter__()
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication
application = QApplication([])
from ui.style.theme import ThemeHolder, theme_named
from ui.window.main_window import MainWindow
window = MainWindow(ThemeHolder(theme_named("dark")), QSettings(sys.argv[1], QSettings.Format.IniFormat))
window.welcome.page.open()
shown = []
window.painted.connect(lambda: shown.extend(sys.modules))
window.show()
while not shown:
    application.processEvents()
print("\\n".join(shown), flush=True)
import os
os._exit(0)
"""


def test_the_first_picture_of_the_window_waits_for_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AT_FIRST_PICTURE, str(tmp_path / "settings.ini")],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=300,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )
    loaded = done.stdout.split()
    assert "ui.window.main_window" in loaded
    early = {
        name for name in loaded for late in NOT_FOR_THE_FIRST_PICTURE if name == late or name.startswith(f"{late}.")
    }
    assert early == set()


_BEFORE_THE_WINDOW = """
import sys, types
from evprof.cli.terminal import display
display.find_display = display.Display
tell = lambda *_, **__: print("\\n".join(sys.modules)) or 0
sys.modules["ui.window.app"] = types.SimpleNamespace(run_window=tell)
from evprof.cli import main
raise SystemExit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("words", [[], ["gui"]])
def test_the_window_waits_for_no_other_command(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BEFORE_THE_WINDOW, *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=300,
    )
    loaded = done.stdout.split()
    assert "evprof.cli.gui" in loaded
    late = ("numpy._core", "psutil", "importlib.metadata", "evprof.loaders", "evprof.run.suites")
    others = ("evprof.cli.commands", "evprof.cli.run", "evprof.cli.suite", "evprof.cli.bench")
    assert {
        name for name in loaded for other in (*late, *others) if name == other or name.startswith(f"{other}.")
    } == set()


def test_pyside_leaves_imports_to_python() -> None:
    code = "import builtins\nimports = builtins.__import__\nimport ui.window\nprint(builtins.__import__ is imports)"
    assert run_apart(code) == "True"
