"""What was converted, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evprof.core.units import bytes_text, ms_text, number_text
from evprof.run.conversion.dataset import MANIFEST, DatasetEnd
from evprof.run.conversion.plan import ConversionPlan
from evprof.run.conversion.task import Task, Written
from evprof.run.conversion.workers import Outcome


def one_line(task: Task, outcome: Outcome) -> str:
    """`out.npy: 132,268 events, 1.65 MiB in 310 ms (0.4 Mev/s)`."""
    written = outcome.written
    if written is None:
        return f"{task.output}: not written"
    simulated = "simulated " if written.is_simulated else ""
    amounts = [f"{count:,} {simulated}{unit}" for count, unit in _amounts(written)]
    took = f"in {ms_text(outcome.seconds * 1000)}{_rate(written, outcome.seconds)}"
    return f"{task.output}: {', '.join(amounts)}, {bytes_text(written.bytes)} {took}"


def one_document(task: Task, outcome: Outcome) -> dict[str, Any]:
    """The `convert` document of one recording or video."""
    written = outcome.written
    return _head(task.path, task.output, task.recipe.to) | {
        "problems": list(written.notes) if written else [],
        "files": [written.document(task.output)] if written else [],
        "seconds": outcome.seconds,
    }


def list_lines(plan: ConversionPlan, end: DatasetEnd, seconds: float) -> list[str]:
    """The counts of a list, the list of the results last."""
    new = [written for output, written in end.written.items() if output not in end.kept]
    total = Written("", sum(written.bytes for written in new), _sum(new, "events"), _sum(new, "frames"))
    amounts = [f"{count:,} {unit}" for count, unit in _amounts(total)]
    counts = [f"{len(new):,} written", f"{len(end.kept):,} there before", f"{len(end.failed):,} failed"]
    left = len(plan.tasks) - len(end.written) - len(end.failed)
    if left:
        counts.append(f"{left:,} left")
    made = f" ({', '.join([*amounts, bytes_text(total.bytes)])} in {ms_text(seconds * 1000)})" if new else ""
    samples = f"{end.samples:,} of {len(plan.rows):,} samples"
    return [f"{plan.folder / MANIFEST}: {samples}; files: {', '.join(counts)}{made}"]


def list_document(
    path: str, plan: ConversionPlan, end: DatasetEnd, problems: Iterable[str], seconds: float
) -> dict[str, Any]:
    """The `convert` document of a list of samples."""
    to = next((task.recipe.to for task in plan.tasks.values()), None)
    return _head(path, plan.folder, to) | {
        "problems": list(problems),
        "files": [written.document(plan.folder / output) for output, written in end.written.items()],
        "seconds": seconds,
        "manifest": str(plan.folder / MANIFEST),
        "samples": end.samples,
        "rows": len(plan.rows),
        "written": len(end.written) - len(end.kept),
        "kept": len(end.kept),
        "failed": len(end.failed),
        "stopped": end.is_stopped,
    }


def _head(path: str, output: Path, to: str | None) -> dict[str, Any]:
    return {"schema_version": 1, "path": str(path), "output": str(output), "to": to}


def _amounts(written: Written) -> list[tuple[int, str]]:
    counts = ((written.events, "event"), (written.frames, "frame"))
    return [(count, f"{noun}{'' if count == 1 else 's'}") for count, noun in counts if count is not None]


def _rate(written: Written, seconds: float) -> str:
    if seconds <= 0:
        return ""
    if written.events is not None:
        return f" ({number_text(written.events / seconds / 1e6, 3)} Mev/s)"
    return f" ({number_text(written.frames / seconds, 3)} frames/s)" if written.frames is not None else ""


def _sum(listed: list[Written], field: str) -> int | None:
    counts = [getattr(written, field) for written in listed if getattr(written, field) is not None]
    return sum(counts) if counts else None
