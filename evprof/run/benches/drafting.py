"""Who takes part in `evprof bench speculation`: drafters with their settings, as requests; it measures nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evprof.core.request import RunRequest
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.drafters import DRAFTERS, KINDS, KV, MODEL, SELF
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import KV_ADAPTED, PARALLEL_PREFILL, SPECULATIVE, mode_of
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches
from evprof.loaders.adapters import AdapterInfo
from evprof.metrics.estimates.estimates import verdict
from evprof.metrics.estimates.observations import observe, question_of, scene_of
from evprof.metrics.figures.decoding import matching_ids
from evprof.metrics.figures.stages import stage_ms, wall_ms
from evprof.metrics.speculation.outcome import acceptance_of_all
from evprof.metrics.speculation.payoff import Prediction, prediction_over, step_ms_of
from evprof.run.turns import TurnSchedule

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
    sample: Sample, draft: ModelChoice, target: ModelChoice, max_new_tokens: int, *, step: str = "auto"
) -> RunRequest:
    """The target alone, as everybody is measured against; `step` is the decode step of all."""
    settings = GenerationSettings(
        max_new_tokens=max_new_tokens,
        switches=Switches(step=step),
        speculation=SpeculationSettings(judges=False),
    )
    return RunRequest("target", sample, draft, target, settings, keeps_frames=False)


@dataclass(frozen=True)
class DraftingTurn:
    """A plain run and a drafted one of the same question and turn."""

    plain: RunLog
    drafted: RunLog

    @property
    def plain_ids(self) -> tuple[int, ...]:
        return tuple(token.token_id for token in self.plain.tokens)

    @property
    def drafted_ids(self) -> tuple[int, ...]:
        return tuple(token.token_id for token in self.drafted.tokens)

    @property
    def is_same(self) -> bool:
        return self.plain_ids == self.drafted_ids


def turn_of(
    run: Callable[[RunRequest], RunLog], schedule: TurnSchedule, plain: RunRequest, drafted: Sequence[RunRequest]
) -> list[DraftingTurn]:
    """Runs the plain request and all drafted ones once, as the next turn."""
    requests = [plain, *drafted]
    made = {place: run(replace(requests[place], turn=turn)) for turn, place in schedule.draw(range(len(requests)))}
    return [DraftingTurn(made[0], made[place]) for place in range(1, len(requests))]


def predicted(turns: Sequence[DraftingTurn]) -> Prediction | None:
    """The prediction from these turns; None where no step was timed, where too few rounds of a width were made, and
    where drafting lay outside stage decode."""
    step_ms = step_ms_of([turn.plain for turn in turns])
    drafted = [turn.drafted for turn in turns if not any(entry.hidden for entry in turn.drafted.rounds)]
    return None if step_ms is None or not drafted else prediction_over(drafted, step_ms)


def unlike(turns: Sequence[DraftingTurn]) -> list[DraftingTurn]:
    """Turns that say something new: repeats that draft and answer as one before are one observation of it."""
    found: dict[tuple[object, ...], DraftingTurn] = {}
    for turn in turns:
        rounds = tuple((entry.drafted, entry.accepted) for entry in turn.drafted.rounds)
        found.setdefault((question_of(turn.drafted), turn.plain_ids, turn.drafted_ids, rounds), turn)
    return list(found.values())


def measured(turns: Sequence[DraftingTurn]) -> dict[str, Any]:
    """Speedups of a drafter, mean plain time / mean drafted time, with their intervals; whether different
    answers agree; and how many runs, scenes and tokens of plain answers, each counted once, that is made of."""
    found: dict[str, Any] = {}
    reads: tuple[tuple[str, Callable[[RunLog], float | None]], ...] = (
        ("decode", lambda run: stage_ms(run, "decode")),
        ("end_to_end", wall_ms),
    )
    for name, read in reads:
        whole = [turn for turn in turns if read(turn.plain) is not None and read(turn.drafted)]
        sides = (observe(runs, read) for runs in ((t.drafted for t in whole), (t.plain for t in whole)))
        ratio = verdict(*([seen._replace(turn=turn) for turn, seen in enumerate(side)] for side in sides))
        found[f"{name}_speedup"] = ratio.ratio if ratio else None
        found[f"{name}_ci95"] = list(ratio.interval) if ratio and ratio.interval else None
    different = unlike(turns)
    answers = {(question_of(turn.plain), turn.plain_ids) for turn in turns}
    return found | {
        "same_answers": sum(turn.is_same for turn in different),
        "answers": len(different),
        "runs": len(turns),
        "scenes": len({scene_of(turn.plain) for turn in turns}),
        "unique_tokens": sum(len(ids) for _, ids in answers),
    }


def acceptance_of(runs: Sequence[RunLog]) -> dict[str, Any]:
    """Counts over runs of different questions, and the rates made of them; None where nothing was drafted."""
    whole = acceptance_of_all(runs)
    names = ("rounds", "drafted", "accepted", "draft_acceptance_rate", "token_acceptance_rate")
    return {name: getattr(whole, name) for name in (*names, "mean_acceptance_length")} | {
        "hidden_drafted": whole.hidden_drafted,
        "hidden_accepted": whole.hidden_accepted,
    }


def token_match(turns: Sequence[DraftingTurn]) -> float | None:
    """Share of places at which both answers have the same id, over the shorter of each two."""
    matched, compared = matching_ids((turn.plain, turn.drafted) for turn in turns)
    return matched / compared if compared else None
