"""Drives the sections: starts each in its process, keeps what it says as it says it, goes on whatever becomes of it.

The document is written anew after every row, whole or not at all, so that a killed bench keeps what it had.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.protocols import StopFlag
from evprof.run.gpu_bench.child import Ending, hear_out
from evprof.run.gpu_bench.plan import DONE, FAILED, OUT_OF_TIME, STOPPED, GpuSection
from evprof.run.gpu_bench.targets import judged, summary_of


@dataclass(frozen=True)
class GpuBench:
    """What is run: `argv` gives the command of a section's process; `folder` takes gpu.json, what `tell` writes of the
    document, and what each process said on standard error."""

    sections: Sequence[GpuSection]
    argv: Callable[[GpuSection], list[str]]
    folder: Path
    tell: Callable[[dict[str, Any]], str]


def measure_gpu(bench: GpuBench, stop: StopFlag, note: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """The whole document, which then lies in the folder as gpu.json and gpu.md. Raises UserError where it cannot."""
    document: dict[str, Any] = {
        "schema_version": 1,
        "benchmark": "gpu",
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": {},
        "settings": {},
        "sections": [],
        "rows": [],
        "targets": [],
        "summary": summary_of([], [], is_complete=False),
    }
    try:
        (bench.folder / "logs").mkdir(parents=True, exist_ok=True)
        for section in bench.sections:
            if stop.is_set():
                break
            note(f"{section.name}: {section.title}, at most {section.limit_s} s")
            _carry_out(bench, section, document, stop, note)
            _write_whole(bench.folder / "gpu.md", bench.tell(document))
    except OSError as error:
        raise UserError(f"--out: {bench.folder} cannot be written ({error.strerror or error}).") from None
    return document


def _carry_out(
    bench: GpuBench, section: GpuSection, document: dict[str, Any], stop: StopFlag, note: Callable[[str], None]
) -> None:
    told: dict[str, Any] = {
        **section.to_json(),
        "status": STOPPED,
        "sentence": None,
        "seconds": None,
        "problems": [],
        "gpu_start": None,
        "gpu_end": None,
    }
    document["sections"].append(told)

    def hear(said: dict[str, Any]) -> None:
        _take(said, section, told, document)
        _conclude(bench, document)

    log = bench.folder / "logs" / f"{section.name}.txt"
    ending = hear_out(bench.argv(section), log, section.limit_s, stop, hear)
    told["seconds"] = ending.seconds
    told["status"], told["sentence"] = _outcome(section, ending, told["sentence"], log)
    _conclude(bench, document)
    note(f"{section.name}: {told['status']} after {ending.seconds:.0f} s. {told['sentence'] or ''}".rstrip())


def _take(said: dict[str, Any], section: GpuSection, told: dict[str, Any], document: dict[str, Any]) -> None:
    """One object of a section's process."""
    match said:
        case {"row": dict(row)}:
            document["rows"].append({"section": section.name, **row})
        case {"environment": dict(found), "settings": dict(settings)}:
            # Each process tells its own; the first one's stands.
            document["environment"] = document["environment"] or found
            document["settings"] = document["settings"] or settings
            told["gpu_start"] = found.get("gpu")
        case {"gpu_end": state}:
            told["gpu_end"] = state
        case {"problem": str(sentence)}:
            told["problems"].append(sentence)
        case {"failed": str(sentence)} | {"done": str(sentence)}:
            told["sentence"] = sentence


def _outcome(section: GpuSection, ending: Ending, sentence: str | None, log: Path) -> tuple[str, str | None]:
    """Status and sentence."""
    if ending.cut_short == OUT_OF_TIME:
        return OUT_OF_TIME, f"It was ended after its {section.limit_s} s; the rows it had by then are kept."
    if ending.cut_short == STOPPED:
        return STOPPED, None
    if ending.code == 0:
        return DONE, sentence
    where = f"logs/{log.name} says more"
    if sentence is not None:
        return FAILED, f"{sentence.rstrip('.')}; {where}."
    how = f"by signal {-ending.code}" if ending.code is not None and ending.code < 0 else f"with code {ending.code}"
    return FAILED, f"Its process ended {how} and said nothing; {where}."


def _conclude(bench: GpuBench, document: dict[str, Any]) -> None:
    """What follows from the rows so far, and the file."""
    sections, rows = document["sections"], document["rows"]
    is_complete = len(sections) == len(bench.sections) and sections[-1]["status"] != STOPPED
    document["targets"] = judged(rows, document["settings"])
    document["summary"] = summary_of(sections, rows, is_complete=is_complete)
    _write_whole(bench.folder / "gpu.json", json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _write_whole(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
