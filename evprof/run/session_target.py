"""A recording on its way into one session file: what of it the file holds already, and what is new.

It is used by one thread, the session writer's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.protocols import EngineChanged, Message, RequestEnded, RunStarted, RunWarned, apply_to_info
from evprof.core.recording import RecordLog
from evprof.core.records import STREAMS
from evprof.core.rows.blocks import blocks_by_run
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.session.presence import Hold
from evprof.session.store import Commit, SessionFile
from evprof.session.validation import has_impossible_numbers, readable

MOST_HASHED_BYTES = 2 << 30
"""Of one input: a second or two of reading. Whoever waits for a session must not wait for a dataset to be read."""


class SessionTarget:
    """One file, open or yet to be made, and the place in the recording up to which it is complete."""

    def __init__(self, recording: RecordLog, path: Path, *, skips_existing: bool = False) -> None:
        self.path = path
        self.file: SessionFile | None = None
        self.infos: dict[int, RunInfo] = {}
        self.facts: dict[str, Any] = {}
        """Of the session, not yet committed; the writer's lock guards it."""
        self._recording = recording
        self._places = dict.fromkeys(STREAMS, 0)
        self._message_place = 0
        self._forget_news()
        if skips_existing:
            self._places = {name: len(recording.streams[name]) for name in STREAMS}
            self._message_place = recording.message_count
            self._remember(recording.messages(0, self._message_place))
            self._forget_news()

    def _forget_news(self) -> None:
        self._environment: dict[str, Any] | None = None
        self._begun: set[int] = set()
        self._dirty: set[int] = set()
        self._unhashed: set[int] = set()
        self._logs: dict[int, RunLog] = {}
        """Runs that have no summary yet, with the rows that are in the file."""
        self._is_due = False

    def open(self, lock: Hold | None) -> None:
        """Opens the file, or makes it. Raises UserError."""
        self.file = SessionFile(self.path, lock)
        # A file that is taken over from ourselves holds runs as ended that go on.
        self._dirty.update(run_id for run_id, info in self.infos.items() if not info.is_over)

    def look(self) -> Commit:
        stop = self._recording.message_count
        messages = self._recording.messages(self._message_place, stop)
        self._message_place = stop
        self._remember(messages)
        if any(isinstance(message, RequestEnded) for message in messages):
            self._hash_samples()
            self._is_due = True
        ranges = {
            name: (self._places[name], len(stream))
            for name, stream in self._recording.streams.items()
            if len(stream) > self._places[name]
        }
        infos = [self.infos[run_id] for run_id in sorted(self._dirty)]
        return Commit(ranges, infos, frozenset(self._begun), self._environment, dict(self.facts))

    def commit(self, news: Commit) -> None:
        """Writes what `look` found. Raises sqlite3.Error, OSError, UserError, ValueError, TypeError, and keeps it."""
        if self.file is None:
            raise RuntimeError("a target is opened before it is written")
        self.file.commit(self._recording.streams, news)
        for name, (start, stop) in news.ranges.items():
            self._places[name] = stop
            for run_id, block in blocks_by_run(self._recording.streams[name], start, stop):
                if run_id in self._logs:
                    self._logs[run_id].take(*block)
        for run_id in sorted(news.begun) if self.file.note else ():
            self._recording.post(RunWarned(run_id, self.file.note))
        self._begun.clear()
        self._dirty.clear()
        self._environment = None
        if self._is_due:
            self.summarize()

    def summarize(self) -> None:
        """Keeps the figures of runs that have ended beside their rows: between requests, since it takes a moment.

        Raises what `commit` does; the runs are looked at again next time.
        """

        over = [run for run in self._logs.values() if run.info.is_over]
        if self.file is not None and over:
            self.file.commit({}, Commit(figures=kept_figures(over)))
        for run in over:
            del self._logs[run.run_id]
        self._is_due = False

    def _remember(self, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, RunStarted):
                # A copy: this one changes with every message, the message's own must not.
                begun = self.infos[message.run_id] = message.info.copied()
                for news in (self._begun, self._dirty, self._unhashed):
                    news.add(message.run_id)
                self._logs[message.run_id] = RunLog(begun)
            elif isinstance(message, EngineChanged):
                self._environment = message.environment or self._environment
            elif (info := self.infos.get(getattr(message, "run_id", -1))) is not None and apply_to_info(message, info):
                self._dirty.add(info.run_id)

    def _hash_samples(self) -> None:
        """Only between requests: reading a large video through would disturb the run that reads it, too."""
        from evprof.loaders.content import content_hash

        for info in (self.infos[run_id] for run_id in self._unhashed):
            for half in ("events", "video") if info.imported is None else ():
                path = getattr(info.sample, f"{half}_path")
                if path is not None and getattr(info.sample, f"{half}_hash") is None:
                    with contextlib.suppress(UserError):  # the file may be gone by now, or too large
                        found: Any = {f"{half}_hash": content_hash(path, most_bytes=MOST_HASHED_BYTES)}
                        info.sample = replace(info.sample, **found)
                        self._dirty.add(info.run_id)
        self._unhashed.clear()


def runs_of(recording: RecordLog, infos: Iterable[RunInfo]) -> list[RunLog]:
    runs = {info.run_id: RunLog(info) for info in infos}
    for stream in recording.streams.values():
        for run_id, block in blocks_by_run(stream, 0, len(stream)):
            runs[run_id].take(*block)
    return list(runs.values())


def kept_figures(runs: Iterable[RunLog]) -> dict[int, dict[str, Any]]:
    """By run; without runs whose facts or rows no reader would accept.

    The facts of the runs become those that a reader knows.
    """
    from evprof.metrics.run_summary import summary_of

    kept: dict[int, dict[str, Any]] = {}
    for run in runs:
        if (info := readable(run.info)) is not None and not has_impossible_numbers(run):
            run.info = info
            kept[run.run_id] = summary_of(run)
    return kept
