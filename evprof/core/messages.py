"""Lifecycle messages: few, pushed, in order with the rows. A camera's events are something else entirely."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evprof.core.run_info import RunInfo


@dataclass(frozen=True)
class RunStarted:
    """A run begins (or one from a file comes back, its `info` then already ended)."""

    run_id: int
    info: RunInfo


@dataclass(frozen=True)
class RunDescribed:
    """More is known of a run: fields of RunInfo as plain values or fact objects; see `RunInfo.merge`."""

    run_id: int
    facts: dict[str, Any]


@dataclass(frozen=True)
class RunWarned:
    """Something a reader of the figures should know; the run goes on."""

    run_id: int
    sentence: str


@dataclass(frozen=True)
class RunEnded:
    """A run is over. `facts` are the last fields of RunInfo, such as `end_ns`, `text`, `kv`, `memory`."""

    run_id: int
    status: str
    error: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RequestEnded:
    """Every run of the request numbered by `first_run_id` is over; the engine is idle again."""

    first_run_id: int


@dataclass(frozen=True)
class SetupProgressed:
    """Weights are being loaded: bytes done of bytes in all (0 in all: unknown)."""

    run_id: int
    role: str
    done_bytes: int
    total_bytes: int


STARTING, READY, BUSY, SILENT, GONE = "starting", "ready", "busy", "silent", "gone"
"""States of an engine; silent is one that is at work and has said nothing for long."""


@dataclass(frozen=True)
class EngineChanged:
    """The engine's own state, with one sentence for the status line."""

    state: str
    sentence: str = ""
    pid: int | None = None
    environment: dict[str, Any] = field(default_factory=dict)


Message = RunStarted | RunDescribed | RunWarned | RunEnded | RequestEnded | SetupProgressed | EngineChanged


def apply_to_info(message: Message, info: RunInfo) -> bool:
    """Takes what `message` says about a run into its `info`. False when it says nothing about it."""
    match message:
        case RunDescribed(facts=facts):
            info.merge(facts)
        case RunWarned(sentence=sentence):
            info.warnings = [*info.warnings, sentence]
        case RunEnded(status=status, error=error, facts=facts):
            info.merge(facts)
            info.status, info.error = status, error
        case _:
            return False
    return True
