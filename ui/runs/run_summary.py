"""Sections of the inspector about whole runs: their facts side by side, notes and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evprof.core.run_log import RunLog
from evprof.view.columns import ShownModel
from evprof.view.labels import stages_in
from ui.run_facts.figures import NOTHING, column_heads
from ui.run_facts.run_text import expected_note, mode_name
from ui.runs.run_details import Detail, DetailSection

if TYPE_CHECKING:
    from evprof.metrics.facts import Fact

_HINT = "Click a stage or a token, or drag over the time axis, for more."


def summary_sections(a: ShownModel | None, b: ShownModel | None) -> list[DetailSection]:
    """The facts of the models in the columns, side by side where there are two; nothing without a run."""
    from evprof.metrics import facts

    columns = [column for column in (a, b) if column is not None]
    if not columns:
        return []
    heads = column_heads(a, b) if len(columns) == 2 else ()
    runs = list({column.run.run_id: column.run for column in columns}.values())
    of_models = [facts.facts(*column, (facts.SETTINGS, facts.LOADING, facts.KV_CACHE)) for column in columns]
    of_runs = [facts.facts(run, None, (facts.ACCURACY, facts.ENERGY, facts.GPU, facts.WARNINGS)) for run in runs]
    numbers = " and ".join(str(run.run_id) for run in runs)
    is_single = len(runs) == 1
    title = f"Run {numbers} · {runs[0].info.name or mode_name(runs[0].info.mode)}" if is_single else f"Runs {numbers}"
    warnings = [_with_number(fact.text, fact.runs[0], is_single) for fact in _of(of_runs, facts.WARNINGS)]
    sections = [
        DetailSection(title, beside(of_models, facts.SETTINGS), heads=heads),
        DetailSection("Note", note="\n".join(_notes(runs))),
        DetailSection("Accuracy", beside(of_runs, facts.ACCURACY), note=expected_note(runs)),
        *(_imported(run, is_single) for run in runs),
        DetailSection("Loading", beside(of_models, facts.LOADING)),
        DetailSection("KV cache", beside(of_models, facts.KV_CACHE)),
        DetailSection("Energy", beside(of_runs, facts.ENERGY)),
        DetailSection("GPU", beside(of_runs, facts.GPU)),
        DetailSection("Warnings", note="\n".join(warnings)),
    ]
    return [*(section for section in sections if section.details or section.note), DetailSection("", note=_HINT)]


def beside(columns: Sequence[Sequence[Fact]], section: str) -> list[Detail]:
    """The facts of one section as lines of one or two cells; a dash where a column lacks one of them."""
    from evprof.metrics.facts import DEFAULT

    by_name = [{fact.name: fact for fact in column if fact.section == section} for column in columns]
    details = []
    for name in dict.fromkeys(name for found in by_name for name in found):
        cells = [found.get(name) for found in by_name]
        if all(cell is None or cell.origin == DEFAULT for cell in cells):
            continue
        texts = [cell.text if cell else NOTHING for cell in cells]
        first = next(cell for cell in cells if cell is not None)
        details.append(
            Detail(
                name,
                texts[0],
                swatch=name if section == "Energy" and stages_in(name) else "",
                tip=first.origin,
                beside=texts[1] if len(texts) > 1 else None,
                roles=tuple(cell.tone if cell else "dim" for cell in cells),
            )
        )
    return details


def _of(columns: Sequence[Sequence[Fact]], section: str) -> list[Fact]:
    return [fact for column in columns for fact in column if fact.section == section]


def _imported(run: RunLog, is_single: bool) -> DetailSection:
    """The file and row an imported run comes from, and the notes on it."""
    from evprof.metrics import facts

    found = facts.facts(run, None, (facts.IMPORTED,))
    notes = run.info.imported.notes if run.info.imported is not None else []
    head = "Imported" if is_single else f"Imported · run {run.run_id}"
    return DetailSection(head, beside([found], facts.IMPORTED), "\n".join(notes))


def _notes(runs: Sequence[RunLog]) -> list[str]:
    """People's notes on the runs, of two runs with number and name."""
    return [
        _with_number(run.info.note, f"{run.run_id}{f' “{run.info.name}”' * bool(run.info.name)}", len(runs) == 1)
        for run in runs
        if run.info.note
    ]


def _with_number(text: str, number: object, is_single: bool) -> str:
    return text if is_single else f"Run {number}: {text}"
