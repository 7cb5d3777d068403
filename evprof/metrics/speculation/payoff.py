"""Speculation against the plain runs of the same questions: its measured speed and the predicted one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.configurations.baselines import Baseline, baseline_over, repeats_of
from evprof.metrics.configurations.gathering import Configuration, sample_key
from evprof.metrics.estimates import estimates
from evprof.metrics.estimates.estimates import Verdict, verdict
from evprof.metrics.estimates.observations import Read, observe
from evprof.metrics.estimates.paired import mean_of
from evprof.metrics.figures.decoding import answer_length, decode_ms_per_token, decode_steps, output_length
from evprof.metrics.figures.partition import measured_ms, shape_of
from evprof.metrics.figures.stages import END_TO_END, WITHOUT_LOAD, total_ms
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.break_even import AnswerPace, Chance, RoundCosts, answer_ms
from evprof.metrics.speculation.clinic import per_position
from evprof.metrics.speculation.outcome import (
    AcceptanceCeiling,
    acceptance_of_all,
    ceiling_of,
    distinct_answers,
    preparation_ms,
)


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


DECODE = "decode"
MEASURED_BASES = (DECODE, WITHOUT_LOAD, END_TO_END)
"""What speeds are measured on: decode time per token; everything but loading; the whole wall."""


@dataclass(frozen=True)
class Payoff:
    """Runs with speculation against their baseline. `measured` are plain time / time with speculation by basis, in the
    order of MEASURED_BASES; above 1 speculation is faster.

    `saved` is None where answers are of different lengths, so that only times per token can be compared.
    """

    runs: tuple[RunLog, ...]
    baseline: Baseline
    measured: Mapping[str, Verdict]
    saved: Verdict | None

    @property
    def basis(self) -> str:
        """The whole answer, or, where lengths differ, a token."""
        return END_TO_END if END_TO_END in self.measured else DECODE

    @property
    def whole(self) -> Verdict | None:
        """The speed on `basis`."""
        return self.measured.get(self.basis)

    @property
    def speed(self) -> float | None:
        return self.whole.ratio if self.whole else None

    @cached_property
    def most_saved_ms(self) -> float | None:
        """What the accepted tokens of an answer can save at most, a step of the baseline each; None where not known."""
        distinct, step_ms = distinct_answers(self.runs), step_ms_of(self.baseline.runs)
        if step_ms is None or not all(mode_of(run.info.mode).drafts for run in distinct):
            return None
        return step_ms * acceptance_of_all(distinct).accepted / len(distinct)

    @property
    def is_explained(self) -> bool:
        """Whether accepted tokens can save what was saved; if not, something else changed."""
        return self.saved is None or self.most_saved_ms is None or self.saved.delta <= self.most_saved_ms

    @property
    def is_clear(self) -> bool:
        """Whether speculation may be called faster or slower."""
        return self.whole is not None and self.whole.is_clear and self.is_explained

    @property
    def is_faster(self) -> bool:
        return (self.speed or 0.0) > 1


def payoff_of(run: RunLog, others: Iterable[RunLog]) -> Payoff | None:
    """A run and its repeats against their baseline; None without one, or where nothing can be compared."""
    listed = list(others)
    return payoff_over(repeats_of(run, listed), listed)


def payoff_over(runs: Sequence[RunLog], others: Iterable[RunLog]) -> Payoff | None:
    """The same for runs of one configuration over any number of samples, in pairs of samples."""
    baseline = baseline_over(runs, others)
    if baseline is None:
        return None
    asked = {sample_key(run) for run in baseline.runs}
    mine = tuple(run for run in runs if sample_key(run) in asked)
    measured = {}
    for basis in MEASURED_BASES if _answers_alike(mine, baseline.runs) else (DECODE,):
        read = reader_of(basis)
        found = verdict(observe(mine, read), observe(baseline.runs, read))
        if found is not None and found.ratio is not None:
            measured[basis] = found
    return Payoff(mine, baseline, measured, measured.get(END_TO_END)) if measured else None


def _answers_alike(mine: Sequence[RunLog], plain: Sequence[RunLog]) -> bool:
    """Whether whole answers may be compared: greedy and lossless ones are the same, others where as long."""
    if all(not mode_of(run.info.mode).maps_cache and not run.info.settings.temperature for run in mine):
        return True
    return median(map(answer_length, mine)) == median(map(answer_length, plain))


def reader_of(basis: str) -> Read:
    """Reads the time of a basis off a run: ms per token, or a total in ms."""
    return decode_ms_per_token if basis == DECODE else lambda run: total_ms(run, basis)


def step_ms_of(plain: Sequence[RunLog]) -> float | None:
    """The mean decode time per token in ms, as `verdict` takes means; None where none decoded."""
    return estimates.mean_of(observe(plain, decode_ms_per_token))


@dataclass(frozen=True)
class Prediction:
    """A speculative configuration by the formula: costs, acceptance, predicted speed, and the measured speed.

    `alpha` is accepted / judged, `by_place` the same by place. `predicted` is the speed of decoding that whole rounds
    and what decoding pays once give with `by_place`, `predicted_alpha` with `alpha`; both compare with `measured` on
    the basis decode. Break-even figures are of an answer of `tokens` tokens and count preparation, too; None where
    speculation cannot pay.
    """

    costs: RoundCosts
    tokens: int
    alpha: float | None
    by_place: tuple[float, ...]
    predicted: float
    predicted_alpha: float | None
    preparation_ms: float
    break_even_alpha: float | None
    break_even_rate: float | None
    ceiling: AcceptanceCeiling | None
    measured: Mapping[str, Verdict]

    @property
    def gamma(self) -> Mapping[int, float]:
        """Rounds by drafted tokens, of the widths whose costs are measured."""
        return self.costs.rounds

    @property
    def mean_gamma(self) -> float:
        return sum(count * share for count, share in break_even.mix_of(self.gamma))

    @property
    def tau(self) -> float:
        return break_even.tau(self.gamma, self.by_place)

    @property
    def c(self) -> float | None:
        """A drafted token in baseline steps; None where none was drafted."""
        drafting = sum(share * self.costs.drafting_ms(count) for count, share in break_even.mix_of(self.gamma))
        return drafting / self.mean_gamma / self.costs.step_ms if self.mean_gamma else None

    @property
    def v(self) -> float:
        """The rest of a round in baseline steps."""
        return self.costs.round_ms(self.gamma) / self.costs.step_ms - (self.c or 0.0) * self.mean_gamma


def prediction_of(run: RunLog, others: Iterable[RunLog]) -> Prediction | None:
    """The prediction for a run's request over its repeats; None without enough steady rounds or a baseline."""
    payoff = payoff_of(run, others)
    return None if payoff is None else prediction_for(payoff)


def prediction_for(payoff: Payoff) -> Prediction | None:
    """The same over the runs that a verdict on them compared."""
    compared = next(iter(payoff.measured.values())).runs
    mine = [run for run in payoff.runs if run.run_id in compared[0]]
    step = step_ms_of([run for run in payoff.baseline.runs if run.run_id in compared[1]])
    return None if step is None else prediction_over(mine, step, payoff.measured)


def prediction_over(
    runs: Sequence[RunLog], step_ms: float, measured: Mapping[str, Verdict] | None = None
) -> Prediction | None:
    """The same over any speculative runs of one configuration, whose target decodes a token in `step_ms` by itself."""
    costs = break_even.costs_of(runs, step_ms)
    if costs is None:
        return None
    lengths = [length for run in runs if (length := answer_length(run)) > 1] or [2]
    distinct = distinct_answers(runs)
    by_place = chances_of(distinct)
    alpha = acceptance_of_all(distinct).token_acceptance_rate
    preparation, tokens = fmean(preparation_ms(entry) for entry in runs), round(median(lengths))
    needed = break_even.break_even_alpha(costs, costs.rounds, tokens, preparation)

    def speed(chance: Chance) -> float:
        times = {length: answer_ms(costs, costs.rounds, chance, length) for length in {*lengths}}
        return step_ms * (sum(lengths) - len(lengths)) / sum(times[length] for length in lengths)

    return Prediction(
        costs,
        tokens,
        alpha,
        by_place,
        predicted=speed(by_place),
        predicted_alpha=None if alpha is None else speed(alpha),
        preparation_ms=preparation,
        break_even_alpha=needed,
        break_even_rate=break_even.break_even_rate(costs.rounds, needed),
        ceiling=ceiling_of(runs),
        measured=measured or {},
    )


def chances_of(runs: Sequence[RunLog]) -> tuple[float, ...]:
    found = []
    for entry in per_position(*runs, steady_only=True):
        if entry.conditional is None:
            break
        found.append(entry.conditional)
    return tuple(found)
