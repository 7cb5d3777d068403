"""Parts that may end the process which looks at them: each is examined in a process of its own, all at once."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from evprof.cli.doctor.problem import Problem

EXAMINATION_TIMEOUT_S = 120


def ask(part: str) -> subprocess.CompletedProcess[str]:
    """What `evprof _examine PART` prints, in a process of its own, which needs no display."""
    from evprof.cli.terminal.program import program_argv

    return subprocess.run(
        program_argv("_examine", part),
        capture_output=True,
        text=True,
        timeout=EXAMINATION_TIMEOUT_S,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        check=False,
    )


class Examinations:
    """Examines parts of `_examine` at the same time and returns the facts of each."""

    def __init__(self, parts: Iterable[str]) -> None:
        self._pool = ThreadPoolExecutor(thread_name_prefix="evprof-doctor")
        self._begun: dict[str, Future[subprocess.CompletedProcess[str]]] = {
            part: self._pool.submit(ask, part) for part in parts
        }

    def __contains__(self, part: object) -> bool:
        return part in self._begun

    def facts(self, part: str, problems: list[Problem], fix: str) -> dict[str, Any] | None:
        """The facts of a part; None if it is not examined, and None with a problem if that fails. Waits for it."""
        if part not in self:
            return None
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
