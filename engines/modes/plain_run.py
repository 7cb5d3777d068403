"""One model's answer, token by token; where two take part each goes its own way up to prefill."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from engines.decoder.decoding import DecodeStep, decode
from engines.decoder.sampling import Sampler
from engines.measuring.stage_memory import StageMemory
from engines.measuring.timing import StageClock
from engines.modes.concurrency import DraftWorker
from engines.modes.run_plan import RunPlan
from engines.stages.model import VisionLanguageModel
from engines.stages.pipeline import ModelPass, Tell
from engines.tokens.alternatives import AlternativesLog
from engines.tokens.answer import Answer
from evprof.core.protocols import Sink, StopFlag
from evprof.core.records import ORIGIN_TARGET, JudgementRecord
from evprof.core.sample import Sample
from evprof.core.speculation import SpeculationFacts
from evprof.core.vocabulary.generation import GenerationSettings


@dataclass(frozen=True, eq=False)
class Course:
    """What a run has before its zero. `tell` gives what hears of a role's pass; `pools` are a draft's own CUDA events
    and `draft_worker` lends it a thread where it computes beside its target. `sampler` keeps its logits in
    `alternatives`, where these are wanted; rounds keep theirs there.

    `models` and `steps` are by role, the draft first.
    """

    plan: RunPlan
    sample: Sample
    models: Mapping[str, VisionLanguageModel]
    steps: Mapping[str, DecodeStep | None]
    answer: Answer
    sampler: Sampler
    sink: Sink
    clock: StageClock
    memory: StageMemory
    stop: StopFlag
    tell: Callable[[str], Tell]
    pools: dict[str, list[Any]] = field(default_factory=dict)
    draft_worker: DraftWorker = field(default_factory=DraftWorker)
    alternatives: AlternativesLog | None = None

    @property
    def settings(self) -> GenerationSettings:
        """Those of the run."""
        return self.plan.settings


class PlainRun:
    """How a mode goes: made before the run's zero, then `prefill`, `decode` within stage decode, and `close`.

    `passes` are the models' ways through it, by role; `sentence` is said of every such run. Raises UserError for
    settings that do not suit the models.
    """

    origin = ORIGIN_TARGET
    sentence = ""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.passes = {role: self.make_pass(role) for role in course.models}

    def make_pass(self, role: str) -> ModelPass:
        """A model's way through the run."""
        course = self.course
        return ModelPass(
            course.models[role],
            role,
            self.settings_of(role),
            clock=course.clock,
            memory=course.memory,
            stop=course.stop,
            step=course.steps[role],
        )

    def settings_of(self, role: str) -> GenerationSettings:
        """The run's, as the model of a role takes them."""
        return self.course.settings

    @property
    def answering(self) -> ModelPass:
        """The pass of the model whose answer this is."""
        return self.passes[self.course.plan.role]

    @property
    def facts(self) -> SpeculationFacts | None:
        """What is known of drafting by now; None where nothing is drafted."""
        return None

    def prefill(self) -> torch.Tensor | None:
        """All stages before decode -> the answer's first token [1, 1]; None where decode is to find it."""
        course = self.course
        first: torch.Tensor | None = None
        for role, model_pass in self.passes.items():
            visual = model_pass.up_to_vision(course.sample, course.tell(role))
            first = model_pass.prefill(visual, course.answer, course.sampler if role == course.plan.role else None)
        return first

    def decode(self, first: torch.Tensor | None) -> None:
        """What stage decode is to do after the first token."""
        course, answering = self.course, self.answering
        if first is not None:
            decode(
                answering.cached,
                first,
                course.answer,
                answering.limits(),
                sampler=course.sampler,
                clock=course.clock,
                stop=course.stop,
            )

    def judgements(self) -> Iterator[JudgementRecord]:
        """What both models thought of drafted tokens, worked out when nothing is measured any more."""
        yield from ()

    def close(self) -> None:
        """Ends what still works beside the run. Raises nothing."""
