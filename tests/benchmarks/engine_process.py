"""How soon an engine process answers, and how soon its records arrive."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from benchmarks.processes import run_argv
from evprof.cli.terminal import program
from evprof.core.errors import UserError
from evprof.core.protocols import EngineChanged, RequestEnded, monotonic_ns
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.processes.channel import apply_part
from evprof.run.processes.engine_host import EngineHost, EngineProcess


def measure_engine_process(timeout_s: float = 120.0) -> dict[str, Any]:
    """Starts an engine process through the window's own host and waits until it is ready."""
    recording = RecordLog()
    cursor = recording.cursor()
    host = EngineHost(program.engine_argv(), recording)
    began = time.monotonic()
    try:
        host.start()
        while time.monotonic() - began < timeout_s:
            for message in cursor.read().messages:
                if isinstance(message, EngineChanged) and message.state == "ready":
                    ready_ms = 1000 * (time.monotonic() - began)
                    summary = {"ready_ms": ready_ms, "arrival_ms": arrival_ms()}
                    return {"environment": message.environment, "rows": [], "summary": summary}
                if isinstance(message, EngineChanged) and message.state == "gone" and message.sentence:
                    raise UserError(f"The engine process did not start: {message.sentence}")
            time.sleep(0.02)
    finally:
        host.close()
    raise UserError(f"The engine process did not answer within {timeout_s:.0f} s.")


def arrival_ms() -> float:
    """Median time in ms from a record that an engine process makes to its being in this process's Recording."""
    recording = RecordLog()
    ages_ns: list[int] = []
    process = EngineProcess(run_argv("_engine", "200", "2"))
    try:
        process.send(RunRequest("target", Sample(video_path="synthetic"), None, ModelChoice("synthetic")).to_json())
        while not any(isinstance(message, RequestEnded) for message in recording.messages()):
            before = len(recording.streams["tokens"])
            for part in process.receive():
                apply_part(part, recording)
            ages_ns += (monotonic_ns() - recording.streams["tokens"].column("t_ns", before)).tolist()
    finally:
        process.kill()
        process.reap()
    return float(median(ages_ns)) / 1e6
