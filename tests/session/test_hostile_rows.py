"""Rows that nobody can have measured: a sentence at the door, before anything counts to what they say."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evprof.cli import main
from evprof.core.errors import UserError
from evprof.core.protocols import RunEnded
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, END, SpanRecord
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.session_writer import SessionWriter
from scripted_engine import ScriptedEngine
from scripted_pair import Script
from whole_session import load_session

Write = Callable[..., Path]


def with_value(recording: RecordLog, stream: str, column: str, value: Any) -> RecordLog:
    """A copy in which one row in the middle of a stream holds another value."""
    made = RecordLog()
    update_of(recording, made)
    for name, rows in recording.streams.items():
        found: list[Any] = [row._asdict() for row in rows.rows()]
        if name == stream:
            found[len(found) // 2][column] = value
        made.extend(name, [tuple(row.values()) for row in found])
    return made


def update_of(recording: RecordLog, made: RecordLog, **facts: object) -> None:
    """Posts the messages of one log to another, the facts at the end of runs changed."""
    for message in recording.messages():
        if isinstance(message, RunEnded):
            made.post(replace(message, facts={**message.facts, **facts}))
        else:
            made.post(message)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("rounds", "accepted"), 10**9, "accepted among its rounds is 1000000000, which nothing measures"),
        (("rounds", "accepted"), -1, "accepted among its rounds is -1"),
        (("rounds", "drafted"), 2**63 - 1, "drafted among its rounds"),
        (("rounds", "emitted"), -(2**63), "emitted among its rounds"),
        (("tokens", "position"), 10**12, "position among its tokens"),
        (("kv", "length"), 2**62, "length among its kv"),
        (("spans", "end_ns"), 2**63 - 1, "end_ns among its spans"),
        (("memory", "rss_bytes"), 2**62, "rss_bytes among its memory"),
        (("spans", "name"), "x" * 1_000_000, "a name among its spans is longer than 4,096 letters"),
        (("tokens", "piece"), "x" * 1_000_000, "a piece among its tokens is longer"),
        (("tensors", "shape"), ",".join(["1"] * 1000), "a shape among its tensors is longer"),
    ],
)
def test_a_row_past_all_bounds_is_damage(
    write_session: Write, recording: RecordLog, place: tuple[str, str], value: Any, words: str
) -> None:
    path = write_session(with_value(recording, *place, value))
    with pytest.raises(UserError, match="is damaged") as told:
        load_session(path)
    assert words in told.value.sentence


@pytest.mark.parametrize("is_circle", [False, True])
def test_spans_in_one_another_without_end_are_damage(
    write_session: Write, recording: RecordLog, is_circle: bool
) -> None:
    for place in range(500):
        parent = 5000 + (place - 1) % 500 if is_circle or place else 0
        for phase in (BEGIN, END):
            recording.append(SpanRecord(1, 5000 + place, parent, phase, "draft", "x", 10**12, 10**12 + 5))
    with pytest.raises(UserError, match="spans lie in one another more than 64 deep"):
        load_session(write_session(recording))


def test_sixty_levels_and_a_parent_that_is_not_there_are_read(write_session: Write, recording: RecordLog) -> None:
    for place in range(60):
        recording.append(SpanRecord(1, 5000 + place, 4999 + place, END, "draft", "x", 10**12, 10**12 + 5))
    assert len(load_session(write_session(recording)).recording.streams["spans"]) == 5 * 2 + 60


@pytest.mark.parametrize(("start_ns", "end_ns"), [(0, 0), (5, 1), (0, 2**62), (-(2**62), 2**62), (None, 1)])
def test_runs_that_took_no_time_or_all_of_it_are_reported(tmp_path, capsys, start_ns: int | None, end_ns: int) -> None:
    played, made = RecordLog(), RecordLog()
    request = RunRequest("side-by-side", Sample("e.npy", "v.mp4"), ModelChoice("draft"), ModelChoice("target"))
    ScriptedEngine(Script(), speed=3000.0).run(request, played, threading.Event())
    update_of(played, made, start_ns=start_ns, end_ns=end_ns)
    for name, rows in played.streams.items():
        made.extend(name, [tuple(row) for row in rows.rows()])
    path = tmp_path / "s.evprof"
    with SessionWriter(made, path):
        pass
    for words in (("show",), ("compare",), ("report", "-o", str(tmp_path / "r.md"))):
        code = main([words[0], str(path), *words[1:]])
        assert "a defect of evprof" not in (said := capsys.readouterr().err), said
        assert code in (0, 1)
