"""A machine with a GPU, torch and pytest, but without the window's packages, collects the tests that need a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_MISSING = (
    "PySide6",
    "pyqtgraph",
    "av",
    "platformdirs",
    "ijson",
    "msgspec",
    "aedat",
    "hdf5plugin",
    "faery",
    "rosbags",
    "lz4",
)

_PROGRAM = f"""
import sys
from importlib.machinery import PathFinder

import pytest

found = PathFinder.find_spec

def find_spec(cls, name, path=None, target=None):
    return None if name.partition(".")[0] in {_MISSING} else found(name, path, target)

PathFinder.find_spec = classmethod(find_spec)
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_the_gpus_tests_are_collected_without_the_windows_packages() -> None:
    folder = Path(__file__).parent
    files = sorted(map(str, folder.glob("test_*cuda*.py")))
    # The plugin that platformdirs brings for pytest is not there either.
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:platformdirs", "--collect-only"]
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *options, *files],
        cwd=folder.parents[1],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert all(Path(file).name in ended.stdout for file in files)
