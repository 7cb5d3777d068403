"""How fast decoding is by drafted tokens a round, as rounds of that width were measured: never read off a curve.

A curve over the number of drafted tokens (`break_even.curve`) goes on where nothing was measured, and takes acceptance
to be the same there. Here a width speaks for itself, with an interval over runs, or is silent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median

from evprof.core.records import DRAFT
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.core.units import count_text, ms_from_ns, percent_text, times_text
from evprof.core.vocabulary.drafters import MODEL
from evprof.core.vocabulary.modes import SPECULATIVE
from evprof.metrics.arithmetic.statistics import FEWEST
from evprof.metrics.configurations.baselines import baseline_of, choose_baseline, is_counted, runs_text
from evprof.metrics.configurations.gathering import Configuration, SampleKey, by_sample, sample_key
from evprof.metrics.estimates.estimates import Read, Verdict, observe, verdict
from evprof.metrics.figures.decoding import decode_ms_per_token, decode_steps
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.break_even import costs_of, gammas_of, split_decode, steady_rounds
from evprof.metrics.speculation.outcome import distinct_answers, draft_depth, has_rejection
from evprof.metrics.speculation.payoff import chances_of

FEWEST_ROUNDS = 30
"""A width that fewer rounds had, or rounds in fewer than three runs, is not told."""

_WIDTH_KEYS = ("gamma", "length", "judges")
"""Settings that decide how much is drafted, and what is written down of it."""


@dataclass(frozen=True)
class Width:
    """So many tokens drafted a round: over how many `rounds`, and plain decoding's time per token / that of these."""

    gamma: int
    rounds: int
    speed: Verdict


def measured_widths(run: RunLog, others: Sequence[RunLog]) -> list[Width]:
    """Every width that was measured often enough with this run's drafter on its question, by width; [] without plain
    runs to hold it against."""
    baseline = baseline_of(run, others)
    if baseline is None:
        return []
    kin = {other.run_id: other for other in (run, *others) if is_counted(other.info) and _is_kin(run, other)}
    return widths_over(list(kin.values()), baseline.runs)


def widths_over(runs: Sequence[RunLog], baseline: Sequence[RunLog]) -> list[Width]:
    """The same of any runs of one drafter, held against these plain runs of the same questions."""
    plain = observe(baseline, decode_ms_per_token)
    rounds: dict[int, list[int]] = {}
    for run in runs:
        split = split_decode(run)
        depths = Counter(draft_depth(run, entry) for entry, _ in split[1]) if split is not None else Counter()
        for depth, count in depths.items():
            rounds.setdefault(depth, []).append(count)
    found = []
    for gamma, counted in sorted(rounds.items()):
        speed = verdict(observe(runs, partial(_ms_per_token, gamma=gamma)), plain)
        is_enough = sum(counted) >= FEWEST_ROUNDS and len(counted) >= FEWEST
        if gamma and is_enough and speed is not None and speed.interval is not None:
            found.append(Width(gamma, sum(counted), speed))
    return found


def _is_kin(run: RunLog, other: RunLog) -> bool:
    """Whether two runs ask the same of the same drafter but for how much it drafts."""
    one, two = run.info, other.info
    if two.mode != SPECULATIVE or one.sample != two.sample or one.models != two.models:
        return False
    facts = [(said.kind, said.adapter, said.tree) if said else None for said in (one.speculation, two.speculation)]
    asked = [
        {key: value for key, value in info.settings.flat().items() if key not in _WIDTH_KEYS} for info in (one, two)
    ]
    return facts[0] == facts[1] and asked[0] == asked[1]


def _ms_per_token(run: RunLog, *, gamma: int) -> float | None:
    """Rounds of a width with their share of what is paid once, over the tokens they gave."""
    split = split_decode(run)
    if split is None:
        return None
    mine = [(entry, gap) for entry, gap in split[1] if draft_depth(run, entry) == gamma]
    tokens = sum(entry.emitted for entry, _ in mine)
    spent = sum(ms_from_ns(entry.draft_ns + entry.verify_ns + entry.rollback_ns + gap) for entry, gap in mine)
    return (spent + split[0] * len(mine) / len(split[1])) / tokens if tokens else None


def fastest(widths: Sequence[Width]) -> Width | None:
    return max(widths, key=lambda width: width.speed.ratio or 0.0, default=None)


def width_sentence(widths: Sequence[Width]) -> str:
    top = fastest(widths)
    if top is None or top.speed.interval is None:
        return (
            f"Which number of drafted tokens is best cannot be said: none had {FEWEST_ROUNDS} rounds over {FEWEST} "
            f"runs beside {FEWEST} plain ones."
        )
    low, high = top.speed.interval
    over = count_text(top.rounds, "round")
    told = f"{times_text(top.speed.ratio or 0.0)} [{low:.2f}, {high:.2f}] at {top.gamma} drafted a round, over {over}"
    if not top.speed.is_clear:
        return f"{told}: the fastest measured, and not to be told from plain decoding."
    return (
        f"{told}: {'the fastest measured' if low > 1 else 'even the fastest measured is slower than plain decoding'}."
    )


@dataclass(frozen=True)
class Chains:
    """Runs of a pair in which the draft model drafted chains, with tokens accepted and judged. Greedy repeats say the
    same, and count once."""

    runs: tuple[RunLog, ...]
    accepted: int
    judged: int

    @property
    def rate(self) -> float:
        return self.accepted / self.judged

    @property
    def words(self) -> str:
        """`49.1 %, 212 of 432 judged tokens, runs 3, 4, … 8 (6 runs)`."""
        counted = f"{self.accepted:,} of {self.judged:,} judged tokens"
        return f"{percent_text(self.rate, 1)}, {counted}, {runs_text([run.run_id for run in self.runs])}"

    def costs(self, step_ms: float) -> tuple[float, float] | None:
        """(c, v): a drafted token and the rest of a round, in plain steps of `step_ms`; None where none was timed."""
        found, gamma = costs_of(self.runs, step_ms), gammas_of(self.runs)
        drafted = sum(count * share for count, share in gamma.items())
        if found is None or not drafted:
            return None
        drafting = sum(share * found.drafting_ms(count) for count, share in gamma.items())
        return drafting / drafted / step_ms, sum(share * found.v(count) for count, share in gamma.items())


def chains_of(draft: Configuration, target: Configuration, runs: Iterable[RunLog]) -> Chains | None:
    """Those among `runs` that answer the target's questions with this draft; None where nothing of it was judged."""
    plain: dict[object, list[RunInfo]] = {}
    for run in target.runs:
        plain.setdefault(sample_key(run), []).append(run.info)
    drafter = draft.runs[0].info
    mine = [
        run for run in runs if _is_chain(run, drafter) and choose_baseline([run.info], plain.get(sample_key(run), ()))
    ]
    accepted = judged = 0
    for run in distinct_answers(mine):
        for entry in steady_rounds(run):
            accepted, judged = accepted + entry.accepted, judged + entry.accepted + has_rejection(run, entry)
    return Chains(tuple(sorted(mine, key=lambda run: run.run_id)), accepted, judged) if judged else None


def _is_chain(run: RunLog, drafter: RunInfo) -> bool:
    info, model = run.info, drafter.models.get(DRAFT)
    facts = info.speculation
    if info.mode != SPECULATIVE or info.imported is not None or not is_counted(info):
        return False
    if facts is not None and (facts.kind != MODEL or facts.adapter or facts.tree):
        return False
    theirs = info.models.get(DRAFT)
    names = ("name", "dtype", "quantization", "device")
    is_same = model is not None and theirs is not None and all(getattr(theirs, n) == getattr(model, n) for n in names)
    return is_same and info.settings.event_frames == drafter.settings.event_frames


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
