"""`evprof inspect`."""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

from evprof.cli.command import Command, add_json_option
from evprof.cli.console import Console
from evprof.core.errors import USAGE, UserError


class Inspect(Command):
    """Describe a recording, video, checkpoint, session or torch trace without running anything.

    With --save-frames the pictures that a model would be shown are written as PNG files: EventGPT's renderings of an
    event recording, or the evenly spread frames of a video. MODEL names such as random:7b-eventgpt are described, too.
    """

    name = "inspect"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The path, and whether to write frames."""
        parser.add_argument("path", metavar="PATH", help="a file, a folder, or a model's name")
        parser.add_argument("--frames", type=int, metavar="N", help="how many (default: the model's own number)")
        parser.add_argument("--save-frames", metavar="DIR", type=Path, help="write the frames a model would see")
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Finds out what it is, describes it, writes frames if asked."""
        from evprof.cli.report import facts_lines

        if options.frames is not None and options.save_frames is None:
            raise UserError("--frames says how many to write; add --save-frames DIR.", exit_code=USAGE)
        if options.frames is not None and options.frames < 1:
            raise UserError(f"--frames must be at least 1, not {options.frames}.", exit_code=USAGE)
        document = describe(options.path)
        if options.save_frames is not None:
            document["saved_frames"] = _save_frames(options, document["kind"])
        if console.is_json:
            console.document(document)
            return 0
        for line in facts_lines(
            {name: value for name, value in document.items() if name not in ("schema_version", "runs")}
        ):
            console.print(line)
        return 0


def describe(path: str) -> dict[str, Any]:
    """The `inspect` document. Raises UserError for what is missing, damaged or of no known kind."""
    if is_model_name(path):
        return _checkpoint(path)
    if not Path(path).exists():
        raise UserError(f"There is no file, folder or model '{path}'; check the path, or see evprof models.")
    from evprof.loaders.probe import inspect_events, inspect_video, probe
    from evprof.session.schema import APPLICATION_ID

    match probe(path, session_id=APPLICATION_ID):
        case "events":
            return inspect_events(path)
        case "video":
            return inspect_video(path)
        case "checkpoint":
            return _checkpoint(path)
        case "session":
            return _session(path)
        case _:
            return _trace(path)


def is_model_name(path: str) -> bool:
    """Whether `path` is a name of the catalogue rather than a place."""
    from engines import CATALOGUE

    return any(entry.name == path for entry in CATALOGUE) or path.startswith("random:")


def _checkpoint(path: str) -> dict[str, Any]:
    from engines.inspection import inspect_checkpoint

    return _head(path, "checkpoint") | inspect_checkpoint(path)


def _head(path: str, kind: str) -> dict[str, Any]:
    return {"schema_version": 1, "path": path, "kind": kind, "problems": []}


def _session(path: str) -> dict[str, Any]:
    from evprof.cli.recorded_session import saved_runs
    from evprof.session.reading import load_session

    session = load_session(Path(path))
    runs = saved_runs(session.recording)
    problems = [f"Run {run.run_id} did not finish: {run.info.error}" for run in runs if run.info.error]
    return _head(path, "session") | {
        "problems": problems,
        "created_at": session.created_at,
        "evprof_version": session.evprof_version,
        "runs": [
            {"run_id": run.run_id, "mode": run.info.mode, "role": run.info.role, "status": run.info.status}
            for run in runs
        ],
        "run_count": len(runs),
        "records": session.recording.row_count,
    }


def _trace(path: str) -> dict[str, Any]:
    """What a Kineto or Chrome trace holds: counts by category, steps, and the time it spans."""
    opener = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8") as stream:
            loaded = json.load(stream)
    except (OSError, EOFError, ValueError) as error:
        raise UserError(f"{path}: the trace is damaged ({error}); record it again.") from error
    entries = loaded.get("traceEvents", []) if isinstance(loaded, dict) else loaded
    slices = [entry for entry in entries if isinstance(entry, dict) and entry.get("ph") == "X"]
    categories: dict[str, int] = {}
    for entry in slices:
        category = str(entry.get("cat", ""))
        categories[category] = categories.get(category, 0) + 1
    starts = [float(entry["ts"]) for entry in slices if "ts" in entry]
    ends = [float(entry["ts"]) + float(entry.get("dur", 0)) for entry in slices if "ts" in entry]
    return _head(path, "trace") | {
        "entries": len(entries),
        "duration_ms": (max(ends) - min(starts)) / 1000 if starts else None,
        "categories": categories,
        "steps": sum(str(entry.get("name", "")).startswith("ProfilerStep#") for entry in slices),
    }


def _save_frames(options: argparse.Namespace, kind: str) -> list[str]:
    if kind not in ("events", "video"):
        raise UserError(f"{options.path}: is a {kind}, which has no frames; give an event recording or a video.")
    from evprof.loaders.probe import save_model_frames

    return [str(path) for path in save_model_frames(options.path, options.frames, options.save_frames)]
