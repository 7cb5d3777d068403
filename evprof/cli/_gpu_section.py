"""The hidden command `evprof _gpu-section NAME`: one section of `evprof bench gpu`, in the process it was started in.

It prints a JSON object a line: `environment` with `settings`, `row`, `problem`, and at the end `gpu_end` and `done` or
`failed` with a sentence. Everything that libraries print goes to standard error.
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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, TextIO

from evprof.core.errors import FAILURE, UserError
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import ModelChoice
from evprof.core.vocabulary.modes import mode_of


@dataclass(frozen=True)
class SectionSize:
    """What is measured at one size: the language model's shape and its prompts, tokens and rounds of turns; pairs of
    the instrumentation; the pair of whole runs, how often and how long these are."""

    shape: str
    contexts: tuple[int, ...]
    tokens: int
    rounds: int
    overhead_shape: str
    pairs: int
    draft: str
    target: str
    repeat: int
    run_tokens: int
    switches: tuple[str, ...] = ()
    scale: float = 1.0
    no_compiling: str | None = None


SIZES = {
    "7b": SectionSize(
        shape="7b-video-llava",
        contexts=(640, 4643, 2086),
        tokens=64,
        rounds=7,
        overhead_shape="dispatch-32",
        pairs=16,
        draft="random:7b-eventgpt",
        target="random:7b-video-llava",
        repeat=3,
        run_tokens=32,
    ),
    "tiny": SectionSize(
        shape="tiny-video-llava",
        contexts=(16, 24, 40),
        tokens=20,
        rounds=2,
        overhead_shape="tiny",
        pairs=3,
        draft="evprof-tiny-eventgpt",
        target="evprof-tiny-video-llava",
        repeat=1,
        run_tokens=4,
        switches=("cache static", "early-exit"),
        scale=0.1,
        no_compiling="at tiny shapes nothing is compiled: that takes longer than all the rest",
    ),
}
"""By name: what promises are about, and what only shows that every section works."""

FROM_FILES = ("prefetch", "video-decoder", "frame-cache")
"""Switches that are about files and decoders, of which a GPU shows nothing."""


class SectionProcess:
    """What a section works with: device and dtype, its size, the seconds left, and where its findings go."""

    def __init__(self, options: argparse.Namespace, output: TextIO) -> None:
        self.size_name: str = options.shape
        self.options = options
        self._output = output
        self._ends: float = time.monotonic() + options.limit

    def say(self, **found: Any) -> None:
        """One line for the parent."""
        self._output.write(json.dumps(found, allow_nan=False) + "\n")
        self._output.flush()

    def emit(self, row: dict[str, Any]) -> None:
        """A row; or a problem, in a row that holds nothing else."""
        if set(row) == {"problem"}:
            self.say(**row)
        else:
            self.say(row=row)

    def note(self, text: str) -> None:
        """For the section's log."""
        print(text, file=sys.stderr, flush=True)

    def left_s(self) -> float:
        """Seconds until the parent ends this process."""
        return max(0.0, self._ends - time.monotonic())

    @property
    def device(self) -> Any:
        """Where it is measured, as torch names it. Raises UserError for one that is not there."""
        from engines.hardware.device import choose_device

        return choose_device(self.options.device)

    @property
    def dtype(self) -> Any:
        """In what arithmetic, as torch names it."""
        from engines.hardware.device import choose_dtype

        return choose_dtype(self.options.dtype, self.device)

    @property
    def size(self) -> SectionSize:
        """7B shapes on a GPU, tiny ones elsewhere, unless one is named."""
        return SIZES[self.size_name or ("7b" if self.device.type == "cuda" else "tiny")]

    def describe(self) -> None:
        """Tells the machine as it is now, and what is measured."""
        from engines.hardware.device import dtype_name
        from engines.hardware.environment import describe_environment
        from engines.hardware.threads import use_threads

        device = self.device
        if device.type == "cpu":
            use_threads(())  # one: what is measured on a CPU is small
        name = next(name for name, size in SIZES.items() if size is self.size)
        settings = {"device": str(device), "device_type": device.type, "dtype": dtype_name(self.dtype), "size": name}
        self.say(environment=describe_environment(device), settings=settings)

    def tell_gpu(self) -> None:
        """Clocks, temperature and throttling at the end."""
        from engines.hardware.gpu_state import gpu_state

        self.say(gpu_end=gpu_state(self.device))


def main(words: Sequence[str]) -> int:
    """Carries one section out; exit code 1 when it failed."""
    parser = argparse.ArgumentParser("evprof _gpu-section")
    parser.add_argument("section", choices=SECTION_WORK)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--shape", choices=SIZES, default=None)
    parser.add_argument("--limit", type=float, default=600.0)
    options = parser.parse_args(words)
    process = SectionProcess(options, sys.stdout)
    with contextlib.redirect_stdout(sys.stderr):
        try:
            process.describe()
            sentence = SECTION_WORK[options.section](process)
            process.tell_gpu()
        except UserError as error:
            process.say(failed=error.sentence)
            return FAILURE
        except Exception as error:  # noqa: BLE001 - a defect costs this section, not the others
            traceback.print_exc()
            first = next(iter(str(error).strip().splitlines()), "")
            process.say(failed=f"{type(error).__name__}: {first}")
            return FAILURE
    process.say(done=sentence)
    return 0


def _ceilings(process: SectionProcess) -> str:
    from engines.bench.ceilings import measure_ceilings

    found = measure_ceilings(process.device, process.dtype, scale=process.size.scale)
    process.emit({"figure": "ceilings", **found.to_json()})
    return ""


def _tests(process: SectionProcess) -> str:
    from evprof.run.gpu_bench.cuda_tests import run_cuda_tests

    return run_cuda_tests(process.emit, process.left_s())


def _steps(process: SectionProcess, group: str, rounds: int, least_left_s: float) -> str:
    from engines.bench.language_steps import StepsPlan, measure_steps

    size = process.size
    plan = StepsPlan(
        size.shape,
        size.contexts,
        size.tokens,
        rounds=min(rounds, size.rounds),
        device=process.device,
        dtype=process.dtype,
        scale=size.scale,
        group=group,
        least_left_s=least_left_s,
        no_compiling=size.no_compiling,
    )
    measure_steps(plan, process.emit, process.note, process.left_s)
    return ""


def _instrumentation(process: SectionProcess) -> str:
    from engines.bench.overhead import measure_overhead

    size = process.size
    found = measure_overhead(size.overhead_shape, size.pairs, process.note, device=str(process.device))
    process.emit({"figure": "overhead", **found["summary"]})
    return ""


def _switches(process: SectionProcess) -> str:
    from threading import Timer

    from engines.start import make_batch_engine, make_engine
    from evprof.run.demo import BUNDLED_DRAFT, BUNDLED_TARGET
    from evprof.run.switches.bench import SwitchPlan, measure_switches
    from evprof.run.switches.variants import VARIANTS

    names = tuple(dict.fromkeys(one.switch for one in VARIANTS if one.switch not in FROM_FILES))
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
        found = measure_switches(
            make_engine(),
            plan,
            stop,
            process.note,
            batches=make_batch_engine(),
            keep=lambda row: process.emit({"figure": "switch", **row}),
        )
    timer.cancel()
    if not found["summary"]["is_complete"]:
        return f"Time allowed for {len(found['rows']):,} rows."
    return f"{found['summary']['measured']} rows measured, {found['summary']['not_here']} not here."


_SPARE_S = 8.0
"""What a row of switches may still take when the time for others is over."""


def _parallel(process: SectionProcess) -> str:
    from evprof.run.gpu_bench.engine_sections import measure_parallel_prefill

    with _engine_bench(process) as bench:
        measure_parallel_prefill(bench, process.emit)
    return ""


def _blocks(process: SectionProcess) -> str:
    from engines.bench.block_costs import LONGEST, BlockCosts, measure_block_costs
    from engines.bench.workload import make_workload
    from engines.loading.shapes import bench_shape

    size = process.size
    draft_context, context = min(size.contexts), sorted(size.contexts)[1]
    workload = make_workload(bench_shape(size.shape), context, LONGEST + 4, process.device, process.dtype)
    rounds = 2 * size.rounds + 2
    measure_block_costs(BlockCosts(workload, draft_context, rounds), process.emit, process.note, process.left_s)
    return ""


def _memory(process: SectionProcess) -> str:
    from engines.fit.requirements import memory_need
    from evprof.run.gpu_bench.engine_sections import measure_memory

    def need(choice: ModelChoice, role: str, request: RunRequest) -> dict[str, int]:
        settings = request.settings.taken_by(role, drafts=mode_of(request.mode).drafts)
        found = memory_need(choice, role, settings)
        parts = {"weight": found.weight_bytes, "kv": found.kv_bytes, "activation": found.activation_bytes}
        return {**parts, "total": found.total_bytes}

    with _engine_bench(process) as bench:
        measure_memory(bench, need, process.emit)
    return ""


def _trace(process: SectionProcess) -> str:
    from evprof.run.demo import BUNDLED_DRAFT, BUNDLED_TARGET
    from evprof.run.gpu_bench.engine_sections import measure_trace

    with _engine_bench(process, BUNDLED_DRAFT, BUNDLED_TARGET) as bench, tempfile.TemporaryDirectory() as folder:
        measure_trace(bench, Path(folder), process.emit, is_cuda=process.device.type == "cuda")
    return ""


@contextlib.contextmanager
def _engine_bench(process: SectionProcess, draft: str | None = None, target: str | None = None) -> Any:
    """An engine and what it is asked, with the size's pair unless another one is named; freed on leaving."""
    from engines.start import make_engine
    from evprof.run.gpu_bench.engine_sections import PairBench

    size, engine = process.size, make_engine()
    try:
        with _scene() as sample:
            yield PairBench(
                engine,
                _choice(process, draft or size.draft),
                _choice(process, target or size.target),
                sample,
                size.repeat,
                size.run_tokens,
                Event(),
            )
    finally:
        engine.close()


def _choice(process: SectionProcess, name: str) -> ModelChoice:
    from engines.hardware.device import dtype_name

    return ModelChoice(name, str(process.device), dtype_name(process.dtype))


@contextlib.contextmanager
def _scene() -> Any:
    """A sample that needs no video decoder; its pictures are gone on leaving."""
    from evprof.run.gpu_bench.picture_scene import write_picture_scene

    with tempfile.TemporaryDirectory() as folder:
        yield write_picture_scene(Path(folder) / "frames")


SECTION_WORK: dict[str, Callable[[SectionProcess], str]] = {
    "ceilings": _ceilings,
    "tests": _tests,
    "steps": partial(_steps, group="plain", rounds=6, least_left_s=25.0),
    "fused": partial(_steps, group="fused", rounds=3, least_left_s=15.0),
    "compiled": partial(_steps, group="compiled", rounds=3, least_left_s=45.0),
    "instrumentation": _instrumentation,
    "switches": _switches,
    "parallel": _parallel,
    "blocks": _blocks,
    "memory": _memory,
    "trace": _trace,
}
"""What carries each section out; it returns a sentence, or nothing."""
