"""`evprof inspect`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evprof.cli.command import Command, CommandExample
from evprof.cli.options import add_json_option, add_setting, choice_of, existing, settings_of, typed_words
from evprof.cli.terminal.console import Console
from evprof.core.errors import UsageError, UserError
from evprof.core.texts import did_you_mean
from evprof.core.vocabulary.generation import ModelChoice
from evprof.core.vocabulary.settings import SETTINGS

if TYPE_CHECKING:
    from engines.fit.verdict import FitQuestion


_DATA_SUFFIXES = {
    *{".npy", ".npz", ".h5", ".hdf5", ".raw", ".dat", ".aedat", ".aedat4", ".es", ".bag", ".txt", ".csv", ".bin"},
    *{".mp4", ".avi", ".mkv", ".mov", ".webm", ".gif", ".png", ".jpg", ".jpeg"},
    *{".json", ".jsonl", ".toml", ".tsv", ".gz", ".evprof", ".zip", ".safetensors"},
}


class InspectCommand(Command):
    """Describe a recording, video, sequence, list of samples, checkpoint, session, trace or result; nothing is run.

    Without PATH: list model families, bundled and cached checkpoints, bundled adapters, and what each needs.
    MODEL names such as random:7b-eventgpt are described, too.
    Of a checkpoint it also tells whether it fits this machine, alone or --with another, and what to change if not; with
    --against how its vocabulary meets that of a target.
    """

    name = "inspect"
    examples = (
        CommandExample("evprof inspect", "list models and adapters"),
        CommandExample("evprof inspect scene.npy", "say what a recording holds"),
        CommandExample(
            "evprof inspect checkpoints/EventGPT-7b --device cuda --dtype bfloat16",
            "say whether a checkpoint fits a GPU",
        ),
        CommandExample(
            "evprof inspect random:7b-eventgpt --with random:7b-video-llava --memory 24GB",
            "say whether a pair fits 24 GB",
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("path", metavar="PATH", nargs="?", help="a file, a folder, or a model's name")
        parser.add_argument("--against", metavar="MODEL", help="how a draft's vocabulary meets this model's")
        group = parser.add_argument_group("whether a checkpoint fits")
        group.add_argument("--with", dest="other", metavar="MODEL", help="the other model of the pair")
        for key in _OF_MODEL:
            add_setting(group, SETTINGS[key])
            add_setting(group, SETTINGS[key], "with")
        group.add_argument(
            "--memory", metavar="SIZE", help="answer for a device with this much free (24GB), not for this one"
        )
        for key in ("clip", *_OF_RUN):
            add_setting(group, SETTINGS[key])
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        from evprof.cli.inspect.reports import print_checkpoint, print_models

        if options.path is None:
            if words := typed_words(options, ()):
                raise UsageError(f"{words[0]} needs a PATH: evprof inspect PATH {words[0]}.")
            print_models(console)
            return 0
        document = describe(options)
        if console.is_json:
            console.document(document)
        elif document["kind"] == "checkpoint":
            print_checkpoint(document, console)
        else:
            console.facts({name: value for name, value in document.items() if name not in ("schema_version", "runs")})
        return 0


_OF_MODEL = ("device", "dtype", "quantization")
_OF_RUN = ("max_new_tokens", "frames", "event_frames", "cache", "attention", "prefill_chunk", "visual_keep")
"""Settings that change what a model takes."""

_GIVEN = {
    "other": "--with",
    "memory": "--memory",
    **{key: SETTINGS[key].flag for key in ("clip", *_OF_MODEL, *_OF_RUN)},
    **{f"with_{key}": SETTINGS[key].role_flag("with") for key in _OF_MODEL},
}


def describe(options: argparse.Namespace) -> dict[str, Any]:
    """The `inspect` document. Raises UserError for what is missing, damaged or of no known kind."""
    path: str = options.path
    if is_model_name(path):
        return _checkpoint(options)
    from evprof.loaders.pictures.frame_folder import is_frame_set

    if not Path(path).exists() and not is_frame_set(path):
        from engines import CATALOGUE
        from evprof.cli.preflight import nearest_path

        guess = nearest_path(Path(path)) or did_you_mean(path, (entry.name for entry in CATALOGUE))
        end = guess or "; check the path, or see evprof inspect."
        raise UserError(f"There is no file, folder or model '{path}'{end}")
    from evprof.cli.inspect.reports import describe_manifest
    from evprof.cli.terminal.program import program_argv
    from evprof.loaders.inspection import inspect_events, inspect_sequence, inspect_video
    from evprof.loaders.probe import probe
    from evprof.loaders.videos.apart import keep_apart
    from evprof.session.tables import APPLICATION_ID

    keep_apart(program_argv("_video"))
    kind = probe(path, session_id=APPLICATION_ID)
    if kind == "checkpoint":
        return _head_document(options) or _checkpoint(options)
    if options.against is not None:
        raise UsageError(f"--against asks about a model's vocabulary, but {path} is a {kind}.")
    _refuse_fit_options(options, kind)
    describers: dict[str, Callable[[str], dict[str, Any]]] = {
        "events": inspect_events,
        "video": inspect_video,
        "sequence": inspect_sequence,
        "manifest": describe_manifest,
        "legacy": _legacy,
        "session": _session,
        "trace": _trace,
    }
    return describers[kind](path)


def is_model_name(path: str) -> bool:
    """Whether `path` is a name of the catalogue, or one as the Hugging Face hub has them, rather than a place."""
    from engines import CATALOGUE
    from engines.checkpoints.naming import split_layers

    path, layers = split_layers(path)
    if layers is not None or any(entry.name == path for entry in CATALOGUE) or path.startswith("random:"):
        return True
    owner, _, name = path.partition("/")
    is_hub_id = bool(re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", path))
    # A missing file is a typo, not a hub id.
    return is_hub_id and not Path(owner).exists() and Path(name).suffix.lower() not in _DATA_SUFFIXES


def _head_document(options: argparse.Namespace) -> dict[str, Any] | None:
    """Of a folder with a published draft head; None for any other checkpoint."""
    from engines.inspection import find_head, inspect_head

    info = find_head(options.path)
    if info is None:
        return None
    _refuse_fit_options(options, "head")
    return _head(options.path, "head") | inspect_head(info, options.against)


def _checkpoint(options: argparse.Namespace) -> dict[str, Any]:
    from evprof.cli.preflight import check_device, check_models

    check_models(name for name in (options.path, options.other, options.against) if name is not None)
    for device in (options.device, options.with_device):
        if device is not None:
            check_device(device)
    question = _fit_question(options)
    document = checkpoint_document(question)
    if options.against is not None:
        from engines.inspection import inspect_vocabularies

        document["vocabulary"] = inspect_vocabularies(options.path, options.against, options.clip)
    return document


def checkpoint_document(question: FitQuestion) -> dict[str, Any]:
    """The `inspect` document of a checkpoint: its content, and how it fits."""
    from engines.fit.verdict import describe_fit
    from engines.inspection import inspect_checkpoint

    name = question.model.name
    fit = describe_fit(question)
    # The content needs no device; the fit may be about one that is only assumed.
    content = inspect_checkpoint(name, ModelChoice(name, clip=question.model.clip), question.settings)
    own = next(model for model in fit["models"] if model["role"] == fit["role"])
    content.update(device=own["device"], device_dtype=own["dtype"], device_bytes=own["weight_bytes"])
    return _head(name, "checkpoint") | content | {"fit": fit}


def _head(path: str, kind: str) -> dict[str, Any]:
    return {"schema_version": 1, "path": path, "kind": kind, "problems": []}


def _session(path: str) -> dict[str, Any]:
    from evprof.session.opened import open_session

    session = open_session(Path(path))
    runs = session.runs.values()
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
        "records": session.row_count,
    }


def _legacy(path: str) -> dict[str, Any]:
    """The `inspect` document: family, rows, what each key really covers, and what is wrong. Raises UserError."""
    from evprof.loaders.legacy.family import open_legacy

    file = open_legacy(path)
    reading = file.read()
    found = failed = 0
    cells: dict[str, None] = {}
    for row in reading.rows():
        found += 1
        failed += row.error is not None
        cells[row.cell] = None
    return _head(path, "legacy") | {
        "problems": reading.problems.sentences(file.rows),
        "family": file.family.name,
        "rows": file.rows,
        "runs": found,
        "failed": failed,
        "configurations": list(cells),
        "covers": {
            role: {key: "+".join(stages) or "nothing" for key, stages in keys.items()}
            for role, keys in reading.covers.items()
        },
    }


def _trace(path: str) -> dict[str, Any]:
    """What a torch trace holds: counts by category, steps, and where its time went."""
    from evprof.loaders.traces.reading import read_trace
    from evprof.metrics.traces.analysis import TraceAnalysis
    from evprof.metrics.traces.tables import trace_summary

    analysis = TraceAnalysis(read_trace(path))
    return _head(path, "trace") | {"problems": list(analysis.problems)} | trace_summary(analysis)


def _refuse_fit_options(options: argparse.Namespace, kind: str) -> None:
    """Raises UserError (exit code 2) when one of them was given for something that is no checkpoint."""
    given = [option for name, option in _GIVEN.items() if getattr(options, name) is not None]
    if given:
        raise UsageError(f"{given[0]} asks about a checkpoint, but {options.path} is a {kind}.")


def _fit_question(options: argparse.Namespace) -> FitQuestion:
    """The question. `--frames` of a checkpoint alone are its own, of whichever kind.

    Raises UserError (exit code 2) for values that mean nothing.
    """
    from engines.fit.verdict import FitQuestion, memory_size

    settings = settings_of(options)
    model = replace(choice_of(options, "", options.path), clip=existing(options.clip, "--clip"))
    other = None
    if options.other is not None:
        other = replace(
            choice_of(options, "with", options.other), quantization=options.with_quantization, clip=model.clip
        )
    else:
        given = [SETTINGS[key].role_flag("with") for key in _OF_MODEL if getattr(options, f"with_{key}") is not None]
        if given:
            raise UsageError(f"{given[0]} is about the other model; name it with --with MODEL.")
        if settings.event_frames is None:
            settings = replace(settings, event_frames=settings.frames)
    settings.validate()
    return FitQuestion(model, other, settings, None if options.memory is None else memory_size(options.memory))
