"""Runs and configurations side by side: the document of `evprof compare`, and the names other parts compare by.

Every figure with its ratio to a baseline, what makes up the difference, matching tokens, and differing settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evprof.core.errors import USAGE, UserError
from evprof.core.plain import SCHEMA_VERSION
from evprof.core.run_log import RunLog
from evprof.metrics.comparison.accuracy import accuracy_document, paired_accuracy
from evprof.metrics.comparison.answers import diff_of, is_answer_told
from evprof.metrics.comparison.comparability import comparability
from evprof.metrics.comparison.differences import (
    common_blocks,
    configuration_generation,
    configuration_token_match,
    difference_of,
    same_questions,
)
from evprof.metrics.comparison.rows import comparison_rows
from evprof.metrics.configurations.gathering import (
    Configuration,
)
from evprof.metrics.configurations.settings_text import settings_of
from evprof.metrics.figures.stages import BASES, END_TO_END


@dataclass(frozen=True)
class ComparedSetting:
    """One setting in words for every column; None where it does not apply or, of imported runs, nobody said it."""

    key: str
    name: str
    values: list[str | None]

    @property
    def differs(self) -> bool:
        return len({value for value in self.values if value is not None}) > 1

    def to_json(self) -> dict[str, Any]:
        """An entry of `settings` in the `compare` document."""
        return {"setting": self.key, "name": self.name, "values": self.values}


def setting_rows(listed: Sequence[Configuration]) -> list[ComparedSetting]:
    """Mode, model and every setting that at least one column has, in order of reading."""
    told = [_settings(column.runs[0]) for column in listed]
    names = {key: name for settings in told for key, (name, _) in settings.items()}
    return [
        ComparedSetting(key, name, [settings[key][1] if key in settings else None for settings in told])
        for key, name in names.items()
    ]


def _settings(run: RunLog) -> dict[str, tuple[str, str]]:
    info = run.info
    model = info.models.get(info.role)
    found = {"mode": ("mode", info.mode)}
    if model is not None:
        found["model"] = ("model", model.name)
    for setting in settings_of(run, info.role):
        # What a file does not say stands at our defaults, which nobody chose.
        if info.imported is None or setting.key in info.given_settings or _is_told_by_model(setting.key, run):
            found[setting.key] = (setting.name, setting.text)
    return found


def _is_told_by_model(key: str, run: RunLog) -> bool:
    return key in ("dtype", "quantization") and run.info.role in run.info.models


def compare_document(
    listed: Sequence[Configuration],
    baseline: Configuration,
    basis: str = END_TO_END,
    *,
    differences_only: bool = False,
) -> dict[str, Any]:
    """The document of `compare`. `differences_only` leaves out rows in which no column differs from the baseline.

    `pairs` holds every other column against the baseline; contributions, generation and token match at the top are
    those of the first. Raises UserError (exit code 2) for an unknown basis or fewer than two columns.
    """
    if basis not in BASES:
        raise UserError(f"Unknown basis '{basis}'; choose one of {', '.join(BASES)}.", exit_code=USAGE)
    others = [column for column in listed if column is not baseline]
    if not others:
        raise UserError("A comparison needs at least two runs that are neither warm-up nor profiled.")
    blocks = common_blocks(listed, basis)
    pairs = [pair_document(baseline, other, basis, blocks) for other in others]
    rows = comparison_rows(listed, listed.index(baseline), basis)
    if differences_only:
        rows = [row for row in rows if any(row.differing)]
    return {
        "schema_version": SCHEMA_VERSION,
        "basis": basis,
        "differences_only": differences_only,
        "baseline": baseline.run_id,
        "comparability": comparability(listed, listed.index(baseline)).to_json(),
        "columns": [_column_document(column, column is baseline) for column in listed],
        "settings": [row.to_json() for row in setting_rows(listed) if row.differs or not differences_only],
        "rows": [row.to_json() for row in rows],
        **{key: pairs[0][key] for key in ("why", "contributions", "generation", "token_match", "text_diff")},
        "accuracy": accuracy_document(listed, basis),
        "pairs": pairs,
    }


def pair_document(
    baseline: Configuration,
    other: Configuration,
    basis: str = END_TO_END,
    blocks: Sequence[tuple[str, ...]] | None = None,
) -> dict[str, Any]:
    """One column against the baseline: an entry of `pairs`. `samples`: how many both measured, None outside cells.

    `text_diff` lays the answers of one request beside each other, of repeats the first; None over many samples, and
    where an imported answer is not known.
    """
    pairs = same_questions(baseline, other)
    is_counted = (baseline.is_cell or other.is_cell) and bool(pairs)
    right, difference = paired_accuracy(baseline, other), difference_of(baseline, other, basis, blocks)
    return {
        "run_id": other.run_id,
        "label": other.label,
        "session": other.session or None,
        "samples": len(pairs) if is_counted else None,
        "why": difference.to_json(),
        "contributions": [part.to_json() for part in difference.parts],
        "generation": configuration_generation(baseline, other),
        "token_match": configuration_token_match(baseline, other),
        "mcnemar": None if right is None else right.to_json(),
        "text_diff": None if is_counted else _text_diff(baseline.runs[0], other.runs[0]),
    }


def _text_diff(a: RunLog, b: RunLog) -> dict[str, Any] | None:
    return diff_of(a, b).to_json() if is_answer_told(a) and is_answer_told(b) else None


def _column_document(column: Configuration, is_baseline: bool) -> dict[str, Any]:
    info = column.runs[0].info
    return {
        "run_ids": [run.run_id for run in column.runs],
        "label": column.label,
        "session": column.session or None,
        "cell": column.cell or None,
        "mode": info.mode,
        "role": info.role,
        "samples": len(column.samples()) if column.is_cell else None,
        "failures": column.failures,
        "is_baseline": is_baseline,
    }
