"""What the window and its engine process say to each other: a greeting, commands one way, batches the other.

Everything travels pickled over a `multiprocessing.connection` that only these two processes hold. The greeting is a
plain tuple, readable whatever the rest looks like, so that two different versions notice each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evprof.core.messages import Message
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest

PROTOCOL = 1
"""Counted up with every change to what is said here."""

_GREETING = "evprof-engine"

StreamRows = tuple[str, list[tuple[Any, ...]]]
"""Rows of one stream, in order."""

Part = StreamRows | Message
"""A batch is a list of these; a message stands after every row that was appended before it."""


@dataclass(frozen=True)
class Submit:
    """Carry this request out."""

    request: dict[str, Any]

    @classmethod
    def of(cls, request: RunRequest) -> Submit:
        """The command for `request`."""
        return cls(request.to_json())


@dataclass(frozen=True)
class Stop:
    """Set the stop flag of the request at work; without one, nothing."""


Command = Submit | Stop
"""What the host says. To end the engine process it hangs up."""


@dataclass(frozen=True)
class Batch:
    """Rows and messages in order."""

    parts: list[Part]


def greeting(pid: int) -> tuple[str, int, int]:
    """The first thing the engine says."""
    return (_GREETING, PROTOCOL, pid)


def is_greeting(said: object) -> bool:
    """Whether this is the greeting of an engine that speaks this protocol."""
    return isinstance(said, tuple) and said[:2] == (_GREETING, PROTOCOL)


def apply_part(part: Part, recording: RecordLog) -> None:
    """Puts rows or a message into the Recording."""
    if isinstance(part, tuple):
        recording.extend(*part)
    else:
        recording.post(part)
