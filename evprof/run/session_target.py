"""A recording on its way into one session file: what of it the file holds already, and what is new.

It is used by one thread, the session writer's; several targets may follow one recording, each at its own place.
"""

from __future__ import annotations

import contextlib
import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from evprof.core.errors import UserError
from evprof.core.protocols import EngineChanged, Message, RequestEnded, RunStarted, RunWarned, apply_to_info
from evprof.core.recording import RecordLog
from evprof.core.records import STREAMS
from evprof.core.rows.blocks import blocks_by_run
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.session.presence import Hold
from evprof.session.store import Commit, SampleFile, SessionFile

MOST_HASHED_BYTES = 2 << 30
"""Of one input: a second or two of reading. Whoever waits for a session must not wait for a dataset to be read."""


def sample_files(info: RunInfo) -> list[SampleFile]:
    """The files that a run read; none of an imported run, whose files are on another machine."""
    sample = info.sample
    listed = (("events", sample.events_path, sample.events_hash), ("video", sample.video_path, sample.video_hash))
    return [
        SampleFile(info.run_id, kind, path, content_hash)
        for kind, path, content_hash in listed
        if path is not None and info.imported is None
    ]


class SessionTarget:
    """One file, open or yet to be made, and the place in the recording up to which it is complete."""

    def __init__(self, recording: RecordLog, path: Path, *, skips_existing: bool = False) -> None:
        self.path = path
        self.file: SessionFile | None = None
        self.infos: dict[int, RunInfo] = {}
        self.facts: dict[str, Any] = {}
        """Of the session, not yet committed; the writer's lock guards it."""
        self._recording = recording
        self._start_over()
        if skips_existing:
            self._places = {name: len(recording.streams[name]) for name in STREAMS}
            self._message_place = recording.message_count
            self._remember(recording.messages(0, self._message_place))
            self._forget_news()

    def _start_over(self) -> None:
        self._places = dict.fromkeys(STREAMS, 0)
        self._message_place = 0
        self.infos.clear()
        self._forget_news()

    def _forget_news(self) -> None:
        self._pending = Commit()
        self._begun: set[int] = set()
        self._dirty: set[int] = set()
        self._untold: list[int] = []
        self._unhashed: list[SampleFile] = []
        self._logs: dict[int, RunLog] = {}
        """Runs that have no summary yet, with the rows that are in the file."""
        self._is_due = False

    def restart(self, path: Path, environment: dict[str, Any] | None) -> None:
        """Makes everything news again, for a file at `path` that holds nothing yet."""
        self.path = path
        self._start_over()
        self._pending.environment = environment

    def open(self, lock: Hold | None) -> None:
        """Opens the file, or makes it. Raises UserError."""
        self.file = SessionFile(self.path, lock)
        # A file that is taken over from ourselves holds runs as ended that go on.
        self._dirty.update(run_id for run_id, info in self.infos.items() if not info.is_over)

    def continued_at(self, path: Path) -> Self:
        """A target for a copy of our file at `path`: what that holds is what ours does."""
        other = copy.copy(self)
        other.path, other.file, other._untold = path, None, []
        other._pending = copy.deepcopy(self._pending)
        for name in ("infos", "facts", "_places", "_begun", "_dirty", "_unhashed", "_logs"):
            setattr(other, name, copy.copy(getattr(self, name)))
        return other

    def look(self) -> Commit:
        """Everything not yet committed; the places move on only when it is."""
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
        pending = self._pending
        return Commit(ranges, infos, frozenset(self._begun), pending.samples, pending.environment, dict(self.facts))

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
        for run_id in self._untold if self.file.note else ():
            # Each run says it when its session lies where saving is slow.
            self._recording.post(RunWarned(run_id, str(self.file.note)))
        self._begun.clear()
        self._dirty.clear()
        self._untold.clear()
        self._pending = Commit()
        if self._is_due:
            self.summarize()

    def summarize(self) -> None:
        """Keeps the figures of runs that have ended beside their rows: between requests, since it takes a moment.

        Raises what `commit` does; the runs are looked at again next time.
        """
        from evprof.run.kept_figures import kept_figures

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
                begun = message.info.copied()
                self.infos[message.run_id] = begun
                self._begun.add(message.run_id)
                self._dirty.add(message.run_id)
                samples = sample_files(begun)
                self._pending.samples.extend(samples)
                self._unhashed += [sample for sample in samples if sample.content_hash is None]
                self._untold.append(message.run_id)
                self._logs[message.run_id] = RunLog(begun)
            elif isinstance(message, EngineChanged):
                self._pending.environment = message.environment or self._pending.environment
            elif (info := self.infos.get(getattr(message, "run_id", -1))) is not None and apply_to_info(message, info):
                self._dirty.add(info.run_id)

    def _hash_samples(self) -> None:
        """Only between requests: reading a large video through would disturb the run that reads it, too."""
        from evprof.loaders.content import content_hash

        for sample in self._unhashed:
            with contextlib.suppress(UserError):  # the file may be gone by now, or too large; then it has no hash
                found = content_hash(sample.path, most_bytes=MOST_HASHED_BYTES)
                self._pending.samples.append(SampleFile(sample.run_id, sample.kind, sample.path, found))
                info = self.infos[sample.run_id]
                if sample.kind == "events":
                    info.sample = replace(info.sample, events_hash=found)
                else:
                    info.sample = replace(info.sample, video_hash=found)
        self._unhashed.clear()
