"""What `evprof convert` does: one file or a list, with progress, and what it prints."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from evprof.cli.options import check_least, existing, option_of, us_of
from evprof.cli.suite.machines import open_cluster
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.errors import CANCELLED, FAILURE, UsageError, UserError
from evprof.core.sample import Sample
from evprof.core.units import bytes_text, count_text, ms_text, number_text
from evprof.run.conversion.dataset import MANIFEST, DatasetEnd, convert_list
from evprof.run.conversion.plan import ConversionPlan, plan_rows
from evprof.run.conversion.task import FRAMES, MP4, SUFFIXES, TARGETS, ConversionRecipe, Step, Task, Written
from evprof.run.conversion.workers import Outcome, Pool, check_place, in_cluster, in_threads, refuse_itself


def convert(options: argparse.Namespace, console: Console) -> int:
    kind = _kind(options.input)
    check_least(options, limit=1, jobs=1)
    if kind in ("manifest", "sequence"):
        return _convert_list(options, console, kind)
    _refuse_list_options(options)
    sample = Sample(
        events_path=options.input if kind == "events" else None,
        video_path=options.input if kind == "video" else None,
        name=Path(options.input).stem,
    )
    return _convert_one(_task(sample, kind, options), options, console)


def _kind(path: str) -> str:
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
    if is_frame_set(path) or (Path(path).is_dir() and kind in ("events", "video")):
        return "video"  # pictures, whatever they show, are converted as pictures
    if kind not in ("events", "video", "manifest", "sequence"):
        raise UserError(f"{path}: is a {kind}; recordings, videos and lists of samples are converted.")
    return kind


def recipe_of(options: argparse.Namespace, *, is_list: bool) -> ConversionRecipe:
    output: Path = options.output
    named = SUFFIXES.get(output.suffix.lower())
    to = options.to
    if is_list:
        if to is None:
            raise UsageError(f"Say what its samples are to become: --to {', '.join(TARGETS)}.")
    elif to is None:
        to = _guessed(output, named)
    elif named is not None and named != to:
        raise UsageError(f"--to {to} and the name of '{output}' do not fit; change one of them.")
    names = [field.name for field in fields(ConversionRecipe) if field.name not in ("to", "window_us")]
    given: dict[str, Any] = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.window_ms is not None:
        given["window_us"] = us_of(options, "window_ms")
    is_dat = not is_list and output.suffix.lower() == ".dat"
    if is_dat and given.setdefault("raw_format", "dat") != "dat":
        raise UsageError(f"--raw-format and the name of '{output}' do not fit; change one.")
    return ConversionRecipe.of(to, given)


def _guessed(output: Path, named: str | None) -> str:
    if named is not None:
        return named
    if output.suffix and not output.is_dir():
        known = ", ".join(SUFFIXES)
        raise UsageError(f"'{output.name}' does not say what to make; end it in {known}, or give --to.")
    return FRAMES


def _refuse_list_options(options: argparse.Namespace) -> None:
    for name in ("only", "root", "questions", "limit", "clip_ms", "ray", "ray_threads"):
        if getattr(options, name) is not None:
            what = "a folder with events and video" if name == "clip_ms" else "lists of samples"
            raise UsageError(f"{option_of(name)} is for {what}; leave it out.")


def _task(sample: Sample, kind: str, options: argparse.Namespace) -> Task:
    recipe = recipe_of(options, is_list=False)
    recipe.refuse_for(kind)
    for name, half in (("video_times", "video"), ("rectify", "events")):
        if getattr(options, name) is not None and kind != half:
            raise UsageError(f"{option_of(name)} has no use here; leave it out.")
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
    check_place(task.output)
    refuse_itself(task)
    _check_output(task.output, task.recipe, overwrite=options.overwrite)
    outcome: Outcome | None = None
    with ConvertProgress(console, Path(task.path).name) as progress, progress.until_stopped() as stop:
        progress.step = Step(stop)
        for each in in_threads([task], stop, 1, progress.step):
            progress.look()
            outcome = each or outcome
    if outcome is None or (outcome.written is None and outcome.error is None):
        console.warn(f"stopped; {task.output} was not written")
        return CANCELLED
    if outcome.written is None:
        raise UserError(outcome.error or "", exit_code=FAILURE)
    if console.is_json:
        written = {"problems": list(outcome.written.notes), "files": [outcome.written.document(task.output)]}
        head = _head(task.path, task.output, task.recipe.to)
        console.document(head | written | {"seconds": outcome.seconds})
        return 0
    console.print(_one_line(task, outcome.written, outcome.seconds))
    for note in outcome.written.notes:
        console.warn(f"note: {note}")
    return 0


def _check_output(output: Path, recipe: ConversionRecipe, *, overwrite: bool) -> None:
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


def _convert_list(options: argparse.Namespace, console: Console, kind: str) -> int:
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
        pool: Pool = partial(in_threads, jobs=options.jobs)
        if cluster is not None:
            slots = cluster.slots(options.ray_threads or 1, on_gpus=False)
            pool = partial(in_cluster, cluster=cluster, slots=slots, folder=options.output)
        with ConvertProgress(console, Path(options.input).name) as progress:
            end = convert_list(plan, progress, pool=pool, overwrite=options.overwrite, source=source)
    seconds = time.perf_counter() - began
    for sentence in end.problems:
        console.warn(sentence)
    if console.is_json:
        console.document(_list_document(options.input, plan, end, [*problems, *end.problems], seconds))
    else:
        for line in _list_lines(plan, end, seconds):
            console.print(line)
    if end.is_stopped:
        console.warn(f"stopped; the same command goes on: {_again(options)}")
        return CANCELLED
    return FAILURE if end.problems else 0


def _samples(options: argparse.Namespace, kind: str) -> tuple[Sequence[Sample], list[str]]:
    start_us, duration_us, length_us = (us_of(options, name) for name in ("start_ms", "duration_ms", "clip_ms"))
    if options.video_times is not None or options.rectify is not None:
        raise UsageError("--video-times and --rectify are for one recording; a list says them by row.")
    if kind == "manifest":
        from evprof.loaders.manifests.manifest import read_manifest

        if (start_us, duration_us, length_us) != (None, None, None):
            raise UsageError("The rows of a list say which part they mean; leave the times out.")
        found = read_manifest(
            options.input, root=options.root, questions=options.questions or "first", limit=options.limit
        )
        return found.samples[: options.limit], list(found.problems)
    from evprof.loaders.sequences.sequence import open_sequence

    for name in ("root", "questions"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} is for lists of samples; leave it out.")
    sequence = open_sequence(options.input)
    if length_us is not None:
        if (start_us, duration_us) != (None, None):
            raise UsageError("--clip-ms cuts all of it; leave --start-ms and --duration-ms out.")
        return sequence.clips(length_us)[: options.limit], list(sequence.clock.problems)
    sample = replace(sequence.sample(), start_us=start_us, duration_us=duration_us)
    sample.validate()
    return [sample], list(sequence.clock.problems)


def _again(options: argparse.Namespace) -> str:
    return f"evprof convert {shlex.quote(options.input)} -o {shlex.quote(str(options.output))} …"


class ConvertProgress(Progress):
    kept = "what was finished"

    def __init__(self, console: Console, title: str) -> None:
        super().__init__(console, title, "files")
        self.step: Step | None = None
        self._failed = 0

    def begin(self, tasks: int, done_before: int) -> None:
        done = f", {done_before:,} of them done" if done_before else ""
        self.say(f"{self._title}: {count_text(tasks, 'file')} to write{done}")
        self.start(tasks, done_before)

    def look(self) -> None:
        if self.step is None:
            if self._bar is not None:
                self.draw(self._failures())
        elif self.step.done:
            self.turn_to(self._title, self.step.unit, self.step.total)
            self._done = self.step.done
            self.draw()

    def end(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._failed += 1
            self.say(f"failed: {outcome.error}", is_warning=True)
        self.advance(self._failures())

    def _failures(self) -> str:
        return f"{self._failed:,} failed" if self._failed else ""


def _one_line(task: Task, written: Written, seconds: float) -> str:
    """`out.npy: 132,268 events, 1.65 MiB in 310 ms (0.4 M events/s)`."""
    simulated = "simulated " if written.is_simulated else ""
    amounts = [f"{count:,} {simulated}{unit}" for count, unit in _amounts(written)]
    took = f"in {ms_text(seconds * 1000)}"
    if seconds > 0 and written.events is not None:
        took += f" ({number_text(written.events / seconds / 1e6, 3)} M events/s)"
    elif seconds > 0 and written.frames is not None:
        took += f" ({number_text(written.frames / seconds, 3)} frames/s)"
    return f"{task.output}: {', '.join(amounts)}, {bytes_text(written.bytes)} {took}"


def _list_lines(plan: ConversionPlan, end: DatasetEnd, seconds: float) -> list[str]:
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


def _list_document(
    path: str, plan: ConversionPlan, end: DatasetEnd, problems: Iterable[str], seconds: float
) -> dict[str, Any]:
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


def _sum(listed: list[Written], field: str) -> int | None:
    counts = [getattr(written, field) for written in listed if getattr(written, field) is not None]
    return sum(counts) if counts else None
