"""Whether models have room beside each other, one after the other or not at all, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engines.fit.requirements import MemoryNeed
from engines.hardware.memory import Machine
from evprof.core.units import memory_text

BOTH, IN_TURN, REFUSED = "both", "in turn", "refused"
"""Every model stays loaded; they are loaded, run and freed one after the other; one alone does not fit."""


HOST = "cpu"
"""Where weights wait that are packed on their way to a GPU."""


def room_for(needs: Iterable[MemoryNeed], machine: Machine, held: Mapping[str, int] | None = None) -> dict[str, int]:
    """Bytes free on every device that is needed; `held` is what would be given back there.

    The host is among them when weights are packed there, except on an assumed machine: nobody said how much it has.
    """
    devices = {need.device for need in needs}
    if any(need.host_bytes for need in needs) and not machine.is_assumed:
        devices.add(HOST)
    held = held or {}
    return {device: machine.free_bytes(machine.device(device)) + held.get(device, 0) for device in sorted(devices)}


def place(needs: Sequence[MemoryNeed], free: Mapping[str, int]) -> str:
    """BOTH, IN_TURN or REFUSED. `free` is bytes by device, see `room_for`."""
    together = demand(needs)
    waiting = max((need.host_bytes for need in needs), default=0)
    has_host = together.get(HOST, 0) + waiting <= free.get(HOST, waiting)
    if has_host and all(total <= free[device] for device, total in together.items()):
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
    return [
        need
        for need in needs
        if need.total_bytes > free[need.device] or need.host_bytes > free.get(HOST, need.host_bytes)
    ]


def shortage(needs: Sequence[MemoryNeed], free: Mapping[str, int]) -> str:
    """What is needed and what there is, as the first half of a sentence; for needs that do not all fit together."""
    large = too_big(needs, free)
    if large:
        need = large[0]
        if need.total_bytes <= free[need.device]:
            return (
                f"{need.name} needs {memory_text(need.host_bytes)} of the machine's own memory while its weights are "
                f"packed, but {memory_text(free[HOST])} is free"
            )
        return (
            f"{need.name} needs {memory_text(need.total_bytes)} on {need.device} (weights "
            f"{memory_text(need.weight_bytes)}, KV cache {memory_text(need.kv_bytes)}, activations "
            f"{memory_text(need.activation_bytes)}{_alternatives(need)}), but {memory_text(free[need.device])} is free"
        )
    found = ((device, total) for device, total in demand(needs).items() if total > free[device])
    device, total = next(found, (HOST, demand(needs).get(HOST, 0) + max(need.host_bytes for need in needs)))
    names = " and ".join(need.name for need in needs if device in (need.device, HOST))
    return f"{names} need {memory_text(total)} together on {device}, but {memory_text(free[device])} is free"


def _alternatives(need: MemoryNeed) -> str:
    return f", logits of the alternatives {memory_text(need.alternatives_bytes)}" if need.alternatives_bytes else ""


def use(needs: Sequence[MemoryNeed], free: Mapping[str, int]) -> str:
    """How much of each device needs that fit together take: `14.2 of 24.0 GiB on cuda:0`."""
    return " and ".join(
        f"{memory_text(total)} of {memory_text(free[device])} on {device}" for device, total in demand(needs).items()
    )
