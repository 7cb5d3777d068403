"""Makes examples of rows in this process: models loaded once, then one example after the other.

What an example is, is `observing`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from engines.decoder.llama import LlamaDecoder
from engines.fit.making_room import make_room
from engines.hardware.memory import Machine
from engines.hardware.threads import use_threads
from engines.loading.model_identity import content_identity
from engines.loading.warm_models import Loader, WarmModels
from engines.loading.weights import load_model
from engines.stages.model import VisionLanguageModel
from engines.training.collect_plan import CollectPlan
from engines.training.example import Example
from engines.training.observing import Observer
from evprof.core.errors import Cancelled, UserError
from evprof.core.protocols import StopFlag
from evprof.core.records import DRAFT, TARGET
from evprof.core.sample import Sample
from evprof.core.units import bytes_text
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.collection import CollectedExample, scene_of

Content = tuple[str, str]
"""Scene and question: an example of both is collected once."""


@dataclass(frozen=True)
class Row:
    """A sample to make an example of, with the key that tells it from all others."""

    key: str
    sample: Sample


@dataclass(frozen=True)
class Made:
    """What became of a row: its example and what the journal is to tell of it, or a sentence; neither where another
    row has its content and question."""

    row: Row
    example: Example | None = None
    told: CollectedExample | None = None
    error: str | None = None


class ExampleSource(Protocol):
    """Who makes examples, here or elsewhere."""

    def settings(self, say: Callable[[str], None], stop: StopFlag) -> dict[str, Any]:
        """Loads the models; what decides examples apart from the samples. Raises UserError and Cancelled."""

    def made(self, rows: Sequence[Row], seen: Set[Content], stop: StopFlag) -> Iterator[Made]:
        """What became of each row, in their order. `seen` grows meanwhile. Raises UserError, Cancelled once stopped."""


class ExamplesHere:
    """Makes them in this process. `loader` brings models; tests bring their own."""

    def __init__(
        self,
        plan: CollectPlan,
        *,
        loader: Loader = load_model,
        identity: Callable[[ModelChoice], str] = content_identity,
        needs_room: bool = True,
        machine: Machine | None = None,
    ) -> None:
        """`machine` is the part of this one that may be taken (None: all)."""
        self._plan = plan
        self._loader = loader
        self._identity = identity
        self._needs_room = needs_room
        self._machine = machine
        self._observer: Observer | None = None

    def settings(self, say: Callable[[str], None], stop: StopFlag) -> dict[str, Any]:
        """Loads the models; what decides examples apart from the samples."""
        plan, warm = self._plan, WarmModels(self._loader)
        if self._needs_room:
            make_room(plan.request(), tuple(plan.choices), warm, machine=self._machine)
        models = {role: warm.get(choice, role, lambda *_: None, stop).model for role, choice in plan.choices.items()}
        for model in models.values():
            for sentence in model.warnings:
                say(sentence)
        use_threads(models.values())
        layers = plan.layers_of(_layer_count(models[TARGET]))
        self._observer = Observer(models[TARGET], models.get(DRAFT), plan.settings, layers)
        if layers:
            say(_size_sentence(plan, models[TARGET].language_model, layers))
        return collection_settings(plan, models, self._identity)

    def made(self, rows: Sequence[Row], seen: Set[Content], stop: StopFlag) -> Iterator[Made]:
        """One after the other."""
        for row in rows:
            if stop.is_set():
                raise Cancelled
            yield self.example(row, seen, stop)

    def example(self, row: Row, seen: Set[Content], stop: StopFlag) -> Made:
        """One of them. Raises UserError when memory ran out, and Cancelled."""
        if self._observer is None:
            raise RuntimeError("models are loaded before examples are made")
        plan, sample = self._plan, row.sample
        try:
            scene = scene_of(sample, has_draft=plan.draft is not None)
            if (scene, sample.prompt) in seen:
                return Made(row)
            example = self._observer.example(sample, stop)
            if plan.keeps_positions:
                example = example.shortened(plan.positions)
        except UserError as problem:
            return Made(row, error=problem.sentence)
        except (torch.OutOfMemoryError, MemoryError):
            raise UserError(
                f"Memory ran out at sample '{sample.name}'; ask for fewer --frames or another --device; the same "
                "command then goes on."
            ) from None
        return Made(row, example, _told(example, row, scene))


def _told(example: Example, row: Row, scene: str) -> CollectedExample:
    return CollectedExample(
        example.name,
        row.key,
        scene,
        example.prompt,
        int(example.answer_ids.shape[0]),
        example.target_prompt,
        example.target_visual,
        example.draft_visual,
        row.sample.facts(),
    )


def collection_settings(
    plan: CollectPlan,
    models: dict[str, VisionLanguageModel],
    identity: Callable[[ModelChoice], str] = content_identity,
) -> dict[str, Any]:
    """What decides examples apart from the samples: equal for collections that may be one."""
    settings = plan.settings
    return {
        "target": _model(models[TARGET], plan.target, identity),
        "draft": None if plan.draft is None else _model(models[DRAFT], plan.draft, identity),
        "max_new_tokens": settings.max_new_tokens,
        "frames": settings.frames,
        "event_frames": settings.event_frames,
        **({"positions": plan.positions} if plan.keeps_positions else {}),
        **({"layers": list(layers)} if (layers := plan.layers_of(_layer_count(models[TARGET]))) else {}),
    }


def _layer_count(model: VisionLanguageModel) -> int:
    return model.language_model.config.num_hidden_layers


def _size_sentence(plan: CollectPlan, target: LlamaDecoder, layers: tuple[int, ...]) -> str:
    """What an example with layers takes at most, told before there is one."""
    weight = target.embed_tokens.weight
    inside = len(layers) * target.config.hidden_size * weight.element_size()
    named = ", ".join(map(str, layers))
    told = f"What enters layers {named} of the target is kept, {bytes_text(inside)} for each position of an example"
    if not plan.keeps_positions:
        return f"{told}: of its whole prompt and of its answer."
    most = plan.positions + plan.settings.max_new_tokens
    return f"{told}: at most {bytes_text(most * inside)} for {plan.positions:,} of the prompt and its answer."


def _model(model: VisionLanguageModel, choice: ModelChoice, identity: Callable[[ModelChoice], str]) -> dict[str, Any]:
    text = model.language_model
    return {
        "name": choice.name,
        "identity": identity(choice),
        "family": model.facts.family,
        "hidden_size": text.config.hidden_size,
        "rows": text.rows,
        "dtype": model.facts.dtype,
    }
