"""A process of sections, seen from outside: started, read line by line, and ended with all it started when time is up.

The child writes one JSON object a line; anything else on its standard output comes from libraries and is passed over.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evprof.core.protocols import StopFlag
from evprof.run.gpu_bench.plan import OUT_OF_TIME, STOPPED

LOOK_S = 0.1

EXIT_S = 30.0
"""How long one that has closed its standard output may take to end."""


def hear_out(
    argv: Sequence[str], log: Path, until: Callable[[], float], stop: StopFlag, hear: Callable[[dict[str, Any]], None]
) -> int | str:
    """Runs `argv` until it ends, `stop` is set or time.monotonic() is past `until`; `hear` gets its objects.

    `hear` may move `until`. Standard error goes to `log`. Returns the exit code, STOPPED or OUT_OF_TIME. Raises
    OSError when the process cannot be started.
    """
    cut_short: list[str] = []
    is_read = threading.Event()

    def watch() -> None:
        """Ends what the process started, since that may hold the stream for longer than the process itself."""
        while not cut_short and process.poll() is None and not is_read.wait(LOOK_S):
            if stop.is_set():
                cut_short.append(STOPPED)
            elif time.monotonic() > until():
                cut_short.append(OUT_OF_TIME)
        if not is_read.is_set():
            _kill(process)

    with (
        log.open("wb") as errors,
        subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        ) as process,
    ):
        assert process.stdout is not None
        watcher = threading.Thread(target=watch, name="evprof-sections", daemon=True)
        watcher.start()
        try:
            for line in process.stdout:
                if isinstance(said := _parsed(line), dict):
                    hear(said)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(EXIT_S)
        finally:
            is_read.set()
            watcher.join()
            _kill(process)
    return cut_short[0] if cut_short else process.returncode


def _parsed(line: bytes) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(line)
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The process and its group, where there are groups."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
