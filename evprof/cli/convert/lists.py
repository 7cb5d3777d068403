"""The part of `evprof convert` that is for lists of samples and folders with events and video."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.cli.convert.options import recipe_of
from evprof.cli.convert.progress import ConvertProgress
from evprof.cli.convert.text import list_document, list_lines
from evprof.cli.sample_options import us_of
from evprof.cli.suite.machines import open_cluster
from evprof.cli.terminal.console import Console
from evprof.core.errors import CANCELLED, FAILURE, USAGE, UserError
from evprof.core.sample import Sample
from evprof.run.conversion.dataset import DatasetConversion
from evprof.run.conversion.plan import plan_rows
from evprof.run.conversion.task import FRAMES, MP4
from evprof.run.conversion.workers import MakeWorkers


def convert_list(options: argparse.Namespace, console: Console, kind: str) -> int:
    """Converts every sample; 1 when one of them could not be, 130 when stopped."""
    recipe = recipe_of(options, is_list=True)
    read = options.only or {FRAMES: None, MP4: "video"}.get(recipe.to, "events")
    if read is not None:
        recipe.refuse_for(read)
    samples, problems = _samples(options, kind)
    if not samples:
        raise UserError(f"{options.input}: holds no sample that could be converted.")
    plan = plan_rows(samples, options.output, recipe, options.only)
    source = Path(options.input) if kind == "manifest" else None
    for sentence in problems:
        console.warn(sentence)
    began = time.perf_counter()
    with open_cluster(options, console) as cluster:
        conversion = DatasetConversion(
            plan,
            jobs=options.jobs,
            overwrite=options.overwrite,
            source=source,
            workers=None if cluster is None else _workers(cluster, options),
        )
        with ConvertProgress(console, Path(options.input).name) as progress:
            end = conversion.run(progress)
    seconds = time.perf_counter() - began
    for sentence in end.problems:
        console.warn(sentence)
    if console.is_json:
        console.document(list_document(options.input, plan, end, [*problems, *end.problems], seconds))
    else:
        for line in list_lines(plan, end, seconds):
            console.print(line)
    if end.is_stopped:
        console.warn(f"stopped; the same command goes on: {_again(options)}")
        return CANCELLED
    return FAILURE if end.problems else 0


def _workers(cluster: Any, options: argparse.Namespace) -> MakeWorkers:
    """Places of a cluster, one file at a time each. Raises UserError where there is none."""
    from evprof.run.conversion.workers import ClusterWorkers

    slots = cluster.slots(options.ray_threads or 1, on_gpus=False)
    return lambda tasks, stop: ClusterWorkers(cluster, slots, options.output, tasks, stop)


def _samples(options: argparse.Namespace, kind: str) -> tuple[Sequence[Sample], list[str]]:
    start_us, duration_us, length_us = (us_of(options, name) for name in ("start_ms", "duration_ms", "clip_ms"))
    if options.video_times is not None or options.rectify is not None:
        raise UserError("--video-times and --rectify are for one recording; a list says them by row.", exit_code=USAGE)
    if kind == "manifest":
        from evprof.loaders.manifests.manifest import read_manifest

        if (start_us, duration_us, length_us) != (None, None, None):
            raise UserError("The rows of a list say which part they mean; leave the times out.", exit_code=USAGE)
        found = read_manifest(
            options.input, root=options.root, questions=options.questions or "first", limit=options.limit
        )
        return found.samples[: options.limit], list(found.problems)
    from evprof.loaders.sequences.sequence import open_sequence

    for name in ("root", "questions"):
        if getattr(options, name) is not None:
            raise UserError(f"--{name} is for lists of samples; leave it out.", exit_code=USAGE)
    sequence = open_sequence(options.input)
    if length_us is not None:
        if (start_us, duration_us) != (None, None):
            raise UserError("--clip-ms cuts all of it; leave --start-ms and --duration-ms out.", exit_code=USAGE)
        return sequence.clips(length_us)[: options.limit], list(sequence.clock.problems)
    sample = replace(sequence.sample(), start_us=start_us, duration_us=duration_us)
    sample.validate()
    return [sample], list(sequence.clock.problems)


def _again(options: argparse.Namespace) -> str:
    """The command in words that a shell reads, as far as places go."""
    return f"evprof convert {shlex.quote(options.input)} -o {shlex.quote(str(options.output))} …"
