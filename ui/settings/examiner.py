"""Asks a program of its own what a checkpoint is and whether it fits; the window must load no torch for that.

One question at a time, on a thread of its own, each answered once. It knows neither widgets nor what is in an answer.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Sequence
from typing import Any

TIMEOUT_S = 120.0


class Examiner:
    """Questions and answers are plain dictionaries; an answer with the key `error` says in a sentence what failed."""

    def __init__(self, argv: Sequence[str], *, timeout_s: float = TIMEOUT_S) -> None:
        """`argv` runs the program; the question is its last word, as JSON, and its answer comes on standard output."""
        self._argv = list(argv)
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._answers: dict[str, dict[str, Any]] = {}
        self._wanted: str | None = None
        self._looked_for: str | None = None
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[str] | None = None
        self._is_closed = False
        self._is_held = False

    @property
    def is_held(self) -> bool:
        """Whether nothing is looked for now."""
        return self._is_held

    def hold(self, is_held: bool) -> None:
        """Lets nothing of this disturb a run: what is being looked for is given up, and nothing else is begun."""
        with self._lock:
            self._is_held = is_held
            if is_held and self._process is not None:
                self._process.kill()

    def ask(self, question: dict[str, Any]) -> dict[str, Any] | None:
        """The answer, or None while it is looked for: ask again. The latest question goes next."""
        key = json.dumps(question, sort_keys=True)
        with self._lock:
            if key in self._answers:
                return self._answers[key]
            self._wanted = key if key != self._looked_for else None
            if self._wanted is not None and self._thread is None and not self._is_held and not self._is_closed:
                self._thread = threading.Thread(target=self._work, name="evprof-examiner", daemon=True)
                self._thread.start()
        return None

    def forget(self) -> None:
        """Nobody waits for an answer any more; one that is being looked for is kept for later."""
        with self._lock:
            self._wanted = None

    def close(self) -> None:
        """Ends the program and the thread."""
        with self._lock:
            self._is_closed = True
            self._wanted = None
            thread, process = self._thread, self._process
        if process is not None:
            process.kill()
        if thread is not None:
            thread.join(5)

    def _work(self) -> None:
        while True:
            with self._lock:
                key = self._looked_for = None if self._is_closed or self._is_held else self._wanted
                self._wanted = None
                if key is None:
                    self._thread = None
                    return
            answer = self._look(key)
            with self._lock:
                self._looked_for = None
                if not self._is_held and not self._is_closed:
                    self._answers[key] = answer

    def _look(self, key: str) -> dict[str, Any]:
        try:
            with subprocess.Popen(
                [*self._argv, key],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            ) as process:
                with self._lock:
                    self._process = process
                    if self._is_closed or self._is_held:
                        process.kill()
                try:
                    output, errors = process.communicate(timeout=self._timeout_s)
                except subprocess.TimeoutExpired:
                    process.kill()
                    return _failure(f"it took longer than {self._timeout_s:.0f} s")
                finally:
                    with self._lock:
                        self._process = None
            if process.returncode:
                lines = [line.strip() for line in errors.splitlines() if line.strip()]
                return _failure(lines[-1] if lines else f"the program ended with code {process.returncode}")
            answer = json.loads(output)
        except (OSError, ValueError) as error:
            return _failure(str(error))
        return answer if isinstance(answer, dict) else _failure("the answer is no description")


def _failure(reason: str) -> dict[str, Any]:
    return {"error": f"The checkpoint could not be looked at: {reason.rstrip('.')}."}
