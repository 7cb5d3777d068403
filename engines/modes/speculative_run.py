"""A draft proposes tokens, the target verifies them in rounds: the target's own answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from engines.decoder.sampling import Law, distribution, make_generator
from engines.drafters.choice import make_drafter
from engines.drafters.drafter import DraftSide, PromptContext
from engines.modes.plain_run import Course, PlainRun
from engines.speculation.draft_length import draft_length
from engines.speculation.rounds import Rounds
from engines.speculation.verification import JudgementLog, Verifier
from engines.tokens.prompts import SLOT
from evprof.core.protocols import StopFlag
from evprof.core.records import DRAFT, TARGET, JudgementRecord
from evprof.core.speculation import SpeculationFacts
from evprof.core.vocabulary.generation import GenerationSettings

_VERIFYING, _DRAFTING = 1, 2
"""Streams of the run's seed: what is drafted and what is decided must not be drawn from the same numbers."""


class SpeculativeRun(PlainRun):
    """A run with a drafter, ready before its zero."""

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        settings = course.settings
        target, draft = self.passes[TARGET], self.passes.get(DRAFT)
        law: Law | None = None
        if settings.temperature > 0:
            law = partial(distribution, settings=settings)
        target_device = target.model.device
        self.verifier = Verifier(law, make_generator(settings, target_device, stream=_VERIFYING) if law else None)
        drafts_on = draft.model.device if draft is not None else target_device
        side = DraftSide(
            target.model,
            target.cached,
            target.limits().eos_ids,
            None if draft is None else draft.model,
            None if draft is None else draft.cached,
            law,
            make_generator(settings, drafts_on, stream=_DRAFTING) if law else None,
            about=course.sample,
        )
        self.drafter, self._facts = make_drafter(settings, side)
        target.cached.keeps_features, target.cached.reads = self.drafter.wants_features, self.drafter.reads
        # A captured step leaves its logits where the next one overwrites them.
        self.log = JudgementLog(law, clones=target.cached.own_step is not None) if settings.speculation.judges else None

    @property
    def facts(self) -> SpeculationFacts | None:
        """What the drafter is."""
        return self._facts

    def settings_of(self, role: str) -> GenerationSettings:
        """The draft's visual tokens may be pruned apart."""
        return self.course.settings.taken_by(role, drafts=True)

    def decode(self, first: torch.Tensor | None) -> None:
        """Rounds until the answer ends."""
        self.rounds(self.course.stop).run()

    def rounds(self, stop: StopFlag) -> Rounds:
        """The rounds of the run, once the target has prefilled."""
        settings, target = self.course.settings, self.passes[TARGET]
        cached, inputs = target.cached, target.inputs
        text = () if inputs is None else tuple(token for token in inputs.token_ids if token != SLOT)
        # A tree's levels are its length; the answer's limit alone makes it shorter.
        gamma = settings.speculation.levels or settings.gamma
        return Rounds(
            cached,
            self.drafter,
            self.course.answer,
            target.limits(),
            length=draft_length(settings.speculation.length, gamma),
            verifier=self.verifier,
            clock=self.course.clock,
            stop=stop,
            context=PromptContext(
                text,
                cached.prompt_embeddings,
                cached.features,
                target.visual,
                () if inputs is None else inputs.slots,
            ),
            log=self.log,
            alternatives=self.course.alternatives,
        )

    def judgements(self) -> Iterator[JudgementRecord]:
        """Of every round that was kept."""
        if self.log is not None:
            yield from self.log.records(self.course.plan.run_id, self.passes[TARGET].model.vocabulary.pieces)
