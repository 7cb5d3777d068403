"""Why a GPU that is in the machine does not work: driver, torch's build and card are held against each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from evprof.core.installation import how_to_mend, is_bundle

_FIRST_DRIVERS = {11: "450.80", 12: "525.60", 13: "580.65"}
"""By CUDA's major version, the first Linux driver that runs all its minor ones (NVIDIA's CUDA compatibility guide)."""

_CUDA_PACKAGE = re.compile("nvidia-(?!ml-py)[a-z0-9-]+|cuda-(toolkit|bindings|pathfinder)")


@dataclass(frozen=True)
class TorchBuild:
    """What torch was built for. `cuda`: such as 13.0, None for CPUs alone. `architectures`: such as sm_90 and
    compute_120; empty where torch does not tell."""

    version: str
    cuda: str | None
    architectures: tuple[str, ...] = ()

    @classmethod
    def of(cls, engine: Mapping[str, Any]) -> Self:
        """Out of the environment that an engine describes."""
        return cls(str(engine.get("torch")), engine.get("cuda"), tuple(engine.get("gpu_architectures") or ()))


@dataclass(frozen=True)
class Card:
    """One GPU. `capability`: its generation, such as (9, 0)."""

    name: str
    capability: tuple[int, int] | None = None


@dataclass(frozen=True)
class Driver:
    """The NVIDIA driver: its `version`, and the newest CUDA it runs, such as (12, 4)."""

    version: str
    cuda: tuple[int, int] | None
    cards: tuple[Card, ...]


def gpu_problems(build: TorchBuild | None, driver: Driver | None, packages: Iterable[str]) -> list[tuple[str, str]]:
    """Problems and what to do about each. `packages`: the names of what is installed. None: not there, or not known."""
    if build is None:
        return []
    if build.cuda is None:
        return _of_cpu_torch(build, driver, cuda_packages(packages))
    if driver is None or not driver.cards:
        return []
    needed = int(build.cuda.split(".")[0])
    if driver.cuda is not None and driver.cuda[0] < needed:
        first = f"{_FIRST_DRIVERS[needed]} or later" if needed in _FIRST_DRIVERS else "one for it"
        newest = ".".join(map(str, driver.cuda))
        return [
            (
                f"The NVIDIA driver {driver.version} is too old: it runs CUDA {newest} at most, and torch "
                f"{build.version} is built for CUDA {build.cuda}.",
                f"install the driver {first}, or a torch built for CUDA {newest}",
            )
        ]
    return [problem for card in driver.cards if (problem := _of_generation(build, card)) is not None]


def cuda_packages(packages: Iterable[str]) -> list[str]:
    """Those that only a torch for CUDA uses."""
    named = {re.sub("[-_.]+", "-", name).lower() for name in packages}
    return sorted(name for name in named if _CUDA_PACKAGE.fullmatch(name))


def _of_cpu_torch(build: TorchBuild, driver: Driver | None, orphans: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    if driver is not None and driver.cards:
        fix = (
            "evprof cuda install FOLDER, with the folder of the CUDA add-on"
            if is_bundle()
            else "evprof cuda install FOLDER with the CUDA add-on, or offer pip an index with torch "
            f"{build.version.partition('+')[0]} for CUDA: {how_to_mend('torch')}"
        )
        found.append((f"{driver.cards[0].name} is not used: torch {build.version} is built for CPUs alone.", fix))
    if orphans:
        found.append(
            (
                f"{len(orphans)} packages of CUDA lie beside a torch for CPUs, which does not use them: "
                f"{', '.join(orphans[:3])}{', …' if len(orphans) > 3 else ''}.",
                f"pip uninstall {' '.join(orphans)}",
            )
        )
    return found


def _of_generation(build: TorchBuild, card: Card) -> tuple[str, str] | None:
    if card.capability is None or not build.architectures or runs_on(build.architectures, card.capability):
        return None
    generations = dict.fromkeys(architecture.partition("_")[2] for architecture in build.architectures)
    own = "".join(map(str, card.capability))
    return (
        f"torch {build.version} has no code for {card.name}, whose generation is {own}; it has code for "
        f"{', '.join(generations)}.",
        f"install a torch built for it, or choose --device cpu{_older(build, card.capability)}",
    )


def _older(build: TorchBuild, capability: tuple[int, int]) -> str:
    oldest = min(_generation(architecture) for architecture in build.architectures)
    return (
        "; later releases of torch leave old generations out, so an earlier one may do" if capability < oldest else ""
    )


def runs_on(architectures: Iterable[str], capability: tuple[int, int]) -> bool:
    """Whether code of these architectures runs on a card: binaries (sm) within a major version from their minor one
    on, those with a letter on their own generation alone; intermediate code (compute) on every later card."""
    for architecture in architectures:
        kind, _, number = architecture.partition("_")
        made_for = _generation(architecture)
        if number[-1:].isalpha():
            runs = made_for == capability if number.endswith("a") else _within_major(made_for, capability)
        else:
            runs = made_for <= capability if kind == "compute" else _within_major(made_for, capability)
        if runs:
            return True
    return False


def _within_major(made_for: tuple[int, int], capability: tuple[int, int]) -> bool:
    return made_for[0] == capability[0] and made_for[1] <= capability[1]


def _generation(architecture: str) -> tuple[int, int]:
    digits = re.sub(r"\D", "", architecture)
    return int(digits[:-1] or 0), int(digits[-1:] or 0)


def nvidia_driver() -> Driver | None:
    """The driver and every card as NVML tells them; None without one. What it withholds is None."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - no driver is no problem: the CPU does the work
        return None
    try:
        count = int(pynvml.nvmlDeviceGetCount())
        cards = tuple(_card(pynvml.nvmlDeviceGetHandleByIndex(number)) for number in range(count))
        version = str(pynvml.nvmlSystemGetDriverVersion())
    except (pynvml.NVMLError, AttributeError):
        return None
    return Driver(version, _driver_cuda(), cards)


def _card(handle: object) -> Card:
    import pynvml

    try:
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        capability = (int(major), int(minor))
    except (pynvml.NVMLError, AttributeError, TypeError):
        capability = None
    return Card(str(pynvml.nvmlDeviceGetName(handle)), capability)


def _driver_cuda() -> tuple[int, int] | None:
    import pynvml

    try:
        told = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    except (pynvml.NVMLError, AttributeError):
        return None
    return told // 1000, told % 1000 // 10
