"""Where an imported run comes from, and what its file does not give, in words; it knows no widget."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from evprof.core.run_log import RunLog


def is_imported(run: RunLog) -> bool:
    """Whether another program measured it."""
    return run.info.imported is not None


def provenance_tip(run: RunLog) -> str:
    """Every line that is known of where a run comes from; empty for runs of ours."""
    imported = run.info.imported
    if imported is None:
        return ""
    lines = [f"Imported from {imported.path}", f"{imported.family}, row {imported.row}"]
    return "\n".join([*lines, *imported.notes])


def cell_names(run: RunLog) -> tuple[str, str]:
    """The name of a run's cell, and the file it was imported from, which its name may end with; "" for suites."""
    cell, imported = run.info.cell, run.info.imported
    if imported is None:
        return cell, ""
    file = Path(imported.path).name
    return cell.removesuffix(file).rstrip(" ·") or cell, file


def lacking(runs: Iterable[RunLog], what: str) -> str:
    """A sentence that the files of imported runs do not give something; empty while one run is ours."""
    listed = list(runs)
    if not listed or not all(map(is_imported, listed)):
        return ""
    names = dict.fromkeys(Path(run.info.imported.path).name for run in listed if run.info.imported is not None)
    return f"Not in {' and '.join(names)}: {what}."
