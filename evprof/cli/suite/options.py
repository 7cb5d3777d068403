"""The options of a suite, and the grid and samples they mean."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evprof.cli.options import (
    add_list_options,
    add_model_options,
    add_processes_option,
    add_ray_options,
    add_setting_options,
    add_timeout_option,
    given_models,
    given_settings,
    option_of,
)
from evprof.cli.preflight import nearest_path
from evprof.core.errors import UsageError, UserError
from evprof.core.sample import Sample
from evprof.core.texts import did_you_mean
from evprof.run.suites.cell import FamilyOf
from evprof.run.suites.ready import READY, chosen, told_apart
from evprof.run.suites.spec import SuiteSpec, checked_fields, checked_rest, is_grid, parse_suite

DEFAULT_SUITE = "stages"
"""The suite of a list of samples."""
_LARGEST_GRID = 4 << 20


def add_suite_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "suite", metavar="MANIFEST", help=f"{', '.join(READY)}; a grid file; a list of samples; or a folder"
    )
    _add_data(parser.add_argument_group("samples"))
    _add_overrides(parser)
    group = parser.add_argument_group("how often, and where to")
    group.add_argument("--repeat", type=int, metavar="N", help="measured runs of every configuration and sample")
    group.add_argument("--warmup", type=int, metavar="N", help="warm-up runs of every configuration (default: 1)")
    add_processes_option(group)
    add_timeout_option(group)
    add_ray_options(group)
    group.add_argument("--cooldown", type=float, metavar="SECONDS", help="rest before every row but the first")
    group.add_argument("-o", "--output", metavar="DIR", type=Path, required=True, help="folder of session and reports")
    group.add_argument("--resume", action="store_true", help="measure the rows that the suite in DIR lacks")
    group.add_argument("--retry-failed", action="store_true", help="with --resume: measure failed rows again, too")


def _add_data(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--data", metavar="MANIFEST", help="list of samples for a suite (default: the bundled ones)")
    group.add_argument("--clip-ms", type=float, metavar="MS", help="cut the sequences of a folder into clips of MS ms")
    group.add_argument("--clip-step-ms", type=float, metavar="MS", help="a clip every MS ms (default: end to end)")
    add_list_options(group)


def _add_overrides(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("for all cells, whatever the grid says")
    group.add_argument("--draft", metavar="MODEL", help="reads the events")
    group.add_argument("--target", metavar="MODEL", help="watches the video")
    add_model_options(parser)
    add_setting_options(parser)


@dataclass(frozen=True)
class SuiteChoice:
    """What is asked: a grid by its name, the list or folder of samples (None: the bundled ones), where paths start.

    `clip_us` and `step_us` cut the sequences of a folder into clips.
    """

    name: str
    grid: Mapping[str, Any]
    manifest: str | None = None
    root: str | None = None
    questions: str = "first"
    clip_us: int | None = None
    step_us: int | None = None


def question_of(options: argparse.Namespace) -> SuiteChoice:
    """What the words mean. Raises UserError for what is neither a suite, nor a grid, nor holds samples."""
    found = replace(_question(options), clip_us=clip_us(options, "clip_ms"), step_us=clip_us(options, "clip_step_ms"))
    if found.step_us is not None and found.clip_us is None:
        raise UsageError("--clip-step-ms says how far apart clips lie; add --clip-ms.")
    if found.clip_us is not None and (found.manifest is None or not Path(found.manifest).is_dir()):
        raise UsageError(
            "--clip-ms cuts the sequences of a folder; name one, or give a list of samples columns start_ms and "
            "duration_ms."
        )
    return found


def clip_us(options: argparse.Namespace, name: str) -> int | None:
    """A length in µs. Raises UserError (exit code 2) for none."""
    value: float | None = getattr(options, name)
    if value is None:
        return None
    if not 0.001 <= value < 1e9:
        raise UsageError(f"{option_of(name)} must be a time in ms above 0, not {value}.")
    return round(value * 1000)


def _question(options: argparse.Namespace) -> SuiteChoice:
    word: str = options.suite
    if word in READY:
        return SuiteChoice(word, READY[word], options.data, options.root, options.questions or "first")
    path = Path(word)
    if path.is_dir():
        return _of_samples(word, options)
    if not path.is_file():
        guess = did_you_mean(word, READY) or nearest_path(path) or f"; the ready-made suites are {', '.join(READY)}."
        raise UsageError(f"There is no suite and no file '{word}'{guess}")
    grid = _grid(path)
    if grid is not None:
        return _of_file(path, grid, options)
    return _of_samples(word, options)


def _of_file(path: Path, grid: Mapping[str, Any], options: argparse.Namespace) -> SuiteChoice:
    """A grid file names its samples relative to itself; the command line comes first."""
    data, root = grid.get("data"), grid.get("root")
    manifest = options.data or (str(path.parent / data) if isinstance(data, str) else None)
    place = options.root or (str(path.parent / root) if isinstance(root, str) else None)
    asked = options.questions or grid.get("questions") or "first"
    if asked not in ("first", "all"):
        raise UsageError(f"questions must be first or all, not {asked!r}.")
    return SuiteChoice(path.stem, grid, manifest, place, asked)


def _of_samples(word: str, options: argparse.Namespace) -> SuiteChoice:
    from evprof.loaders.manifests.manifest import is_manifest

    if not Path(word).is_dir() and not is_manifest(word):
        raise UsageError(
            f"'{word}' is neither a suite (a TOML or JSON file with settings, axes or cells) nor a list of samples "
            "(CSV or JSON with columns events and video)."
        )
    if options.data is not None:
        raise UsageError(f"--data: '{word}' is a list of samples itself; give one of both.")
    return SuiteChoice(DEFAULT_SUITE, READY[DEFAULT_SUITE], word, options.root, options.questions or "first")


def _grid(path: Path) -> Mapping[str, Any] | None:
    """The suite in a file; None when the file is something else. Raises UserError for one that is cut or misspelt."""
    suffix = path.suffix.lower()
    if suffix not in (".toml", ".json") or path.stat().st_size > _LARGEST_GRID:
        return None
    from evprof.loaders.json_lines import parse_toml
    from evprof.loaders.paths import opened_file

    try:
        with opened_file(path) as file:
            text = file.read().decode("utf-8")
        raw = parse_toml(text) if suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read as {suffix[1:].upper()}: {error}.") from None
    return raw if is_grid(raw) else None


def spec_of(question: SuiteChoice, options: argparse.Namespace, family_of: FamilyOf) -> SuiteSpec:
    """The cells, with what the command line fixes for all. Raises UserError, exit code 2, for what cannot work."""
    given = {**given_models(options), **given_settings(options)}
    spec = parse_suite(
        question.grid,
        question.name,
        overrides=checked_fields(given, "the command line"),
        repeat=options.repeat,
        warmup=options.warmup,
        family_of=family_of,
    )
    rest = spec.cooldown_s if options.cooldown is None else checked_rest(options.cooldown, "the command line")
    return replace(spec, limit=options.limit or spec.limit, processes=options.processes or 1, cooldown_s=rest)


def samples_of(question: SuiteChoice, spec: SuiteSpec) -> tuple[list[Sample], list[str]]:
    """The samples, and what is wrong with their list. Raises UserError when there is none."""
    if question.manifest is not None and Path(question.manifest).is_dir():
        listed, problems = _of_sequences(question)
    elif question.manifest is None:
        from evprof.loaders.bundled import bundled_samples

        listed, problems = bundled_samples(), []
    else:
        from evprof.loaders.manifests.manifest import read_manifest

        asked: Any = question.questions
        manifest = read_manifest(question.manifest, root=question.root, questions=asked)
        listed, problems = list(manifest.samples), list(manifest.problems)
    samples, renamed = told_apart(chosen(listed, spec.samples, spec.limit))
    if not samples:
        reasons = f": {' '.join(problems[:3])}" if problems else "."
        raise UserError(f"There is no sample to measure in {question.manifest or 'this installation'}{reasons}")
    return samples, [*problems, *renamed]


def _of_sequences(question: SuiteChoice) -> tuple[list[Sample], list[str]]:
    """The sequences of a folder, whole or in clips; one that cannot be cut is told and left out."""
    from evprof.loaders.sequences.sequence import open_sequences

    listed: list[Sample] = []
    problems: list[str] = []
    for sequence in open_sequences(str(question.manifest)):
        try:
            problems += [f"{sequence.name}: {sentence}" for sentence in sequence.clock.problems]
            if question.clip_us is None:
                listed.append(sequence.sample())
            else:
                listed += sequence.clips(question.clip_us, question.step_us)
        except UserError as error:
            problems.append(error.sentence)
    return listed, problems
