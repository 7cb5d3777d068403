"""Makes an adapter out of collected examples: models loaded and checked, a trainee taught, its folder written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch

from engines.adapters.folder import save_adapter
from engines.hardware.device import use_threads
from engines.loading.warm_models import Loader
from engines.loading.weights import content_identity, load_model
from engines.stages.model import VisionLanguageModel
from engines.training.card import card_of
from engines.training.example import StoredExamples
from engines.training.loop import Curves, Training, TrainingOptions, TrainingWatcher, facts_of, split_by_scene
from engines.training.trainee import Trainee, TraineeSide
from engines.training.trainees import make_trainee
from evprof.core.errors import Cancelled, UserError
from evprof.core.protocols import StopFlag
from evprof.core.records import DRAFT, TARGET
from evprof.core.vocabulary.drafters import KINDS
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.adapters import DESCRIPTION, AdapterInfo
from evprof.loaders.collection import Collection, read_collection


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
    keep: Callable[[dict[str, Any]], None] = lambda _: None,
    loader: Loader = load_model,
    identity: Callable[[ModelChoice], str] = content_identity,
) -> TrainEnd:
    """Trains and writes the adapter, in its best state so far if stopped. `keep` receives the curves. Raises UserError
    for unsuitable examples, other models than those of the examples, and write errors."""
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

    def facts() -> dict[str, Any]:
        return facts_of(training.curves, adapter=name, kind=plan.kind, started_at=started_at)

    watcher.begin(plan.kind, training.curves, sum(weight.numel() for weight in trainee.parameters()))
    try:
        is_stopped = training.run(watcher, stop, keep=lambda: keep(facts()))
    except torch.OutOfMemoryError:
        raise UserError(
            f"Memory ran out; train with a smaller --batch than {plan.options.batch} or on another --device."
        ) from None
    finally:
        trainee.release()
    keep(facts())
    if training.best is None or (is_stopped and trainee.parameters() and training.curves.best_step == 0):
        return TrainEnd(None, training.curves, is_stopped)
    told = facts() | _provenance(plan, collection, stored, chosen)
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
