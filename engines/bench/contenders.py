"""Who takes part in `evprof bench engine`: names, and what makes each of them run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engines.bench import generate, ours
from engines.bench.turns import Runner
from engines.bench.workload import Workload
from evprof.core.errors import USAGE, UserError

OURS, OURS_COMPILED = "ours", "ours_compiled"
HF_EAGER, HF_STATIC_COMPILED = "hf_eager", "hf_static_compiled"


@dataclass(frozen=True)
class Contender:
    """One way of decoding. `make` prepares it; UnavailableError there or in its first turn leaves it out, with why."""

    name: str
    make: Callable[[Workload], Runner]


CONTENDERS = (
    Contender(OURS, ours.eager),
    Contender(HF_EAGER, generate.eager),
    Contender(HF_STATIC_COMPILED, generate.static_compiled),
)
"""All of them. Ratios are to HF_EAGER; tokens are compared with it."""


def choose_contenders(names: str | None) -> tuple[Contender, ...]:
    """Those of a list of names with commas, all for None. Raises UserError (exit code 2) for an unknown one."""
    if names is None:
        return CONTENDERS
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {contender.name: contender for contender in CONTENDERS}
    for name in wanted:
        if name not in known:
            raise UserError(f"Unknown contender '{name}'; choose among {', '.join(known)}.", exit_code=USAGE)
    if not wanted:
        raise UserError(f"--contenders names nobody; choose among {', '.join(known)}.", exit_code=USAGE)
    return tuple(contender for contender in CONTENDERS if contender.name in wanted)
