"""Makes an adapter out of collected examples: models checked, a trainee taught, folder and model card written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch

from engines.adapters.folder import description, save_adapter
from engines.hardware.device import use_threads
from engines.loading.warm_models import Loader
from engines.loading.weights import content_identity, load_model
from engines.stages.model import VisionLanguageModel
from engines.training.example import StoredExamples
from engines.training.loop import (
    Curves,
    Trainee,
    TraineeSide,
    Training,
    TrainingOptions,
    TrainingWatcher,
    facts_of,
    split_by_scene,
)
from engines.training.trainees import make_trainee
from evprof.core.errors import Cancelled, UserError
from evprof.core.files.whole_file import whole_file
from evprof.core.protocols import StopFlag
from evprof.core.records import DRAFT, TARGET
from evprof.core.units import percent_text, times_text
from evprof.core.vocabulary.drafters import KINDS
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.adapters import CARD, DESCRIPTION, AdapterInfo
from evprof.loaders.bundled import pair_evaluation, pair_sentences
from evprof.loaders.collection import Collection, read_collection
from evprof.loaders.paths import reason

_LIMITS = {
    False: "It suits these models alone, and answers like those it was taught on. Where it guesses badly fewer of its "
    "tokens are accepted; the answer stays the target's own.",
    True: "It suits this pair alone. Where it is used answers are no longer the target's own, and how often they agree "
    "was measured on answers like those it was taught on.",
}


def write_evaluation(adapter: AdapterInfo, evaluation: dict[str, Any]) -> None:
    """Puts what was measured into the adapter's description and model card. Raises UserError when it cannot."""
    measured = replace(adapter, evaluation=evaluation)
    try:
        with whole_file(adapter.folder / DESCRIPTION) as stream:
            stream.write(json.dumps(description(measured), indent=1, sort_keys=True) + "\n")
        with whole_file(adapter.folder / CARD) as stream:
            stream.write(card_of(measured))
    except OSError as error:
        raise UserError(
            f"{adapter.folder}: cannot be written ({reason(error)}); check its permissions, or add --no-write."
        ) from None


def card_of(info: AdapterInfo) -> str:
    lines = [f"# {info.name}", "", KINDS[info.kind].card, ""]
    lines += _table(
        ("", ""),
        [
            ("kind", f"`{info.kind}`"),
            ("target", f"`{info.target}`"),
            ("draft", f"`{info.draft}`" if info.draft else "none takes part"),
            (
                "hidden size",
                f"{info.hidden_size}" + (f", draft {info.draft_hidden_size}" * bool(info.draft_hidden_size)),
            ),
            ("vocabulary", f"{info.vocabulary}"),
            *((name, _told(value)) for name, value in sorted(info.config.items())),
        ],
    )
    lines += ["", "## Training", "", *_training(info.training), "", "## Evaluation", "", *_evaluation(info)]
    lines += ["", "## Limits", "", _LIMITS[KINDS[info.kind].maps_cache]]
    return "\n".join(lines).rstrip() + "\n"


def _told(value: Any) -> str:
    return ", ".join(f"{name} {each}" for name, each in value.items()) if isinstance(value, Mapping) else f"{value}"


def _training(facts: Mapping[str, Any]) -> list[str]:
    told = [
        f"{facts.get('examples', 0):,} answers of the target from {facts.get('scenes', 'an unknown number of')} "
        f"scenes; {facts.get('validation_examples', 0):,} more, of scenes held back, chose the state that is kept."
    ]
    options = facts.get("options")
    if isinstance(options, dict) and facts.get("steps"):
        told.append(
            f"AdamW, {facts['steps'][-1]:,} of {options.get('steps')} steps of {options.get('batch')} answers, "
            f"learning rate {options.get('learning_rate'):g} (rising, then a cosine), seed {options.get('seed')}; the "
            f"state after step {facts.get('best_step')} is kept"
            + (", nothing better came." if facts.get("stopped_early") else ".")
        )
    columns = (facts.get(f"validation_{name}", ()) for name in ("steps", "loss", "match"))
    rows = list(zip(*columns, strict=False))
    if rows:
        told += ["", *_table(("step", "loss, held back", "tokens right, held back"), _thinned(rows))]
    if facts.get("data"):
        told += ["", f"Data: `{facts['data']}`, target `{facts.get('target_identity', 'unknown')}`."]
    return told


def _thinned(rows: Sequence[tuple[int, float, float]], most: int = 12) -> list[tuple[str, str, str]]:
    step = max(1, -(-len(rows) // most))
    kept = [row for number, row in enumerate(rows) if number % step == 0 or row is rows[-1]]
    return [(f"{at}", f"{loss:.3f}", percent_text(match, 1)) for at, loss, match in kept]


def _evaluation(info: AdapterInfo) -> list[str]:
    found = info.evaluation
    if not found:
        return ["Not evaluated yet: `evprof adapter evaluate` measures it and writes this section."]
    rows = [(name, text) for name, text in evaluation_rows(found) if text is not None]
    where = (
        f"{found.get('samples')} held-out samples, {found.get('repeat')} pairs of runs each, {found.get('device')}, "
    )
    where += f"{found.get('dtype')}, greedy. Tokens and rounds are counted once a sample."
    commands = [text for name in ("samples_command", "command") if (text := found.get(name))]
    again = ["", "Measured by:", "", "```sh", *commands, "```"] if commands else []
    pair = pair_evaluation(info.target, info.draft)
    known = [line for sentence in pair_sentences(info.target, pair) for line in ("", sentence)] if pair else []
    return [where, "", *_table(("", ""), rows), *known, *again]


def evaluation_rows(found: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    def share(name: str) -> str | None:
        return None if (value := found.get(name)) is None else percent_text(value, 1)

    def number(name: str) -> str | None:
        return None if (value := found.get(name)) is None else f"{value:.3f}"

    def ratio(name: str) -> str | None:
        value, interval = found.get(f"{name}_speedup"), found.get(f"{name}_ci95")
        limits = f" (95 %: {interval[0]:.2f} to {interval[1]:.2f})" if interval else ""
        return None if value is None else times_text(value) + limits

    each = ("n/a" if value is None else percent_text(value, 1) for value in found.get("acceptance_per_position") or [])
    counts = "{drafted:,}, {accepted:,} in {rounds:,} rounds".format_map(found) if found.get("drafted") else None
    return [
        ("tokens right (teacher-forced)", share("token_match")),
        ("cosine of hidden states", number("cosine")),
        ("drafted, accepted", counts),
        ("draft acceptance rate", share("draft_acceptance_rate")),
        ("acceptance by position", " / ".join(each) or None),
        ("mean acceptance length", number("mean_acceptance_length")),
        ("draft length γ", None if found.get("gamma") is None else f"{found['gamma']}"),
        ("agreement with the target's answer", share("agreement")),
        ("speedup of decoding", ratio("decode")),
        ("speedup end to end", ratio("end_to_end")),
        (
            "answers equal to plain decoding",
            "{same_answers} of {answers}".format_map(found) if found.get("answers") else None,
        ),
    ]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


class MakingWatcher(TrainingWatcher, Protocol):
    def begin(self, kind: str, curves: Curves, parameters: int) -> None:
        """Training begins; the curves hold the numbers of examples."""


@dataclass(frozen=True)
class TrainPlan:
    data: Path
    kind: str
    folder: Path
    options: TrainingOptions = field(default_factory=TrainingOptions)
    sizes: Mapping[str, int] = field(default_factory=dict)
    name: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
    device: str = "auto"
    dtype: str = "float32"
    overwrite: bool = False


@dataclass
class TrainEnd:
    """`adapter` is None where a stop came before anything was learned."""

    adapter: AdapterInfo | None
    curves: Curves
    is_stopped: bool


def train_adapter(
    plan: TrainPlan,
    watcher: MakingWatcher,
    stop: StopFlag,
    *,
    loader: Loader = load_model,
    identity: Callable[[ModelChoice], str] = content_identity,
) -> TrainEnd:
    """Trains and writes the adapter, in its best state so far if stopped.

    Raises UserError for unsuitable examples, other models than those of the examples, and write errors.
    """
    plan.options.validate()
    check_place(plan.folder, overwrite=plan.overwrite)
    collection = read_collection(plan.data)
    if not collection.examples:
        raise UserError(f"{plan.data}: holds no whole shard of examples; let evprof adapter collect finish.")
    if KINDS[plan.kind].takes_draft and collection.draft is None:
        raise UserError(
            f"{plan.data}: was collected without a draft, and {plan.kind} is taught from its hidden states; collect "
            "with one."
        )
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    kept, asked = collection.settings.get("positions"), plan.sizes.get("window", 0)
    if isinstance(kept, int) and asked > kept:
        raise UserError(
            f"{plan.data} holds the last {kept} positions of each prompt, and window={asked} looks back farther; "
            f"collect the examples again with --keep-positions {asked}."
        )
    try:
        models = _models(plan, collection, stop, loader, identity)
    except Cancelled:
        return TrainEnd(None, Curves(), True)
    side = TraineeSide(models[TARGET], models.get(DRAFT), plan.sizes, plan.options.seed, collection.layers)
    trainee = make_trainee(plan.kind, side)
    stored = StoredExamples(collection)
    chosen, held_back = split_by_scene([told.scene for told in stored.told], plan.options.validation, plan.options.seed)
    training = Training(trainee, stored.subset(chosen), stored.subset(held_back), plan.options)
    name = plan.name or plan.folder.name
    watcher.begin(plan.kind, training.curves, sum(weight.numel() for weight in trainee.parameters()))
    try:
        is_stopped = training.run(watcher, stop)
    except torch.OutOfMemoryError:
        raise UserError(
            f"Memory ran out; train with a smaller --batch than {plan.options.batch} or on another --device."
        ) from None
    finally:
        trainee.release()
    if training.best is None or (is_stopped and trainee.parameters() and training.curves.best_step == 0):
        return TrainEnd(None, training.curves, is_stopped)
    told = facts_of(training.curves, adapter=name, kind=plan.kind, started_at=started_at)
    told |= _provenance(plan, collection, stored, chosen)
    info = _described(plan, name, collection, models, trainee) | {"training": told}
    adapter = AdapterInfo(plan.folder, **info)
    return TrainEnd(save_adapter(adapter, training.best, card_of(adapter)), training.curves, is_stopped)


def check_place(folder: Path, *, overwrite: bool) -> None:
    """Raises UserError when something is in the adapter's place that must stay."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / DESCRIPTION).is_file():
        raise UserError(f"{folder} is there already and is no adapter; name a new folder.")
    if not overwrite:
        raise UserError(f"{folder} holds an adapter already; name a new folder, or replace it with --overwrite.")


def _models(
    plan: TrainPlan,
    collection: Collection,
    stop: StopFlag,
    loader: Loader,
    identity: Callable[[ModelChoice], str],
) -> dict[str, VisionLanguageModel]:
    """The models the kind hangs on. Raises UserError unless they are those the examples were collected with."""
    wanted = {TARGET: collection.target}
    if KINDS[plan.kind].takes_draft and collection.draft is not None:
        wanted[DRAFT] = collection.draft
    models: dict[str, VisionLanguageModel] = {}
    for role, facts in wanted.items():
        choice = ModelChoice(plan.models.get(role) or str(facts.get("name")), plan.device, plan.dtype)
        if identity(choice) != facts.get("identity"):
            raise UserError(
                f"{plan.data}: was collected with another {role} than {choice.name} is now; name the same one with "
                f"--{role}, or collect again."
            )
        models[role] = loader(choice, role, lambda *_: None, stop)
    use_threads(models.values())
    return models


def _described(
    plan: TrainPlan, name: str, collection: Collection, models: dict[str, VisionLanguageModel], trainee: Trainee
) -> dict[str, Any]:
    target, draft = models[TARGET], models.get(DRAFT)
    return {
        "kind": plan.kind,
        "name": name,
        "target": target.facts.name,
        "draft": None if draft is None else draft.facts.name,
        "hidden_size": target.language_model.config.hidden_size,
        "draft_hidden_size": None if draft is None else draft.language_model.config.hidden_size,
        "vocabulary": target.language_model.rows,
        "config": trainee.config(),
    }


def _provenance(plan: TrainPlan, collection: Collection, stored: StoredExamples, chosen: list[int]) -> dict[str, Any]:
    """What it was trained on; `seen` are the scenes of both sides, which no evaluation may take for new."""
    told = stored.told
    models = {role: facts.get("name") for role in (TARGET, DRAFT) if (facts := collection.settings.get(role))}
    return {
        "options": plan.options.to_json(),
        "data": collection.digest(),
        "target_identity": collection.target.get("identity"),
        "draft_identity": (collection.draft or {}).get("identity"),
        "models": models,
        "max_new_tokens": collection.settings.get("max_new_tokens"),
        "frames": collection.settings.get("frames"),
        "event_frames": collection.settings.get("event_frames"),
        "scenes": len({told[index].scene for index in chosen}),
        "seen": sorted({example.scene for example in told}),
    }
