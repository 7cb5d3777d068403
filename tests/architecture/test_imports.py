"""What importing evprof loads. Layers are contracts of import-linter (`pyproject.toml`)."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from apart import run_apart

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("evprof", "engines", "ui")
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]

HEAVY = {
    *("torch", "transformers", "safetensors", "sentencepiece", "tokenizers", "huggingface_hub", "tensorboard"),
    *("PySide6", "pyqtgraph", "av", "PIL", "h5py", "psutil", "pynvml", "matplotlib", "jinja2"),
}
LIGHT = (
    *("evprof", "evprof.cli", "evprof.cli.commands", "evprof.__main__", "evprof.core.run_log", "engines"),
    *("evprof.session.store", "evprof.session.reading", "evprof.metrics.document", "evprof.notebook.session"),
    *("evprof.export.chrome_trace", "evprof.loaders.probe", "evprof.loaders.bundled", "evprof.view.lanes"),
)
PRINT_LOADED = "import json, sys; print(json.dumps([name.split('.')[0] for name in sys.modules]))"


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after `statement`."""
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\n{PRINT_LOADED}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=300,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_loads_nothing_heavy() -> None:
    assert loaded_by("import " + ", ".join(LIGHT)).isdisjoint(HEAVY)
    assert "psutil" in loaded_by("import psutil")


def test_importing_evprof_loads_only_its_version() -> None:
    code = "import sys, evprof; print(*sorted(name for name in sys.modules if name.startswith('evprof')))"
    assert run_apart(code) == "evprof evprof.version"


def test_the_parser_of_all_commands_needs_no_numpy() -> None:
    assert "numpy" not in loaded_by("import evprof.cli; evprof.cli.build_parser()")


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["inspect"]])
def test_small_commands_load_neither_torch_nor_qt(words: list[str]) -> None:
    loaded = loaded_by(f"from evprof.cli import main; assert main({words!r}) == 0")
    assert loaded.isdisjoint({"torch", "transformers", "PySide6", "pyqtgraph"})


def test_the_window_s_modules_load_no_library_of_readers_or_plots() -> None:
    assert loaded_by("import ui.window.main_window").isdisjoint({"torch", "transformers", "av", "h5py", "matplotlib"})


def test_pyside_leaves_imports_to_python() -> None:
    code = "import builtins\nimports = builtins.__import__\nimport ui.window\nprint(builtins.__import__ is imports)"
    assert run_apart(code) == "True"


def test_the_product_imports_nothing_from_tests_and_packaging() -> None:
    outside = {
        path.stem
        for folder in ("tests", "packaging")
        for path in (ROOT / folder).iterdir()
        if path.suffix in ("", ".py")
    }
    wrong = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [f"{path.relative_to(ROOT)}: {name}" for name in names if name.split(".")[0] in outside]
    assert wrong == []


PATCHES = ("sys.modules[", "builtins.__import__ =", "setattr(builtins", "_create_fn", "EnumType._", "re.compile =")


def test_nothing_patches_the_standard_library() -> None:
    """The one exception gives `__import__` back after PySide6 has replaced it."""
    found = {
        f"{path.relative_to(ROOT)}: {patch}"
        for path in SOURCES
        for patch in PATCHES
        if patch in path.read_text(encoding="utf-8")
    }
    assert found == {"ui/window/__init__.py: builtins.__import__ ="}


def test_tests_have_no_packages() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []
    assert not (ROOT / "packaging" / "__init__.py").exists()
