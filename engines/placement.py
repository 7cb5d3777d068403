"""Whether models have room beside each other, one after the other or not at all, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engines.memory import MemoryNeed
from evprof.core.units import memory_text

BOTH, IN_TURN, REFUSED = "both", "in turn", "refused"
"""Every model stays loaded; they are loaded, run and freed one after the other; one alone does not fit."""


def place(needs: Sequence[MemoryNeed], free: Mapping[str, int]) -> str:
    """BOTH, IN_TURN or REFUSED. `free` is bytes by device."""
    if all(total <= free[device] for device, total in demand(needs).items()):
        return BOTH
    return REFUSED if too_big(needs, free) else IN_TURN


def demand(needs: Sequence[MemoryNeed]) -> dict[str, int]:
    """Bytes all models take together, by device."""
    found: dict[str, int] = {}
    for need in needs:
        found[need.device] = found.get(need.device, 0) + need.total_bytes
    return found


def too_big(needs: Sequence[MemoryNeed], free: Mapping[str, int]) -> list[MemoryNeed]:
    """The models that do not fit even alone."""
    return [need for need in needs if need.total_bytes > free[need.device]]


def shortage(needs: Sequence[MemoryNeed], free: Mapping[str, int]) -> str:
    """What is needed and what there is, as the first half of a sentence; for needs that do not all fit together."""
    large = too_big(needs, free)
    if large:
        need = large[0]
        return (
            f"{need.name} needs {memory_text(need.total_bytes)} on {need.device} (weights "
            f"{memory_text(need.weight_bytes)}, KV cache {memory_text(need.kv_bytes)}, activations "
            f"{memory_text(need.activation_bytes)}), but {memory_text(free[need.device])} is free"
        )
    device, total = next((device, total) for device, total in demand(needs).items() if total > free[device])
    names = " and ".join(need.name for need in needs if need.device == device)
    return f"{names} need {memory_text(total)} together on {device}, but {memory_text(free[device])} is free"


def use(needs: Sequence[MemoryNeed], free: Mapping[str, int]) -> str:
    """How much of each device needs that fit together take: `14.2 of 24.0 GiB on cuda:0`."""
    return " and ".join(
        f"{memory_text(total)} of {memory_text(free[device])} on {device}" for device, total in demand(needs).items()
    )
