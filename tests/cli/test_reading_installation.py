"""`pip install --no-deps evprof` with six packages: it reads sessions, and says what adds the rest."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PACKAGES = (
    *("numpy", "rich", "msgspec", "psutil", "jinja2", "matplotlib"),
    *(
        "markdown-it-py",
        "mdurl",
        "pygments",
        "markupsafe",
        "contourpy",
        "cycler",
        "fonttools",
        "kiwisolver",
        "packaging",
    ),
    *("pillow", "pyparsing", "python-dateutil"),
)
"""The six of docs/python.md, and what these require."""

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has PACKAGES alone."""
    folder = tmp_path_factory.mktemp("reading")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for package in map(distribution, PACKAGES):
        for name in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            (packages / name).symlink_to(str(package.locate_file(name)))
    return folder / "bin" / "python"


@pytest.fixture
def run(python: Path, tmp_path: Path) -> Command:
    """Runs that Python with `words`."""

    def started(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *words],
            env={**os.environ, "PYTHONPATH": str(ROOT), "QT_QPA_PLATFORM": ""},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return started


@pytest.mark.parametrize(
    "words",
    [
        ("show", "saved.evprof"),
        ("compare", "saved.evprof"),
        ("report", "saved.evprof", "-o", "report.html"),
        ("export", "saved.evprof", "--format", "csv", "-o", "tables"),
        ("export", "saved.evprof", "--format", "chrome", "-o", "trace.json"),
        ("inspect",),
    ],
    ids=" ".join,
)
def test_sessions_are_read_by_commands(run: Command, session: Path, words: tuple[str, ...]) -> None:
    done = run("-m", "evprof", *words)
    assert done.returncode == 0, done.stderr


def test_sessions_are_read_by_python(run: Command, session: Path) -> None:
    code = (
        "import evprof\n"
        "with evprof.open('saved.evprof') as session:\n"
        "    print(len(session.runs), len(session.tokens['piece']) > 0, session._repr_html_()[:4])"
    )
    done = run("-c", code)
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["3", "True"]), done.stderr


def test_doctor_finds_no_fault_with_it(run: Command) -> None:
    document = json.loads(run("-m", "evprof", "doctor", "--json").stdout)
    assert document["only_reads_sessions"]
    assert (document["engine"], document["decoders"], document["problems"]) == (None, None, [])


@pytest.mark.parametrize(
    "words", [("demo", "--headless"), ("run", "--mode", "target"), ("suite", "speculation", "-o", "a")]
)
def test_what_computes_says_how_to_get_it(run: Command, words: tuple[str, ...]) -> None:
    done = run("-m", "evprof", *words)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("evprof: The Python package '")
    assert last.endswith("' is missing; `pip install evprof` adds what this installation lacks.")
