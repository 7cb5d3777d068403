"""A comparison as one table for data frames, or as its JSON document.

One line per figure and column, then per part of a difference, per setting, and per fact in which runs differ that
nobody set; `kind` names the four.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evprof.core.errors import UsageError, UserError
from evprof.core.files.whole_file import refuse_session, whole_file
from evprof.export.tables import write_rows

COLUMNS = (
    *(
        "kind",
        "name",
        "unit",
        "column",
        "label",
        "session",
        "run_id",
        "is_baseline",
        "value",
        "delta",
        "ratio",
        "share",
    ),
    *("ci95_low", "ci95_high", "count", "paired_count", "lower_is_better", "differs", "notes"),
)
"""Of the table. The interval is the ratio's for figures, and that of `delta` for parts of a difference."""

SUFFIXES = (".csv", ".json")

Line = dict[str, Any]


def write_comparison(document: Mapping[str, Any], path: Path) -> None:
    """Writes the document of `compare` as the name's ending says, whole or not at all.

    Raises UserError for another ending, for a file that is a session, and when the place cannot be written.
    """
    check_comparison_path(path)
    try:
        with whole_file(path) as stream:
            if path.suffix.lower() == ".json":
                json.dump(document, stream, indent=2, ensure_ascii=False, allow_nan=False)
                stream.write("\n")
            else:
                write_rows(comparison_lines(document), stream, COLUMNS)
    except OSError as error:
        raise UserError(f"'{path}' cannot be written ({error.strerror or error}); name another place.") from error


def check_comparison_path(path: Path) -> None:
    """Raises UserError unless a comparison may be written to `path`; called before the comparison is made."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"-o: '{path}' ends neither in .csv nor in .json; name it after its format.")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UserError(f"-o: '{path}' cannot be a file there; name one in a folder that exists.")
    refuse_session(path)


def comparison_lines(document: Mapping[str, Any]) -> Iterator[Line]:
    """The lines of the table. What was not measured is None."""
    named = [
        {"column": index, "run_id": column["run_ids"][0]}
        | {key: column[key] for key in ("label", "session", "is_baseline")}
        for index, column in enumerate(document["columns"])
    ]
    for row in document["rows"]:
        shared = {"name": row["metric"], "notes": " ".join(row["notes"])}
        shared |= {key: row[key] for key in ("unit", "lower_is_better")}
        for index, name in enumerate(named):
            values = {key: row[key][index] for key in ("delta", "ratio", "differs")}
            values |= {"value": row["values"][index], "count": row["counts"][index]}
            values |= _ends(row["ci95"] and row["ci95"][index])
            yield {"kind": "figure", **name, **shared, **values, "paired_count": row["paired_counts"][index]}
    others = [name for name in named if not name["is_baseline"]]
    for name, pair in zip(others, document["pairs"], strict=True):
        for part in pair["contributions"]:
            values = {"name": part["stage"], "delta": part["delta_ms"], "share": part["share"], **_ends(part["ci95"])}
            yield {"kind": "contribution", **name, **values, "unit": "ms", "paired_count": pair["samples"]}
    for setting in document["settings"]:
        for name, value in zip(named, setting["values"], strict=True):
            yield {"kind": "setting", **name, "name": setting["name"], "value": value}
    for found in document["comparability"]["differences"]:
        for name, values in zip(named, found["values"], strict=True):
            yield {"kind": "difference", **name, "name": found["name"], "value": ", ".join(values) or None}


def _ends(interval: Any) -> Line:
    return dict(zip(("ci95_low", "ci95_high"), interval or (None, None), strict=True))
