"""Whether models fit together, one after the other or not at all, and which changes make them fit.

Arithmetic tries every change and names only those that help, ranked by cost: first those that keep the answer, then
arithmetic and device, then quantization.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engines.fit.requirements import MemoryNeed, ModelShape, frame_count, memory_need
from engines.hardware.device import Machine
from evprof.core.units import memory_text
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.settings import option_words, with_value

BOTH, IN_TURN, REFUSED = "both", "in turn", "refused"

HOST = "cpu"

MOST_NAMED = 3

NOT_CROPPED = ("hqq8", "hqq4")


def room_for(needs: Iterable[MemoryNeed], machine: Machine, held: Mapping[str, int] | None = None) -> dict[str, int]:
    """Free bytes of every needed device, with `held` bytes that would be released. The host is included if weights are
    packed there, except on an assumed machine."""
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
    return REFUSED if _too_big(needs, free) else IN_TURN


def demand(needs: Sequence[MemoryNeed], combine: Any = sum) -> dict[str, int]:
    """Bytes by device that needs take together, or with `combine` max each alone."""
    return {each.device: combine(need.total_bytes for need in needs if need.device == each.device) for each in needs}


def _too_big(needs: Sequence[MemoryNeed], free: Mapping[str, int]) -> list[MemoryNeed]:
    return [
        need
        for need in needs
        if need.total_bytes > free[need.device] or need.host_bytes > free.get(HOST, need.host_bytes)
    ]


def shortage(needs: Sequence[MemoryNeed], free: Mapping[str, int]) -> str:
    if large := _too_big(needs, free):
        need = large[0]
        if need.total_bytes <= free[need.device]:
            return (
                f"{need.name} needs {memory_text(need.host_bytes)} of the machine's own memory while its weights are "
                f"packed, but {memory_text(free[HOST])} is free"
            )
        kept = need.alternatives_bytes
        alternatives = f", logits of the alternatives {memory_text(kept)}" if kept else ""
        return (
            f"{need.name} needs {memory_text(need.total_bytes)} on {need.device} (weights "
            f"{memory_text(need.weight_bytes)}, KV cache {memory_text(need.kv_bytes)}, activations "
            f"{memory_text(need.activation_bytes)}{alternatives}), but {memory_text(free[need.device])} is free"
        )
    found = ((device, total) for device, total in demand(needs).items() if total > free[device])
    device, total = next(found, (HOST, demand(needs).get(HOST, 0) + max(need.host_bytes for need in needs)))
    names = " and ".join(need.name for need in needs if device in (need.device, HOST))
    return f"{names} need {memory_text(total)} together on {device}, but {memory_text(free[device])} is free"


def use(needs: Sequence[MemoryNeed], free: Mapping[str, int]) -> str:
    """How much of each device needs that fit together take: `14.2 of 24.0 GiB on cuda:0`."""
    return " and ".join(
        f"{memory_text(total)} of {memory_text(free[device])} on {device}" for device, total in demand(needs).items()
    )


@dataclass(frozen=True)
class PlannedModels:
    """Models by role, their sizes, and the settings of the run they are wanted for, which `drafts` or not."""

    choices: dict[str, ModelChoice]
    shapes: dict[str, ModelShape]
    settings: GenerationSettings
    question: int
    drafts: bool = False

    def needs(self, machine: Machine) -> list[MemoryNeed]:
        return [
            memory_need(
                choice,
                role,
                self.settings.taken_by(role, drafts=self.drafts),
                machine=machine,
                shape=self.shapes[role],
                question=self.question,
            )
            for role, choice in self.choices.items()
        ]

    def changed(self, role: str, name: str, value: Any) -> PlannedModels:
        """The plan with one option of a role's model, or ("") of the settings."""
        if role:
            return replace(self, choices={**self.choices, role: replace(self.choices[role], **{name: value})})
        return replace(self, settings=with_value(self.settings, name, value))


@dataclass(frozen=True)
class FittingChanges:
    """Changes that make models fit, and what these then take by device."""

    words: str
    demand: dict[str, int]

    @property
    def text(self) -> str:
        """`--target-quant int8 (12.3 GiB)`."""
        sizes = [f"{memory_text(total)} on {device}" for device, total in self.demand.items()]
        return f"{self.words} ({', '.join(sizes) if len(sizes) > 1 else memory_text(*self.demand.values())})"


_Change = tuple[int, str, str, Any]
"""Cost, role ("" for the settings), name and value of an option."""


def find_ways(
    plan: PlannedModels, machine: Machine, held: Mapping[str, int], *, together: bool
) -> list[FittingChanges]:
    """The cheapest options after which all models fit `together` or each alone, at most MOST_NAMED, each different: an
    option for one model, or the same for all. `held` bytes are released, by device."""
    changes = list(_changes(plan, machine))
    if together and len(plan.choices) > 1:
        # Both at once are for speculation, which takes positions back.
        changes = [change for change in changes if change[3] not in NOT_CROPPED]
    alike = [[other for other in changes if other[2:] == change[2:]] for change in changes]
    tries = [[change] for change in changes] + [group for group in alike if len(group) > 1]
    found: dict[tuple[str, str], FittingChanges] = {}
    for group in sorted(tries, key=lambda group: sum(change[0] for change in group)):
        _, _, name, value = group[0]
        kind = name, "" if name == "device" else str(value)
        if kind in found or len(found) == MOST_NAMED:
            continue
        changed = plan
        for _, role, name, value in group:
            changed = changed.changed(role, name, value)
        needs = changed.needs(machine)
        placed = place(needs, room_for(needs, machine, held))
        if placed == BOTH or (not together and placed != REFUSED):
            words = [" ".join(option_words({name: value}, role, keeps_defaults=True)) for _, role, name, value in group]
            found[kind] = FittingChanges(" ".join(words), demand(needs, sum if together else max))
    return list(found.values())


def ways_text(ways: Sequence[FittingChanges]) -> str:
    if not ways:
        return "no dtype, quantization or cache makes it fit, so choose a smaller model"
    texts = [way.text for way in ways]
    return f"what fits: {texts[0]}" if len(texts) == 1 else f"what fits: {', '.join(texts[:-1])} or {texts[-1]}"


def _changes(plan: PlannedModels, machine: Machine) -> Iterator[_Change]:
    switches = plan.settings.switches
    if not switches.prefill_chunk:
        yield 1, "", "prefill_chunk", 512
    if switches.cache in ("auto", "static", "dynamic"):
        yield 5, "", "cache", "fp8"
        yield 7, "", "cache", "hqq4"
    for role, need in zip(plan.choices, plan.needs(machine), strict=True):
        for name in machine.devices():
            if name != need.device:
                yield 12 if name == "cpu" else 2, role, "device", name
        if need.dtype == "float32":
            yield 3, role, "dtype", "bfloat16"
        for kind, cost, before in (("int8", 4, (None,)), ("int4", 6, (None, "int8"))):
            if plan.choices[role].quantization in before and machine.can_pack(kind):
                yield cost, role, "quantization", kind
        config = plan.shapes[role].config
        fewer = next((count for count in (4, 2, 1) if count < frame_count(config, plan.settings)), None)
        if fewer is not None:
            yield 8, "", FAMILIES[config.family].frames_setting, fewer
