"""What a request recorded elsewhere, on its way into the one Recording: whole, and numbered when it comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from evprof.core.messages import EngineChanged, Message, RequestEnded, RunDescribed, RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import column_kinds
from evprof.core.run_info import RunInfo
from evprof.core.sample import Sample

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
        """Everything in a recording that one request filled."""
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
        """Rows of all streams together."""
        return sum(len(columns[0]) for columns in self.streams.values())

    def told(self, sample: Sample, environment: Mapping[str, Any]) -> Arrival:
        """The same of runs that say so of their sample, and this of their machine beside what they tell of it."""

        def tell(info: RunInfo) -> RunInfo:
            hashes = {name: getattr(info.sample, name) for name in ("events_hash", "video_hash")}
            return _copied(info, sample=replace(sample, **hashes), environment={**info.environment, **environment})

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
            return RunStarted(run_id + step, _copied(info, run_id=run_id + step, group_id=group_id))
        case RequestEnded(first_run_id=run_id):
            return RequestEnded(run_id + step)
        case EngineChanged():
            return replace(message, pid=None)
        case _:
            return replace(message, run_id=message.run_id + step)


def _copied(info: RunInfo, **changes: Any) -> RunInfo:
    found = info.copied()
    for name, value in changes.items():
        setattr(found, name, value)
    return found
