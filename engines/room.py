"""Room for the models of a run: what is warm and not needed is freed before anything is refused.

The estimate and the sentence of a refusal are `memory`'s; here is decided what goes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engines.memory import BOTH, MemoryNeed, free_bytes, memory_need, plan_placement
from engines.warm_models import WarmModels
from evprof.core.errors import UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import ModelChoice, RunRequest

_MODE_ROLES = {"draft": (DRAFT,), "target": (TARGET,)}


def make_room(request: RunRequest, roles: tuple[str, ...], warm: WarmModels) -> None:
    """Sees to it that the models of `roles` fit, before loading any.

    When all models of the request fit beside each other they stay; if not, other requests' models go first, then
    all but those of `roles`, so that a side-by-side pair runs in turn. Raises UserError when even that is not enough.
    """
    needed = _chosen(request, roles)
    if all(warm.holds(choice, role) for choice, role in needed):
        return
    wanted = _chosen(request, _MODE_ROLES.get(request.mode, (DRAFT, TARGET)))
    if _all_fit(request, wanted, warm):
        return
    warm.keep_only(set(wanted))
    if _all_fit(request, wanted, warm):
        return
    warm.keep_only(set(needed))
    needs = _needs(request, needed, warm)
    plan_placement(needs, _free(needs), together=True)


def _all_fit(request: RunRequest, wanted: Sequence[tuple[ModelChoice, str]], warm: WarmModels) -> bool:
    needs = _needs(request, wanted, warm)
    try:
        return plan_placement(needs, _free(needs)) == BOTH
    except UserError:
        return False


def _needs(request: RunRequest, chosen: Sequence[tuple[ModelChoice, str]], warm: WarmModels) -> list[MemoryNeed]:
    found = []
    for choice, role in chosen:
        need = memory_need(choice, role, request.settings)
        found.append(need.loaded() if warm.holds(choice, role) else need)
    return found


def _free(needs: Sequence[MemoryNeed]) -> dict[str, int]:
    return {need.device: free_bytes(torch.device(need.device)) for need in needs}


def _chosen(request: RunRequest, roles: Sequence[str]) -> list[tuple[ModelChoice, str]]:
    choices = {DRAFT: request.draft, TARGET: request.target}
    return [(choice, role) for role in roles if (choice := choices[role]) is not None]
