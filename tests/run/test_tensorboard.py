"""TensorBoard is started for this machine only, waited for, and ended; its failures are sentences."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from evprof.core.errors import UserError
from evprof.run import tensorboard

HERE = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}

SERVER = """
import http.server, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
port = int(sys.argv[sys.argv.index("--port") + 1])
host = sys.argv[sys.argv.index("--host") + 1]
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(" ".join(sys.argv).encode())
    def log_message(self, *words): pass
http.server.HTTPServer((host, port), Answer).serve_forever()
"""


def is_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_it_answers_when_it_is_returned_and_is_gone_when_closed(tmp_path: Path, wait_until: Callable[..., Any]) -> None:
    board = tensorboard.open_tensorboard(tmp_path, argv=[sys.executable, "-c", SERVER])
    try:
        assert board.url.startswith("http://127.0.0.1:")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(board.url, timeout=300) as answer:
            words = answer.read().decode()
        assert f"--logdir {tmp_path}" in words
    finally:
        started = psutil.Process(board.process.pid).children()
        board.close()
    assert board.process.poll() is not None
    wait_until(lambda: all(map(is_gone, started)))


def test_one_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such plugin"):
        tensorboard.open_tensorboard(tmp_path, argv=[sys.executable, "-c", "raise SystemExit('no such plugin')"])


def test_a_missing_folder_and_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="--torch-trace"):
        tensorboard.open_tensorboard(tmp_path / "gone")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="tensorboard is not installed"):
        tensorboard.open_tensorboard(tmp_path)


PARENT = """
import subprocess, sys, time
from pathlib import Path
from evprof.run.tensorboard import open_tensorboard
child = "from evprof.cli.hidden import end_with_parent; end_with_parent();" + sys.argv[1]
print(open_tensorboard(Path("."), argv=[sys.executable, "-c", child]).process.pid, flush=True)
time.sleep(600)
"""


def test_it_goes_away_with_a_program_that_is_killed(tmp_path: Path, wait_until: Callable[..., Any]) -> None:
    started = subprocess.Popen(
        [sys.executable, "-c", PARENT, SERVER],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=HERE,
    )
    assert started.stdout is not None
    with started.stdout:
        board = psutil.Process(int(started.stdout.readline()))
        processes = [board, *board.children()]
        started.kill()
        started.wait()
    assert len(processes) == 2
    wait_until(lambda: all(map(is_gone, processes)))
