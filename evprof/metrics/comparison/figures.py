"""The figures that runs are compared by: their names, units, which side is better, and how each is read off a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from evprof.core.records import STAGES
from evprof.core.run_log import RunLog
from evprof.metrics.figures import decoding, kv_cache, stages
from evprof.metrics.figures.partition import Block, Shape, composites, measured_ms, name_of
from evprof.metrics.figures.stages import MODEL_ONLY, MODEL_STAGES, WITHOUT_LOAD
from evprof.metrics.speculation.outcome import acceptance

Reading = Callable[[RunLog, Shape], float | None]


@dataclass(frozen=True)
class Figure:
    """A comparable figure: name, unit, whether lower is better (None: neither), and how to read it off a run.

    `stages` are those whose time it is, if it is that of stages. `is_counted`: the same whenever the same is asked.
    """

    metric: str
    unit: str
    lower_is_better: bool | None
    read: Reading
    stages: Block = ()
    is_counted: bool = False

    @property
    def is_timed(self) -> bool:
        """Whether it is a time, or something by time: engine processes differ in these."""
        return self.unit in ("ms", "tok/s")


def stages_of(basis: str) -> Block:
    """The stages that a total on this basis counts."""
    if basis == MODEL_ONLY:
        return MODEL_STAGES
    return STAGES[1:] if basis == WITHOUT_LOAD else STAGES


def figures(basis: str, shapes: Iterable[Shape]) -> list[Figure]:
    """All figures in order of presentation: a piece of several stages behind the last of them."""
    names = stages_of(basis)
    blocks: list[Block] = [(name,) for name in names]
    for block in composites(shapes, names):
        place = max(index for index, other in enumerate(blocks) if other[-1] == block[-1])
        blocks.insert(place + 1, block)
    found = [
        Figure("total_ms", "ms", True, lambda run, _: stages.total_ms(run, basis)),
        Figure("time_to_first_token_ms", "ms", True, lambda run, _: decoding.time_to_first_token_ms(run, basis)),
        *(Figure(f"{name_of(block)}_ms", "ms", True, _stages_reading(block), block) for block in blocks),
    ]
    if basis != MODEL_ONLY:
        found.append(Figure("unattributed_ms", "ms", True, lambda run, _: stages.unattributed_ms(run)))
    return [*found, *_OTHERS]


def _stages_reading(block: Block) -> Reading:
    return lambda run, shape: measured_ms(run, shape, block)


def _plain(
    metric: str,
    unit: str,
    lower_is_better: bool | None,
    read: Callable[[RunLog], float | None],
    *,
    is_counted: bool = False,
) -> Figure:
    """A figure that does not depend on the basis; imported runs may bring it as a number of their file."""

    def reading(run: RunLog, _: Shape) -> float | None:
        value = read(run)
        if value is None and run.info.imported is not None:
            return run.info.imported.figures.get(metric)
        return value

    return Figure(metric, unit, lower_is_better, reading, is_counted=is_counted)


def _acceptance_reading(name: str) -> Callable[[RunLog], float | None]:
    def read(run: RunLog) -> float | None:
        counts = acceptance(run)
        found: float | None = getattr(counts, name) if counts else None
        return found

    return read


_OTHERS = (
    _plain("inter_token_latency_ms", "ms", True, decoding.inter_token_latency_ms),
    _plain("decode_ms_per_token", "ms", True, decoding.decode_ms_per_token),
    _plain("prefill_throughput_tok_s", "tok/s", False, decoding.prefill_throughput_tok_s),
    _plain("decode_throughput_tok_s", "tok/s", False, decoding.decode_throughput_tok_s),
    _plain("input_sequence_length", "tokens", None, decoding.input_length, is_counted=True),
    _plain("visual_tokens", "tokens", None, decoding.visual_tokens, is_counted=True),
    _plain("output_sequence_length", "tokens", None, decoding.output_length),
    _plain("kv_cache_bytes", "bytes", True, kv_cache.measured_bytes, is_counted=True),
    _plain("weights_bytes", "bytes", True, lambda run: run.info.memory.weights_bytes, is_counted=True),
    _plain("peak_allocated_bytes", "bytes", True, lambda run: run.info.memory.peak_allocated_bytes),
    _plain("peak_rss_bytes", "bytes", True, lambda run: run.info.memory.peak_rss_bytes),
    _plain("draft_acceptance_rate", "", False, _acceptance_reading("draft_acceptance_rate")),
    _plain("mean_acceptance_length", "tokens", False, _acceptance_reading("mean_acceptance_length")),
)
