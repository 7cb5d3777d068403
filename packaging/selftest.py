"""Runs an installed or frozen evprof once, as a stranger would: the demo, its session, its JSON, its picture.

Usage: python packaging/selftest.py PROGRAM [ARGUMENT ...]     PROGRAM: a path to `evprof`, or python with -m evprof
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUN_TIMEOUT_S = 300


def run_in_engine_process(program: list[str]) -> str:
    """Runs the bundled demo's first request in the program's own engine process, as the window does; its answer."""
    from evprof.core.recording import RecordLog
    from evprof.core.run_log import RunBook
    from evprof.run.processes.engine_host import EngineHost
    from evprof.run.requests import demo_requests

    recording = RecordLog()
    book = RunBook(recording)
    host = EngineHost([*program, "_engine"], recording)
    try:
        host.submit(demo_requests()[0])
        deadline = time.monotonic() + RUN_TIMEOUT_S
        while host.is_busy and time.monotonic() < deadline:
            time.sleep(0.05)
        book.update()
    finally:
        host.close()
    states = [(run.info.status, run.info.error) for run in book.runs.values()]
    if len(states) < 2 or {status for status, _ in states} != {"finished"}:
        raise SystemExit(f"in the engine process the runs ended as {states}")
    return "; ".join(run.info.text or "" for run in book.runs.values())


def call(program: list[str], *arguments: str) -> str:
    """Standard output of one call; raises with the error text when it fails."""
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(
        [*program, *arguments], capture_output=True, text=True, timeout=600, env=environment, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} left with {done.returncode}:\n{done.stderr}")
    return done.stdout


def main(program: list[str]) -> int:
    """Runs the checks; prints one line for each."""
    with tempfile.TemporaryDirectory() as folder:
        session, picture = Path(folder, "demo.evprof"), Path(folder, "demo.png")
        document = json.loads(call(program, "demo", "--headless", "--json", "-o", str(session)))
        statuses = [run["status"] for run in document["runs"]]
        if len(statuses) < 3 or set(statuses) != {"finished"}:
            raise SystemExit(f"the demo's runs ended as {statuses}")
        print(f"demo: {len(statuses)} runs finished; the answer was: {document['runs'][-1]['text']}")
        shown = json.loads(call(program, "show", str(session), "--json"))
        if [run["token_ids"] for run in shown["runs"]] != [run["token_ids"] for run in document["runs"]]:
            raise SystemExit("the session file holds other tokens than the run printed")
        print(f"session: {session.stat().st_size:,} bytes, reopened with the same tokens")
        call(program, "gui", str(session), "--screenshot", str(picture))
        print(f"window: drawn, {picture.stat().st_size:,} bytes")
        doctor = json.loads(call(program, "doctor", "--json"))
        broken = [part for part in ("decoders", "engine", "window") if doctor[part] is None]
        if broken:
            raise SystemExit(f"doctor: {broken} do not work: {doctor['problems']}")
        print(f"doctor: all parts work, {len(doctor['problems'])} problem(s)")
    print(f"engine process: {run_in_engine_process(program)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main([str(Path(sys.argv[1]).absolute()), *sys.argv[2:]]))
