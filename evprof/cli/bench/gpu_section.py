"""The hidden command `evprof _gpu-section NAME:SECONDS…`: sections of `evprof bench gpu`, one after the other.

It prints a JSON object a line: `environment` with `settings`; for each section `begin` with the state of the GPU, then
`row` and `problem`, at its end `done` or `failed` with a sentence. What libraries print goes to standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any, TextIO

from evprof.core.errors import FAILURE, EngineLost, UserError
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import ModelChoice
from evprof.core.vocabulary.modes import mode_of
from evprof.run.gpu_bench.engine_sections import (
    Emit,
    PairBench,
    measure_energy,
    measure_memory,
    measure_parallel_prefill,
    measure_trace,
    write_picture_scene,
)
from evprof.run.gpu_bench.plan import SIZES, SectionSize
from evprof.run.requests import BUNDLED_DRAFT, BUNDLED_TARGET

FROM_FILES = ("prefetch",)
"""Switches that are about files and decoders, of which a GPU shows nothing."""


class SectionProcess:
    """What sections work with: device and dtype, their size, one model, the seconds left, and a place for findings."""

    def __init__(self, options: argparse.Namespace, output: TextIO) -> None:
        self.options = options
        self._output = output
        self._ends = 0.0

    def say(self, **said: Any) -> None:
        self._output.write(json.dumps(said, allow_nan=False) + "\n")
        self._output.flush()

    def emit(self, row: dict[str, Any]) -> None:
        """A row; or a problem, in a row that holds nothing else."""
        if set(row) == {"problem"}:
            self.say(**row)
        else:
            self.say(row=row)

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def left_s(self) -> float:
        """Seconds until the parent ends the section."""
        return max(0.0, self._ends - time.monotonic())

    @property
    def device(self) -> Any:
        """Where it is measured, as torch names it. Raises UserError for one that is not there."""
        from engines.hardware.device import choose_device

        return choose_device(self.options.device)

    @property
    def dtype(self) -> Any:
        from engines.hardware.device import choose_dtype

        return choose_dtype(self.options.dtype, self.device)

    @cached_property
    def workload(self) -> Any:
        """The model whose steps are timed, with the first of its prompts; drawn once for all sections.

        Raises UserError for what does not fit in memory.
        """
        from engines.bench.contenders import CONTENDERS
        from engines.bench.workload import check_room, make_workload
        from engines.hardware.device import free_bytes
        from engines.loading.shapes import bench_shape

        size, device, dtype = self.size, self.device, self.dtype
        shape = bench_shape(size.shape)
        check_room(shape, max(size.contexts) + size.tokens, len(CONTENDERS), device, dtype, free=free_bytes(device))
        return make_workload(shape, size.contexts[0], size.tokens, device, dtype)

    @cached_property
    def ceilings(self) -> Any:
        """The ceilings that shares are of, measured once; a row has them."""
        from engines.bench.ceilings import measure_ceilings

        ceilings = measure_ceilings(self.device, self.dtype, scale=self.size.scale)
        self.emit({"figure": "ceilings", **ceilings.to_json()})
        return ceilings

    @property
    def size_name(self) -> str:
        """7B shapes on a GPU, tiny ones elsewhere, unless one is named."""
        return self.options.shape or ("7b" if self.device.type == "cuda" else "tiny")

    @property
    def size(self) -> SectionSize:
        return SIZES[self.size_name]

    def describe(self) -> None:
        """Imports what most sections need, and writes down the machine and what is measured."""
        from engines.hardware.device import dtype_name, use_threads
        from engines.hardware.environment import describe_environment

        import_module("engines.bench.workload")
        device = self.device
        if device.type == "cpu":
            use_threads(())  # one: what is measured on a CPU is small
        dtype, size = dtype_name(self.dtype), self.size_name
        settings = {"device": str(device), "device_type": device.type, "dtype": dtype, "size": size}
        self.say(environment=describe_environment(device), settings=settings)

    def gpu_state(self) -> dict[str, Any] | None:
        from engines.hardware.environment import gpu_state

        return gpu_state(self.device)

    def carry_out(self, name: str, limit_s: float) -> bool:
        """One section, which the parent ends after so many seconds; whether the process may go on with another."""
        self.note(f"section {name}")
        self._ends = time.monotonic() + limit_s
        self.say(begin=name, gpu=self.gpu_state())
        try:
            sentence = SECTION_WORK[name](self)
        except UserError as error:
            self.say(failed=error.sentence)
            return not isinstance(error, EngineLost)
        except Exception as error:  # noqa: BLE001 - a defect costs this section, not the others
            traceback.print_exc()
            first = next(iter(str(error).strip().splitlines()), "")
            self.say(failed=f"{type(error).__name__}: {first}")
            return False
        self.say(done=sentence, gpu=self.gpu_state())
        return True


def _section(word: str) -> tuple[str, float]:
    name, _, limit_s = word.partition(":")
    if name not in SECTION_WORK:
        raise ValueError
    return name, float(limit_s)


def main(words: Sequence[str]) -> int:
    """Carries sections out; exit code 1 after a failure that may have left this process unusable."""
    parser = argparse.ArgumentParser("evprof _gpu-section")
    parser.add_argument("sections", nargs="+", type=_section)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--shape", choices=SIZES, default=None)
    options = parser.parse_args(words)
    process = SectionProcess(options, sys.stdout)
    with contextlib.redirect_stdout(sys.stderr):
        try:
            process.describe()
        except UserError as error:
            process.say(failed=error.sentence)
            return FAILURE
        return 0 if all(process.carry_out(*section) for section in options.sections) else FAILURE


def _steps(process: SectionProcess, *, is_compiled: bool) -> None:
    from engines.bench.contenders import CONTENDERS
    from engines.bench.language_steps import StepsPlan, measure_steps
    from engines.loading.shapes import bench_shape

    size = process.size
    plan = StepsPlan(
        bench_shape(size.shape),
        size.contexts,
        rounds=min(3, size.rounds) if is_compiled else size.rounds,
        ceilings=process.ceilings,
        contenders=[contender for contender in CONTENDERS if contender.is_compiled == is_compiled],
        one_by_one=is_compiled,
        least_left_s=60.0 if is_compiled else 20.0,
        no_compiling=size.no_compiling,
    )
    measure_steps(plan, process.workload, process.emit, process.note, process.left_s)


def _instrumentation(process: SectionProcess) -> None:
    from engines.bench.overhead import measure_overhead

    size = process.size
    measured = measure_overhead(size.overhead_shape, size.pairs, process.note, device=str(process.device))
    process.emit({"figure": "overhead", **measured["summary"]})


def _switches(process: SectionProcess) -> str:
    from threading import Timer

    from evprof.cli.run.recorded_session import make_engine
    from evprof.run.switches.bench import SwitchPlan, measure_switches
    from evprof.run.switches.variants import VARIANTS

    names = tuple(dict.fromkeys(variant.switch for variant in VARIANTS if variant.switch not in FROM_FILES))
    stop = Event()
    timer = Timer(process.left_s() - _SPARE_S, stop.set)
    timer.daemon = True
    timer.start()
    with _scene() as sample:
        plan = SwitchPlan(
            sample,
            _choice(process, BUNDLED_DRAFT),
            _choice(process, BUNDLED_TARGET),
            repeat=1,
            max_new_tokens=16 if process.size.switches else 8,
            only=process.size.switches or names,
        )
        measured = measure_switches(
            make_engine(),
            plan,
            stop,
            process.note,
            keep=lambda row: process.emit({"figure": "switch", **row}),
        )
    timer.cancel()
    summary = measured["summary"]
    if not summary["is_complete"]:
        return f"The time allowed for {len(measured['rows']):,} rows."
    return f"{summary['measured']} rows measured, {summary['not_here']} not here."


_SPARE_S = 8.0
"""What a row of switches may still take when the time for others is over."""


def _blocks(process: SectionProcess) -> None:
    from engines.bench.block_costs import LONGEST, BlockCosts, measure_block_costs

    size = process.size
    draft_context, context = size.block_contexts
    workload = replace(process.workload.with_context(context), tokens=LONGEST + 4)
    rounds = 2 * size.rounds + 2
    measure_block_costs(BlockCosts(workload, draft_context, rounds), process.emit, process.note, process.left_s)


def _runs(
    process: SectionProcess,
    measure: Callable[[PairBench, Emit], None],
    draft: str | None = None,
    target: str | None = None,
) -> None:
    """Measures whole runs of the size's pair, unless another one is named, by an engine that is freed afterwards."""
    from evprof.cli.run.recorded_session import make_engine
    from evprof.core.recording import RecordLog
    from evprof.run.processes.runner import LocalRunner

    size, log = process.size, RecordLog()
    pair = (_choice(process, draft or size.draft), _choice(process, target or size.target))
    with LocalRunner(make_engine, log) as runner, _scene() as sample:
        measure(PairBench(runner, log, *pair, sample, size.repeat, size.run_tokens), process.emit)


def _need(choice: ModelChoice, role: str, request: RunRequest) -> dict[str, int]:
    from engines.fit.requirements import memory_need

    need = memory_need(choice, role, request.settings.taken_by(role, drafts=mode_of(request.mode).drafts))
    parts = {"weight": need.weight_bytes, "kv": need.kv_bytes, "activation": need.activation_bytes}
    return {**parts, "total": need.total_bytes}


def _choice(process: SectionProcess, name: str) -> ModelChoice:
    from engines.hardware.device import dtype_name

    return ModelChoice(name, str(process.device), dtype_name(process.dtype))


@contextlib.contextmanager
def _scene() -> Any:
    """A sample that needs no video decoder; its pictures are gone on leaving."""
    with tempfile.TemporaryDirectory() as folder:
        yield write_picture_scene(Path(folder) / "frames")


SECTION_WORK: dict[str, Callable[[SectionProcess], str | None]] = {
    "steps": partial(_steps, is_compiled=False),
    "compiled": partial(_steps, is_compiled=True),
    "instrumentation": _instrumentation,
    "blocks": _blocks,
    "parallel": partial(_runs, measure=measure_parallel_prefill),
    "memory": partial(_runs, measure=partial(measure_memory, need=_need)),
    "energy": partial(_runs, measure=measure_energy),
    "trace": partial(_runs, measure=measure_trace, draft=BUNDLED_DRAFT, target=BUNDLED_TARGET),
    "switches": _switches,
}
"""What carries each section out; it returns a sentence, or nothing."""
