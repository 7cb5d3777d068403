"""How right configurations answer, beside what that takes: scores by task, per second and joule, and McNemar's test.

Means, differences and rates are `estimates`' own, over samples and scenes. Right answers per second are the mean score
over the mean time of the same samples (all right answers by all time), not a mean of each run's own ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from statistics import fmean
from typing import Any

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.scoring import RIGHT, SCORING_RULES
from evprof.metrics.arithmetic.statistics import McNemar
from evprof.metrics.configurations.gathering import Configuration, SampleKey
from evprof.metrics.estimates.estimates import mean_of
from evprof.metrics.estimates.observations import Read, observe
from evprof.metrics.figures.energy import energy_j
from evprof.metrics.figures.scores import score
from evprof.metrics.figures.stages import END_TO_END, Rate, total_ms

MS_PER_S = 1000.0

MOST_TASKS = 100
"""Tasks that are told apart; what is beyond counts only in all."""


@dataclass(frozen=True)
class Accuracy:
    """The answers of a configuration, or of one `task` of it ("" of all), that are scored."""

    column: Configuration
    runs: tuple[RunLog, ...]
    basis: str = END_TO_END
    task: str = ""

    @property
    def samples(self) -> int:
        return _samples(self.runs)

    @property
    def judged(self) -> int:
        """How many of these can be right or wrong: right answers and their rates are over them."""
        return _samples([run for run in self.runs if score(run, RIGHT) is not None])

    @cached_property
    def means(self) -> dict[str, float]:
        """By name what is measured: the mean of each score, the time in ms and energy in J of an answer, and all right
        answers by all time in s and by all energy."""
        right, spent, used = (
            partial(score, key=RIGHT),
            partial(total_ms, basis=self.basis),
            partial(energy_j, basis=self.basis),
        )
        reads: dict[str, Read] = {key: partial(score, key=key) for key in SCORING_RULES}
        reads |= {"total_ms": spent, "energy_j": used, "right_per_j": Rate(right, used)}
        reads["right_per_s"] = Rate(lambda run: None if (one := right(run)) is None else one * MS_PER_S, spent)
        found = {key: mean_of(observe(self.runs, read)) for key, read in reads.items()}
        return {key: mean for key, mean in found.items() if mean is not None}

    def to_json(self) -> dict[str, Any]:
        """An entry of `accuracy` in the documents of `compare` and `suite`."""
        return {
            "task": self.task or None,
            "samples": self.samples,
            "judged": self.judged,
            "runs": len(self.runs),
            "scores": {key: {"mean": self.means[key]} for key in SCORING_RULES if key in self.means},
            **{key: {"mean": self.means[key]} if key in self.means else None for key in _BESIDE},
        }


_BESIDE = ("total_ms", "energy_j", "right_per_s", "right_per_j")


def _samples(runs: Sequence[RunLog]) -> int:
    return len({(run.info.sample.name, run.info.sample.prompt) for run in runs})


def of_judged(key: str, judged: int, samples: int) -> str:
    """` of 10` after a score that so many of the samples have: right answers where not all can be right or wrong."""
    return f" of {judged}" if key == RIGHT and 0 < judged < samples else ""


def accuracy_of(column: Configuration, basis: str = END_TO_END) -> Accuracy | None:
    """The scored answers of a configuration; None where no sample expects an answer."""
    runs = tuple(run for run in column.runs if any(score(run, key) is not None for key in SCORING_RULES))
    return Accuracy(column, runs, basis) if runs else None


def by_task(whole: Accuracy) -> list[Accuracy]:
    """The same by task, in order of the runs; nothing where there is one task or none."""
    found: dict[str, list[RunLog]] = {}
    for run in whole.runs:
        task = run.info.sample.task
        if task in found or len(found) < MOST_TASKS:
            found.setdefault(task, []).append(run)
    if len(found) < 2:
        return []
    return [Accuracy(whole.column, tuple(runs), whole.basis, task or "(no task)") for task, runs in found.items()]


@dataclass(frozen=True)
class PairedAccuracy:
    """Two configurations over the samples both answered: the difference of their right answers, and McNemar's test."""

    mcnemar: McNemar
    difference: float

    def to_json(self) -> dict[str, Any]:
        """`mcnemar` of an entry of `pairs`."""
        test = self.mcnemar
        return {
            "pairs": test.pairs,
            "both": test.both,
            "only_baseline": test.base,
            "only_other": test.other,
            "neither": test.neither,
            "exact_p": test.exact_p,
            "chi2": test.chi2,
            "chi2_p": test.chi2_p,
            "difference": {"mean": self.difference},
        }


def paired_accuracy(base: Configuration, other: Configuration) -> PairedAccuracy | None:
    """Both sides' right answers in pairs of a sample each; None where none was scored for both.

    Of a sample that was asked several times a side counts as right where more than half of its answers are.
    """
    below, above = _right_by_sample(base), _right_by_sample(other)
    common = [key for key in below if key in above]
    if not common:
        return None
    means = [
        mean_of(observe([run for key in common for run in column.samples()[key]], partial(score, key=RIGHT))) or 0.0
        for column in (base, other)
    ]
    return PairedAccuracy(McNemar.of((below[key], above[key]) for key in common), means[1] - means[0])


def _right_by_sample(column: Configuration) -> dict[SampleKey, bool]:
    found = {}
    for key, runs in column.samples().items():
        scored = [value for run in runs if (value := score(run, RIGHT)) is not None]
        if scored:
            found[key] = fmean(scored) > 0.5
    return found


def accuracy_document(listed: Sequence[Configuration], basis: str = END_TO_END) -> dict[str, Any] | None:
    """`accuracy` of the `compare` document: the rules, and every column in all and by task; None without a score."""
    wholes = [accuracy_of(column, basis) for column in listed]
    if not any(wholes):
        return None
    return {
        "rules": rules_document(),
        "columns": [
            None if whole is None else whole.to_json() | {"tasks": [part.to_json() for part in by_task(whole)]}
            for whole in wholes
        ],
    }


def rules_document() -> list[dict[str, Any]]:
    return [
        {"key": rule.key, "version": rule.version, "rule": rule.rule, "source": rule.source or None}
        for rule in SCORING_RULES.values()
    ]
