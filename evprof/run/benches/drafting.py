"""Who takes part in `evprof bench speculation`: drafters with their settings, as requests; it measures nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.drafters import DRAFTERS, KINDS, KV, MODEL, SELF
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import KV_ADAPTED, PARALLEL_PREFILL, SPECULATIVE, mode_of
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches
from evprof.loaders.adapters import AdapterInfo

GAMMAS = tuple(range(1, 9))
"""Draft lengths that predictions are held against."""

LONG_GAMMAS = (12, 16, 20)
"""Further ones, for drafters that cost next to nothing."""

TREES = ("2,2,1,1,1", "3,2,1,1")


@dataclass(frozen=True)
class DraftingContender:
    """A way to draft. `sweeps`: the best of `gammas` is searched for, else the `gamma` of `speculation` is used."""

    name: str
    speculation: SpeculationSettings
    mode: str = SPECULATIVE
    sweeps: bool = True

    @property
    def is_lossless(self) -> bool:
        return not mode_of(self.mode).maps_cache

    @property
    def gammas(self) -> tuple[int, ...]:
        return GAMMAS + (LONG_GAMMAS if KINDS[self.speculation.drafter].is_cheap else ())

    @property
    def key(self) -> str:
        """A name without spaces, for JSON: the drafter's kind, with what sets it apart from others of its kind."""
        asked = self.speculation
        parts = [KV if mode_of(self.mode).maps_cache else asked.drafter]
        if mode_of(self.mode).is_parallel:
            parts.append(f"prefill-from-{asked.begins}")
        parts += [asked.length] * (asked.length != "fixed") + [f"tree-{asked.tree}"] * bool(asked.tree)
        return "-".join(parts)

    def request(self, plain: RunRequest, gamma: int | None = None) -> RunRequest:
        speculation = self.speculation if gamma is None else replace(self.speculation, gamma=gamma)
        settings = replace(plain.settings, speculation=speculation)
        return replace(plain, mode=self.mode, settings=settings)


def contenders(adapters: Sequence[AdapterInfo]) -> list[DraftingContender]:
    """Everybody who can draft here: without training first, then each adapter, then the target itself."""
    plain = SpeculationSettings()
    found = [
        DraftingContender(KINDS[MODEL].contender, plain),
        DraftingContender(f"{KINDS[MODEL].contender}, budgeted", replace(plain, length="budgeted"), sweeps=False),
        DraftingContender("draft model inside the prefill", plain, PARALLEL_PREFILL, sweeps=False),
        DraftingContender(
            "the same, from the prefill on", replace(plain, begins="prefill"), PARALLEL_PREFILL, sweeps=False
        ),
    ]
    for key, kind in DRAFTERS.items():
        if not (kind.is_trained or kind.takes_draft or key == SELF):
            found += _with_trees(kind.contender, replace(plain, drafter=key))
    for adapter in adapters:
        found += _trained(adapter)
    return [*found, DraftingContender(KINDS[SELF].contender, replace(plain, drafter=SELF))]


def _trained(adapter: AdapterInfo) -> list[DraftingContender]:
    folder, name = str(adapter.folder), KINDS[adapter.kind].contender
    if KINDS[adapter.kind].maps_cache:
        return [DraftingContender(name, SpeculationSettings(adapter=folder), KV_ADAPTED, sweeps=False)]
    return _with_trees(name, SpeculationSettings(drafter=adapter.kind, adapter=folder))


def _with_trees(name: str, asked: SpeculationSettings) -> list[DraftingContender]:
    found = [DraftingContender(name, asked)]
    if KINDS[asked.drafter].drafts_trees:
        for tree in TREES:
            grown = replace(asked, tree=tree, gamma=len(tree.split(",")))
            found.append(DraftingContender(f"{name}, tree {tree}", grown, sweeps=False))
    return found


def plain_request(
    sample: Sample,
    draft: ModelChoice,
    target: ModelChoice,
    max_new_tokens: int,
    *,
    temperature: float = 0.0,
    step: str = "auto",
) -> RunRequest:
    """The target alone, as everybody is measured against; `step` is the decode step of all."""
    settings = GenerationSettings(
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        switches=Switches(step=step),
        speculation=SpeculationSettings(judges=False),
    )
    return RunRequest("target", sample, draft, target, settings, keeps_frames=False)
