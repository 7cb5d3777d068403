"""The section on how the figures came about: machine, versions, models, settings, warnings, and the commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from evprof.core.run_info import PLACE
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.families import family_title
from evprof.export.report.data import ReportData, Source
from evprof.export.report.figures import bytes_cell, rows_cell
from evprof.export.report.parts import (
    NOT_AVAILABLE,
    Badge,
    Block,
    Bullets,
    Cell,
    Paragraph,
    Section,
    Table,
    Verbatim,
    not_available,
    text_cells,
)
from evprof.export.report.sections.reproduction import commands
from evprof.metrics.configurations.settings_text import settings_of

MACHINE = {
    "evprof": "evprof",
    "device": "device",
    "driver": "driver",
    "cuda": "CUDA",
    "torch": "torch",
    "transformers": "transformers",
    "python": "Python",
    "system": "system",
    "threads": "threads",
    "cpus": "processors",
}
GPU = {
    "clocks_mhz": "clocks, MHz",
    "power_limit_w": "power limit, W",
    "temperature_c": "temperature, °C",
    "throttle_reasons": "throttled by",
    "other_processes": "other processes",
}
_MOST_COMMANDS = 12


def section(data: ReportData) -> Section:
    """Machine, GPU, models, settings, suite, warnings, commands; only what is known."""
    blocks: list[Block] = []
    for found in (_machine(data), _places(data), _gpu(data), _models(data)):
        blocks += [found] if found else []
    blocks += [*settings_blocks(data), *_suites(data), *_warnings(data), *_commands(data)]
    return Section("Environment and how to make it again", tuple(blocks))


def _machine(data: ReportData) -> Table | None:
    """One column per session that differs."""
    sources = [source for source in data.sources if source.environment]
    by_content: dict[str, list[Source]] = {}
    for source in sources:
        by_content.setdefault(repr([source.environment.get(key) for key in MACHINE]), []).append(source)
    groups = list(by_content.values())
    if not groups:
        return None
    rows = []
    for key, name in MACHINE.items():
        values = [group[0].environment.get(key) for group in groups]
        if any(value is not None for value in values):
            rows.append((Cell(name), *(Cell(_text(value)) for value in values)))
    heads = ("machine", *(", ".join(source.path.name for source in group) if groups[1:] else "" for group in groups))
    return Table(heads, tuple(rows), text_columns=len(heads))


def _places(data: ReportData) -> Paragraph | None:
    """Of a suite that several machines or cards measured: which, and what that means for means and ratios."""
    counts = Counter(str(place) for run in data.runs if (place := run.info.environment.get(PLACE)))
    if len(counts) < 2:
        return None
    listed = ", ".join(f"{place} ({count:,} runs)" for place, count in sorted(counts.items()))
    return Paragraph(
        f"Measured at {len(counts)} places: {listed}. Means of one configuration are over all of them; ratios and "
        "differences are of samples that one place measured for both sides, where there are any."
    )


def _gpu(data: ReportData) -> Table | None:
    """The GPU's state before the first run and after the last, and its range over all runs."""
    runs = sorted((*data.runs, *data.failures), key=lambda run: run.info.started_at)
    states = [_state(run, when) for run in runs for when in ("gpu", "gpu_end")]
    known = [state for state in states if state]
    if not known:
        return None
    rows = []
    for key, name in GPU.items():
        values = [state.get(key) for state in known]
        rows.append((Cell(name), *(_gpu_cell(value) for value in (values[0], values[-1])), _range(values)))
    return Table(("GPU", "before the first run", "after the last", "over all runs"), tuple(rows))


def _state(run: RunLog, when: str) -> dict[str, Any] | None:
    found = run.info.environment.get(when)
    return found if isinstance(found, dict) else None


def _gpu_cell(value: Any) -> Cell:
    return not_available() if value is None else Cell(_text(value), Badge.MEASURED)


def _range(values: list[Any]) -> Cell:
    numbers = [value for value in values if isinstance(value, int | float)]
    if numbers:
        low, high = min(numbers), max(numbers)
        return Cell(f"{low:,g}" if low == high else f"{low:,g} to {high:,g}", Badge.MEASURED)
    said = dict.fromkeys(str(entry) for value in values if isinstance(value, list) for entry in value)
    return Cell(", ".join(said) or "nothing", Badge.MEASURED) if any(values) else not_available()


def _models(data: ReportData) -> Table | None:
    """Every model that took part, each as it was loaded."""
    found = {
        (role, repr(model)): (role, model, Badge.IMPORTED if run.info.imported else Badge.MEASURED)
        for run in data.runs
        for role, model in run.info.models.items()
    }
    rows = [
        (
            *text_cells((model.name, role, family_title(model.family) or "—")),
            *text_cells((model.dtype or "—", model.quantization or ("as loaded" if model.dtype else "—"))),
            *text_cells((model.device or "—",)),
            *text_cells(
                ("—",) * 4 if own == Badge.IMPORTED else (model.attention, model.cache, model.step, model.vision_pass)
            ),
            rows_cell(model.parameters) if model.parameters else not_available(),
            bytes_cell(model.weight_bytes, own),
        )
        for role, model, own in found.values()
    ]
    heads = ("model", "role", "family", "dtype", "weights", "device", "attention", "KV cache", "step", "vision pass")
    return Table((*heads, "parameters", "weight bytes"), tuple(rows), "Models", text_columns=10) if rows else None


def settings_blocks(data: ReportData) -> Iterator[Block]:
    """What all configurations share in a sentence, what tells them apart in a table."""
    ours = [place for place, column in enumerate(data.columns) if column.runs[0].info.imported is None]
    if not ours:
        return
    told = [_settings_of(data.columns[place].runs[0]) for place in ours]
    names = list(dict.fromkeys(name for settings in told for name in settings))
    shared = [name for name in names if len({settings.get(name) for settings in told}) == 1]
    if shared:
        yield Paragraph(f"Settings of every run made here: {'; '.join(f'{name} {told[0][name]}' for name in shared)}.")
    if apart := [name for name in names if name not in shared]:
        rows = [
            (Cell(data.names[place]), *(Cell(settings.get(name, "—")) for name in apart))
            for place, settings in zip(ours, told, strict=True)
        ]
        yield Table(("configuration", *apart), tuple(rows), "Settings that differ", text_columns=len(apart) + 1)


def _settings_of(run: RunLog) -> dict[str, str]:
    return {setting.name: setting.text for setting in settings_of(run, run.info.role)}


def _suites(data: ReportData) -> Iterator[Block]:
    for suite in data.facts("suite"):
        if not isinstance(suite, dict):
            continue
        cells, problems = (suite[key] if isinstance(suite.get(key), list) else [] for key in ("cells", "problems"))
        sessions = suite.get("sessions", 1)
        said = [
            f"Suite {suite.get('title') or suite.get('name')}: {len(cells)} configurations",
            f"{suite.get('samples')} samples",
            f"each {suite.get('repeat')} times after {suite.get('warmup')} for warming up",
            *([f"in each of {sessions} engine processes"] if sessions != 1 else []),
            f"order {suite.get('order')}, {suite.get('planned_runs')} runs planned",
        ]
        yield Paragraph(f"{', '.join(said)}.")
        if problems:
            yield Paragraph("What the suite could not do as asked:", "warn")
            yield Bullets(tuple(str(problem) for problem in problems))


def _warnings(data: ReportData) -> Iterator[Block]:
    counts = Counter(warning for run in (*data.runs, *data.failures) for warning in run.info.warnings)
    if counts:
        yield Paragraph("Warnings of the runs:", "warn")
        yield Bullets(tuple(f"{warning} ({count:,} runs)" for warning, count in counts.most_common()))


def _commands(data: ReportData) -> Iterator[Block]:
    lines = commands(data)
    if not lines:
        return
    yield Paragraph("To make it again:")
    if len(lines) > _MOST_COMMANDS:
        kept = lines[: _MOST_COMMANDS - 1]
        lines = [*kept, f"# and {len(lines) - len(kept) - 1} more of their kind", lines[-1]]
    yield Verbatim("\n".join(lines), "sh")


def _text(value: Any) -> str:
    if value is None:
        return NOT_AVAILABLE
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "nothing"
    if isinstance(value, bool):
        return str(value)
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
