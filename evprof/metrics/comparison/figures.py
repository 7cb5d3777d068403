"""How the figures that runs are compared by are read off a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from evprof.core.records import STAGES
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.figures import FIGURES, Figure, figure_of
from evprof.core.vocabulary.scoring import SCORING_RULES
from evprof.metrics.figures import decoding, energy, kv_cache, scores, stages
from evprof.metrics.figures.partition import Block, StagePartition, composites, measured_ms, name_of
from evprof.metrics.figures.stages import MODEL_ONLY, MODEL_STAGES, WITHOUT_LOAD, Rate
from evprof.metrics.speculation.outcome import acceptance, is_tree

Reader = Callable[[RunLog, str, str], float | None]
"""Reads a figure off a run for the model of a role, on a basis; None: not measured."""


@dataclass(frozen=True)
class FigureReading:
    """A figure as a comparison reads it; `stages` are those whose time it is, if it is that of stages."""

    figure: Figure
    read: Callable[[RunLog, StagePartition], float | None]
    stages: Block = ()

    def over(self, run: RunLog) -> float | None:
        """The divisor of a rate."""
        rate = RATES.get(self.figure.key)
        return None if rate is None else rate.over(run)


def stages_of(basis: str) -> Block:
    if basis == MODEL_ONLY:
        return MODEL_STAGES
    return STAGES[1:] if basis == WITHOUT_LOAD else STAGES


def on_basis(basis: str) -> list[str]:
    names = {f"{name}_ms" for name in STAGES if name not in stages_of(basis)}
    return [key for key in FIGURES if key not in names and not (key == "unattributed_ms" and basis == MODEL_ONLY)]


def compared_figures(basis: str, shapes: Iterable[StagePartition]) -> list[FigureReading]:
    """All figures in order of presentation: a piece of several stages after the last of them."""
    names = stages_of(basis)
    found = [_of_answer(key, basis) for key in on_basis(basis)]
    for block in composites(shapes, names):
        place = max(index for index, entry in enumerate(found) if entry.stages and entry.stages[-1] == block[-1])
        found.insert(place + 1, _of_stages(figure_of(f"{name_of(block)}_ms"), block))
    return found


def _of_answer(key: str, basis: str) -> FigureReading:
    """A figure of a run's answering model; imported runs may bring it as a number of their file."""
    figure, stage = FIGURES[key], key.removesuffix("_ms")
    if stage in STAGES:
        return _of_stages(figure, (stage,))

    def read(run: RunLog, _: StagePartition) -> float | None:
        value = READERS[key](run, run.info.role, basis)
        is_told = value is None and run.info.imported is not None and key not in _BASED
        return run.info.imported.figures.get(key) if is_told and run.info.imported else value

    return FigureReading(figure, read)


def _of_stages(figure: Figure, block: Block) -> FigureReading:
    return FigureReading(figure, lambda run, shape: measured_ms(run, shape, block), block)


def _whole(read: Callable[[RunLog], float | None]) -> Reader:
    """A figure of the whole run, which is told of the model that answers (`Figure.is_of_answer`)."""
    return lambda run, *_: read(run)


def _based(read: Callable[[RunLog, str], float | None]) -> Reader:
    return lambda run, _, basis: read(run, basis)


def _of_model(read: Callable[[RunLog, str], float | None]) -> Reader:
    return lambda run, role, _: read(run, role)


def _of_stage(name: str) -> Reader:
    return lambda run, role, _: stages.stage_ms(run, name, role)


def _counted(*names: str) -> Callable[[RunLog], float | None]:
    def count(run: RunLog) -> float | None:
        counts = acceptance(run)
        return None if counts is None else sum(getattr(counts, name) for name in names)

    return count


_drafted = _counted("drafted")


_REMEMBERED = ("weights_bytes", "peak_allocated_bytes", "peak_rss_bytes")


def remembered_bytes(run: RunLog, name: str) -> int | None:
    found: int | None = getattr(run.info.memory, name)
    return found


def _score(key: str) -> Reader:
    return _whole(lambda run: scores.score(run, key))


def _remembered(name: str) -> Reader:
    return _whole(lambda run: remembered_bytes(run, name))


_BASED = ("total_ms", "time_to_first_token_ms", "unattributed_ms", "energy_per_answer_j")
"""Figures that depend on the basis, so that no file's number stands in for them."""

RATES: dict[str, Rate] = {
    "inter_token_latency_ms": decoding.inter_token_latency_ms,
    "decode_ms_per_token": decoding.decode_ms_per_token,
    "prefill_throughput_tok_s": decoding.prefill_throughput_tok_s,
    "decode_throughput_tok_s": decoding.decode_throughput_tok_s,
    "energy_per_token_j": energy.decode_energy_per_token_j,
    "mean_power_w": energy.mean_power_w,
    "draft_acceptance_rate": Rate(_counted("accepted"), lambda run: None if is_tree([run]) else _drafted(run)),
    "mean_acceptance_length": Rate(_counted("rounds", "accepted"), _counted("rounds")),
}

READERS: dict[str, Reader] = {
    "total_ms": _based(stages.total_ms),
    "time_to_first_token_ms": _based(decoding.time_to_first_token_ms),
    **{f"{name}_ms": _of_stage(name) for name in STAGES},
    "unattributed_ms": _whole(stages.unattributed_ms),
    **{key: _whole(rate) for key, rate in RATES.items()},
    "input_sequence_length": _of_model(decoding.input_length),
    "visual_tokens": _of_model(decoding.visual_tokens),
    "output_sequence_length": _whole(decoding.output_length),
    "kv_cache_bytes": _of_model(kv_cache.live_bytes),
    **{name: _remembered(name) for name in _REMEMBERED},
    "energy_per_answer_j": _based(energy.energy_j),
    "peak_power_w": _whole(energy.peak_power_w),
    **{key: _score(key) for key in SCORING_RULES},
}
