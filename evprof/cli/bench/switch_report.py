"""The rows of `evprof bench switches` as a table: for a terminal of 120 columns, or as Markdown for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.core.units import bytes_text, ms_text

WIDTH = 120

_STAGE_NAMES = {("prefill", "decode"): "LLM", ("vision", "prefill", "decode"): "model"}
_HEADINGS = ("switch", "model", "stage", "run", "stage x", "weights", "KV", "peak", "agrees", "004", "verdict")
_LEFT = ("switch", "model", "stage", "verdict")

Row = Mapping[str, Any]


def print_switches(document: Mapping[str, Any], console: Console) -> None:
    """The table, then the reasons of what is not here, then what the columns mean."""
    from rich import box
    from rich.console import Console as RichConsole
    from rich.table import Table

    reasons: list[str] = []
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name in _HEADINGS:
        table.add_column(name, justify="left" if name in _LEFT else "right", no_wrap=True)
    for row in document["rows"]:
        _, *others = _cells(row, _note(row, reasons))
        table.add_row(_label(row), *others)
    RichConsole(file=console.output, width=WIDTH, highlight=False, markup=False, color_system=None).print(table)
    for line in (f"({number}) {reason}" for number, reason in enumerate(reasons, start=1)):
        console.print(fill(line, WIDTH))
    console.print()
    for line in _lines(document["rows"]):
        console.print(fill(line, WIDTH))
    console.print(_MEANING)


_MEANING = """\
run: wall without load; stage x: the stages aimed at; off / on, above 1 is faster; ± half the median's 95 % interval.
agrees: tokens with the same id at the same position, @ the first that differs. 004: what document 004 expects."""


def print_markdown(document: Mapping[str, Any], console: Console) -> None:
    """Where and how it was measured, and the whole table with reasons in place."""
    console.print(f"{machine_line(document)}\n")
    headings = ("switch on", "against", *_HEADINGS[1:])
    console.print(f"| {' | '.join(headings)} |")
    console.print(f"|{'|'.join('---' if name in (*_LEFT, 'switch on', 'against') else '---:' for name in headings)}|")
    for row in document["rows"]:
        verdict = f"not here: {row['reason']}" if row["status"] != "measured" else str(row["verdict"] or "n/a")
        title, *others = _cells(row, verdict, wide=True)
        console.print(f"| {' | '.join([title, row['against'], *others]).replace('  ', ' ')} |")
    console.print()
    for line in _lines(document["rows"]):
        console.print(f"- {line}")


def _lines(rows: Sequence[Row]) -> list[str]:
    """What stands below the table."""
    return [*plain_lines(rows), *setup_lines(rows), *note_lines(rows)]


def plain_lines(rows: Sequence[Row]) -> list[str]:
    """What each model takes with everything off: the rows that compare off with off say it."""
    return [
        f"{row['role']}, everything off: {row['model']}, {ms_text(row['run_off_ms'])} a run without load, "
        f"{ms_text(row['stage_off_ms'])} of it in vision, prefill and decode."
        for row in rows
        if row["switch"] == "nothing" and row["status"] == "measured"
    ]


def setup_lines(rows: Sequence[Row]) -> list[str]:
    """What loading, quantizing and compiling took for sides that needed any: before a run's zero, so in no figure."""
    took = [
        f"{_label(row)} ({row['role']}) {ms_text(row['setup_on_ms'])}"
        for row in rows
        if row["status"] == "measured" and row["setup_on_ms"] is not None
    ]
    return [f"Setup, in no figure above: {', '.join(took)}."] if took else []


def note_lines(rows: Sequence[Row]) -> list[str]:
    """What runs with a switch on warned about, and those without did not."""
    return [
        f"{_label(row)} ({row['role']}): {line}"
        for row in rows
        if row["status"] == "measured"
        for line in row["warnings"]
    ]


def machine_line(document: Mapping[str, Any]) -> str:
    """Machine, versions, day and size of the measurement in one sentence."""
    found, how = document["environment"], document["settings"]
    threads = f", {found['threads']} CPU thread{'s' if found['threads'] > 1 else ''}" if found.get("threads") else ""
    return (
        f"{found.get('device')}{threads}, torch {found.get('torch')}, transformers {found.get('transformers')}, "
        f"{document['measured_at'][:10]}; {how['dtype']}, {how['repeat']} pairs, {how['max_new_tokens']} tokens a run."
    )


def _label(row: Row) -> str:
    """The title, with what it is held against where that is not everything off and not told yet."""
    title, against = str(row["title"]), row["against"]
    return title if row["off_is_plain"] or against in title.split() else f"{title} / {against}"


def _note(row: Row, reasons: list[str]) -> str:
    """The verdict, with the number of its reason where there is one."""
    if row["status"] == "measured":
        return str(row["verdict"] or "n/a")
    if row["reason"] not in reasons:
        reasons.append(row["reason"])
    return f"not here ({reasons.index(row['reason']) + 1})"


def _cells(row: Row, verdict: str, *, wide: bool = False) -> list[str]:
    stages = tuple(row["stages"])
    stage = _STAGE_NAMES.get(stages, "+".join(stages))
    head = [row["title"], row["role"], stage]
    if row["status"] != "measured":
        return [*head, *("-" for _ in range(6)), row["expected"] or "-", verdict]
    return [
        *head,
        _ratio(row, "run", wide=wide),
        _ratio(row, "stage", wide=wide),
        *(_bytes(row, name, wide=wide) for name in ("weights", "kv", "peak")),
        _agreement(row["agreement"], wide=wide),
        row["expected"] or "-",
        verdict,
    ]


def _ratio(row: Row, name: str, *, wide: bool) -> str:
    speed, bounds = row[f"{name}_speed"], row[f"{name}_speed_ci95"]
    if speed is None:
        return "n/a"
    digits = 2 if speed < 10 else 1 if speed < 100 else 0
    spread = f"{' ' if wide else ''}±{(bounds[1] - bounds[0]) / 2:.{digits}f}" if bounds else ""
    return f"{speed:.{digits}f}{spread}"


def _bytes(row: Row, name: str, *, wide: bool) -> str:
    on, off = row[f"{name}_on_bytes"], row[f"{name}_off_bytes"]
    if not wide:
        return short_bytes(on)
    return bytes_text(on) if on == off or name == "peak" else f"{bytes_text(off)} → {bytes_text(on)}"


def short_bytes(count: int | None) -> str:
    """A byte count in at most five letters: `752K`, `3.7M`, `13.2G`; "n/a" for None."""
    if count is None:
        return "n/a"
    value = float(count)
    for unit in ("B", "K", "M"):
        if value < 1000:
            return f"{value:.{0 if value >= 100 or unit == 'B' else 1}f}{unit}"
        value /= 1024
    return f"{value:.1f}G"


def _agreement(found: Mapping[str, Any], *, wide: bool) -> str:
    parted = found["first_divergence"]
    where = "" if parted is None else f"{' ' if wide else ''}@{parted}"
    return f"{found['matched']}/{found['compared']}{where}"
