"""What `evprof inspect` says of a result file of earlier scripts, without importing it."""

from __future__ import annotations

from typing import Any

from evprof.metrics.document import SCHEMA_VERSION


def describe_legacy(path: str) -> dict[str, Any]:
    """The `inspect` document: family, rows, what each key really covers, and what is wrong. Raises UserError."""
    from evprof.loaders.legacy.checks import FileProblems
    from evprof.loaders.legacy.family import open_legacy

    file = open_legacy(path)
    problems = FileProblems()
    reader, rows = file.read(problems)
    found = failed = 0
    cells: dict[str, None] = {}
    for row in rows:
        found += 1
        failed += row.error is not None
        cells[row.cell] = None
    return {
        "schema_version": SCHEMA_VERSION,
        "path": path,
        "kind": "legacy",
        "problems": problems.sentences(file.preview.rows),
        "family": file.family.name,
        "rows": file.preview.rows,
        "runs": found,
        "failed": failed,
        "configurations": list(cells),
        "covers": {
            role: {key: "+".join(stages) or "nothing" for key, stages in keys.items()}
            for role, keys in reader.covers.items()
        },
    }
