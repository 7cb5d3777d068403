"""The speed of speculation foretold from other scenes than those it is compared with.

A prediction from the very runs it stands beside repeats them: costs and acceptance of a run give back its own speed.
Here the samples are halved in turn, each half is predicted from the costs and the acceptance of the other, and both are
compared as ratios of total times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from evprof.core.run_log import RunLog
from evprof.metrics.configurations.gathering import SampleKey, by_sample
from evprof.metrics.estimates.estimates import Read
from evprof.metrics.figures.decoding import decode_ms_per_token, decode_steps
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.outcome import distinct_answers
from evprof.metrics.speculation.payoff import chances_of

FEWEST_SAMPLES = 2
"""With one sample there is no other to predict it from."""


@dataclass(frozen=True)
class CrossPrediction:
    """Decoding as many times as fast as the target alone: foretold from other samples, and measured, over `samples`."""

    predicted: float
    measured: float
    samples: int

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


def predict_across(runs: Sequence[RunLog], plain: Sequence[RunLog]) -> CrossPrediction | None:
    """Every sample predicted from the others' half; None below two samples that both sides decoded."""
    mine, theirs = by_sample(runs), by_sample(plain)
    keys = [key for key in mine if _decoded(mine[key]) and _decoded(theirs.get(key, []))]
    halves = keys[::2], keys[1::2]
    if len(keys) < FEWEST_SAMPLES:
        return None
    totals = [0.0] * 4
    for asked, known in (halves, halves[::-1]):
        step = median(_each(theirs, known, decode_ms_per_token))
        learned = [run for key in known for run in mine[key]]
        costs = break_even.costs_of(learned, step)
        if costs is None:
            return None
        gamma, chances = break_even.gammas_of(learned), chances_of(distinct_answers(learned))
        for key in asked:
            steps = fmean(_each(mine, [key], decode_steps))
            foretold = break_even.answer_ms(costs, gamma, chances, round(steps) + 1)
            parts = (
                steps * step,
                foretold,
                steps * fmean(_each(theirs, [key], decode_ms_per_token)),
                fmean(_each(mine, [key], _decode_ms)),
            )
            totals = [total + part for total, part in zip(totals, parts, strict=True)]
    return CrossPrediction(totals[0] / totals[1], totals[2] / totals[3], len(keys))


def _each(runs: dict[SampleKey, list[RunLog]], keys: Sequence[SampleKey], read: Read) -> list[float]:
    return [value for key in keys for run in runs[key] if (value := read(run)) is not None]


def _decoded(runs: Sequence[RunLog]) -> bool:
    return any(decode_ms_per_token(run) is not None for run in runs)


def _decode_ms(run: RunLog) -> float | None:
    return stage_ms(run, "decode")
