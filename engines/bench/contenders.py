"""Contenders of the benchmarks of models: names, and what makes each of them run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from engines.bench import generate, ours
from engines.bench.turns import Runner
from engines.bench.workload import Workload
from evprof.core.vocabulary.settings import choices_of

OURS, OURS_COMPILED = "ours", "ours_compiled"
HF_EAGER, HF_STATIC_COMPILED = "hf_eager", "hf_static_compiled"

_ON_A_CPU = ("compiled", "identical")
"""The kinds of step, beside the eager one, that need no GPU."""


@dataclass(frozen=True)
class EngineContender:
    """One way of decoding. `make` prepares it; UnavailableError there or in a turn leaves it out, with why.

    `only_on` is the one type of device it takes part on unasked.
    """

    name: str
    make: Callable[[Workload], Runner]
    only_on: str | None = None

    @property
    def is_compiled(self) -> bool:
        """Whether preparing it takes a compiler, and so up to minutes."""
        return self.name.endswith("compiled")


CONTENDERS = (
    EngineContender(OURS, ours.eager),
    *(
        EngineContender(
            f"{OURS}_{kind}", partial(ours.stepping, kind=kind), only_on=None if kind in _ON_A_CPU else "cuda"
        )
        for kind in choices_of("step")
        if kind not in ("auto", "eager")
    ),
    EngineContender(HF_EAGER, generate.eager),
    EngineContender(HF_STATIC_COMPILED, generate.static_compiled),
)
"""All of them. Ratios are to HF_EAGER; tokens are compared with it."""


def contenders_on(device_type: str) -> tuple[EngineContender, ...]:
    """All that take part unasked on a type of device."""
    return tuple(contender for contender in CONTENDERS if contender.only_on in (None, device_type))
