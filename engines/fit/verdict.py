"""Whether models fit before they are loaded: for `evprof inspect`, for the window, for suites, and before each run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from engines.decoder.quantization import check_quantization
from engines.fit.advice import (
    BOTH,
    IN_TURN,
    REFUSED,
    FittingChanges,
    PlannedModels,
    find_ways,
    place,
    room_for,
    shortage,
    use,
    ways_text,
)
from engines.fit.requirements import (
    QUESTION_POSITIONS,
    MemoryNeed,
    ModelShape,
    batch_capacity,
    frame_count,
    memory_need,
    model_shape,
    planned,
)
from engines.hardware.device import AssumedMachine, Machine
from engines.loading.warm_models import WarmModels
from evprof.core.errors import USAGE, UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import RunRequest
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import mode_of
from evprof.run.suites.cell import SuiteConfiguration


@dataclass(frozen=True)
class FitQuestion:
    """A model, perhaps with another, under settings; `memory_bytes` assumes devices that large."""

    model: ModelChoice
    other: ModelChoice | None = None
    settings: GenerationSettings = field(default_factory=GenerationSettings)
    memory_bytes: int | None = None
    drafts: bool = False


def describe_fit(question: FitQuestion) -> dict[str, Any]:
    """The `fit` block of `evprof inspect`. Raises UserError for an unknown model or device."""
    machine = Machine() if question.memory_bytes is None else AssumedMachine(question.memory_bytes)
    shape = model_shape(question.model)
    role = FAMILIES[shape.config.family].role
    found = {role: (question.model, shape)}
    if question.other is not None:
        found[TARGET if role == DRAFT else DRAFT] = question.other, model_shape(question.other)
    order = [each for each in (DRAFT, TARGET) if each in found]
    choices = {each: found[each][0] for each in order}
    shapes = {each: found[each][1] for each in order}
    plan = PlannedModels(choices, shapes, question.settings, QUESTION_POSITIONS, question.drafts)
    needs = plan.needs(machine)
    if not machine.is_assumed:
        for need in needs:
            if need.quantization is not None:
                check_quantization(need.quantization, torch.device(need.device))
    free = room_for(needs, machine)
    placement = place(needs, free)
    ways = [] if placement == BOTH else find_ways(plan, machine, {}, together=placement == IN_TURN)
    past = (past_context(need, plan.shapes[need.role], plan.settings) for need in needs)
    return {
        "role": role,
        "models": [_model(plan, need, free[need.device]) for need in needs],
        "free_bytes": free,
        "is_assumed": question.memory_bytes is not None,
        "placement": placement,
        "sentence": _sentence(needs, free, placement, ways),
        "advice": [{"change": way.words, "bytes": way.demand} for way in ways],
        "warnings": [f"Its {said}; text beyond them degrades." for said in past if said],
    }


def refusal(plan: PlannedModels, machine: Machine, held: Mapping[str, int], *, together: bool) -> str:
    needs = plan.needs(machine)
    ways = find_ways(plan, machine, held, together=together)
    return f"{shortage(needs, room_for(needs, machine, held))}; {ways_text(ways)}."


def _sentence(
    needs: Sequence[MemoryNeed], free: Mapping[str, int], placement: str, ways: Sequence[FittingChanges]
) -> str:
    if placement == BOTH:
        names = " and ".join(need.name for need in needs)
        return f"{names} {'fit together' if len(needs) > 1 else 'fits'}: {use(needs, free)}."
    if placement == REFUSED:
        return f"{shortage(needs, free)}; {ways_text(ways)}."
    at_once = ways_text(ways) if ways else "no dtype, quantization or cache makes both fit"
    return (
        f"{shortage(needs, free)}: side by side loads, runs and frees them in turn; for both at once, as a "
        f"speculative mode needs them, {at_once}."
    )


def past_context(need: MemoryNeed, shape: ModelShape, settings: GenerationSettings) -> str:
    """How a run exceeds the positions a model was trained for; "" where it does not."""
    limit, new_tokens = shape.config.text.max_position_embeddings, settings.max_new_tokens
    if need.positions.prompt + new_tokens <= limit:
        return ""
    return (
        f"prompt (about {need.positions.prompt:,}) and answer (up to {new_tokens:,} tokens) pass the {limit:,} "
        f"positions that {need.name} was trained for"
    )


def _model(plan: PlannedModels, need: MemoryNeed, free: int) -> dict[str, Any]:
    model = planned(need, plan.shapes[need.role], plan.settings)
    return {
        "role": need.role,
        "name": need.name,
        "device": need.device,
        "dtype": need.dtype,
        "quantization": need.quantization,
        "cache": need.cache,
        "frames": frame_count(plan.shapes[need.role].config, plan.settings),
        "positions": asdict(need.positions),
        "weight_bytes": need.weight_bytes,
        "kv_bytes": need.kv_bytes,
        "activation_bytes": need.activation_bytes,
        "alternatives_bytes": need.alternatives_bytes,
        "loading_bytes": need.loading_bytes,
        "host_bytes": need.host_bytes,
        "total_bytes": need.total_bytes,
        "batch_capacity": asdict(batch_capacity(need, free)),
        "most_positions": model.most_positions(free),
        "most_frames": model.most_frames(free),
    }


def memory_size(text: str) -> int:
    """`24GB`, `24 GiB`, `8192MB` in bytes, by powers of 1024 as memory is sold. Raises UserError (exit code 2)."""
    compact = text.replace(" ", "").lower().removesuffix("b").removesuffix("i")
    factor = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}.get(compact[-1:], 0)
    try:
        size = float(compact[:-1]) * factor
    except ValueError:
        size = 0.0
    if not 1 <= size < 2**62:
        raise UserError(f"--memory must be a size such as 24GB, not {text}.", exit_code=USAGE)
    return int(size)


def make_room(request: RunRequest, roles: tuple[str, ...], warm: WarmModels, *, machine: Machine | None = None) -> None:
    """Frees memory for the models of `roles` before they are loaded: first other requests' models, then all but those
    of `roles`. Raises UserError if that is not enough."""
    machine = machine or Machine()
    choices = {role: choice for role in request.roles if (choice := request.choice_of(role)) is not None}
    needed = {role: choices[role] for role in roles}
    if all(warm.holds(choice, role) for role, choice in needed.items()):
        return
    # What captured steps keep between runs would be counted twice: as taken, and as what the run will need.
    warm.release_caches()
    plan = PlannedModels(
        choices,
        {role: model_shape(choice) for role, choice in choices.items()},
        request.settings,
        # No word of a question takes fewer bytes than positions.
        len(request.sample.prompt.encode()),
        mode_of(request.mode).drafts,
    )
    if _all_fit(plan, warm, machine):
        return
    warm.keep_only({(choice, role) for role, choice in choices.items()})
    if _all_fit(plan, warm, machine):
        return
    warm.keep_only({(choice, role) for role, choice in needed.items()})
    plan = replace(plan, choices=needed)
    if not _all_fit(plan, warm, machine):
        needs = plan.needs(machine)
        # The refusal and its advice are about starting over, as the next run would.
        held: dict[str, int] = {}
        for need in needs:
            if warm.holds(choices[need.role], need.role):
                held[need.device] = held.get(need.device, 0) + need.weight_bytes
        raise UserError(refusal(plan, machine, held, together=True))


def _all_fit(plan: PlannedModels, warm: WarmModels, machine: Machine) -> bool:
    needs = [need.loaded() if warm.holds(plan.choices[need.role], need.role) else need for need in plan.needs(machine)]
    return place(needs, room_for(needs, machine)) == BOTH


class SuiteRoom:
    """Answers from models' shapes, each of which is worked out once."""

    def __init__(self, machine: Machine | None = None) -> None:
        self._machine = machine or Machine()
        self._shapes: dict[tuple[str, str | None], ModelShape | None] = {}

    def family_of(self, name: str) -> str | None:
        """A model's family; None when it cannot be found."""
        shape = self._shape(ModelChoice(name))
        return None if shape is None else shape.config.family

    def fits(self, cells: Iterable[SuiteConfiguration]) -> bool:
        largest: dict[tuple[str, ModelChoice], MemoryNeed] = {}
        for cell in cells:
            for role, choice in cell.weights():
                need = self._need(cell, role, choice)
                before = largest.get((role, choice))
                if need is not None and (before is None or need.total_bytes > before.total_bytes):
                    largest[role, choice] = need
        needs = list(largest.values())
        return place(needs, room_for(needs, self._machine)) == BOTH

    def past_context(self, cell: SuiteConfiguration) -> str | None:
        """Why a cell asks for more than a model was trained for; None when it does not."""
        for role in cell.roles:
            choice = cell.choice(role)
            need = self._need(cell, role, choice) if choice is not None else None
            shape = self._shape(choice) if choice is not None else None
            if need is not None and shape is not None and (said := past_context(need, shape, cell.settings)):
                return f"its {said}"
        return None

    def _need(self, cell: SuiteConfiguration, role: str, choice: ModelChoice) -> MemoryNeed | None:
        shape = self._shape(choice)
        if shape is None:
            return None
        try:
            settings = cell.settings.taken_by(role, drafts=mode_of(cell.mode).drafts)
            return memory_need(choice, role, settings, machine=self._machine, shape=shape)
        except UserError:
            return None

    def _shape(self, choice: ModelChoice) -> ModelShape | None:
        key = choice.name, choice.clip
        if key not in self._shapes:
            try:
                self._shapes[key] = model_shape(choice)
            except UserError:
                self._shapes[key] = None
        return self._shapes[key]
