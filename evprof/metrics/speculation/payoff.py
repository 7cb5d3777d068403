"""Speculation against the plain runs of the same questions: its measured speed, the predicted one, expected totals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.configurations.baselines import Baseline, baseline_of, baseline_over, draft_alone, repeats_of
from evprof.metrics.configurations.gathering import Configuration, sample_key
from evprof.metrics.estimates.estimates import Read, Verdict, observe, verdict
from evprof.metrics.estimates.paired import mean_of
from evprof.metrics.figures.decoding import answer_length, decode_ms_per_token, decode_steps, output_length
from evprof.metrics.figures.partition import measured_ms, shape_of
from evprof.metrics.figures.stages import END_TO_END, WITHOUT_LOAD, total_ms
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.break_even import OUTPUT_LENGTHS, AnswerPace, RoundCosts, parallel_prefill
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

PRINTED_002 = {5: (743, 650), 20: (1268, 850), 50: (2318, 1200), 100: (4068, 2100)}
"""Document 002's totals by output length, in ms: the target alone, and parallel prefill with an adapter. They contain a
unit slip: 34.7 tok/s for 35 ms per token. At its measured 28.8 ms the target alone takes 1,173 ms for 20 tokens."""


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

    @property
    def is_clear(self) -> bool:
        """Whether speculation may be called faster or slower."""
        return self.whole is not None and self.whole.is_clear

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


def step_ms_of(baseline: Baseline | None) -> float | None:
    """The plain target's decode time per token in ms: the median over its runs; None where none decoded."""
    steps = [step for step in map(decode_ms_per_token, baseline.runs if baseline else ()) if step is not None]
    return median(steps) if steps else None


@dataclass(frozen=True)
class Prediction:
    """A speculative request by the formula: costs, acceptance, predicted speed, and the measured speed.

    `gamma` are the shares of rounds by drafted tokens. `alpha` is accepted / judged, `by_place` the same by place.
    `predicted` is S from `by_place`, `predicted_alpha` from `alpha`; `predicted_decode` the first with the costs that
    decoding pays once, which compares with `measured` on the basis decode. Break-even figures count preparation, too;
    None where no acceptance pays.
    """

    costs: RoundCosts
    gamma: dict[int, float]
    tokens: int
    alpha: float | None
    by_place: tuple[float, ...]
    predicted: float
    predicted_alpha: float | None
    predicted_decode: float
    preparation_ms: float
    break_even_alpha: float | None
    break_even_rate: float | None
    ceiling: AcceptanceCeiling | None
    measured: Mapping[str, Verdict]

    @property
    def mean_gamma(self) -> float:
        return sum(count * share for count, share in self.gamma.items())

    @property
    def tau(self) -> float:
        return break_even.tau(self.gamma, self.by_place)

    @property
    def c(self) -> float | None:
        """A drafted token in plain steps; None where none was drafted."""
        drafting = sum(share * self.costs.drafting_ms(count) for count, share in self.gamma.items())
        return drafting / self.mean_gamma / self.costs.step_ms if self.mean_gamma else None

    @property
    def v(self) -> float:
        resting = sum(share * self.costs.verifying_ms(count) for count, share in self.gamma.items())
        return resting / self.costs.step_ms


def prediction_of(run: RunLog, others: Iterable[RunLog]) -> Prediction | None:
    """The prediction for a run's request over its repeats; None without steady rounds or a plain baseline."""
    payoff = payoff_of(run, others)
    step = None if payoff is None else step_ms_of(payoff.baseline)
    return None if payoff is None or step is None else prediction_over(payoff.runs, step, payoff.measured)


def prediction_over(
    runs: Sequence[RunLog], step_ms: float, measured: Mapping[str, Verdict] | None = None
) -> Prediction | None:
    """The same over any speculative runs of one configuration, whose target decodes a token in `step_ms` by itself."""
    costs = break_even.costs_of(runs, step_ms)
    if costs is None:
        return None
    gamma = break_even.gammas_of(runs)
    tokens = round(median(map(answer_length, runs)))
    distinct = distinct_answers(runs)
    by_place = chances_of(distinct)
    alpha = acceptance_of_all(distinct).token_acceptance_rate
    preparation = median(preparation_ms(entry) for entry in runs)
    return Prediction(
        costs,
        gamma,
        tokens,
        alpha,
        by_place,
        predicted=break_even.speedup(gamma, by_place, costs),
        predicted_alpha=None if alpha is None else break_even.speedup(gamma, alpha, costs),
        predicted_decode=break_even.answer_speedup(costs, gamma, by_place, tokens) if tokens > 1 else 1.0,
        preparation_ms=preparation,
        break_even_alpha=break_even.break_even_alpha(costs, gamma, tokens, preparation),
        break_even_rate=break_even.break_even_rate(costs, gamma, tokens, preparation),
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


@dataclass(frozen=True)
class Expected:
    """Totals in ms of an answer of `tokens`, from vision to the last token, as document 002 counts them.

    `plain_ms` is the target alone, `rounds_ms` with rounds as measured, `parallel_ms` with one block drafted inside the
    prefill without contention; None where unknown. `printed_*` are document 002's (see PRINTED_002).
    """

    tokens: int
    plain_ms: float
    rounds_ms: float | None
    parallel_ms: float | None
    printed_ms: int | None
    printed_parallel_ms: int | None


def expected_table(run: RunLog, others: Sequence[RunLog]) -> list[Expected]:
    """Document 002's table from this machine's runs, at the measured acceptance.

    [] without a plain baseline whose vision and prefill were timed.
    """
    baseline = baseline_of(run, others)
    target = None if baseline is None else pace_over(baseline.runs)
    if target is None:
        return []
    draft, found, counts = pace_over(draft_alone(run, others)), prediction_of(run, others), acceptance_of_all([run])
    chance = counts.token_acceptance_rate
    rows = []
    for tokens in OUTPUT_LENGTHS:
        rounds_ms = parallel_ms = None
        if found is not None:
            answer = break_even.answer_ms(found.costs, found.gamma, found.by_place, tokens, found.preparation_ms)
            rounds_ms = target.prefix_ms + answer
        if draft is not None and chance is not None:
            cost = 1.0 if found is None else max(1.0, found.v)
            parallel_ms = parallel_prefill(target, draft, tokens, chance, verify_cost=cost).total_ms
        printed = PRINTED_002.get(tokens, (None, None))
        rows.append(Expected(tokens, target.total_ms(tokens), rounds_ms, parallel_ms, *printed))
    return rows


def pace_over(runs: Sequence[RunLog]) -> AnswerPace | None:
    """How plain repeats answer: medians of the time to the first token from vision on, and of a step."""
    prefixes = [value for run in runs if (value := prefix_ms(run)) is not None]
    steps = [value for run in runs if (value := decode_ms_per_token(run)) is not None]
    return AnswerPace(median(prefixes), median(steps)) if prefixes and steps else None
