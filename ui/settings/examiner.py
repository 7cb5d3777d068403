"""Asks another program what a checkpoint is and whether it fits, since the window loads no torch.

One question at a time; answers are kept. It does not read the answers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QObject, QProcess, QTimer, Signal

TIMEOUT_S = 120.0
_CLOSE_MS = 5_000


class Examiner(QObject):
    """Questions and answers are plain dictionaries; an answer with the key `error` says in a sentence what failed.

    Signals:
        answered(): there is an answer more, or `is_held` changed.
    """

    answered = Signal()

    def __init__(self, argv: Sequence[str], *, timeout_s: float = TIMEOUT_S) -> None:
        """`argv` runs the program; the question is its last argument, as JSON; it answers on standard output."""
        super().__init__()
        self._argv = list(argv)
        self._answers: dict[str, dict[str, Any]] = {}
        self._wanted: str | None = None
        self._asked: str | None = None
        self._is_closed = self._is_late = False
        self.is_held = False
        """Whether no question is looked at now."""

        self._process = QProcess(self)
        self._process.setStandardInputFile(QProcess.nullDevice())
        self._process.finished.connect(self._take)
        self._process.errorOccurred.connect(self._fail)
        self._limit = QTimer(self)
        self._limit.setSingleShot(True)
        self._limit.setInterval(round(1000 * timeout_s))
        self._limit.timeout.connect(self._give_up)

    @property
    def is_busy(self) -> bool:
        return self._asked is not None

    def hold(self, is_held: bool) -> None:
        """Ends the present question, which could disturb a run, and begins no other; False begins again."""
        self.is_held = is_held
        if is_held:
            self._process.kill()
        self.answered.emit()

    def ask(self, question: dict[str, Any]) -> dict[str, Any] | None:
        """The answer, or None until `answered`. Of several questions the latest goes next."""
        key = json.dumps(question, sort_keys=True)
        if key in self._answers:
            return self._answers[key]
        self._wanted = None if key == self._asked else key
        self._begin()
        return None

    def forget(self) -> None:
        """Drops the question that waits; an answer that is on its way is kept."""
        self._wanted = None

    def close(self) -> None:
        self._is_closed, self._wanted = True, None
        self._process.kill()
        self._process.waitForFinished(_CLOSE_MS)

    def _begin(self) -> None:
        if self._asked is None and self._wanted is not None and not (self.is_held or self._is_closed):
            self._asked, self._wanted, self._is_late = self._wanted, None, False
            self._limit.start()
            self._process.start(self._argv[0], [*self._argv[1:], self._asked])

    def _fail(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self._end(_failure(self._process.errorString()))

    def _give_up(self) -> None:
        self._is_late = True
        self._process.kill()

    def _take(self, code: int, status: QProcess.ExitStatus) -> None:
        errors = bytes(self._process.readAllStandardError().data()).decode("utf-8", "replace")
        output = bytes(self._process.readAllStandardOutput().data())
        lines = [line.strip() for line in errors.split("\n") if line.strip()]
        if self._is_late:
            self._end(_failure(f"it took longer than {self._limit.interval() / 1000:.0f} s"))
        elif code or status != QProcess.ExitStatus.NormalExit:
            self._end(_failure(lines[-1] if lines else f"the program ended with code {code}"))
        else:
            self._end(_described(output))

    def _end(self, answer: dict[str, Any]) -> None:
        asked, self._asked = self._asked, None
        self._limit.stop()
        if asked is not None and not (self.is_held or self._is_closed):
            self._answers[asked] = answer
            self.answered.emit()
        self._begin()


def _described(output: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(output)
    except ValueError as error:
        return _failure(str(error))
    return answer if isinstance(answer, dict) else _failure("the answer is no description")


def _failure(reason: str) -> dict[str, Any]:
    return {"error": f"The checkpoint could not be examined: {reason.rstrip('.')}."}
