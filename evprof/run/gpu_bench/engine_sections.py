"""Sections that let an engine do whole runs: parallel prefill, peak memory, energy, a torch trace."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from evprof.core.errors import EngineLost, UserError
from evprof.core.recording import RecordLog
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import RunRequest, TraceSettings
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunBook, RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.loaders.bundled import bundled_sample
from evprof.metrics.figures.decoding import decode_ms_per_token
from evprof.metrics.figures.energy import decode_energy_per_token_j, energy_j, mean_power_w, peak_power_w
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.speculation.parallel_prefill import window_of
from evprof.run.processes.runner import LocalRunner
from evprof.run.requests import requests_in_turns

Emit = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class PairBench:
    """What runs: a pair on a sample, `repeat` measured runs of each mode, of `tokens` tokens, which `log` records."""

    runner: LocalRunner
    log: RecordLog
    draft: ModelChoice
    target: ModelChoice
    sample: Sample
    repeat: int
    tokens: int

    def request(self, mode: str) -> RunRequest:
        """One mode, after a warm-up, to the last token."""
        settings = GenerationSettings(max_new_tokens=self.tokens, ignore_eos=True)
        return RunRequest(
            mode, self.sample, self.draft, self.target, settings, warmup=1, repeat=self.repeat, keeps_frames=False
        )

    def runs(self, requests: Sequence[RunRequest]) -> list[RunLog]:
        """All runs of the bench so far, those of `requests` last.

        Raises UserError for a run that did not finish, EngineLost where no other can run in this process.
        """
        book = RunBook(self.log)
        book.update()
        for request in requests:
            first = max(book.runs, default=0) + 1
            self.runner.run(replace(request, first_run_id=first, group_id=first))
            book.update()
            if self.runner.lost is not None:
                raise EngineLost(self.runner.lost)
            latest = [run for run_id, run in book.runs.items() if run_id >= first]
            for run in latest:
                if run.info.status != FINISHED:
                    raise UserError(run.info.error or f"A run in mode {request.mode} was {run.info.status}.")
            if not latest:
                raise UserError(f"The engine made no run in mode {request.mode}.")
        return list(book.runs.values())


def measure_parallel_prefill(bench: PairBench, emit: Emit) -> None:
    """A row: how long the draft worked inside the target's prefill, what it drafted there, what that cost both."""
    requests = [bench.request(mode) for mode in ("draft", "target", "parallel-prefill")]
    runs = bench.runs(requests_in_turns(requests))
    counted = [run for run in runs if not run.info.warmup]
    both = [run for run in counted if run.info.mode == "parallel-prefill"]
    windows = [figures for run in both if (figures := window_of(run, counted)) is not None]
    row: dict[str, Any] = {
        "figure": "parallel",
        "runs": len(both),
        "draft": bench.draft.name,
        "target": bench.target.name,
    }
    for key in ("prefill_ms", "overlap_ms", "left_ms", "drafted", "accepted", "contention_ms", "draft_contention_ms"):
        row |= _medians(key, [value for each in windows if (value := getattr(each, key)) is not None])
    for role in (DRAFT, TARGET):
        alone = [run for run in counted if run.info.mode == role]
        row |= _slowdown(f"{role}_prefill", both, alone, partial(stage_ms, name="prefill", role=role))
    alone = [run for run in counted if run.info.mode == DRAFT]
    row |= _slowdown("draft_step", both, alone, _draft_step_ms)
    facts = both[0].info.speculation if both else None
    emit(row | {"concurrency": facts.concurrency if facts else None})


def _draft_step_ms(run: RunLog) -> float | None:
    """Time of a drafted token: of the hidden block, or of a plain step where the draft answers alone."""
    if run.info.role == DRAFT:
        return decode_ms_per_token(run)
    hidden = [entry for entry in run.rounds if entry.hidden and entry.drafted]
    drafted = sum(entry.drafted for entry in hidden)
    return sum(entry.draft_ns for entry in hidden) / 1e6 / drafted if drafted else None


def _slowdown(
    name: str, both: Sequence[RunLog], alone: Sequence[RunLog], read: Callable[[RunLog], float | None]
) -> dict[str, Any]:
    """Median time together over the median alone, and both medians."""
    sides = [[value for run in runs if (value := read(run)) is not None] for runs in (both, alone)]
    together_ms, alone_ms = (median(side) if side else None for side in sides)
    return {
        f"{name}_together_ms": together_ms,
        f"{name}_alone_ms": alone_ms,
        f"{name}_slowdown": together_ms / alone_ms if together_ms and alone_ms else None,
    }


def _medians(name: str, values: Sequence[float]) -> dict[str, Any]:
    return {
        name: median(values) if values else None,
        f"{name}_least": min(values, default=None),
        f"{name}_most": max(values, default=None),
    }


def measure_memory(
    bench: PairBench, emit: Emit, need: Callable[[ModelChoice, str, RunRequest], dict[str, int]]
) -> None:
    """A row for each model alone: what `need` says it takes (bytes by part), and what its run took at most."""
    for role, choice in ((TARGET, bench.target), (DRAFT, bench.draft)):
        bench.runner.close()
        request = replace(bench.request(role), repeat=1)
        planned = need(choice, role, request)
        run = bench.runs([request])[-1]
        took = run.info.memory.peak_allocated_bytes
        emit(
            {
                "figure": "memory",
                "role": role,
                "model": run.info.models[role].name,
                **{f"planned_{part}_bytes": count for part, count in planned.items()},
                "weight_bytes": run.info.models[role].weight_bytes,
                "kv_bytes": run.info.kv[role].reserved_bytes,
                "peak_allocated_bytes": took,
                "peak_reserved_bytes": run.info.memory.peak_reserved_bytes,
                "peak_rss_bytes": run.info.memory.peak_rss_bytes,
                "peak_vs_plan": took / planned["total"] if took else None,
                "reason": None if took else "only a GPU's allocator counts what tensors take",
            }
        )


_ENERGY_LENGTH = 8
"""Times as many tokens as in other runs: counters go up every 20 to 100 ms."""


def measure_energy(bench: PairBench, emit: Emit) -> None:
    """A row with medians over long runs of the target: J of a run and of a token, mean and peak power in W."""
    bench = replace(bench, tokens=_ENERGY_LENGTH * bench.tokens)
    runs = [run for run in bench.runs([bench.request(TARGET)]) if not run.info.warmup]
    row: dict[str, Any] = {"figure": "energy", "model": bench.target.name, "runs": len(runs), "tokens": bench.tokens}
    for key, read in (
        ("energy_j", energy_j),
        ("energy_per_token_j", decode_energy_per_token_j),
        ("mean_power_w", mean_power_w),
        ("peak_power_w", peak_power_w),
    ):
        row |= _medians(key, [value for run in runs if (value := read(run)) is not None])
    known = row["energy_per_token_j"] is not None
    emit(row | {"reason": None if known else "no counter of this machine measured so short a run"})


def measure_trace(bench: PairBench, emit: Emit) -> None:
    """A row with the events of an exported trace. Raises UserError where it holds no operators, on CUDA no kernels."""
    is_cuda = bench.target.device.startswith("cuda")
    with TemporaryDirectory() as folder:
        request = replace(bench.request(TARGET), repeat=1, trace=TraceSettings(folder, tokens=4))
        traced = [run for run in bench.runs([request]) if run.info.profiled]
        path = traced[-1].info.trace_path if traced else None
        if path is None:
            raise UserError("The traced run left no trace.")
        events, size_bytes = categories_of(Path(path)), Path(path).stat().st_size
    kernels = events.get("kernel", 0)
    row = {"figure": "trace", "operators": events.get("cpu_op", 0), "kernels": kernels if is_cuda else None}
    row |= {"copies": sum(events.get(name, 0) for name in ("gpu_memcpy", "gpu_memset")) if is_cuda else None}
    emit(row | {"bytes": size_bytes, "model": bench.target.name})
    if not row["operators"] or (is_cuda and not kernels):
        raise UserError(f"The trace holds {row['operators']} operators and {kernels} kernels.")


def categories_of(path: Path) -> Counter[str]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        events = json.load(stream)["traceEvents"]
    return Counter(event["cat"] for event in events if "cat" in event)


FRAMES, WIDTH, HEIGHT = 16, 320, 240


def write_picture_scene(folder: Path) -> Sample:
    """Writes FRAMES PNGs into `folder`, which is made: a bright square that moves over a gradient. Raises OSError."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    across, down = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
    for number in range(FRAMES):
        picture = np.stack([across * 255 // WIDTH, down * 255 // HEIGHT, np.full_like(across, 64)], -1).astype(np.uint8)
        left = number * (WIDTH - 48) // FRAMES
        picture[96:144, left : left + 48] = (240, 220, 40)
        Image.fromarray(picture).save(folder / f"{number:03}.png")
    sample = bundled_sample()
    return replace(sample, video_path=str(folder), name=f"{sample.name}, pictures")
