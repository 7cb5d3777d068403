"""What an engine is to the rest of the program, and what it is given to write into."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from evprof.core.records import Record
from evprof.core.request import RunRequest
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
    first_run_id: int


@dataclass(frozen=True)
class SetupProgressed:
    """Weights are being loaded: bytes done of bytes in all (0 in all: unknown)."""

    run_id: int
    role: str
    done_bytes: int
    total_bytes: int


STARTING, READY, BUSY, GONE = "starting", "ready", "busy", "gone"


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


class Sink(Protocol):
    """Where an engine puts what happens. Both calls only append, never wait; order between them is kept."""

    def append(self, record: Record) -> None:
        """Takes one record."""

    def post(self, message: Message) -> None:
        """Takes one lifecycle message."""


class StopFlag(Protocol):
    """Asked between tokens, layers and tensors; an `Event` of threading is one."""

    def is_set(self) -> bool:
        """Whether the person asked to stop."""


class Engine(Protocol):
    """Runs models. Made by the composition root; `evprof.run` never imports one."""

    def describe(self) -> dict[str, Any]:
        """The environment block of the JSON (cli.md): device, versions, threads, GPU state."""

    def run(self, request: RunRequest, sink: Sink, stop: StopFlag) -> None:
        """Carries the request out: RunStarted, rows, RunEnded for each run, then RequestEnded.

        Never raises for what happens to a run (that is its status); raises only for defects of its own, after which
        the caller reports the run as failed, and EngineLost when its process cannot carry out another one.
        """

    def close(self) -> None:
        """Frees models and device memory."""


class PartClock(Protocol):
    """Measures the parts of something longer. Loaders name their parts with it and know no stage and no span."""

    def part(self, name: str) -> AbstractContextManager[Any]:
        """The interval of one part; the same name may come again, as often as the work goes to and fro."""


class Unmeasured:
    """A PartClock that measures nothing."""

    def part(self, name: str) -> AbstractContextManager[Any]:
        return nullcontext()


UNMEASURED = Unmeasured()


Clock = Callable[[], int]
"""Returns monotonic nanoseconds; tests hand in a fake one."""

monotonic_ns: Clock = time.perf_counter_ns
"""The system's monotonic clock in ns; on Linux, macOS and Windows all processes see the same one."""


class Closing:
    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
