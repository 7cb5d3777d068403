"""Engine processes for tests: `python scripted_process.py WORDS` serves an engine that needs no models.

WORDS: `script:SPEED` plays a script; `rate:RECORDS_PER_S:SECONDS` makes records; `deaf:…` does so and never answers
Stop; `hang:MODE` plays a script, but hangs in that mode; `lost` loses its GPU in its first run; `wait:PATH` waits in
the middle of its third request to be killed, once for each PATH, which then holds the number of its process; `die` ends
at once with exit code 3; `never starts` is what it says. Any other words are an engine that cannot be made.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # this checkout's evprof, installed or not

from benchmarks.synthetic_engine import SyntheticEngine
from evprof.core.errors import GPU_LOST, EngineLost
from evprof.core.protocols import Engine, Message, RunStarted, Sink, StopFlag
from evprof.core.records import Record, TokenRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import RunInfo
from evprof.run.processes.channel import serve
from scripted_engine import ScriptedEngine


def engine_argv(words: str) -> list[str]:
    return [sys.executable, __file__, words]


class DeafEngine(SyntheticEngine):
    """Never answers Stop, as a hung kernel would not."""

    def run(self, request: RunRequest, sink: Sink, stop: StopFlag) -> None:
        super().run(request, sink, threading.Event())


class HangingEngine(ScriptedEngine):
    """Goes silent in a mode, as a kernel does that never ends."""

    def __init__(self, mode: str) -> None:
        super().__init__(speed=200.0)
        self._mode = mode

    def run(self, request: RunRequest, sink: Sink, stop: StopFlag) -> None:
        if request.mode == self._mode:
            threading.Event().wait()
        super().run(request, sink, stop)


class WaitingEngine(ScriptedEngine):
    """Waits in the middle of its third request, unless another process has waited."""

    def __init__(self, path: Path) -> None:
        super().__init__(speed=200.0)
        self._path = path
        self._requests = 0

    def run(self, request: RunRequest, sink: Sink, stop: StopFlag) -> None:
        self._requests += 1
        super().run(request, WaitingSink(sink, self._path) if self._requests == 3 else sink, stop)


class WaitingSink:
    """Takes all up to the first token, and then may wait for ever; the file at `path` says which process does."""

    def __init__(self, sink: Sink, path: Path) -> None:
        self._sink = sink
        self._path = path

    def post(self, message: Message) -> None:
        self._sink.post(message)

    def append(self, record: Record) -> None:
        self._sink.append(record)
        if isinstance(record, TokenRecord):
            with contextlib.suppress(FileExistsError), self._path.open("x", encoding="utf-8") as file:
                file.write(str(os.getpid()))
                file.flush()
                threading.Event().wait()


class LosingEngine(ScriptedEngine):
    """Loses its GPU in its first run."""

    def run(self, request: RunRequest, sink: Sink, stop: StopFlag) -> None:
        """Raises EngineLost, with its run still open."""
        sink.post(
            RunStarted(request.first_run_id, RunInfo(request.first_run_id, request.group_id, 0, "draft", "draft"))
        )
        raise EngineLost(f"{GPU_LOST} (unspecified launch failure).")


def engine_of(words: str) -> Engine:
    """The engine of WORDS. Raises ValueError for unknown ones."""
    kind, _, rest = words.partition(":")
    if kind == "hang":
        return HangingEngine(rest)
    if kind == "wait":
        return WaitingEngine(Path(rest))
    match kind, [float(number) for number in rest.split(":") if number]:
        case "rate" | "deaf", [records_per_s, seconds]:
            return (DeafEngine if kind == "deaf" else SyntheticEngine)(records_per_s, seconds)
        case "script", [] | [_] as speed:
            return ScriptedEngine(speed=speed[0] if speed else 1.0)
        case "lost", []:
            return LosingEngine()
        case "never starts", []:
            threading.Event().wait()
            raise AssertionError("nobody wakes it")
        case "die", []:
            os._exit(3)
        case _:
            raise ValueError(f"no engine is called '{words}'")


if __name__ == "__main__":
    raise SystemExit(serve(lambda: engine_of(sys.argv[1])))
