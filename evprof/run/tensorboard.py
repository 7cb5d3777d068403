"""Opens torch traces in TensorBoard: starts it for this machine only, with the profiler plugin, and waits.

It ends with the program that started it, even one that was killed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from evprof.core.errors import UserError
from evprof.core.installation import CONSOLE, bundled_program, how_to_add, is_bundle

HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
PAGE = "#pytorch_profiler"
"""TensorBoard's address fragment of the plugin's tab."""


@dataclass(frozen=True)
class TensorBoard:
    """A running TensorBoard: where its page is, and its process."""

    url: str
    process: subprocess.Popen[bytes]

    def close(self) -> None:
        """Ends it with the processes that it started."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        elif self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def open_tensorboard(
    log_folder: Path, timeout_s: float = START_TIMEOUT_S, argv: list[str] | None = None
) -> TensorBoard:
    """Starts TensorBoard on `log_folder` at a free port of 127.0.0.1 and returns when it answers.

    Blocks for some seconds: call it from a thread where a window must not stand still. `argv` starts TensorBoard's
    command line (default: this Python's). Raises UserError when it is not installed, ends, or does not answer.
    """
    if not log_folder.is_dir():
        raise UserError(f"There is no trace folder '{log_folder}'; make a trace with --torch-trace first.")
    if argv is None and (missing := _missing_package()):
        raise UserError(f"TensorBoard cannot start: {missing} is not installed; {how_to_add(missing)}.")
    port = _free_port()
    words = ["--logdir", str(log_folder), "--host", HOST, "--port", str(port), "--load_fast=false"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*(argv or _own_argv()), *words],
            # Held open and never written to: it ends with this program, and TensorBoard with it.
            stdin=subprocess.PIPE,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
        )
        board = TensorBoard(f"http://{HOST}:{port}/{PAGE}", process)
        try:
            if not _answers(f"http://{HOST}:{port}/", process, timeout_s):
                raise UserError(f"TensorBoard did not start: {_last_line(errors)}")
        except BaseException:
            board.close()
            raise
    return board


def _own_argv() -> list[str]:
    """TensorBoard by the program's hidden command, which ends when this process does."""
    program = [str(bundled_program(CONSOLE))] if is_bundle() else [sys.executable, "-m", "evprof"]
    return [*program, "_tensorboard"]


def _missing_package() -> str | None:
    if is_bundle():
        return None  # it is in the other program
    for module, package in (("tensorboard", "tensorboard"), ("torch_tb_profiler", "torch-tb-profiler")):
        if importlib.util.find_spec(module) is None:
            return package
    return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _answers(url: str, process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Whether the address answers before the process ends or the time is over."""
    deadline = time.monotonic() + timeout_s
    # No proxy of the environment may stand between us and this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, OSError), opener.open(url, timeout=2.0) as answer:
            return bool(answer.status == 200)
        time.sleep(0.1)
    return False


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = [line for line in errors.read().decode("utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it gave no reason within the time allowed."
