"""Suites driven by the tests: an engine that answers at once, a watcher that remembers, and what a session holds."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evprof.core.protocols import RequestEnded, RunEnded, RunStarted, Sink, StopFlag
from evprof.core.records import TokenRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, RunInfo
from evprof.core.run_log import RunBook, RunLog
from evprof.core.sample import Sample
from evprof.run.suites.plan import INTERLEAVED, SuitePlan, SuiteRow, plan_suite
from evprof.run.suites.record import RowOutcomes, fingerprint, suite_fact
from evprof.run.suites.spec import parse_suite
from evprof.run.suites.suite import SuiteDriver, SuiteEnd
from whole_session import load_session

GRID: dict[str, Any] = {
    "cells": [{"mode": "draft"}, {"mode": "side-by-side"}, {"mode": "target", "frames": 2}, {"mode": "speculative"}]
}


def samples_of(count: int) -> list[Sample]:
    return [Sample(f"{number}.npy", f"{number}.mp4", name=f"sample {number}") for number in range(count)]


def plan_of(
    repeat: int = 2, count: int = 2, order: str = INTERLEAVED, grid: dict[str, Any] | None = None, seed: int = 1
) -> SuitePlan:
    spec = parse_suite(grid or GRID, "grid", repeat=repeat)
    return plan_suite(spec, samples_of(count), order, drawing=random.Random(seed))


class InstantEngine:
    """Answers at once with tokens that depend on cell, sample and role; `fails` gives a run's error."""

    def __init__(self, fails: Callable[[RunRequest, str], str | None] = lambda *_: None, pause_s: float = 0.0) -> None:
        self.requests: list[RunRequest] = []
        self.is_closed = False
        self._fails = fails
        self._pause_s = pause_s

    def describe(self) -> dict[str, Any]:
        return {"device": "none"}

    def close(self) -> None:
        self.is_closed = True

    def run(self, request: RunRequest, sink: Sink, stop: StopFlag) -> None:
        """As the real engine: a role that failed once in a request is not tried again in it."""
        self.requests.append(request)
        roles = (
            ("draft", "target") if request.mode == "side-by-side" else (request.mode.replace("speculative", "target"),)
        )
        run_id, failed = request.first_run_id, set[str]()
        for repeat in range(-(request.warmup or 0), request.repeat):
            for role in roles:
                if role not in failed and self._answer(request, sink, stop, run=(run_id, role, repeat)) == FAILED:
                    failed.add(role)
                run_id += 1
        sink.post(RequestEnded(request.first_run_id))

    def _answer(self, request: RunRequest, sink: Sink, stop: StopFlag, *, run: tuple[int, str, int]) -> str:
        run_id, role, repeat = run
        info = RunInfo(
            run_id,
            request.group_id,
            max(repeat, 0) + request.first_repeat,
            role,
            request.mode,
            sample=request.sample,
            warmup=repeat < 0,
            cell=request.cell,
            turn=None if repeat < 0 else request.turn,
        )
        sink.post(RunStarted(run_id, info))
        time.sleep(self._pause_s)
        error = self._fails(request, role)
        if error is None:
            token = sum(map(ord, f"{request.cell}{request.sample.name}{role}"))
            sink.append(TokenRecord(run_id, role, 0, token, "target", -1, 1, "x"))
        status = CANCELLED if stop.is_set() else FINISHED if error is None else FAILED
        sink.post(RunEnded(run_id, status, error, {"text": "x"}))
        return status


@dataclass
class Listening:
    """A watcher that keeps what it hears; `on_end` is called after each row with how many there were."""

    on_end: Callable[[int], None] = lambda _: None
    on_stop: Callable[[], None] = lambda: None
    on_look: Callable[[int], None] = lambda _: None
    ended: list[SuiteRow] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    lost: list[SuiteRow] = field(default_factory=list)
    is_stopping: bool = False

    def begin(self, row: SuiteRow, warmup: int) -> None: ...

    def look(self, book: RunBook) -> None:
        self.on_look(len(self.ended))

    def end(self, row: SuiteRow, runs: list[RunLog]) -> None:
        self.ended.append(row)
        self.on_end(len(self.ended))

    def lose(self, row: SuiteRow, sentence: str) -> None:
        self.lost.append(row)
        self.said.append(sentence)

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def stopping(self) -> None:
        self.is_stopping = True
        self.on_stop()


def drive(
    plan: SuitePlan, path: Path, engine: Any = None, watcher: Listening | None = None, **keywords: Any
) -> SuiteEnd:
    progress = RowOutcomes(infos_of(path)) if path.exists() else None
    made = engine or InstantEngine()
    driver = SuiteDriver(plan, path, lambda: made, watcher or Listening(), progress=progress, **keywords)
    return driver.run(suite_fact(plan, fingerprint(plan.spec, plan.samples)))


def runs_of(path: Path) -> list[RunLog]:
    book = RunBook(load_session(path).recording)
    book.update()
    return [book.runs[run_id] for run_id in sorted(book.runs)]


def infos_of(path: Path) -> list[RunInfo]:
    return [run.info for run in runs_of(path)]
