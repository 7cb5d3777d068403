"""Requests, engine processes and patience shared by the tests of evprof.run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_log import RunBook
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.processes.engine_host import EngineHost, EngineProcess
from scripted_process import engine_argv


@pytest.fixture(autouse=True)
def own_data_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written where it belongs goes to the autosaved sessions: of the test, not of who runs it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))


@pytest.fixture
def request_for() -> Callable[..., RunRequest]:
    """Builds a request; keywords replace its fields."""
    plain = RunRequest(
        "side-by-side", Sample("absent.npy", "absent.mp4"), ModelChoice("draft model"), ModelChoice("target model")
    )
    return lambda **changes: replace(plain, **changes)


@pytest.fixture
def start_host() -> Iterator[Callable[[str], tuple[EngineHost, RecordLog]]]:
    """Starts hosts with their recording; closes them in the end."""
    hosts: list[EngineHost] = []

    def start(words: str) -> tuple[EngineHost, RecordLog]:
        recording = RecordLog()
        host = EngineHost(engine_argv(words), recording)
        hosts.append(host)
        return host, recording

    yield start
    for host in hosts:
        host.close()


@pytest.fixture
def start_process() -> Iterator[Callable[..., EngineProcess]]:
    """Starts engine processes; ends them in the end."""
    processes: list[EngineProcess] = []

    def start(words: str, **keywords: object) -> EngineProcess:
        process = EngineProcess(engine_argv(words), **keywords)  # type: ignore[arg-type]  # passed through
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.reap()


@pytest.fixture
def book_of() -> Callable[[RecordLog], RunBook]:
    def read(recording: RecordLog) -> RunBook:
        book = RunBook(recording)
        book.update()
        return book

    return read
