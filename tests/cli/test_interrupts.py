"""Ctrl-C: the first keeps what was measured, the second ends the process. In processes of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evprof.cli.run.recorded_session import read_runs
from evprof.core.errors import UserError
from evprof.session.reading import read_session

DRIVER = """
import sys
from evprof.__main__ import main
from evprof.cli.run import recorded_session
sys.path.append({tests!r})
from scripted_process import engine_of
recorded_session.make_engine = lambda: engine_of("{engine}:200:3600")
sys.exit(main())
"""

TESTS = str(Path(__file__).parents[1])

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")


def start(tmp_path: Path, wait_until: Callable[..., None], is_deaf: bool) -> tuple[subprocess.Popen[str], Path]:
    """A run that has made some tokens, and its session."""
    video, path = tmp_path / "v.mp4", tmp_path / "s.evprof"
    video.write_bytes(b"-")
    words = ["run", "--video", str(video), "-o", str(path), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(tests=TESTS, engine="deaf" if is_deaf else "rate"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: saved_tokens(path) > 10)
    return process, path


def saved_tokens(path: Path) -> int:
    """How many tokens a session file holds that is being written."""
    try:
        return len(read_session(path).streams["tokens"])
    except UserError:  # it has just been made, or not yet
        return 0


def test_the_first_stops_and_keeps(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    process, path = start(tmp_path, wait_until, is_deaf=False)
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


def test_the_second_ends_the_process(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    process, path = start(tmp_path, wait_until, is_deaf=True)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "stopping" not in (line := process.stderr.readline()):
        assert line, "it ended at the first"
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert output == ""
    (saved,) = read_runs(str(path))
    assert saved.info.status == "cancelled"
    assert len(saved.tokens) > 10
