"""What an engine is to the rest of the program, and what it is given to write into."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from evprof.core.messages import Message
from evprof.core.records import Record
from evprof.core.request import RunRequest


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
        """Nothing."""
        return nullcontext()


UNMEASURED = Unmeasured()
