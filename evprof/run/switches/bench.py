"""`evprof bench switches`: every switch on against off, in turns, in one process and the same minutes.

It asks an engine for runs and reads their records; which switches there are is `variants`, what the runs say is
`figures`. Loading, quantizing and compiling happen in first runs, which are timed apart.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from evprof.core.errors import Cancelled, UserError
from evprof.core.protocols import Engine, StopFlag
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FINISHED
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.metrics.estimates.estimates import Verdict
from evprof.run.benches.choice import check_repeat, chosen
from evprof.run.processes.channel import QueueSink
from evprof.run.processes.runner import recorded_run
from evprof.run.switches.figures import MeasuredSide, head_of, row_of, row_without, summary_of, take_back
from evprof.run.switches.variants import VARIANTS, Basis, Variant, VariantChange, plain_settings
from evprof.run.turns import TurnSchedule


class NotHereError(Exception):
    """A run could not be made as asked; its text says why."""


@dataclass(frozen=True)
class SwitchPlan:
    """What is measured: a pair on a sample, `repeat` turns for each row. `only` names switches; empty: all."""

    sample: Sample
    draft: ModelChoice
    target: ModelChoice
    repeat: int = 10
    max_new_tokens: int = 64
    only: tuple[str, ...] = ()

    def variants(self, known: Sequence[Variant] = VARIANTS) -> list[Variant]:
        """The variants wanted, in order. Raises UserError (exit code 2) for a name or a number that means nothing."""
        check_repeat(self.repeat)
        wanted = chosen(known, self.only, "switch", attrgetter("switch"), Variant.is_named)
        plain_settings(self.max_new_tokens).validate()
        return wanted

    def plain(self, role: str) -> RunRequest:
        settings = plain_settings(self.max_new_tokens)
        return RunRequest(role, self.sample, self.draft, self.target, settings)


def measure_switches(
    engine: Engine,
    plan: SwitchPlan,
    stop: StopFlag,
    note: Callable[[str], None] = lambda _: None,
    *,
    known: Sequence[Variant] = VARIANTS,
    keep: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """`environment`, `rows` and `summary`. `note` hears how far it is, `keep` each row as soon as it is there; a set
    `stop` ends it with the rows so far.

    Raises UserError when a model does not even run with everything off.
    """
    wanted = plan.variants(known)
    bench = _Bench(engine, plan, stop)
    asked = [(variant, role) for variant in wanted for role in variant.roles]
    rows: list[dict[str, Any]] = []
    speeds: list[Verdict | None] = []
    is_stopped = False
    began = time.monotonic()
    try:
        for variant, role in asked:
            row, speed = bench.row(variant, role)
            rows.append(row)
            speeds.append(speed)
            keep(row)
            left_s = (time.monotonic() - began) / len(rows) * (len(asked) - len(rows))
            done = f"{len(rows)} of {len(asked)}: {rows[-1]['title']}, {role}: {rows[-1]['verdict'] or 'measured'}"
            note(f"{done}; about {left_s:.0f} s left")
    except Cancelled:
        is_stopped = True
    finally:
        engine.close()
    take_back(rows, speeds)
    return {
        "environment": bench.environment or engine.describe(),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": {
            "draft": plan.draft.name,
            "target": plan.target.name,
            "dtype": bench.dtype,
            "repeat": plan.repeat,
            "max_new_tokens": plan.max_new_tokens,
        },
        "rows": rows,
        "summary": summary_of(rows) | {"is_complete": not is_stopped},
    }


class _Bench:
    """Measures one variant after another and keeps what is known of the plain models."""

    def __init__(self, engine: Engine, plan: SwitchPlan, stop: StopFlag) -> None:
        self.environment: dict[str, Any] = {}
        self._engine = engine
        self._plan = plan
        self._stop = stop
        self._plain: dict[str, RunLog] = {}

    @property
    def dtype(self) -> str:
        """What the plain models compute in; both names where they differ."""
        return " and ".join(dict.fromkeys(run.info.models[role].dtype for role, run in self._plain.items()))

    def row(self, variant: Variant, role: str) -> tuple[dict[str, Any], Verdict | None]:
        """Measures one row, and the speed of its stages.

        Raises Cancelled when stopped, UserError when the plain model does not run.
        """
        plain = self._plain_run(role)
        basis = Basis(plain.info.models[role], plain.info.lengths[role])
        on, off = variant.on.resolved(basis), variant.off.resolved(basis)
        head = head_of(variant, title_of(variant, on), role, plain)
        if variant.families is not None and basis.facts.family not in variant.families:
            owners = " and ".join(variant.families)
            reason = f"Only {owners} has this; {basis.facts.name} is of family {basis.facts.family}."
            return row_without(head, reason), None
        try:
            return self._measure(variant, head, role, off, on)
        except NotHereError as problem:
            return row_without(head, str(problem)), None

    def _measure(
        self, variant: Variant, head: dict[str, Any], role: str, off: VariantChange, on: VariantChange
    ) -> tuple[dict[str, Any], Verdict | None]:
        plain, is_alone = self._plan.plain(role), variant.loads_other_weights
        requests = [change.applied(plain, role) for change in (off, on)]
        firsts = [self._first(request, role, alone=is_alone) for request in requests]
        for request in requests:
            self._run(request)
        schedule = TurnSchedule()
        runs: tuple[list[RunLog], list[RunLog]] = ([], [])
        for _ in range(self._plan.repeat):
            for turn, side in schedule.draw((0, 1)):
                runs[side].append(self._run(replace(requests[side], turn=turn)))
        if is_alone:
            self._engine.close()
        sides = [MeasuredSide(first, made, is_alone) for first, made in zip(firsts, runs, strict=True)]
        return row_of(head, variant.expects, *sides)

    def _first(self, request: RunRequest, role: str, *, alone: bool) -> RunLog:
        """The run that loads and compiles, and gives the answer as far as the model wants it to go."""
        if alone:
            self._engine.close()
        run = self._run(replace(request, settings=replace(request.settings, ignore_eos=False)))
        if (other := untaken(request, run, role)) is not None:
            raise NotHereError(other)
        return run

    def _plain_run(self, role: str) -> RunLog:
        if role not in self._plain:
            try:
                run = self._run(self._plan.plain(role))
            except NotHereError as problem:
                raise UserError(str(problem)) from None
            self._plain[role] = run
            self.environment = self.environment or run.info.environment
        return self._plain[role]

    def _run(self, request: RunRequest) -> RunLog:
        """One run. Raises NotHereError when it fails or is refused, Cancelled when it was stopped."""
        if self._stop.is_set():
            raise Cancelled
        sink = QueueSink()
        problem = None
        try:
            self._engine.run(request, sink, self._stop)
        except UserError as error:
            problem = error.sentence
        except Exception as error:  # noqa: BLE001 - a defect costs this row, not the benchmark
            traceback.print_exc()
            problem = f"The engine failed: {type(error).__name__}: {error}"
        run = recorded_run(sink)
        if run is not None and run.info.status == CANCELLED:
            raise Cancelled
        if problem is None and (run is None or run.info.status != FINISHED):
            problem = (run.info.error if run else None) or "The engine made no run of it."
        if run is None or problem is not None:
            raise NotHereError(problem or "The engine made no run of it.")
        return run


def title_of(variant: Variant, on: VariantChange) -> str:
    """What the table calls a row: the variant's name, with the value where that was found for the model."""
    if variant.value or not on.switches:
        return variant.name
    return f"{variant.switch} {next(iter(on.switches.values()))}"


def untaken(request: RunRequest, run: RunLog, role: str) -> str | None:
    """Why this run is no measurement of what was asked, when the engine fell back to something else."""
    facts, switches = run.info.models[role], request.settings.switches
    for name in ("attention", "cache", "step"):
        asked, took = getattr(switches, name), getattr(facts, name)
        if asked not in ("auto", took):
            said = [line for line in run.info.warnings if name in line.lower() or asked in line.lower()]
            return said[-1] if said else f"The engine took {name} {took} instead of {asked}."
    choice: ModelChoice | None = getattr(request, role)
    if choice is not None and choice.quantization is not None and facts.quantization is None:
        return f"The engine loaded the weights unquantized instead of {choice.quantization}."
    return None
