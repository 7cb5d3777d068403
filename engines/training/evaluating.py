"""What an adapter would draft on held-out samples, told without running it: token match and cosine, teacher-forced."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch

from engines.adapters.folder import description, load_tensors
from engines.adapters.published import eagle3_form
from engines.hardware.device import use_threads
from engines.loading.warm_models import Loader, free_memory
from engines.loading.weights import load_model
from engines.stages.model import VisionLanguageModel
from engines.training.card import card_of
from engines.training.loop import mean_figures
from engines.training.observing import Observer
from engines.training.trainee import Figures, Trainee, TraineeSide
from engines.training.trainees import make_trainee
from evprof.core.errors import Cancelled, UserError
from evprof.core.files.whole_file import whole_file
from evprof.core.protocols import Engine, StopFlag
from evprof.core.records import DRAFT, TARGET
from evprof.core.vocabulary.drafters import KINDS
from evprof.loaders.adapters import CARD, DESCRIPTION, AdapterInfo
from evprof.loaders.heads import LAYERS
from evprof.loaders.paths import reason
from evprof.run.benches.speculation import AdapterPlan, measure_adapter

Done = Callable[[int, int], None]


def evaluate_adapter(
    plan: AdapterPlan,
    make_engine: Callable[[], Engine],
    stop: StopFlag,
    *,
    predicted: Done = lambda *_: None,
    measured: Done = lambda *_: None,
    loader: Loader = load_model,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Environment and evaluation for adapter.json: `forced_figures`, and runs beside plain ones. `predicted` and
    `measured` report progress. Raises UserError for models or tensors that do not fit, Cancelled when stopped before a
    measurement."""
    plan.validate()
    forced = forced_figures(plan, stop, predicted, loader=loader)
    engine = make_engine()
    try:
        environment, found = measure_adapter(engine, plan, stop, measured)
    finally:
        engine.close()
    draft = plan.draft.name if plan.adapter.draft is not None else None
    return environment, forced | found | {"target": plan.target.name, "draft": draft}


def forced_figures(
    plan: AdapterPlan, stop: StopFlag, done: Done = lambda *_: None, *, loader: Loader = load_model
) -> dict[str, Any]:
    """`token_match`, `loss` and `cosine` (None without predicted states), averaged over answer tokens. Holds one
    example at a time. Raises UserError and Cancelled."""
    models = _models(plan, stop, loader)
    trainee = _trained(plan.adapter, models)
    layers = _layers(plan.adapter, len(models[TARGET].language_model.layers))
    settings = plan.requests(plan.samples[0])[0].settings
    observer = Observer(models[TARGET], models.get(DRAFT), settings, layers)
    try:
        found = mean_figures(_judged(trainee, observer, plan, stop, done))
    finally:
        trainee.release()
    del trainee, observer, models
    free_memory()
    return {"token_match": found.match, "loss": found.loss, "cosine": found.cosine}


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


def _models(plan: AdapterPlan, stop: StopFlag, loader: Loader) -> dict[str, VisionLanguageModel]:
    choices = {TARGET: plan.target} | ({DRAFT: plan.draft} if KINDS[plan.adapter.kind].takes_draft else {})
    models = {role: loader(choice, role, lambda *_: None, stop) for role, choice in choices.items()}
    use_threads(models.values())
    return models


def _trained(adapter: AdapterInfo, models: dict[str, VisionLanguageModel]) -> Trainee:
    """The trainee as it was when its state was stored. Raises UserError where tensors and sizes do not fit."""
    known = KINDS[adapter.kind].sizes
    told = {name: value for name in known if type(value := adapter.config.get(_OTHER_NAMES.get(name, name))) is int}
    if "published" in known:
        told["published"] = 0 if adapter.layout is None else 3 if adapter.layout.reads == LAYERS else 1
    side = TraineeSide(
        models[TARGET], models.get(DRAFT), told, layers=_layers(adapter, len(models[TARGET].language_model.layers))
    )
    trainee = make_trainee(adapter.kind, side)
    try:
        trainee.load(load_tensors(adapter))
    except (KeyError, RuntimeError, ValueError):
        raise UserError(
            f"Adapter {adapter.name} does not fit {models[TARGET].facts.name}; name the models it was trained for with "
            "--target and --draft."
        ) from None
    return trainee


def _layers(adapter: AdapterInfo, count: int) -> tuple[int, ...]:
    return eagle3_form(adapter, count).reads if adapter.layout and adapter.layout.reads == LAYERS else ()


_OTHER_NAMES = {"steps": "trained_steps"}


def _judged(
    trainee: Trainee, observer: Observer, plan: AdapterPlan, stop: StopFlag, done: Done
) -> Iterable[tuple[Figures, int]]:
    for number, sample in enumerate(plan.samples, start=1):
        if stop.is_set():
            raise Cancelled
        example = observer.example(sample, stop)
        with torch.no_grad():
            yield trainee.figures([example]), int(example.answer_ids.shape[0])
        done(number, len(plan.samples))
