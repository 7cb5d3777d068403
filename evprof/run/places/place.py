"""Places to work as whoever hands out requests sees them: each carries out one at a time, several do so at once."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evprof.core.protocols import EngineChanged, Message, RequestEnded, RunDescribed, RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import column_kinds
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FAILED, PLACE, PLACES_AT_WORK, RunInfo
from evprof.core.sample import Sample
from evprof.run.processes.open_runs import NO_PROGRESS, OpenRuns
from evprof.run.processes.runner import LocalRunner, ProcessRunner
from evprof.version import __version__

FIRST_RUN_ID = 1
"""Whoever works elsewhere numbers its runs from here on."""


@dataclass(frozen=True)
class Arrival:
    """All messages and rows of a request. `streams` holds columns by the name of their stream: ints as int64 arrays,
    the first of them the run's number; text as `Texts`, bytes as lists."""

    messages: list[Message]
    streams: dict[str, list[Any]]

    @classmethod
    def of(cls, recording: RecordLog) -> Arrival:
        streams = {
            name: [
                (stream.texts if kind == "str" else stream.column)(column)
                for column, kind in column_kinds(name).items()
            ]
            for name, stream in recording.streams.items()
            if len(stream)
        }
        messages = [
            message
            for message in recording.messages()
            # Of the engine itself only what it tells of its machine.
            if not isinstance(message, EngineChanged) or message.environment
        ]
        return cls(messages, streams)

    @property
    def row_count(self) -> int:
        return sum(len(columns[0]) for columns in self.streams.values())

    def told(self, sample: Sample, environment: Mapping[str, Any]) -> Arrival:
        """The same of runs that say so of their sample, and this of their machine beside what they tell of it."""

        def tell(info: RunInfo) -> RunInfo:
            known = replace(sample, events_hash=info.sample.events_hash, video_hash=info.sample.video_hash)
            return replace(info.copied(), sample=known, environment={**info.environment, **environment})

        return Arrival([_with_facts(message, tell, environment) for message in self.messages], self.streams)

    def put_into(self, recording: RecordLog, first_run_id: int, group_id: int) -> None:
        """Appends it to `recording` with runs numbered from `first_run_id` on, in the group of that number.

        Begun first, then rows, then the rest: whoever sees a run end has seen its rows.
        """
        step = first_run_id - FIRST_RUN_ID
        messages = [_numbered(message, step, group_id) for message in self.messages]
        for message in messages:
            if isinstance(message, RunStarted):
                recording.post(message)
        for name, columns in self.streams.items():
            recording.streams[name].extend_columns([columns[0] + step, *columns[1:]])
        for message in messages:
            if not isinstance(message, RunStarted):
                recording.post(message)


def _with_facts(message: Message, tell: Callable[[RunInfo], RunInfo], environment: Mapping[str, Any]) -> Message:
    match message:
        case RunStarted(run_id=run_id, info=info):
            return RunStarted(run_id, tell(info))
        case RunDescribed() | RunEnded() if isinstance(told := message.facts.get("environment"), dict):
            return replace(message, facts={**message.facts, "environment": {**told, **environment}})
        case _:
            return message


def _numbered(message: Message, step: int, group_id: int) -> Message:
    match message:
        case RunStarted(run_id=run_id, info=info):
            return RunStarted(run_id + step, replace(info.copied(), run_id=run_id + step, group_id=group_id))
        case RequestEnded(first_run_id=run_id):
            return RequestEnded(run_id + step)
        case EngineChanged():
            return replace(message, pid=None)
        case _:
            return replace(message, run_id=message.run_id + step)


@dataclass(frozen=True)
class Ended:
    """A request that is over at a place, however.

    `arrival` is what was recorded; None where it went straight into the Recording, and where it is `lost`: nothing of
    it came back, for that reason. `is_begun`: False when a stop came before. `is_cold`: the place's models are gone.
    """

    place: int
    arrival: Arrival | None = None
    lost: str | None = None
    is_begun: bool = True
    is_cold: bool = False


HERE = 0


class OnePlace:
    """One place in this process. Its records go straight into the runner's Recording."""

    def __init__(self, runner: LocalRunner | ProcessRunner, stop: threading.Event, cooldown_s: float = 0.0) -> None:
        """The place rests `cooldown_s` before every request but the first, or until `stop` is set."""
        self._runner = runner
        self._stop = stop
        self._cooldown_s = cooldown_s
        self._request: RunRequest | None = None
        self._has_worked = False

    @property
    def lost(self) -> str | None:
        return self._runner.lost

    @property
    def is_stopping(self) -> bool:
        return self._runner.is_stopping

    def free(self) -> list[int]:
        return [HERE] if self._request is None else []

    def machine(self, place: int) -> str:
        return ""

    def begin(self, place: int, request: RunRequest, *, is_fresh: bool) -> None:
        """Keeps the request until `next_ended`; `is_fresh`: for a new engine process."""
        if is_fresh and isinstance(self._runner, ProcessRunner):
            self._runner.renew()
        self._request = request

    def next_ended(self, look: Callable[[], None]) -> Ended:
        """Rests, and carries the request out on the calling thread. Calls `look` about 20 times a second.

        Raises UserError when nothing can be carried out any more, KeyboardInterrupt at the second Ctrl-C.
        """
        request, self._request = self._request, None
        if request is None:
            raise RuntimeError("nothing was begun")
        if self._has_worked:
            self._stop.wait(self._cooldown_s)
        if self._stop.is_set():
            return Ended(HERE, is_begun=False)
        self._has_worked = True
        self._runner.run(request, look)
        return Ended(HERE, is_cold=isinstance(self._runner, ProcessRunner) and self._runner.pid is None)

    def stop(self) -> None:
        self._runner.stop()

    def record_into(self, recording: RecordLog) -> None:
        self._runner.record_into(recording)

    def close(self, *, is_broken_off: bool = False) -> None:
        if not is_broken_off:
            self._runner.close()


@dataclass(frozen=True)
class SeatTerms:
    """What a place works with. `make_argv` gives the argument list of an engine process on the place's own machine;
    `threads` are the CPU threads of its engine (None: as PyTorch finds), `neighbours` the places of its machine."""

    make_argv: Callable[[], Sequence[str]]
    timeout_s: float | None = None
    cooldown_s: float = 0.0
    threads: int | None = None
    neighbours: int = 1


@dataclass(frozen=True)
class SeatAnswer:
    """The result of a request. `lost`: why its engine process ended unexpectedly."""

    arrival: Arrival
    lost: str | None = None
    is_cold: bool = False


class EngineSeat:
    """Carries out one request at a time; `stop` may be called meanwhile, from another thread."""

    def __init__(self, terms: SeatTerms) -> None:
        os.environ.pop("OMP_NUM_THREADS", None)
        if terms.threads is not None:
            os.environ["OMP_NUM_THREADS"] = str(terms.threads)
        self._stop = threading.Event()
        runner = ProcessRunner(terms.make_argv(), RecordLog(), timeout_s=terms.timeout_s)
        self._place = OnePlace(runner, self._stop, terms.cooldown_s)
        self._environment = {PLACE: place_name(), PLACES_AT_WORK: terms.neighbours}

    def describe(self) -> dict[str, Any]:
        return {PLACE: self._environment[PLACE], "evprof": __version__, "pid": os.getpid()}

    def carry_out(self, values: dict[str, Any], *, is_fresh: bool = False) -> SeatAnswer:
        """The request of these values (`RunRequest.to_json`), in a new engine process where it `is_fresh`."""
        asked = replace(RunRequest.from_json(values), first_run_id=FIRST_RUN_ID)
        recording = RecordLog()
        self._place.record_into(recording)
        self._place.begin(HERE, asked, is_fresh=is_fresh)
        ended = self._place.next_ended(self._look)
        if not ended.is_begun:
            return self._stopped(asked)
        arrival = Arrival.of(recording).told(asked.sample, self._environment)
        return SeatAnswer(arrival, self._loss(arrival) if ended.is_cold else None, ended.is_cold)

    def stop(self) -> None:
        self._stop.set()
        self._place.stop()

    def close(self) -> None:
        self._place.close()

    def _look(self) -> None:
        if self._stop.is_set():
            self._place.stop()

    def _stopped(self, request: RunRequest) -> SeatAnswer:
        """A request that no engine received still has a run."""
        recording, begun = RecordLog(), OpenRuns()
        begun.begin(request)
        for message in begun.close(CANCELLED, "Stopped before it began."):
            recording.post(message)
        return SeatAnswer(Arrival.of(recording).told(request.sample, self._environment))

    def _loss(self, arrival: Arrival) -> str | None:
        """Why the engine process ended, unless a person or a limit had it ended."""
        errors = [
            message.error
            for message in arrival.messages
            if isinstance(message, RunEnded) and message.status == FAILED and message.error
        ]
        if not errors or self._stop.is_set() or errors[-1].startswith(NO_PROGRESS):
            return None
        return errors[-1]


def place_name() -> str:
    """This machine, and the GPUs of it that this process is given."""
    host = socket.gethostname()
    cards = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return f"{host} GPU {cards}" if cards and cards != "-1" else host
