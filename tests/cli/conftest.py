"""Commands run in this process with an engine that plays a script, in folders of their own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import benchmarks.command
from evprof.cli import main, preflight
from evprof.cli.run import recorded_session
from evprof.cli.terminal import program
from evprof.core.recording import RecordLog
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.loaders.videos.apart import decode_here
from evprof.run.requests import demo_requests
from scripted_engine import ScriptedEngine
from scripted_pair import Script
from scripted_process import engine_argv


@dataclass
class Outcome:
    """What a command left: exit code and both streams."""

    code: int
    output: str
    errors: str

    @property
    def document(self) -> Any:
        """Standard output, which must be exactly one JSON document."""
        return json.loads(self.output)


@pytest.fixture(autouse=True)
def folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into the person's own data, log or cache folders."""
    for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HF_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def evprof(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Runs `evprof WORDS`."""
    return partial(_run, main, capsys)


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Runs `tests/benchmarks/run.py WORDS`."""
    return partial(_run, benchmarks.command.main, capsys)


def _run(main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str], *words: object) -> Outcome:
    capsys.readouterr()
    code = main([str(word) for word in words])
    decode_here()  # as commands leave it to the end of their process
    captured = capsys.readouterr()
    return Outcome(code, captured.out, captured.err)


@pytest.fixture
def anything_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs that a script does not read and devices that it does not use may be anything."""
    for name in ("check_device", "check_models", "check_sample"):
        monkeypatch.setattr(preflight, name, lambda *_: None)
    monkeypatch.setattr(preflight, "_may_use_cuda", lambda _: True)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, anything_goes: None) -> None:
    """The engine plays a script instead of computing, with its models loaded already."""
    monkeypatch.setattr(recorded_session, "make_engine", lambda: ScriptedEngine(Script(), speed=50.0, is_warm=True))


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, anything_goes: None) -> None:
    """Engine processes play a script, too."""
    monkeypatch.setattr(program, "engine_argv", lambda: engine_argv("script:200"))


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch, anything_goes: None) -> None:
    """The same, with models that every command has to load."""
    monkeypatch.setattr(recorded_session, "make_engine", lambda: ScriptedEngine(Script(), speed=200.0))


@pytest.fixture(scope="session")
def warm_engine() -> Iterator[Any]:
    """The real engine, its models warm from test to test."""
    pytest.importorskip("torch")
    from evprof.cli.run.recorded_session import make_engine

    made = make_engine()
    request = replace(demo_requests()[0], settings=GenerationSettings(max_new_tokens=1), repeat=1, warmup=0)
    made.run(request, RecordLog(), threading.Event())
    yield made
    made.close()


@pytest.fixture
def computed(warm_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands compute, with the real engine, and leave it warm."""

    class Kept:
        describe, run = warm_engine.describe, warm_engine.run

        def close(self) -> None:
            """Stays."""

    monkeypatch.setattr(recorded_session, "make_engine", Kept)


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[Path, Path]:
    """An events file and a video that exist; the script does not read them."""
    events, video = tmp_path / "road.npy", tmp_path / "road.mp4"
    for path in (events, video):
        path.write_bytes(b"not read by a script")
    return events, video


@pytest.fixture
def session(scripted: None, evprof: Callable[..., Outcome], inputs: tuple[Path, Path], tmp_path: Path) -> Path:
    """A saved session: side by side (runs 1 and 2), then speculative (3)."""
    path = tmp_path / "saved.evprof"
    for mode in ("side-by-side", "speculative"):
        found = evprof("run", "--events", inputs[0], "--video", inputs[1], "--mode", mode, "-o", path)
        assert found.code == 0, found.errors
    return path
