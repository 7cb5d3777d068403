"""What the configurations of a report are called: shortly, apart from each other, the same in every section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.comparison.document import Configuration
from evprof.metrics.configurations.settings_text import run_label

SEPARATOR = " · "
"""Between the parts of a name."""


def configuration_names(columns: Sequence[Configuration]) -> list[str]:
    """One name per column, in order; no two are equal.

    The name of the suite's cell, or else mode, model and what is not at its default; what is needed to tell two apart
    (role, session, run) is added to both, what all end in is left out.
    """
    names = [_name(column) for column in columns]
    for tell_apart in (_model, _role, _session, _run):
        if len(set(names)) == len(names):
            break
        parts = [tell_apart(column) for column in columns]
        told: dict[str, set[str]] = {}
        for name, part in zip(names, parts, strict=True):
            told.setdefault(name, set()).add(part)
        names = [
            f"{name}{SEPARATOR}{part}" if part and len(told[name]) > 1 else name
            for name, part in zip(names, parts, strict=True)
        ]
    return _numbered(_without_common_ends(names))


def _numbered(names: list[str]) -> list[str]:
    """What nothing tells apart (a session named twice) is counted."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return numbered


def _without_common_ends(names: list[str]) -> list[str]:
    """`EventGPT` and `LLaVA` for `EventGPT · rows.json` and `LLaVA · rows.json`; a mode of all goes too."""
    parts = [name.split(SEPARATOR) for name in names]
    while _have_in_common(parts, -1):
        parts = [part[:-1] for part in parts]
    if _have_in_common(parts, 0) and mode_of(parts[0][0]).is_side_by_side:
        parts = [part[1:] for part in parts]
    return [SEPARATOR.join(part) for part in parts]


def _have_in_common(names: list[list[str]], place: int) -> bool:
    return len(names) > 1 and len({parts[place] for parts in names}) == 1 and all(len(parts) > 1 for parts in names)


def _name(column: Configuration) -> str:
    run = column.runs[0]
    if run.info.cell:
        return run.info.cell
    return SEPARATOR.join(part for part in (run.info.mode, _model(column), run_label([run])) if part)


def _model(column: Configuration) -> str:
    run = column.runs[0]
    model = run.info.models.get(run.info.role)
    return model.name if model else run.info.role


def _role(column: Configuration) -> str:
    return column.runs[0].info.role


def _session(column: Configuration) -> str:
    return Path(column.session).stem


def _run(column: Configuration) -> str:
    return f"run {column.run_id}"
