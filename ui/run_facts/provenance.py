"""Where an imported run comes from, and what its file does not give, in words; it knows no widget."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from evprof.core.run_log import RunLog
from evprof.core.units import bytes_text

FIGURE_NAMES = {"wall_ms": "total in the file"}


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


def provenance_lines(run: RunLog) -> list[tuple[str, str, str]]:
    """Name, text and what is told beside it, for the inspector; empty for runs of ours."""
    imported = run.info.imported
    if imported is None:
        return []
    lines = [
        ("file", Path(imported.path).name or imported.path, imported.path),
        ("family", imported.family.replace("_", " "), "which program wrote it, by its shape"),
        ("row", str(imported.row), "counted from 0, as in the file"),
    ]
    if imported.output_tokens is not None and not run.tokens:
        lines.append(("tokens", str(imported.output_tokens), "as the file counted them"))
    for name, value in imported.figures.items():
        unit = next((known for known in ("ms", "bytes", "tok_s") if name.endswith(f"_{known}")), "")
        title = FIGURE_NAMES.get(name, name.removesuffix(f"_{unit}").replace("_", " "))
        told = bytes_text(round(value)) if unit == "bytes" else f"{value:,.6g} {unit.replace('tok_s', 'tok/s')}".strip()
        lines.append((title, told, "as the file gives it"))
    return lines


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
