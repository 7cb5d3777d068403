"""What one run is to be: its plan, what runs share, and what its settings come to for the models it takes.

How it is carried out is `measured_run`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from engines.decoder.attention import SDPA
from engines.loading.warm_models import WarmModels
from engines.measuring.timing import StageClock
from engines.modes.concurrency import DraftWorker
from engines.speculation.draft_length import draft_length
from engines.stages.model import VisionLanguageModel
from engines.stages.pipeline import taken_cache
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import RunRequest, input_of, roles_of
from evprof.core.run_info import ModelFacts
from evprof.core.vocabulary.drafters import EAGLE
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.modes import mode_of
from evprof.loaders.adapters import read_adapter
from evprof.loaders.heads import LAYERS

ClockMaker = Callable[..., StageClock]
"""Makes a run's clock: StageClock itself, or a trace's."""

TRACE, SNAPSHOT, RANGES = "trace", "snapshot", "ranges"
"""What a run is made for that is only looked into: a torch trace, a memory snapshot, NVTX ranges."""


@dataclass(frozen=True)
class RunPlan:
    """One run to be made: whose answer, which repetition; `repeat` is negative for a warm-up.

    `extra` is TRACE, SNAPSHOT or RANGES for a run made only to be looked into, "" for one that is measured.
    """

    run_id: int
    role: str
    repeat: int
    settings: GenerationSettings
    extra: str = ""

    @property
    def profiled(self) -> bool:
        """Whether something looks on that changes its times."""
        return bool(self.extra)

    def roles(self, mode: str) -> tuple[str, ...]:
        """The models it takes, the draft first: both in a speculative mode, unless the drafter needs none."""
        return roles_of(mode, self.settings.speculation) if mode_of(mode).is_paired else (self.role,)


@dataclass
class RunTools:
    """What runs share: the warm models, CUDA event pools, a thread and pools for a draft beside its target, and how
    their clocks are made.

    `make_room` sees to it that the models of these roles fit, or raises UserError.

    `wrap` surrounds the measured part (a profiler); it is entered before the run's zero and left after its end.
    """

    warm: WarmModels
    make_room: Callable[[RunRequest, tuple[str, ...], WarmModels], None]
    pools: dict[str, list[Any]] = field(default_factory=dict)
    draft_pools: dict[str, list[Any]] = field(default_factory=dict)
    draft_worker: DraftWorker = field(default_factory=DraftWorker)
    make_clock: ClockMaker = StageClock
    wrap: AbstractContextManager[Any] = field(default_factory=nullcontext)
    end_facts: Callable[[], dict[str, Any]] = dict


def resolved(settings: GenerationSettings, roles: tuple[str, ...]) -> GenerationSettings:
    """The settings with the input each of these roles really reads in place of "auto"."""
    read = {role: input_of(settings.input, role) for role in roles}
    asked = settings.input
    return replace(
        settings,
        input=replace(
            asked,
            draft_input=read.get(DRAFT, asked.draft_input),
            target_input=read.get(TARGET, asked.target_input),
        ),
    )


def way_of(mode: str, role: str, settings: GenerationSettings) -> str:
    """Spells what decides which kernels, graphs and memory a run takes, save the lengths of its prompt."""
    return repr((mode, role, replace(settings, seed=0)))


def block_sizes(role: str, settings: GenerationSettings, *, is_speculative: bool) -> tuple[int, ...]:
    """Numbers of tokens in a model's decode passes: one, and in speculation verified blocks or a draft's two."""
    if not is_speculative:
        return (1,)
    if role == DRAFT:
        return (1, 2)
    longest = draft_length(settings.speculation.length, settings.gamma).most
    return tuple(sorted({1, settings.gamma + 1, longest + 1, settings.speculation.nodes + 1}))


def reads_inside(request: RunRequest) -> bool:
    """Whether what drafts reads the target's inner layers, which only the decoder's own pass tells."""
    asked = request.settings.speculation
    if not mode_of(request.mode).drafts or asked.drafter != EAGLE or asked.adapter is None:
        return False
    layout = read_adapter(asked.adapter).layout
    return layout is not None and layout.reads == LAYERS


def taken_facts(model: VisionLanguageModel, settings: GenerationSettings) -> ModelFacts:
    """What is known of a model, with the attention, cache and prompt layout this run takes."""
    switches = settings.switches
    attention = SDPA if switches.attention == "auto" else switches.attention
    template = model.template_of(settings).name
    return replace(model.facts, attention=attention, cache=taken_cache(switches.cache), prompt_template=template)
