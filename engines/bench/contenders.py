"""Who takes part in `evprof bench engine`: names, and what makes each of them run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from engines.bench import generate, ours
from engines.bench.turns import Runner
from engines.bench.workload import Workload
from evprof.core.errors import USAGE, UserError

OURS, OURS_COMPILED, OURS_GRAPHS = "ours", "ours_compiled", "ours_graphs"
HF_EAGER, HF_STATIC_COMPILED = "hf_eager", "hf_static_compiled"


@dataclass(frozen=True)
class EngineContender:
    """One way of decoding. `make` prepares it; UnavailableError there or in a turn leaves it out, with why.

    `only_on` is the one type of device it takes part on unasked.
    """

    name: str
    make: Callable[[Workload], Runner]
    only_on: str | None = None


CONTENDERS = (
    EngineContender(OURS, ours.eager),
    EngineContender(OURS_COMPILED, partial(ours.stepping, kind="compiled")),
    EngineContender(OURS_GRAPHS, partial(ours.stepping, kind="graphs"), only_on="cuda"),
    EngineContender(HF_EAGER, generate.eager),
    EngineContender(HF_STATIC_COMPILED, generate.static_compiled),
)
"""All of them. Ratios are to HF_EAGER; tokens are compared with it."""


def contenders_on(device_type: str) -> tuple[EngineContender, ...]:
    """All that take part unasked on a type of device."""
    return tuple(contender for contender in CONTENDERS if contender.only_on in (None, device_type))


def choose_contenders(names: str) -> tuple[EngineContender, ...]:
    """Those of a list of names with commas. Raises UserError (exit code 2) for an unknown one."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {contender.name: contender for contender in CONTENDERS}
    for name in wanted:
        if name not in known:
            raise UserError(f"Unknown contender '{name}'; choose among {', '.join(known)}.", exit_code=USAGE)
    if not wanted:
        raise UserError(f"--contenders names nobody; choose among {', '.join(known)}.", exit_code=USAGE)
    return tuple(contender for contender in CONTENDERS if contender.name in wanted)
