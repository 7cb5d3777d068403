"""The block `speculation` of a run's JSON: who drafted, counts, definitions, failures, window, prediction, verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from evprof.core.records import DRAFT, RoundRecord
from evprof.core.run_log import RunLog
from evprof.core.speculation import SpeculationFacts
from evprof.core.units import ms_from_ns
from evprof.metrics.figures import stages
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.clinic import definitions, per_position, plain_answer, round_histogram
from evprof.metrics.speculation.failure_modes import counts as kinds_of
from evprof.metrics.speculation.failure_modes import first_rejections
from evprof.metrics.speculation.outcome import Acceptance, acceptance, ceiling_json
from evprof.metrics.speculation.parallel_prefill import window_of
from evprof.metrics.speculation.payoff import Prediction, expected_table, prediction_of
from evprof.metrics.speculation.verdicts import speculation_sentence
from evprof.metrics.speculation.widths import Width, fastest, measured_widths

_FACTS = (
    "kind",
    "adapter",
    "alignment",
    "shared_ids",
    "draft_ids",
    "target_ids",
    "is_lossless",
    "length",
    "tree",
    "concurrency",
    "draft_threads",
    "target_threads",
)


def speculation_document(run: RunLog, others: Sequence[RunLog] = ()) -> dict[str, Any] | None:
    """The block of a run, weighed against the plain runs among `others`; None for a run in which nothing drafted."""
    counts, facts = acceptance(run), run.info.speculation
    if counts is None and facts is None:
        return None
    if run.info.imported is not None:
        others = ()  # a file's own figures stand beside it; its rows are compared elsewhere
    rejections = first_rejections(run)
    window, found = window_of(run, others), prediction_of(run, others)
    top = fastest(measured_widths(run, others))
    return {
        "drafter": _drafter(run, facts),
        **{name: getattr(facts, name) if facts else None for name in _FACTS},
        **_counts(counts or Acceptance()),
        "per_round": [_round(run, entry) for entry in run.rounds],
        "definitions": [entry.to_json() for entry in definitions(run, plain_answer(run, others))],
        "per_position": [entry.to_json() for entry in per_position(run)],
        "histogram": {str(accepted): count for accepted, count in round_histogram(run).items()},
        "failures": {"counts": kinds_of(rejections), "list": [entry.to_json() for entry in rejections]},
        "window": None if window is None else window.to_json(),
        "prediction": None if found is None else _prediction(found, top),
        "expected": [asdict(row) for row in expected_table(run, others)],
        "sentence": speculation_sentence(run, others),
    }


def _drafter(run: RunLog, facts: SpeculationFacts | None) -> str | None:
    model = run.info.models.get(DRAFT)
    return facts.drafter if facts else model.name if model else None


def _counts(counts: Acceptance) -> dict[str, Any]:
    names = ("rounds", "drafted", "accepted", "bonus", "emitted", "draft_acceptance_rate", "mean_acceptance_length")
    return {
        **{name: getattr(counts, name) for name in names},
        "accepted_per_position": list(counts.per_position),
        "hidden_drafted": counts.hidden_drafted,
        "hidden_accepted": counts.hidden_accepted,
    }


def _round(run: RunLog, entry: RoundRecord) -> dict[str, Any]:
    return {
        "start_ms": stages.start_ms(run, entry.start_ns),
        "draft_ms": ms_from_ns(entry.draft_ns),
        "verify_ms": ms_from_ns(entry.verify_ns),
        "rollback_ms": ms_from_ns(entry.rollback_ns),
        "drafted": entry.drafted,
        "accepted": entry.accepted,
        "emitted": entry.emitted,
        "drafted_ids": [int(part) for part in entry.drafted_ids.split(",") if part],
        "hidden": bool(entry.hidden),
    }


def _prediction(found: Prediction, top: Width | None) -> dict[str, Any]:
    chance = found.by_place if found.alpha is None else found.alpha
    names = ("tokens", "tau", "c", "v", "alpha", "predicted", "predicted_alpha", "predicted_decode")
    ends = ("preparation_ms", "break_even_alpha", "break_even_rate")
    return {
        "step_ms": found.costs.step_ms,
        "once_ms": found.costs.once_ms,
        "prepare_ms": found.costs.prepare_ms,
        "gamma": found.mean_gamma,
        **{name: getattr(found, name) for name in (*names, *ends)},
        **ceiling_json(found.ceiling),
        "alpha_by_place": list(found.by_place),
        "best_gamma": None if top is None else top.gamma,
        "best_speedup": None if top is None else top.speed.ratio,
        "best_ci95": None if top is None or top.speed.interval is None else list(top.speed.interval),
        "best_rounds": None if top is None else top.rounds,
        "curve": [asdict(point) for point in break_even.curve(found.costs, chance)],
        "measured": {
            entry.basis: {
                "speedup": entry.speedup,
                "ci95": list(entry.interval) if entry.interval else None,
                "runs": entry.runs,
                "plain_runs": entry.plain_runs,
            }
            for entry in found.measured
        },
    }
