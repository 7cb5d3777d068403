"""What went on when something broke: runs, their last intervals and messages. Never a prompt, an answer or a path."""

from __future__ import annotations

from collections import deque

from PySide6.QtCore import QObject

from evprof.core.messages import Message
from evprof.core.records import STREAM_OF, SpanRecord
from ui.state.run_controller import RunController

_MESSAGES = 20
_SPANS = 20


class LastRecords(QObject):
    """Keeps the last messages by kind and run."""

    def __init__(self, controller: RunController) -> None:
        super().__init__(controller)
        self._controller = controller
        self._messages: deque[str] = deque(maxlen=_MESSAGES)
        controller.message.connect(self._note)

    def _note(self, message: Message) -> None:
        facts = (f"{name} {getattr(message, name)}" for name in ("run_id", "status", "state") if hasattr(message, name))
        self._messages.append(" ".join([type(message).__name__, *facts]))

    def lines(self) -> list[str]:
        """Lines of a report. Called on any thread."""
        controller = self._controller
        found = [f"runs: {len(controller.runs)}, busy: {controller.is_busy}", "last messages:"]
        found += [f"  {text}" for text in list(self._messages)]
        found.append("last intervals:")
        spans = controller.recording.streams[STREAM_OF[SpanRecord]]
        return found + [f"  {row!r}" for row in spans.rows(max(0, len(spans) - _SPANS))]
