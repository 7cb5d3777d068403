"""Room for the models of a run: what is warm and not needed is freed before anything is refused.

The estimate is `requirements`' and the sentence of a refusal `verdict`'s; here is decided what goes.
"""

from __future__ import annotations

from dataclasses import replace

from engines.fit.advice import PlannedModels
from engines.fit.placement import BOTH, place, room_for
from engines.fit.requirements import model_shape
from engines.fit.verdict import refusal
from engines.hardware.memory import Machine, ThisMachine
from engines.loading.warm_models import WarmModels
from evprof.core.errors import UserError
from evprof.core.request import RunRequest
from evprof.core.vocabulary.modes import mode_of


def make_room(request: RunRequest, roles: tuple[str, ...], warm: WarmModels, *, machine: Machine | None = None) -> None:
    """Sees to it that the models of `roles` fit, before loading any.

    When all models of the request fit beside each other they stay; if not, other requests' models go first, then
    all but those of `roles`, so that a side-by-side pair runs in turn. Raises UserError when even that is not enough.
    """
    machine = machine or ThisMachine()
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
