"""A real window on a real X server, driven from end to end by a real mouse."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DRIVER = Path(__file__).parents[1] / "mouse_driver.py"

pytestmark = pytest.mark.skipif(
    not (shutil.which("Xvfb") and shutil.which("xdotool")), reason="Xvfb or xdotool is not installed"
)


@pytest.fixture
def display(tmp_path: Path) -> Iterator[str]:
    """The name of an X server of its own."""
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1400x900x24", "-nolisten", "tcp"],
        pass_fds=(write,),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    with os.fdopen(read) as told:
        number = told.readline().strip()
    assert number, "Xvfb did not start"
    yield f":{number}"
    server.terminate()
    server.wait()


@pytest.mark.whole
def test_open_select_note_compare_run_stop_and_export_with_the_mouse(display: str, session_file, tmp_path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "QT_", "WAYLAND"))}
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(session_file), str(tmp_path)],
        env={**kept, "DISPLAY": display, "QT_QPA_PLATFORM": "xcb", "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert told["opened"] == "4"
    assert told["selected"] == "prefill"
    assert told["noted"] == "['slow here']"
    assert told["compared"].startswith("(4, ")
    assert told["ran"] == "['draft', 'target']"
    exported = json.loads((tmp_path / "exported.json").read_text())
    assert len(exported["runs"]) >= 6
