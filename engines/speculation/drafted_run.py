"""Speculation within one run: makes its drafter, verifier and log from the settings, and tells what became of them.

It joins what `speculation` and `drafters` know apart; it knows neither stages nor records of other kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from engines.decoder.decoding import Limits
from engines.decoder.sampling import Law, distribution, make_generator
from engines.drafters.choice import DraftSide, make_drafter
from engines.drafters.drafter import PromptContext
from engines.measuring.timing import StageClock
from engines.speculation.draft_length import draft_length
from engines.speculation.judgements import JudgementLog
from engines.speculation.rounds import Rounds
from engines.speculation.verification import Verifier
from engines.stages.pipeline import ModelPass
from engines.tokens.answer import Answer
from engines.tokens.prompts import SLOT
from evprof.core.protocols import StopFlag
from evprof.core.records import JudgementRecord
from evprof.core.vocabulary.generation import GenerationSettings

_VERIFYING, _DRAFTING = 1, 2
"""Streams of the run's seed: what is drafted and what is decided must not be drawn from the same numbers."""


class Speculating:
    """The drafter of a run, ready before its zero; `facts` are what is told of it."""

    def __init__(self, settings: GenerationSettings, target: ModelPass, draft: ModelPass | None) -> None:
        self._settings = settings
        self._target = target
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
        )
        self.drafter, self.facts = make_drafter(settings, side)
        target.cached.keeps_features = self.drafter.wants_features
        # A captured step leaves its logits where the next one overwrites them.
        self.log = JudgementLog(law, clones=target.cached.own_step is not None) if settings.speculation.judges else None

    def rounds(self, target: ModelPass, answer: Answer, limits: Limits, *, clock: StageClock, stop: StopFlag) -> Rounds:
        """The rounds of the run, once the target has prefilled."""
        settings, cached, inputs = self._settings, target.cached, target.inputs
        text = () if inputs is None else tuple(token for token in inputs.token_ids if token != SLOT)
        # A tree's levels are its length; the answer's limit alone makes it shorter.
        gamma = len(settings.speculation.widths) or settings.gamma
        context = PromptContext(text, cached.prompt_embeddings, cached.features, target.visual)
        return Rounds(
            cached,
            self.drafter,
            answer,
            limits,
            length=draft_length(settings.speculation.length, gamma),
            verifier=self.verifier,
            clock=clock,
            stop=stop,
            context=context,
            log=self.log,
        )

    def judgements(self, run_id: int) -> Iterator[JudgementRecord]:
        """What both models thought of the drafted tokens; worked out here, when nothing is measured any more."""
        if self.log is not None:
            yield from self.log.records(run_id, self._target.model.vocabulary.pieces)
