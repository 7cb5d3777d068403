"""Ctrl-C: the first keeps what was measured, the second ends the process. In processes of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evprof.cli.recorded_session import read_runs

DRIVER = """
import sys
from evprof.__main__ import main
from evprof.cli import recorded_session
from evprof.run.synthetic import SyntheticEngine
recorded_session.make_engine = lambda: SyntheticEngine(200, 60, is_deaf={is_deaf})
sys.exit(main())
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")


def start(tmp_path: Path, is_deaf: bool) -> tuple[subprocess.Popen[str], Path]:
    video, path = tmp_path / "v.mp4", tmp_path / "s.evprof"
    video.write_bytes(b"-")
    words = ["run", "--video", str(video), "-o", str(path), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(is_deaf=is_deaf), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not path.exists():
        time.sleep(0.05)
    assert path.exists(), "the run did not begin"
    time.sleep(0.5)
    return process, path


def test_the_first_stops_and_keeps(tmp_path: Path) -> None:
    process, path = start(tmp_path, is_deaf=False)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    (run,) = json.loads(output)["runs"]
    assert run["status"] == "cancelled"
    assert errors.count("stopping; what was measured is kept") == 1
    assert len(run["token_ids"]) > 10
    (saved,) = read_runs(str(path))
    assert saved.info.status == "cancelled"
    assert len(saved.tokens) == len(run["token_ids"])


def test_the_second_ends_the_process(tmp_path: Path) -> None:
    process, path = start(tmp_path, is_deaf=True)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert time.monotonic() - began < 3
    assert process.returncode == 130, errors
    assert output == ""
    (saved,) = read_runs(str(path))
    assert saved.info.status == "cancelled"
    assert len(saved.tokens) > 10
