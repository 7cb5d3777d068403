"""`evprof bench gpu`: every GPU check and figure in one go, or the plan of it."""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.cli.bench.model_reports import short_bytes
from evprof.cli.terminal import program
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.tables import Block, Column, PrintedTable, Row, TableName, filled, print_blocks
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
    """gpu.md."""
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
_DRAFTS: Columns = (
    ("draft", "{draft}"),
    ("by step", "{step}"),
    ("ms", "{ms:.3f}"),
    ("c", "{in_steps:.2f} ({in_steps_low:.2f} … {in_steps_high:.2f})"),
    ("n", "{turns}"),
)
_MEMORY: Columns = (
    ("model", "{role} {model}"),
    ("weights", "{weight_bytes:bytes}"),
    ("cache", "{kv_bytes:bytes}"),
    ("planned in all", "{planned_total_bytes:bytes}"),
    ("peak", "{peak_allocated_bytes:bytes}"),
    ("peak / plan", "{peak_vs_plan:.3f}"),
    ("n", "1"),
)


def gpu_blocks(document: Row) -> Iterator[Block]:
    """The machine, what was promised, the sections, and a part for each that has rows."""
    yield _machine_line(document)
    yield ""
    yield from _table("What was promised", _TARGETS, document["targets"])
    yield from _sections(document["sections"])
    rows = document["rows"]
    for tell in (_ceilings, _tests, _steps, _overhead, _switches, _parallel, _blocks, _memory, _energy, _trace):
        yield from tell(rows)


def _machine_line(document: Row) -> str:
    """Machine, driver, versions and day; what it was measured at."""
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


def _ceilings(rows: Sequence[Row]) -> Iterator[Block]:
    """Those of the first process."""
    for row in _of(rows, "ceilings")[:1]:
        yield (
            f"This machine copies {row['copy_bytes_s'] / 1e9:,.0f} GB/s, reads {row['read_bytes_s'] / 1e9:,.0f} GB/s "
            f"and multiplies {row['dtype']} matrices at {number_text(row['matmul_flops_s'] / 1e12, 3)} TFLOP/s. Shares "
            "of bandwidth are of the higher of copying and reading."
        )
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


def _overhead(rows: Sequence[Row]) -> Iterator[Block]:
    for row in _of(rows, "overhead"):
        yield filled(
            "Instrumentation, {shape} by the {step} step: with records / without {instrumented_vs_off:.4f} (95 % "
            "{instrumented_vs_off_ci95_low:.4f} … {instrumented_vs_off_ci95_high:.4f}), without / without "
            "{a_vs_a:.4f} ({a_vs_a_ci95_low:.4f} … {a_vs_a_ci95_high:.4f}), {pairs} pairs, {off_ms_per_token:.2f} ms "
            "a token.",
            row,
        )
        yield ""


def _switches(rows: Sequence[Row]) -> Iterator[Block]:
    found = _of(rows, "switch")
    yield from _table("Every switch once", _SWITCHES, [row for row in found if row["status"] == "measured"])
    away = [row for row in found if row["status"] != "measured"]
    yield from (f"- {row['title']} ({row['role']}) is not here: {row['reason']}" for row in away)
    if away:
        yield ""


def _parallel(rows: Sequence[Row]) -> Iterator[Block]:
    for row in _of(rows, "parallel"):
        yield filled(
            "Parallel prefill ({concurrency}, n = {runs}, medians): the draft worked for {overlap_ms:ms} while the "
            "target's stages ran, whose prefill took {prefill_ms:ms}; {drafted:,.0f} tokens were drafted inside it, "
            "{accepted:,.0f} of them accepted.",
            row,
        )
        yield filled(
            "Time together / alone: the target's prefill {target_prefill_slowdown:.2f}, the draft's "
            "{draft_prefill_slowdown:.2f}, ",
            row,
        ) + filled("a drafted token {draft_step_slowdown:.2f}.", row, "a drafted token n/a.")
        yield ""


def _blocks(rows: Sequence[Row]) -> Iterator[Block]:
    found = [row for row in _of(rows, "block") if row["status"] == "measured" and row["drafted"]]
    kinds = list(dict.fromkeys(row["step"] for row in found))
    if found:
        by_length: dict[int, dict[str, Any]] = {}
        for row in found:
            by_length.setdefault(row["drafted"], {})[row["step"]] = row
        table = [_KnownRow(named, drafted=drafted) for drafted, named in sorted(by_length.items())]
        columns: list[Column] = [("drafted", "{drafted:,}"), *((f"v, {kind}", _in_steps(kind)) for kind in kinds)]
        columns.append(("n", f"{{{kinds[0]}[turns]}}"))
        yield from _table("Verified blocks, in plain steps of the same kind", tuple(columns), table)
    yield from _table("A draft's step, in the target's plain steps", _DRAFTS, _of(rows, "draft"))
    yield from (f"- {row['step']} step: {row['reason']}." for row in _of(rows, "block") if row["status"] != "measured")


def _in_steps(kind: str) -> str:
    """The template of a cell: the median, and its quartiles."""
    median, low, high = (f"{{{kind}[in_steps{end}]:.2f}}" for end in ("", "_low", "_high"))
    return f"{median} ({low} … {high})"


def _memory(rows: Sequence[Row]) -> Iterator[Block]:
    found = _of(rows, "memory")
    yield from _table("Memory", _MEMORY, found)
    yield from dict.fromkeys(f"No peak: {row['reason']}." for row in found if row["reason"])


def _energy(rows: Sequence[Row]) -> Iterator[Block]:
    for row in _of(rows, "energy"):
        yield filled(
            "Energy of {model}: {energy_per_token_j:.3f} J a decoded token, {energy_j:.1f} J a run of {tokens} tokens, "
            "mean power {mean_power_w:.0f} W ({runs} runs).",
            row,
            f"No energy of {row['model']}: {row['reason']}.",
        )


def _trace(rows: Sequence[Row]) -> Iterator[Block]:
    for row in _of(rows, "trace"):
        kernels = "no kernels, there being no GPU" if row["kernels"] is None else f"{row['kernels']} kernels"
        yield f"The exported trace of {row['model']} holds {row['operators']} operators and {kernels}."
