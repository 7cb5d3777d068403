"""How a configuration answers, as two numbers: the time until its first token, and the time of every one after."""

from __future__ import annotations

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.paired import mean_of
from evprof.metrics.figures.decoding import decode_ms_per_token, decode_steps, output_length
from evprof.metrics.figures.partition import measured_ms, shape_of
from evprof.metrics.speculation.what_if import AnswerPace


def prefix_ms(run: RunLog) -> float | None:
    """Vision and prefill together, in one piece or two; None where they were timed with something else."""
    return measured_ms(run, shape_of(run), ("vision", "prefill"))


def pace_of(column: Configuration) -> AnswerPace | None:
    """The means of a plain configuration; None of a speculative one, and unless vision and prefill were timed apart
    from decoding, and steps counted."""
    run = column.runs[0]
    before, step = mean_of(column, prefix_ms), mean_of(column, decode_ms_per_token)
    if before is None or step is None or mode_of(run.info.mode).is_paired:
        return None
    counts_steps = run.info.imported is not None and output_length(run) in (None, decode_steps(run))
    return AnswerPace(before, step, 0 if counts_steps else 1)
