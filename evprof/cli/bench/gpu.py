"""`evprof bench gpu`: every GPU check and figure in one go, or the plan of it."""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from evprof.cli.bench.model_reports import short_bytes
from evprof.cli.terminal import program
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.tables import Block, Column, PrintedTable, Row, TableName, print_blocks
from evprof.core.errors import USAGE, UserError
from evprof.core.units import number_text

_CPU_PATIENCE = 10
"""Times as long as on a GPU: the plan's seconds are a GPU machine's."""


def measure(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """The document, which also lies in `--out`. Ctrl-C ends the section at work and keeps what was measured.

    Raises UserError (exit code 2) without a folder and for words that mean nothing.
    """
    from evprof.run.gpu_bench.driving import GpuBench, has_gpu, measure_gpu
    from evprof.run.gpu_bench.plan import MOST_S, SIZES, SLOWEST_START_S, GpuSection, chosen_sections
    from evprof.run.processes.interrupts import stop_flag

    if options.out is None:
        raise UserError("bench gpu needs a folder for what it measures; name it with --out.", exit_code=USAGE)
    if options.shape not in (None, *SIZES):
        raise UserError(f"--shape of bench gpu is {' or '.join(SIZES)}, not {options.shape}.", exit_code=USAGE)
    is_on_cpu = options.device.startswith("cpu") or not has_gpu()
    patience = _CPU_PATIENCE if is_on_cpu else 1
    sections = [replace(section, limit_s=patience * section.limit_s) for section in chosen_sections(options.only)]

    def argv(together: Sequence[GpuSection]) -> list[str]:
        size = [] if options.shape is None else ["--shape", options.shape]
        where = ["--device", options.device, "--dtype", options.dtype, *size]
        return program.program_argv(
            "_gpu-section", *(f"{section.name}:{section.limit_s}" for section in together), *where
        )

    bench = GpuBench(
        sections, argv, Path(options.out), gpu_page, start_s=patience * SLOWEST_START_S, most_s=patience * MOST_S
    )
    with stop_flag() as stop:
        return measure_gpu(bench, stop, console.note)


def gpu_page(document: dict[str, Any]) -> str:
    page = io.StringIO()
    print_blocks(gpu_blocks(document), Console(page), is_markdown=True)
    return page.getvalue()


def tell_plan(options: argparse.Namespace, console: Console) -> None:
    """Prints the sections in order, the seconds of their parts and the sum of all, and starts nothing."""
    from evprof.run.gpu_bench.plan import MEASURED_ON, MOST_S, START_S, by_process, chosen_sections

    sections = chosen_sections(options.only)
    starts = len(by_process(sections))
    limit_s = START_S * starts + sum(section.limit_s for section in sections)
    if console.is_json:
        sums = {"start_s": START_S, "processes": starts, "limit_s": limit_s, "most_s": MOST_S}
        plan = {"plan": [section.to_json() for section in sections], "measured_on": MEASURED_ON, **sums}
        console.document({"schema_version": 1, "benchmark": "gpu", **plan})
        return
    for section in sections:
        console.print(f"{section.name}: {section.title}, about {section.expected_s:.0f} s, at most {section.limit_s} s")
        for kind in ("measured", "assumed"):
            if parts := getattr(section, kind):
                text = "; ".join(f"{what}: {seconds} s" for what, seconds in parts.items())
                console.wrapped(f"{kind}: {text}", "    ", "    ")
    console.print(f"start of each of {starts} processes: {START_S} s")
    source = f"measured seconds are of {MEASURED_ON}, the others are assumed"
    console.print(f"together at most {limit_s} s of {MOST_S} s; {source}")


Columns = tuple[Column, ...]

_TARGETS: Columns = (
    ("promised", "{target}"),
    ("measured", "{value:.3f}"),
    ("from … to", "{low:.3f} … {high:.3f}"),
    ("n", "{n}"),
    ("of", "{subject}"),
    ("", "{verdict}"),
)
_SECTIONS: Columns = (
    ("section", "{name}"),
    ("", "{status}"),
    ("seconds", "{seconds:,.0f}"),
    ("at most", "{limit_s}"),
    ("SM clock before", "{gpu_start[clocks_mhz]:,} MHz"),
    ("after", "{gpu_end[clocks_mhz]:,} MHz"),
    ("temperature after", "{gpu_end[temperature_c]} °C"),
)
_DECODE: Columns = (
    ("step", "{contender}"),
    ("positions", "{context:,}"),
    ("ms / token", "{ms:.3f}"),
    ("middle half", "{ms_low:.3f} … {ms_high:.3f}"),
    ("tok/s", "{tok_s:,.1f}"),
    ("of bandwidth", "{mbu:share}"),
    ("vs hf_eager", "{vs_hf_eager:times}"),
    ("kernels", "{kernels_per_token:,.0f}"),
    ("launches", "{launches_per_token:,.0f}"),
    ("operators", "{operators_per_token:,.0f}"),
    ("same tokens", "{same_positions:,}/{compared_positions:,}"),
    ("near-ties", "{near_ties}/{divergences}"),
    ("n", "{turns}"),
)
_PASSES: Columns = (
    ("", "{phase} {contender}"),
    ("positions", "{context:,}"),
    ("ms", "{ms:.2f}"),
    ("middle half", "{ms_low:.2f} … {ms_high:.2f}"),
    ("of matrix products", "{mfu:share}"),
    ("vs hf_eager", "{vs_hf_eager:times}"),
    ("n", "{turns}"),
)
_SWITCHES: Columns = (
    ("switch on", "{title}"),
    ("against", "{against}"),
    ("model", "{role}"),
    ("run", "{run_speed:times}"),
    ("its stages", "{stage_speed:times}"),
    ("same tokens", "{agreement[matched]:,}/{agreement[compared]:,}"),
    ("peak", lambda row: short_bytes(row.get("peak_on_bytes"))),
    ("n", "{pairs}"),
)
_BY_KEY = {
    "ceilings": "Ceilings of the machine",
    "overhead": "Instrumentation",
    "parallel": "Parallel prefill",
    "block": "Verified blocks",
    "draft": "Steps of the draft",
    "memory": "Memory",
    "energy": "Energy",
    "trace": "Exported trace",
}
"""Titles of the figures whose tables have the JSON keys of their rows as headings."""


def gpu_blocks(document: Row) -> Iterator[Block]:
    """The machine, the targets, the sections, and a table for each figure that has rows."""
    yield _machine_line(document)
    yield ""
    yield from _table("What was promised", _TARGETS, document["targets"])
    yield from _sections(document["sections"])
    rows = document["rows"]
    for blocks in (_tests, _steps, _switches):
        yield from blocks(rows)
    for figure, title in _BY_KEY.items():
        yield from _by_key(title, _of(rows, figure))


def _machine_line(document: Row) -> str:
    found, how = document["environment"], document["settings"]
    if not found:
        return "No section has told what machine this is."
    driver = "".join(
        f", {word} {found[key]}" for key, word in (("driver", "driver"), ("cuda", "CUDA")) if found.get(key)
    )
    size = "7B shapes" if how["size"] == "7b" else "tiny shapes, which only show that every section works"
    return (
        f"{found['device']}{driver}, torch {found['torch']}, transformers {found['transformers']}, Python "
        f"{found['python']}, {document['measured_at'][:10]}; {size}, {how['dtype']}."
    )


def _table(title: str, columns: Columns, rows: Sequence[Row]) -> Iterator[Block]:
    if rows:
        yield TableName(title)
        yield PrintedTable(columns, rows, missing="n/a")
        yield ""


class _KnownRow(dict[str, Any]):
    """A row in which what was not told is None."""

    def __missing__(self, key: str) -> None:
        return None


def _of(rows: Sequence[Row], figure: str) -> list[Row]:
    return [_KnownRow(row) for row in rows if row.get("figure") == figure]


def _sections(sections: Sequence[Row]) -> Iterator[Block]:
    yield from _table("Sections", _SECTIONS, sections)
    said = [
        f"- {section['name']}: {sentence}"
        for section in sections
        for sentence in (section["sentence"], *section["problems"])
        if sentence
    ]
    yield from said
    if said:
        yield ""


def _tests(rows: Sequence[Row]) -> Iterator[Block]:
    for row in _of(rows, "tests"):
        if row["failures"]:
            yield TableName("Tests that failed")
            yield from (f"- {failure['name']}: {failure['reason'] or 'no reason told'}" for failure in row["failures"])
            yield ""


def _steps(rows: Sequence[Row]) -> Iterator[Block]:
    found = [row for row in _of(rows, "step") if row["status"] == "measured"]
    yield from _table("Decode", _DECODE, [row for row in found if row["phase"] == "decode"])
    yield from _table("Prefill and vision", _PASSES, [row for row in found if row["phase"] != "decode"])
    if found:
        yield (
            "Same tokens: of our steps position by position, after the words that the eager step chose; of others as "
            "they answered. Near-ties: of the positions that differ (of others: the first) those where both tokens' "
            "logits are at most 4 last places apart. Kernels, launches and operators are counted per token in a trace."
        )
        yield ""
    left_out: dict[tuple[str, str], list[str]] = {}
    for row in _of(rows, "step"):
        if row["reason"] is not None and row["phase"] == "decode":
            left_out.setdefault((row["contender"], row["reason"]), []).append(str(row["context"]))
    yield from (f"- {who}, {', '.join(at)} positions: {why}." for (who, why), at in left_out.items())
    if left_out:
        yield ""


def _switches(rows: Sequence[Row]) -> Iterator[Block]:
    found = _of(rows, "switch")
    yield from _table("Every switch once", _SWITCHES, [row for row in found if row["status"] == "measured"])
    away = [row for row in found if row["status"] != "measured"]
    yield from (f"- {row['title']} ({row['role']}) is not here: {row['reason']}" for row in away)
    if away:
        yield ""


def _by_key(title: str, rows: Sequence[Row]) -> Iterator[Block]:
    hidden = ("figure", "section", "engine_session")
    keys = dict.fromkeys(key for row in rows for key, value in row.items() if isinstance(value, str | int | float))
    yield from _table(title, tuple((key, partial(_text, key)) for key in keys if key not in hidden), rows)


def _text(key: str, row: Row) -> str:
    value = row[key]
    return number_text(value) if isinstance(value, float) else "n/a" if value is None else str(value)
