"""A section's process, seen from outside: started, heard line by line, and ended with all it started when time is up.

The child writes one JSON object a line; anything else on its standard output is somebody else's and is passed over.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from evprof.core.protocols import StopFlag
from evprof.run.gpu_bench.plan import OUT_OF_TIME, STOPPED

END_S = 3.0
"""How long a process that was asked to end gets for it."""

EXIT_S = 30.0
"""How long one that has said everything gets."""


@dataclass(frozen=True)
class Ending:
    """How a process ended: with its own exit code, or because of OUT_OF_TIME or STOPPED; after so many seconds."""

    code: int | None
    seconds: float
    cut_short: str | None = None


def hear_out(
    argv: Sequence[str], log: Path, limit_s: float, stop: StopFlag, hear: Callable[[dict[str, Any]], None]
) -> Ending:
    """Runs `argv` until it ends, `stop` is set or `limit_s` are over; `hear` gets its objects as they come.

    Standard error goes to `log`. Raises OSError when it cannot be started.
    """
    began = time.monotonic()
    with log.open("wb") as errors:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        assert process.stdout is not None
        lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        reader = threading.Thread(target=_read, args=(process.stdout, lines), name="evprof-section", daemon=True)
        reader.start()
        cut_short: str | None = STOPPED  # whatever breaks off the listening
        try:
            cut_short = _listen(process, lines, began + limit_s, stop, hear)
        finally:
            _end(process, is_done=cut_short is None)
            reader.join()
            process.stdout.close()
    _hear_rest(lines, hear)
    return Ending(process.returncode if cut_short is None else None, time.monotonic() - began, cut_short)


def _read(stream: IO[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _listen(
    process: subprocess.Popen[bytes],
    lines: queue.SimpleQueue[bytes | None],
    until: float,
    stop: StopFlag,
    hear: Callable[[dict[str, Any]], None],
) -> str | None:
    """Until the stream or the process ends; else why not. What the process started may hold the stream for longer."""
    while True:
        try:
            line = lines.get(timeout=0.1)
        except queue.Empty:
            if process.poll() is not None:
                return None
        else:
            if line is None:
                return None
            _tell(line, hear)
        if stop.is_set():
            return STOPPED
        if time.monotonic() > until:
            return OUT_OF_TIME


def _hear_rest(lines: queue.SimpleQueue[bytes | None], hear: Callable[[dict[str, Any]], None]) -> None:
    """What was said before the end and not heard yet."""
    with contextlib.suppress(queue.Empty):
        while (line := lines.get_nowait()) is not None:
            _tell(line, hear)


def _tell(line: bytes, hear: Callable[[dict[str, Any]], None]) -> None:
    try:
        found = json.loads(line)
    except ValueError:
        return
    if isinstance(found, dict):
        hear(found)


def _end(process: subprocess.Popen[bytes], *, is_done: bool) -> None:
    """Waits for a process that is done; one that is not, and in any case what it started, is ended."""
    if is_done:
        _wait(process, EXIT_S)
    if process.poll() is None:
        _send(process, signal.SIGTERM)
        _wait(process, END_S)
    _send(process, getattr(signal, "SIGKILL", signal.SIGTERM))
    process.wait()


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)


def _send(process: subprocess.Popen[bytes], word: int) -> None:
    """To the whole group, where there are groups."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, word)
        else:
            process.send_signal(word)
