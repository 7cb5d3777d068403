"""How long each test took when it last ran: tests write it into the cache folder, `make quick` reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

SHORTEST_S = 0.05
"""Shorter tests are not listed one by one."""

SHORT_S = 0.01
"""What a test counts that is not listed, in a file whose tests have run."""

UNKNOWN_S = 0.2
"""What a test counts whose file has never run here."""

GROWTH = 1.25
"""How many times as long as its record a test may be recorded: a busy machine slows all tests for one run."""

Seconds = dict[str, dict[str, float]]
"""Test file, relative to the root -> the rest of a test's id -> seconds."""


def folder() -> Path:
    """The folder of the record: the user's cache, which new clones and worktrees share."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evprof" / "tests"


def read(place: Path) -> Seconds:
    """The record in a folder; empty if there is none or it is damaged."""
    try:
        seconds: Seconds = json.loads((place / "seconds.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return seconds


def write(place: Path, measured: Mapping[str, float]) -> None:
    """Merges the seconds of tests that have run, by their ids, into the record of a folder."""
    seconds = read(place)
    for test_id, duration in measured.items():
        path, _, name = test_id.partition("::")
        tests = seconds.setdefault(path, {})
        expected = min(duration, GROWTH * tests.pop(name, duration))
        if expected >= SHORTEST_S:
            tests[name] = round(expected, 2)
    place.mkdir(parents=True, exist_ok=True)
    new = place / f"seconds-{os.getpid()}.json"
    new.write_text(json.dumps(seconds, indent=0, sort_keys=True), encoding="utf-8")
    new.replace(place / "seconds.json")


def of_test(seconds: Seconds, test_id: str) -> float:
    """The seconds to expect of one test."""
    path, _, name = test_id.partition("::")
    return seconds[path].get(name, SHORT_S) if path in seconds else UNKNOWN_S


def of_file(seconds: Seconds, path: str, count: int) -> float:
    """The seconds to expect of a file with a number of test functions."""
    if path not in seconds:
        return UNKNOWN_S * count
    return sum(seconds[path].values()) + SHORT_S * count
