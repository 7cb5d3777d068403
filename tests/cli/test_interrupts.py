"""Ctrl-C: the first keeps what was measured, the second ends the process. In processes of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from driven_command import DRIVER, TESTS, saved_tokens
from evprof.cli.run.recorded_session import read_runs
from evprof.loaders.bundled import bundled_sample

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")


def start(tmp_path: Path, wait_until: Callable[..., None], is_deaf: bool) -> tuple[subprocess.Popen[str], Path]:
    """A run that has made some tokens, and its session."""
    path = tmp_path / "s.evprof"
    words = ["run", "--video", str(bundled_sample().video_path), "-o", str(path), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(tests=TESTS, engine="deaf" if is_deaf else "rate"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: saved_tokens(path) > 10)
    return process, path


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_the_first_stops_and_keeps(tmp_path: Path, wait_until: Callable[..., None], name: str) -> None:
    process, path = start(tmp_path, wait_until, is_deaf=False)
    process.send_signal(getattr(signal, name))
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
    while "stopping" not in (line := process.stderr.readline()):
        assert line, "it ended at the first"
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert output == ""
    (saved,) = read_runs(str(path))
    assert saved.info.status == "cancelled"
    assert len(saved.tokens) > 10


@pytest.mark.parametrize("place", ["loading", "ending"])
def test_it_leaves_no_traceback_while_the_command_line_is_loaded_or_ends(place: str) -> None:
    """An impatient Ctrl-C outside the command itself."""
    program = (
        "import sys, threading\n"
        "from evprof.__main__ import main\n"
        "from evprof.cli.terminal import crash\n"
        "def interrupt(): raise KeyboardInterrupt\n"
        "if sys.argv.pop() == 'loading': crash.open_missing_streams = interrupt\n"
        "else: threading.enumerate = interrupt\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--version", place], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (130, "")
