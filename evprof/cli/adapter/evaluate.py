"""`evprof adapter evaluate`."""

from __future__ import annotations

import argparse
import shlex
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evprof.cli.adapter.collect import lasting, samples_of
from evprof.cli.options import check_least
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.errors import CANCELLED, Cancelled, UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.core.vocabulary.settings import option_words
from evprof.run.requests import BUNDLED_DRAFT

if TYPE_CHECKING:
    from evprof.loaders.adapters import AdapterInfo
    from evprof.run.benches.speculation import AdapterPlan

_DEFAULT_TOKENS = 128


def evaluate(options: argparse.Namespace, console: Console) -> int:
    """Measures an adapter and, unless there is `no_write`, writes its description and card; 130 when stopped.

    Every card comes from here, and holds the command that gives its figures again.
    """
    from evprof.loaders.adapters import read_adapter
    from evprof.run.processes.interrupts import stop_flag

    adapter = read_adapter(options.adapter)
    samples, problems = _samples(options)
    samples, left_out = unseen(samples, adapter)
    for sentence in [*problems, *(f"'{name}' was trained on and is left out." for name in left_out[:5])]:
        console.warn(sentence)
    if left_out:
        console.note(f"{len(left_out)} of {len(left_out) + len(samples)} samples were trained on; they are left out.")
    plan = _plan(adapter, samples, options)
    try:
        with stop_flag() as stop:
            environment, figures = _measured(plan, console, stop)
    except Cancelled:
        figures = {}
    if not figures or figures["samples"] < len(samples):
        console.warn("stopped; the adapter's folder is as it was")
        return CANCELLED
    figures |= {"left_out": len(left_out), "sample_names": [sample.name for sample in samples]}
    figures["command"] = command_of(adapter, options, figures)
    if not options.no_write:
        from engines.training.making import write_evaluation

        write_evaluation(adapter, figures)
    document = {
        "schema_version": 1,
        "adapter": str(adapter.folder),
        "name": adapter.name,
        "kind": adapter.kind,
        "evaluation": figures,
        "environment": environment,
        "written": not options.no_write,
    }
    if console.is_json:
        console.document(document)
    else:
        console.facts({name: document[name] for name in ("name", "kind", "evaluation")})
        if not options.no_write:
            console.note(f"saved: {adapter.folder}")
    return 0


def command_of(adapter: AdapterInfo, options: argparse.Namespace, found: dict[str, Any]) -> str:
    """The `evprof adapter evaluate` that gives these figures again, its defaults spelled out."""
    from evprof.loaders.adapters import is_bundled

    words = ["evprof", "adapter", "evaluate", adapter.folder.name if is_bundled(adapter) else str(options.adapter)]
    asked = {"gamma": options.gamma} | {key: found[key] for key in ("device", "dtype", "max_new_tokens")}
    words += [str(options.samples), "--repeat", str(found["repeat"]), *option_words(asked, keeps_defaults=True)]
    for name in ("root", "questions", "limit", "draft", "target"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name}", str(value)]
    return shlex.join(words)


def unseen(samples: Sequence[Sample], adapter: AdapterInfo) -> tuple[list[Sample], list[str]]:
    """Samples whose content the adapter was not trained on, and the names of the others.

    Raises UserError when none is left, and for a file that cannot be read.
    """
    from evprof.loaders.collection import scene_of

    training = adapter.training
    known = {scene for scene in training.get("seen") or () if isinstance(scene, str)}
    has_draft = training.get("draft_identity") is not None
    kept, names = [], []
    for sample in samples:
        if known and scene_of(sample, has_draft=has_draft) in known:
            names.append(sample.name)
        else:
            kept.append(sample)
    if not kept:
        raise UserError(
            f"All {len(names)} samples were trained on by {adapter.name}, so they say nothing about others; name "
            "samples it has not seen."
        )
    return kept, names


def _samples(options: argparse.Namespace) -> tuple[list[Sample], list[str]]:
    """Of a list, or of collected examples, whose files must still be where they were."""
    from evprof.loaders.collection import is_collection, read_collection

    if not is_collection(options.samples):
        return samples_of(options.samples, options)
    check_least(options, limit=1)
    examples = read_collection(options.samples).examples[: options.limit]
    if not examples:
        raise UserError(f"{options.samples}: holds no whole shard of examples; let evprof adapter collect finish.")
    return [Sample.from_facts(example.sample) for example in examples], []


def _plan(adapter: AdapterInfo, samples: Sequence[Sample], options: argparse.Namespace) -> AdapterPlan:
    from evprof.run.benches.speculation import AdapterPlan

    training = adapter.training
    names = training.get("models")
    plan = AdapterPlan(
        adapter,
        samples,
        _choice(options.draft or _lying(names, DRAFT) or adapter.draft or BUNDLED_DRAFT, options),
        _choice(options.target or _lying(names, TARGET) or adapter.target, options),
        options.gamma,
        options.repeat,
        options.max_new_tokens or _count(training, "max_new_tokens") or _DEFAULT_TOKENS,
        _count(training, "frames"),
        _count(training, "event_frames"),
    )
    plan.validate()
    return plan


def _lying(names: object, role: str) -> str | None:
    """Where a model lay when the adapter was trained, if it still does: adapters travel, folders stay."""
    found = names.get(role) if isinstance(names, dict) else None
    return found if isinstance(found, str) and Path(found).is_dir() else None


def _count(training: dict[str, Any], name: str) -> int | None:
    found = training.get(name)
    return found if type(found) is int and found > 0 else None


def _choice(name: str, options: argparse.Namespace) -> ModelChoice:
    return ModelChoice(lasting(name), options.device, options.dtype)


def _measured(plan: AdapterPlan, console: Console, stop: threading.Event) -> tuple[dict[str, Any], dict[str, Any]]:
    from evprof.cli.run import recorded_session
    from evprof.run.benches.speculation import measure_adapter

    plan.validate()
    engine = recorded_session.make_engine()
    try:
        with Progress(console, "measuring", "pairs of runs") as progress:
            progress.start(len(plan.samples) * plan.repeat)
            environment, found = measure_adapter(engine, plan, stop, lambda done, _: progress.reach(done))
    finally:
        engine.close()
    draft = plan.draft.name if plan.adapter.draft is not None else None
    return environment, found | {"target": plan.target.name, "draft": draft}
