"""Parts that may end the process which looks at them: each is examined in a process of its own, all at once."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from evprof.cli.doctor.problem import Problem

EXAMINATION_TIMEOUT_S = 120


def ask(part: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What `evprof _examine PART` printed, in a process of its own with `variables` set."""
    from evprof.cli.terminal.program import program_argv

    return subprocess.run(
        program_argv("_examine", part),
        capture_output=True,
        text=True,
        timeout=EXAMINATION_TIMEOUT_S,
        env={**os.environ, **variables},
        check=False,
    )


class Examinations:
    """Begins every examination that it is told of, and hands out each one's facts when they are asked for."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(thread_name_prefix="evprof-doctor")
        self._begun: dict[str, Future[subprocess.CompletedProcess[str]]] = {}

    def begin(self, part: str, **variables: str) -> None:
        """Starts to look at a part of `_examine`, with these environment variables set."""
        self._begun[part] = self._pool.submit(ask, part, **variables)

    def facts(self, part: str, problems: list[Problem], fix: str) -> dict[str, Any] | None:
        """What was found of a part that was begun; None and a problem where it failed. Waits for it."""
        try:
            done = self._begun[part].result()
            if done.returncode == 0:
                facts: dict[str, Any] = json.loads(done.stdout)
                return facts
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            reason = lines[-1].strip() if lines else f"it ended with code {done.returncode}"
        except (OSError, subprocess.TimeoutExpired, ValueError) as error:
            reason = str(error)
        problems.append(Problem(f"The examination of the {part} failed: {reason}", fix))
        return None

    def close(self) -> None:
        """Waits for what is still being looked at."""
        self._pool.shutdown()
