"""The commands that would make the same runs again, told from what the runs recorded, quoted as a shell takes them."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.sample import ms_number
from evprof.core.vocabulary.drafters import ADAPTER_KINDS
from evprof.core.vocabulary.families import READ_BY
from evprof.core.vocabulary.settings import DEFAULTS, option_words
from evprof.export.report.data import ReportData, Source
from evprof.metrics.configurations.baselines import engine_session


def commands(data: ReportData) -> list[str]:
    """Suites by their own command; other runs by the `evprof run` that asks the same; imports; then the report."""
    found: dict[str, None] = {}
    for source in data.sources:
        found.update(dict.fromkeys(_of_source(source)))
    if data.command:
        found[data.command] = None
    return list(found)


def _of_source(source: Source) -> list[str]:
    lines: list[str] = []
    suite = source.facts.get("suite")
    if isinstance(suite, dict) and suite.get("command"):
        lines.append(str(suite["command"]))
    imports = source.facts.get("imports")
    listed = imports if isinstance(imports, list) else []
    files = [str(entry["path"]) for entry in listed if isinstance(entry, dict) and entry.get("path")]
    if files and str(source.path) not in files:
        lines.append(shlex.join(["evprof", "import", *files, "-o", str(source.path)]))
    groups: dict[int, list[RunLog]] = {}
    for run in source.runs:
        if run.info.imported is None and not run.info.cell and not run.info.profiled:
            groups.setdefault(run.info.group_id, []).append(run)
    return lines + [run_command(runs, str(source.path)) for runs in groups.values()]


def run_command(runs: list[RunLog], session: str) -> str:
    """The `evprof run` behind the runs of one group: what differs from its defaults, models and places in full."""
    info = runs[0].info
    words = ["evprof", "run", "--mode", info.mode]
    sample = info.sample
    for option, path in (
        ("--events", sample.events_path),
        ("--video", sample.video_path),
        ("--rectify", sample.rectify_path),
        ("--video-times", sample.video_times_path),
    ):
        words += [option, path] if path else []
    for option, time_us in (
        ("--start-ms", sample.start_us),
        ("--duration-ms", sample.duration_us),
        ("--video-offset-ms", sample.video_offset_us or None),
    ):
        # With an equals sign, so that a negative number is no option.
        words += [] if time_us is None else [f"{option}={ms_number(time_us)}"]
    words += ["--prompt", sample.prompt] if sample.prompt else []
    models = {role: model for run in runs for role, model in run.info.models.items()}
    for role in (DRAFT, TARGET):
        if model := models.get(role):
            own = {"device": model.device, "dtype": model.dtype, "quantization": model.quantization or None}
            words += [f"--{role}", model.name, *option_words(own, role, keeps_defaults=True)]
    words += _settings(runs)
    sessions = len({engine_session(run.info) for run in runs})
    # One warm-up run is the default where a model is loaded for it.
    is_usual = any(run.info.warmup and run.info.is_cold for run in runs)
    for name, count, usual in (
        ("warmup", _most(runs, warmup=True), int(is_usual)),
        ("repeat", _most(runs, warmup=False), 1),
        ("sessions", sessions, 1),
    ):
        words += [f"--{name}", str(count)] if count > usual else []
    return shlex.join([*words, "-o", session])


def _most(runs: list[RunLog], *, warmup: bool) -> int:
    """Runs of one model in one engine process."""
    counts = Counter((engine_session(run.info), run.info.role) for run in runs if run.info.warmup == warmup)
    return max(counts.values(), default=0)


def _settings(runs: list[RunLog]) -> list[str]:
    """Options of every setting that is not at its default; what a model reads anyway and an adapter's kind go without
    saying."""
    values: dict[str, Any] = {}
    for run in runs:
        values |= {key: value for key, value in run.info.settings.flat().items() if value != DEFAULTS[key]}
    for role, half in READ_BY.items():
        if values.get(f"{role}_input") == half:
            del values[f"{role}_input"]
    if values.get("drafter") in ADAPTER_KINDS:
        del values["drafter"]
    return option_words(values)
