"""The target answers over a cache made from the draft's, without ever seeing its own input: lossy."""

from __future__ import annotations

import torch

from engines.adapters.hidden_states import KvMap, TappedDecoder, load_kv_map
from engines.decoder.decoding import CachedModel
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import Sampler
from engines.measuring.timing import StageClock
from engines.modes.strategies import PlainRun, RunContext
from engines.stages.model import ModelInputs
from engines.stages.pipeline import Prefilling, Tell
from engines.stages.preparation import PromptLayout, tokenize_prompt
from engines.stages.visual_tokens import VisualCounts
from engines.tokens.answer import Answer
from engines.tokens.prompts import SLOT
from engines.tokens.uploads import upload
from evprof.core.protocols import StopFlag
from evprof.core.records import DRAFT, ORIGIN_DRAFT, TARGET
from evprof.core.run_info import SpeculationFacts
from evprof.core.units import percent_text
from evprof.loaders.adapters import AdapterInfo


class KvAdaptedRun(PlainRun):
    """Raises UserError for an adapter that is no map between these models."""

    origin = ORIGIN_DRAFT

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._draft, self._target = self.passes[DRAFT], self.passes[TARGET]
        info = context.adapter
        if info is None:
            raise RuntimeError("a map of caches needs an adapter")
        draft, target = self._draft.model, self._target.model
        self._map = load_kv_map(info, draft.language_model, target.language_model)
        self._tapped = TappedDecoder(draft.language_model)
        self._draft.cached.decoder = self._tapped
        self._facts = SpeculationFacts(info.name, info.kind, adapter=info.name, is_lossless=False)
        self.sentence = lossy_sentence(info, draft.facts.name, target.facts.name)

    @property
    def facts(self) -> SpeculationFacts | None:
        return self._facts

    def prefill(self) -> torch.Tensor | None:
        """All stages before decode -> the answer's first token [1, 1]; the target's input is not looked at."""
        context, draft, target = self.context, self._draft, self._target
        draft.prefill(draft.up_to_vision(context.sample, context.tell(DRAFT)), context.answer, None)
        levels = self._visual_levels()
        inputs = self._preprocess(context.sample.prompt, levels[0].shape[1], context.tell(TARGET))
        target.inputs = inputs
        language = target.model.language_model
        work = _MappedPrefill(
            self._map, language, levels, context.answer, context.sampler, before=inputs.slots[0], clock=context.clock
        )
        return target.prefill_as(work, levels[0].new_empty(0, language.config.hidden_size))

    def _visual_levels(self) -> list[torch.Tensor]:
        inputs = self._draft.inputs
        if inputs is None:
            raise RuntimeError("a cache is mapped after the draft's prefill")
        first, count = inputs.slots[0], inputs.lengths.visual
        weight = next(self._map.parameters())
        return [level[:, first : first + count].to(weight.device, weight.dtype) for level in self._tapped.levels]

    def _preprocess(self, prompt: str, visual: int, tell: Tell) -> ModelInputs:
        model, context = self._target.model, self.context
        with context.memory.stage("preprocess"), context.clock.stage("preprocess", TARGET, model.device) as span:
            with context.clock.child("tokenize") as part:
                part.input("prompt", prompt)
                layout = PromptLayout(model.template_of(context.settings), 1, VisualCounts((), visual))
                ids, lengths, warnings = tokenize_prompt(model, prompt, context.settings, layout)
                part.output("token_ids", ids)
            with context.clock.child("to device"):
                text_ids = upload([token for token in ids if token != SLOT], model.device)
            span.output("text_ids", text_ids)
            tell("lengths", lengths)
        return ModelInputs(text_ids.new_empty(0), ids, text_ids, (ids.index(SLOT),), lengths, warnings=[*warnings])


class _MappedPrefill(Prefilling):
    def __init__(
        self,
        mapped: KvMap,
        target: LlamaDecoder,
        levels: list[torch.Tensor],
        answer: Answer,
        sampler: Sampler,
        *,
        before: int,
        clock: StageClock,
    ) -> None:
        super().__init__(answer, sampler)
        self.beside = levels[0].shape[1]
        self._mapped, self._target, self._levels, self._before = mapped, target, levels, before
        self._clock = clock
        self._predicted: list[torch.Tensor] = []

    def begin(self) -> None:
        with self._clock.child("map cache") as part:
            part.input("hidden states", self._levels)
            self._predicted = self._mapped.predict(self._levels)
            part.output("layer inputs", self._predicted)

    def compute(self, cached: CachedModel, embeddings: torch.Tensor, stop: StopFlag) -> torch.Tensor:
        """The text's embeddings [1, S, hidden] -> logits [1, V] of what follows the prompt."""
        cache = cached.opened
        cached.decoder.trunk(embeddings[:, : self._before], cache, stop=stop)
        self._mapped.fill(self._predicted, self._target, cache)
        state = cached.decoder.trunk(embeddings[:, self._before :], cache, stop=stop)
        cached.prompt_length = cached.length
        return cached.decoder.head(state[:, -1:])[:, -1]


def lossy_sentence(info: AdapterInfo, draft: str, target: str) -> str:
    """What every such run says of its answer, with the measured agreement where there is one."""
    said = (
        f"KV adaptation is lossy: {target} answered over a cache that {info.name} mapped from that of {draft}, so the "
        "answer is not its own"
    )
    agreement = (info.evaluation or {}).get("agreement")
    if isinstance(agreement, int | float) and not isinstance(agreement, bool):
        share = percent_text(agreement, 1)
        return f"{said}; on held-out samples {share} of the tokens agreed with those it says by itself."
    return f"{said}."
