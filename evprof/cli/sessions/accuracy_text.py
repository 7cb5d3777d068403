"""How right configurations answer, for people to read in a terminal: scores by task, their rates, and pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.core.units import count_text, percent_text
from evprof.core.vocabulary.figures import FIGURES
from evprof.core.vocabulary.scoring import SCORING_RULES

Document = Mapping[str, Any]


def print_accuracy(document: Document, labels: Sequence[str], out: Console) -> None:
    """The `accuracy` of a comparison: a line for every column and task, then the rules."""
    from evprof.metrics.comparison.accuracy import of_judged

    columns = [(label, told) for label, told in zip(labels, document["columns"], strict=True) if told is not None]
    listed = [(label, part) for label, told in columns for part in (told, *told["tasks"])]
    keys = [key for key in SCORING_RULES if any(key in part["scores"] for _, part in listed)]
    has_tasks = any(part["task"] for _, part in listed)
    has_rate, has_joules = (any(part[key] for _, part in listed) for key in ("right_per_s", "right_per_j"))
    out.line()
    out.line("scores beside time, with 95 % intervals:")
    heads = ["", *(["task"] if has_tasks else []), "n", *(FIGURES[key].title for key in keys)]
    heads += [*(["right/s"] if has_rate else []), *(["right/J"] if has_joules else [])]
    lines = [
        [
            label,
            *([part["task"] or "all"] if has_tasks else []),
            str(part["samples"]),
            *(share_text(part["scores"].get(key)) + of_judged(key, part["judged"], part["samples"]) for key in keys),
            *([rate_text(part["right_per_s"])] if has_rate else []),
            *([rate_text(part["right_per_j"])] if has_joules else []),
        ]
        for label, part in listed
    ]
    out.table([heads, *lines], left=2 if has_tasks else 1)
    for sentence in _rules(keys):
        out.line(fill(sentence, out.width))


def _rules(keys: Sequence[str]) -> Iterator[str]:
    return (f"rule: {SCORING_RULES[key].sentence}" for key in keys)


def share_text(found: Document | None) -> str:
    """`83.3 % [55.0, 95.1]`; an interval of shares ends at 0 and 100."""
    if found is None:
        return "n/a"
    ends = [100 * min(max(end, 0.0), 1.0) for end in found["ci95"] or ()]
    return percent_text(found["mean"], 1) + (f" [{ends[0]:.1f}, {ends[1]:.1f}]" if ends else "")


def rate_text(found: Document | None) -> str:
    """A rate with its interval, to three digits."""
    if found is None:
        return "n/a"
    return f"{found['mean']:.3g}" + (" [{:.3g}, {:.3g}]".format(*found["ci95"]) if found["ci95"] else "")


def mcnemar_line(found: Document, base: str, label: str) -> str:
    """What McNemar's test says of a column and the baseline."""
    said = (
        f"right answers in {count_text(found['pairs'], 'pair')}: both {found['both']}, only {base} "
        f"{found['only_baseline']}, only {label} {found['only_other']}, neither {found['neither']}; McNemar's exact "
        f"p = {found['exact_p']:.3g}"
    )
    return said + (f", χ² = {found['chi2']:.3g}, p = {found['chi2_p']:.3g}" if found["chi2"] is not None else "")
