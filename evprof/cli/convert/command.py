"""`evprof convert`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.cli.command import Command, add_json_option
from evprof.cli.parser import CommandExample
from evprof.cli.sample_options import check_least, existing, option_of, us_of
from evprof.cli.terminal.console import Console
from evprof.core.errors import CANCELLED, FAILURE, USAGE, UserError

if TYPE_CHECKING:
    from evprof.core.sample import Sample
    from evprof.run.conversion.task import ConversionRecipe, Task
    from evprof.run.conversion.workers import Outcome


class ConvertCommand(Command):
    """Turn recordings and videos into other formats: one file, or every row of a list of samples.

    frames: PNG pictures, EventGPT's renderings of an event recording or the frames of a video. npy, npz, h5 (as DSEC),
    raw (Prophesee): event recordings; made from a video, they are simulated. mp4: a video with the key frames you want,
    of a video, a folder of pictures or an event recording.

    A list of samples becomes a folder with a manifest.csv of its own. After Ctrl-C, or worse, the same command goes on.
    """

    name = "convert"
    examples = (
        CommandExample("evprof convert scene.raw -o scene.h5", "turn a recording into another format"),
        CommandExample("evprof convert scene.npy -o pictures --frames 5", "draw the pictures that EventGPT sees"),
        CommandExample("evprof convert scene.mp4 -o scene.npy", "simulate events from a video"),
        CommandExample(
            "evprof convert dataset.csv -o converted --to npy --jobs 2", "convert every recording of a list"
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """What to read, what to make of it, and where it goes."""
        from evprof.cli.convert.options import add_convert_options

        add_convert_options(parser)
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Converts; 1 when something could not be, 130 when stopped."""
        from evprof.core.sample import Sample

        kind = _kind(options.input)
        check_least(options, limit=1, jobs=1)
        if kind in ("manifest", "sequence"):
            from evprof.cli.convert.lists import convert_list

            return convert_list(options, console, kind)
        _refuse_list_options(options)
        sample = Sample(
            events_path=options.input if kind == "events" else None,
            video_path=options.input if kind == "video" else None,
            name=Path(options.input).stem,
        )
        return _convert_one(_task(sample, kind, options), options, console)


def _kind(path: str) -> str:
    """events, video, manifest or sequence. Raises UserError for everything else."""
    from evprof.loaders.paths import reason
    from evprof.loaders.pictures.frame_folder import is_frame_set
    from evprof.loaders.probe import probe

    try:
        is_there = Path(path).exists() or is_frame_set(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be reached ({reason(error)}); check the path.") from None
    if not is_there:
        raise UserError(f"There is no file or folder '{path}'; check the path.")
    kind = probe(path)
    if Path(path).is_dir() and kind in ("events", "video"):
        # Pictures, whatever they show, are converted as pictures.
        return "video"
    if is_frame_set(path):
        return "video"
    if kind not in ("events", "video", "manifest", "sequence"):
        raise UserError(f"{path}: is a {kind}; recordings, videos and lists of samples are converted.")
    return kind


def _refuse_list_options(options: argparse.Namespace) -> None:
    for name in ("only", "root", "questions", "limit", "clip_ms", "ray", "ray_threads"):
        if getattr(options, name) is not None:
            what = "a folder with events and video" if name == "clip_ms" else "lists of samples"
            raise UserError(f"{option_of(name)} is for {what}; leave it out.", exit_code=USAGE)


def _task(sample: Sample, kind: str, options: argparse.Namespace) -> Task:
    from dataclasses import replace

    from evprof.cli.convert.options import recipe_of
    from evprof.run.conversion.task import Task

    recipe = recipe_of(options, is_list=False)
    recipe.refuse_for(kind)
    for name, half in (("video_times", "video"), ("rectify", "events")):
        if getattr(options, name) is not None and kind != half:
            raise UserError(f"{option_of(name)} has no use here; leave it out.", exit_code=USAGE)
    sample = replace(
        sample,
        start_us=us_of(options, "start_ms"),
        duration_us=us_of(options, "duration_ms"),
        video_times_path=existing(options.video_times, "--video-times"),
        rectify_path=existing(options.rectify, "--rectify"),
    )
    sample.validate()
    return Task(sample, kind, options.output, recipe)


def _convert_one(task: Task, options: argparse.Namespace, console: Console) -> int:
    from evprof.cli.convert.progress import ConvertProgress
    from evprof.run.conversion.workers import Workers, check_place, refuse_itself

    check_place(task.output)
    refuse_itself(task)
    _check_output(task.output, task.recipe, overwrite=options.overwrite)
    found: Outcome | None = None
    with ConvertProgress(console, Path(task.path).name) as progress, progress.until_stopped() as stop:
        workers = Workers([task], 1, stop)
        for outcome in workers.outcomes():
            progress.look(workers.steps)
            found = outcome or found
    if found is None or (found.written is None and found.error is None):
        console.warn(f"stopped; {task.output} was not written")
        return CANCELLED
    if found.written is None:
        raise UserError(found.error or "", exit_code=FAILURE)
    _tell(task, found, console)
    return 0


def _check_output(output: Path, recipe: ConversionRecipe, *, overwrite: bool) -> None:
    """Raises UserError when something else is there that must stay."""
    is_folder = recipe.suffix == ""
    if not output.exists() and not output.is_symlink():
        return
    if is_folder != output.is_dir():
        what = "a file, and pictures go into a folder" if is_folder else "a folder, and this is written as one file"
        raise UserError(f"{output}: is {what}; give another name.")
    if is_folder and not any(output.iterdir()):
        return
    if not overwrite:
        raise UserError(f"{output}: is already there; give another name, or --overwrite to replace it.")


def _tell(task: Task, outcome: Outcome, console: Console) -> None:
    from evprof.cli.convert.text import one_document, one_line

    if console.is_json:
        console.document(one_document(task, outcome))
        return
    console.print(one_line(task, outcome))
    for note in outcome.written.notes if outcome.written else ():
        console.warn(f"note: {note}")
