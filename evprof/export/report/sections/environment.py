"""Section: rows that did not finish, and machine, models, settings, warnings and commands of the runs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import PLACE
from evprof.core.run_log import RunLog
from evprof.core.sample import ms_number
from evprof.core.vocabulary.drafters import ADAPTER_KINDS
from evprof.core.vocabulary.families import READ_BY, family_title
from evprof.core.vocabulary.settings import DEFAULTS, option_words
from evprof.export.report import parts as doc
from evprof.export.report.data import ReportData, Source
from evprof.export.report.figures import bytes_cell, rows_cell
from evprof.export.report.parts import Badge, Block, Bullets, Cell, Paragraph, Section, Table, Verbatim
from evprof.metrics.comparison.differences import SEPARATOR
from evprof.metrics.configurations.baselines import engine_session
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
MODEL = {
    "dtype": "dtype",
    "quantization": "weights",
    "device": "device",
    "attention": "attention",
    "cache": "KV cache",
    "step": "step",
    "vision_pass": "vision pass",
}
_MOST_COMMANDS, _MOST_NAMES = 12, 6


def section(data: ReportData) -> Section:
    """Failures, machine, GPU, models, settings, suite, warnings and commands; only what is known."""
    parts = (failures, _machine, _places, _gpu, _models, settings, _suites, _warnings, _commands)
    return Section("Failures and environment", tuple(block for part in parts for block in part(data)))


def failures(data: ReportData) -> Iterator[Block]:
    """Every row that did not finish, by error; none of them enters a figure."""
    if not data.failures:
        yield Paragraph("Every row that began has finished.")
        return
    groups: dict[str, list[RunLog]] = {}
    for run in data.failures:
        groups.setdefault(run.info.error or f"The run is {run.info.status}.", []).append(run)
    count = len(data.failures)
    yield Paragraph(
        f"{count:,} of {count + len(data.runs):,} rows did not finish. None of them is in any mean.", "warn"
    )
    rows = tuple(
        doc.row_of(
            error,
            _names(_configuration(data, run) for run in runs),
            _names(run.info.sample.name for run in runs),
            _names(run.info.status for run in runs),
            rows_cell(len(runs)),
        )
        for error, runs in sorted(groups.items(), key=lambda group: -len(group[1]))
    )
    yield Table(("what happened", "configurations", "samples", "status", "rows"), rows, "Failures", text_columns=4)


def _configuration(data: ReportData, run: RunLog) -> str:
    """The name of the row's configuration; of one without a figure, its own cell and role."""
    info = run.info
    for name, column in zip(data.names, data.columns, strict=True):
        first = column.runs[0].info
        if info.cell and (first.cell, first.role) == (info.cell, info.role):
            return name
    return SEPARATOR.join(part for part in (info.cell or info.mode, info.role) if part)


def _names(names: Iterable[str]) -> str:
    """Different names in order, the first few of many."""
    known = list(dict.fromkeys(name for name in names if name))
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return ", ".join(known[:_MOST_NAMES]) + more


def _machine(data: ReportData) -> Iterator[Block]:
    """One column per session that differs."""
    by_content: dict[str, list[Source]] = {}
    for source in data.sources:
        if source.environment:
            by_content.setdefault(repr([source.environment.get(key) for key in MACHINE]), []).append(source)
    groups = list(by_content.values())
    values = {name: [group[0].environment.get(key) for group in groups] for key, name in MACHINE.items()}
    heads = [", ".join(source.path.name for source in group) if groups[1:] else "" for group in groups]
    rows = tuple(
        doc.row_of(name, *map(_text, row)) for name, row in values.items() if any(one is not None for one in row)
    )
    if rows:
        yield Table(("machine", *heads), rows, text_columns=len(heads) + 1)


def _places(data: ReportData) -> Iterator[Block]:
    """The machines or cards of a suite that several of them measured."""
    counts = Counter(str(place) for run in data.runs if (place := run.info.environment.get(PLACE)))
    if len(counts) > 1:
        places = ", ".join(f"{place} ({count:,} runs)" for place, count in sorted(counts.items()))
        yield Paragraph(
            f"Measured at {len(counts)} places: {places}. Means of one configuration are over all of them; ratios and "
            "differences are of samples that one place measured for both sides, where there are any."
        )


def _gpu(data: ReportData) -> Iterator[Block]:
    """The GPU's state before the first run and after the last, and its range over all runs."""
    runs = sorted((*data.runs, *data.failures), key=lambda run: run.info.started_at)
    states = (run.info.environment.get(when) for run in runs for when in ("gpu", "gpu_end"))
    known = [state for state in states if isinstance(state, dict) and state]
    rows = []
    for key, name in GPU.items() if known else ():
        values = [state.get(key) for state in known]
        numbers = [value for value in values if isinstance(value, int | float)]
        if numbers:
            span = " to ".join(f"{value:,g}" for value in dict.fromkeys((min(numbers), max(numbers))))
        else:
            span = _names(str(entry) for value in values if isinstance(value, list) for entry in value) or "nothing"
        texts = (_text(values[0]), _text(values[-1]), span if any(values) else doc.NOT_AVAILABLE)
        cells = (doc.not_available() if text == doc.NOT_AVAILABLE else Cell(text, Badge.MEASURED) for text in texts)
        rows.append(doc.row_of(name, *cells))
    if rows:
        yield Table(("GPU", "before the first run", "after the last", "over all runs"), tuple(rows))


def _models(data: ReportData) -> Iterator[Block]:
    """Every model that took part, each as it was loaded."""
    models = {
        (role, repr(model)): (role, model, bool(run.info.imported))
        for run in data.runs
        for role, model in run.info.models.items()
    }
    rows = tuple(
        doc.row_of(
            model.name,
            role,
            family_title(model.family) or "—",
            *(
                str(getattr(model, key) or "—") if not is_file or key in ("dtype", "quantization", "device") else "—"
                for key in MODEL
            ),
            rows_cell(model.parameters) if model.parameters else doc.not_available(),
            bytes_cell(model.weight_bytes, Badge.IMPORTED if is_file else Badge.MEASURED),
        )
        for role, model, is_file in models.values()
    )
    if rows:
        heads = ("model", "role", "family", *MODEL.values(), "parameters", "weight bytes")
        yield Table(heads, rows, "Models", text_columns=10)


def settings(data: ReportData) -> Iterator[Block]:
    """Settings that all configurations share in a sentence, those that differ in a table."""
    ours = [column for column in data.columns if column.runs[0].info.imported is None]
    known = [
        {setting.name: setting.text for setting in settings_of(column.runs[0], column.runs[0].info.role)}
        for column in ours
    ]
    names = list(dict.fromkeys(name for one in known for name in one))
    shared = [name for name in names if len({one.get(name) for one in known}) == 1]
    if shared:
        yield Paragraph(f"Settings of every run made here: {'; '.join(f'{name} {known[0][name]}' for name in shared)}.")
    if apart := [name for name in names if name not in shared]:
        rows = tuple(
            doc.row_of(data.name(column), *(one.get(name, "—") for name in apart))
            for column, one in zip(ours, known, strict=True)
        )
        yield Table(("configuration", *apart), rows, "Settings that differ", text_columns=len(apart) + 1)


def _suites(data: ReportData) -> Iterator[Block]:
    for suite in data.suites:
        cells, problems = (suite[key] if isinstance(suite.get(key), list) else [] for key in ("cells", "problems"))
        sessions = suite.get("sessions", 1)
        processes = f", in each of {sessions} engine processes" if sessions != 1 else ""
        yield Paragraph(
            f"Suite {suite.get('title') or suite.get('name')}: {len(cells)} configurations, {suite.get('samples')} "
            f"samples, each {suite.get('repeat')} times after {suite.get('warmup')} for warming up{processes}, order "
            f"{suite.get('order')}, {suite.get('planned_runs')} runs planned."
        )
        if problems:
            yield Paragraph("What the suite could not do as asked:", "warn")
            yield Bullets(tuple(map(str, problems)))


def _warnings(data: ReportData) -> Iterator[Block]:
    counts = Counter(warning for run in (*data.runs, *data.failures) for warning in run.info.warnings)
    if counts:
        yield Paragraph("Warnings of the runs:", "warn")
        yield Bullets(tuple(f"{warning} ({count:,} runs)" for warning, count in counts.most_common()))


def _commands(data: ReportData) -> Iterator[Block]:
    lines = commands(data)
    if len(lines) > _MOST_COMMANDS:
        kept = lines[: _MOST_COMMANDS - 1]
        lines = [*kept, f"# and {len(lines) - len(kept) - 1} more of their kind", lines[-1]]
    if lines:
        yield Paragraph("Commands that make it again:")
        yield Verbatim("\n".join(lines), "sh")


def _text(value: Any) -> str:
    if value is None:
        return doc.NOT_AVAILABLE
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "nothing"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}"


def commands(data: ReportData) -> list[str]:
    """The commands that make the same runs again, as a shell takes them: suites, runs, imports, then the report."""
    lines = dict.fromkeys(line for source in data.sources for line in _of_source(source))
    return list(lines | ({data.command: None} if data.command else {}))


def _of_source(source: Source) -> Iterator[str]:
    suite, imports = source.facts.get("suite"), source.facts.get("imports")
    if isinstance(suite, dict) and suite.get("command"):
        yield str(suite["command"])
    entries = imports if isinstance(imports, list) else []
    files = [str(entry["path"]) for entry in entries if isinstance(entry, dict) and entry.get("path")]
    if files and str(source.path) not in files:
        yield shlex.join(["evprof", "import", *files, "-o", str(source.path)])
    groups: dict[int, list[RunLog]] = {}
    for run in source.runs:
        if run.info.imported is None and not run.info.cell and not run.info.profiled:
            groups.setdefault(run.info.group_id, []).append(run)
    for runs in groups.values():
        yield shlex.join([*_run_words(runs), "-o", str(source.path)])


def _run_words(runs: list[RunLog]) -> Iterator[str]:
    """The `evprof run` behind the runs of one group: settings that differ from their defaults, models in full."""
    info = runs[0].info
    sample, models = info.sample, {role: model for run in runs for role, model in run.info.models.items()}
    yield from ("evprof", "run", "--mode", info.mode)
    for option, path in (
        ("--events", sample.events_path),
        ("--video", sample.video_path),
        ("--rectify", sample.rectify_path),
        ("--video-times", sample.video_times_path),
    ):
        yield from (option, path) if path else ()
    for option, time_us in (
        ("--start-ms", sample.start_us),
        ("--duration-ms", sample.duration_us),
        ("--video-offset-ms", sample.video_offset_us or None),
    ):
        # With an equals sign, so that a negative number is no option.
        yield from () if time_us is None else (f"{option}={ms_number(time_us)}",)
    yield from ("--prompt", sample.prompt) if sample.prompt else ()
    for role in (DRAFT, TARGET):
        if model := models.get(role):
            own = {"device": model.device, "dtype": model.dtype, "quantization": model.quantization or None}
            yield from (f"--{role}", model.name, *option_words(own, role, keeps_defaults=True))
    yield from _setting_words(runs)
    # One warm-up run is the default where a model is loaded for it.
    is_usual = any(run.info.warmup and run.info.is_cold for run in runs)
    for name, count, usual in (
        ("warmup", _most(runs, warmup=True), int(is_usual)),
        ("repeat", _most(runs, warmup=False), 1),
        ("processes", len({engine_session(run.info) for run in runs}), 1),
    ):
        yield from (f"--{name}", str(count)) if count > usual else ()


def _most(runs: list[RunLog], *, warmup: bool) -> int:
    """Runs of one model in one engine process."""
    counts = Counter((engine_session(run.info), run.info.role) for run in runs if run.info.warmup == warmup)
    return max(counts.values(), default=0)


def _setting_words(runs: list[RunLog]) -> list[str]:
    """Options of every setting that is not at its default; usual inputs and an adapter's kind are implied."""
    values: dict[str, Any] = {}
    for run in runs:
        values |= {key: value for key, value in run.info.settings.flat().items() if value != DEFAULTS[key]}
    for role, half in READ_BY.items():
        if values.get(f"{role}_input") == half:
            del values[f"{role}_input"]
    if values.get("drafter") in ADAPTER_KINDS:
        del values["drafter"]
    return option_words(values)
