"""Figures that sections read off runs, by name: read once for a report, whichever sections tell them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evprof.core.records import COVERS, STAGES
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.figures import FIGURES
from evprof.export.report.parts import Badge
from evprof.metrics.comparison.figures import RATES, READERS
from evprof.metrics.configurations.parts import UNATTRIBUTED
from evprof.metrics.figures import decoding, kv_cache, stages
from evprof.metrics.figures.partition import StagePartition, name_of, parts_ms, shape_of
from evprof.metrics.figures.stages import END_TO_END, MODEL_ONLY, WITHOUT_LOAD


@dataclass(frozen=True)
class ReportReading:
    """A figure: what the report's data keeps it under, how it is read off one run (None: not measured), and its unit.

    `is_derived`: it is never clocked or counted itself.
    """

    name: str
    read: Callable[[RunLog], float | None]
    unit: str = "ms"
    is_derived: bool = False

    def badge(self, own: Badge) -> Badge:
        """What the figure is of runs whose clocked figures are `own`."""
        return Badge.DERIVED if self.is_derived else own


def figure(key: str, basis: str = END_TO_END) -> ReportReading:
    """A figure of the vocabulary, of the answering model."""
    unit = FIGURES[key].unit
    is_derived = unit == "tok/s" or key in ("decode_ms_per_token", "energy_per_token_j", "mean_power_w")
    read = RATES.get(key) or (lambda run: READERS[key](run, run.info.role, basis))
    return ReportReading(f"{key} {basis}", read, unit, is_derived)


def total(basis: str) -> ReportReading:
    return figure("total_ms", basis)


def part(name: str) -> ReportReading:
    """One of `parts_of` a run, ms: a stage, several measured in one piece, or what no stage covers."""
    if name == UNATTRIBUTED:
        return figure("unattributed_ms")
    return ReportReading(name, lambda run: part_ms(run, name))


TIME_PER_TOKEN = figure("decode_ms_per_token")
TEXT_TOKENS = ReportReading("text tokens", decoding.text_tokens, "tokens")
GENERATION_RATE = ReportReading("generation rate", decoding.generation_throughput_tok_s, "tok/s", is_derived=True)
KV_BYTES = ReportReading("KV bytes", kv_cache.measured_bytes, "bytes")


def parts_of(run: RunLog, basis: str) -> list[str]:
    """What a run's time on a basis is made of, in order of stages: "vision", or "vision+prefill" in one piece."""
    return parts_of_shape(shape_of(run), basis)


def parts_of_shape(shape: StagePartition, basis: str) -> list[str]:
    """The same of all runs of a shape."""
    left_out = {WITHOUT_LOAD: ("load",), MODEL_ONLY: ("load", "preprocess")}.get(basis, ())
    found = {name_of(block) for block in shape.blocks}
    parts = [name for name in found if name and not set(name.split(COVERS)) <= set(left_out)]
    parts.sort(key=lambda name: (STAGES.index(name.split(COVERS)[0]), name))
    return parts if basis == MODEL_ONLY else [*parts, UNATTRIBUTED]


def part_ms(run: RunLog, name: str) -> float | None:
    """Time in ms of the intervals, of any role, that account for exactly these stages, overlaps once."""
    if COVERS not in name and run.info.imported is None:
        return stages.stage_total_ms(run, name)
    return parts_ms(run).get(name)


def part_title(name: str) -> str:
    """A part as people read it: "vision + prefill"."""
    return name.replace(COVERS, " + ")
