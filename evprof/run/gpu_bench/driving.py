"""Drives the sections: one process works through them, another goes on after a section that crashes or hangs.

The document is written after every row, so that a bench that is killed keeps what it had.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.files.whole_file import whole_file
from evprof.core.protocols import StopFlag
from evprof.run.gpu_bench.plan import DONE, FAILED, OUT_OF_TIME, STOPPED, GpuSection, by_process, summary_of

LOOK_S = 0.1

EXIT_S = 30.0
"""How long a process that closed its standard output may take to end."""


def hear_out(
    argv: Sequence[str], log: Path, until: Callable[[], float], stop: StopFlag, hear: Callable[[dict[str, Any]], None]
) -> int | str:
    """Runs `argv` until it ends, `stop` is set or time.monotonic() passes `until`; `hear` gets each object it prints.

    `hear` may move `until`. Standard error goes to `log`. Returns the exit code, STOPPED or OUT_OF_TIME. Raises
    OSError when the process cannot be started.
    """
    cut_short: list[str] = []
    is_read = threading.Event()

    def watch() -> None:
        """Kills the whole group: a grandchild may hold the stream for longer than the process itself."""
        while not cut_short and process.poll() is None and not is_read.wait(LOOK_S):
            if stop.is_set():
                cut_short.append(STOPPED)
            elif time.monotonic() > until():
                cut_short.append(OUT_OF_TIME)
        if not is_read.is_set():
            _kill(process)

    with (
        log.open("wb") as errors,
        subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        ) as process,
    ):
        assert process.stdout is not None
        watcher = threading.Thread(target=watch, name="evprof-sections", daemon=True)
        watcher.start()
        try:
            for line in process.stdout:
                with contextlib.suppress(ValueError):
                    if isinstance(said := json.loads(line), dict):
                        hear(said)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(EXIT_S)
        finally:
            is_read.set()
            watcher.join()
            _kill(process)
    return cut_short[0] if cut_short else process.returncode


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The process and its group, where there are groups."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


@dataclass(frozen=True)
class GpuBench:
    """`argv` gives the command of a process for some sections. `folder` takes gpu.json, gpu.md with what `tell` writes
    of the document, and the standard error of each process.

    A process may take `start_s` seconds before its first section begins, and all of them together `most_s`.
    """

    sections: Sequence[GpuSection]
    argv: Callable[[Sequence[GpuSection]], list[str]]
    folder: Path
    tell: Callable[[dict[str, Any]], str]
    start_s: float
    most_s: float


def measure_gpu(bench: GpuBench, stop: StopFlag, note: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """The whole document, which is also in the folder as gpu.json and gpu.md. Raises UserError where it cannot be."""
    progress = _Progress(bench, note)
    try:
        (bench.folder / "logs").mkdir(parents=True, exist_ok=True)
        while progress.left and not stop.is_set():
            log = progress.begin_process()
            argv = bench.argv(by_process(progress.left)[0])
            progress.end_process(hear_out(argv, bench.folder / log, lambda: progress.until, stop, progress.hear))
    except OSError as error:
        raise UserError(f"--out: {bench.folder} cannot be written ({error.strerror or error}).") from None
    return progress.document


class _Progress:
    """The document so far, the sections that are `left`, and the moment `until` which the process may run."""

    def __init__(self, bench: GpuBench, note: Callable[[str], None]) -> None:
        self._bench, self._note = bench, note
        self._ends = time.monotonic() + bench.most_s
        self._began = self.until = 0.0
        self._log, self._reason = "", ""
        self._current: dict[str, Any] | None = None
        self.left = list(bench.sections)
        self.document: dict[str, Any] = {
            "schema_version": 1,
            "benchmark": "gpu",
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "environment": {},
            "settings": {},
            "start_seconds": [],
            "sections": [],
            "rows": [],
            "summary": summary_of([], [], is_complete=False),
        }

    def begin_process(self) -> str:
        """Returns the path of the file for its standard error, from the folder."""
        self._allow(self._bench.start_s)
        self._reason = ""
        self.document["start_seconds"].append(None)
        self._log = f"logs/{len(self.document['start_seconds'])}.txt"
        return self._log

    def hear(self, said: dict[str, Any]) -> None:
        document, current = self.document, self._current
        match said:
            case {"environment": dict(machine), "settings": dict(settings)}:
                # Each process describes the machine; the first description stands.
                document["environment"] = document["environment"] or machine
                document["settings"] = document["settings"] or settings
            case {"begin": name, "gpu": state} if self.left and name == self.left[0].name:
                document["start_seconds"][-1] = document["start_seconds"][-1] or time.monotonic() - self._began
                self._begin(state)
            case {"row": dict(row)} if current is not None:
                document["rows"].append({"section": current["name"], **row})
            case {"problem": str(sentence)} if current is not None:
                current["problems"].append(sentence)
            case {"done": sentence, "gpu": state} if current is not None:
                current["gpu_end"] = state
                self._close(DONE, sentence)
            case {"failed": str(sentence)}:
                self._reason = f"{sentence.rstrip('.')}; {self._log} says more."
                if current is not None:
                    self._close(FAILED, self._reason)
        self._write()

    def end_process(self, ending: int | str) -> None:
        """A section that it was in has failed. If it began none, all others that are left have."""
        status, sentence = FAILED, self._reason
        if isinstance(ending, str):
            status = ending
            sentence = "Its time was over; the rows until then are kept." if ending == OUT_OF_TIME else ""
        elif not sentence:
            how = f"by signal {-ending}" if ending < 0 else f"with code {ending}"
            sentence = f"Its process ended {how} and gave no reason; {self._log} says more."
        if self._current is not None:
            self._close(status, sentence or None)
        is_over = time.monotonic() >= self._ends
        while self.left and (is_over or (self.document["start_seconds"][-1] is None and status != STOPPED)):
            self._begin()
            self._close(OUT_OF_TIME if is_over else status, sentence or None)
        self._write()

    def _allow(self, seconds: float) -> None:
        self._began = time.monotonic()
        self.until = min(self._began + seconds, self._ends)

    def _begin(self, state: dict[str, Any] | None = None) -> None:
        section = self.left.pop(0)
        self._allow(section.limit_s)
        self._reason = ""
        self._current = {
            **section.to_json(),
            "status": STOPPED,
            "sentence": None,
            "seconds": None,
            "problems": [],
            "gpu_start": state,
            "gpu_end": None,
        }
        self.document["sections"].append(self._current)
        self._note(f"{section.name}: {section.title}, at most {section.limit_s} s")

    def _close(self, status: str, sentence: str | None) -> None:
        section, self._current = self._current, None
        assert section is not None
        section |= {"status": status, "sentence": sentence, "seconds": time.monotonic() - self._began}
        self._note(f"{section['name']}: {status} after {section['seconds']:.0f} s. {sentence or ''}".rstrip())

    def _write(self) -> None:
        sections, rows = self.document["sections"], self.document["rows"]
        is_complete = not self.left and self._current is None and sections[-1]["status"] != STOPPED
        self.document["summary"] = summary_of(sections, rows, is_complete=is_complete)
        text = json.dumps(self.document, indent=1, ensure_ascii=False, allow_nan=False)
        for name, content in (("gpu.json", f"{text}\n"), ("gpu.md", self._bench.tell(self.document))):
            with whole_file(self._bench.folder / name) as stream:
                stream.write(content)


def has_gpu() -> bool:
    """Whether a driver finds a GPU; makes no context on it."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        count = ctypes.c_int()
        return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except (OSError, AttributeError):
        return False
