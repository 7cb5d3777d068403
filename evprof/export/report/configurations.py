"""What the configurations of a report are called: shortly, apart from each other, the same in every section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from evprof.metrics.comparison import Column
from evprof.view.settings_text import run_label


def configuration_names(columns: Sequence[Column]) -> list[str]:
    """One name per column, in order; no two are equal.

    The name of the suite's cell, or else mode, model and what is not at its default; what is needed to tell two apart
    (role, session, run) is added to both.
    """
    names = [_name(column) for column in columns]
    for tell_apart in (_model, _role, _session, _run):
        counts = Counter(names)
        if len(counts) == len(names):
            break
        names = [
            " · ".join(part for part in (name, tell_apart(column)) if part) if counts[name] > 1 else name
            for name, column in zip(names, columns, strict=True)
        ]
    return names


def _name(column: Column) -> str:
    run = column.runs[0]
    if run.info.cell:
        return run.info.cell
    return " · ".join(part for part in (run.info.mode, _model(column), run_label([run])) if part)


def _model(column: Column) -> str:
    run = column.runs[0]
    model = run.info.models.get(run.info.role)
    return model.name if model else run.info.role


def _role(column: Column) -> str:
    return column.runs[0].info.role


def _session(column: Column) -> str:
    return Path(column.session).stem


def _run(column: Column) -> str:
    return f"run {column.run_id}"
