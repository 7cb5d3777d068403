"""`evprof adapter collect`."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.cli.options import check_least, choice_of, settings_of
from evprof.cli.suite.machines import open_cluster
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.errors import CANCELLED, FAILURE, UsageError, UserError
from evprof.core.sample import Sample
from evprof.core.units import count_text
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice


class CollectProgress(Progress):
    def __init__(self, console: Console) -> None:
        super().__init__(console, "collecting", "examples")

    def begin(self, total: int, done_before: int) -> None:
        there = f"; goes on, {done_before:,} there before" if done_before else ""
        self.say(f"collecting: {count_text(total, 'example')}{there}")
        self.start(total, done_before)

    def end(self, name: str, error: str | None = None) -> None:
        if error is not None:
            self.say(f"failed: {name}: {error}", is_warning=True)
        self.advance()


def collect(options: argparse.Namespace, console: Console) -> int:
    """Collects what is not there yet; 1 when a row gave nothing, 130 when stopped."""
    samples, problems = samples_of(options.manifest, options)
    samples = asked(samples, options.prompt)
    check_least(options, keep_positions=0)
    settings = settings_of(options)
    settings.validate()
    for sentence in problems:
        console.warn(sentence)
    with (
        open_cluster(options, console) as cluster,
        CollectProgress(console) as progress,
        progress.until_stopped() as stop,
    ):
        end = _carry_out(samples, settings, options, cluster=cluster, progress=progress, stop=stop)
    if not console.is_json:
        console.print(
            f"{count_text(end.examples, 'example')} ({count_text(end.tokens, 'answer token')}) in "
            f"{count_text(end.shards, 'shard')}, {end.bytes / 2**20:.1f} MiB: {options.output}"
        )
        if end.repeated:
            console.note(f"{end.repeated:,} rows have the content and the question of another and were left out.")
    else:
        console.document(_document(end, options, problems))
    if end.is_stopped:
        console.warn("stopped; the same command goes on")
        return CANCELLED
    return FAILURE if end.failed or not end.examples else 0


def _carry_out(
    samples: Sequence[Sample],
    settings: GenerationSettings,
    options: argparse.Namespace,
    *,
    cluster: Any,
    progress: CollectProgress,
    stop: threading.Event,
) -> Any:
    from engines.training.collect_plan import CollectPlan
    from engines.training.collecting import Collecting

    draft = None if options.no_draft else _choice(options.draft, options)
    target = replace(_choice(options.target, options), clip=None)
    kept = options.keep_positions, options.keep_layers
    plan = CollectPlan(samples, target, draft, settings, options.output, options.overwrite, *kept)
    if cluster is None:
        return Collecting(plan).run(progress, stop)
    from engines.training.cluster_examples import ClusterExamples

    is_on_gpus = any(not choice.device.startswith("cpu") for choice in plan.choices.values())
    slots = cluster.slots(options.ray_threads, on_gpus=is_on_gpus)
    with ClusterExamples(cluster, slots, plan, options.ray_threads) as source:
        return Collecting(plan, source).run(progress, stop)


def _choice(name: str, options: argparse.Namespace) -> ModelChoice:
    return choice_of(options, "", lasting(name))


def lasting(name: str) -> str:
    """A model's name as it is found again from any folder."""
    from engines import bundled_folder

    if bundled_folder(name) is None and Path(name).expanduser().is_dir():
        return str(Path(name).expanduser().resolve())
    return name


def samples_of(manifest: str, options: argparse.Namespace) -> tuple[list[Sample], list[str]]:
    """The samples of a list with a name each of their own, and its problems. Raises UserError for what is no list."""
    from evprof.loaders.manifests.manifest import read_manifest
    from evprof.run.suites.ready import told_apart

    check_least(options, limit=1)
    found = read_manifest(manifest, root=options.root, questions=options.questions or "first", limit=options.limit)
    if not found.samples:
        raise UserError(f"{manifest}: {' '.join(found.problems) or 'lists no samples.'}")
    samples, said = told_apart(found.samples)
    return samples, [*found.problems, *said]


def asked(samples: Sequence[Sample], prompts: Sequence[str] | None) -> list[Sample]:
    """Every sample with each of these questions in turn; with its own where none is given."""
    if not prompts:
        return list(samples)
    if not all(prompt.strip() for prompt in prompts):
        raise UsageError("The prompt is empty; ask something with --prompt.")
    return [
        replace(
            sample,
            prompt=prompt,
            reference=None,
            name=sample.name if number == 1 else f"{sample.name} question {number}",
        )
        for sample in samples
        for number, prompt in enumerate(prompts, start=1)
    ]


def _document(end: Any, options: argparse.Namespace, problems: Sequence[str]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "folder": str(options.output),
        "examples": end.examples,
        "before": end.before,
        "repeated": end.repeated,
        "answer_tokens": end.tokens,
        "shards": end.shards,
        "bytes": end.bytes,
        "settings": end.settings,
        "failed": [{"name": name, "error": error} for name, error in end.failed.items()],
        "problems": list(problems),
        "is_complete": not end.is_stopped,
    }
