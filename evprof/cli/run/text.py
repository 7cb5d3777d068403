"""Runs for people to read in a terminal: stages, facts, verdict, answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from evprof.cli.terminal.console import Cell, Console
from evprof.cli.terminal.tables import print_rows
from evprof.core.records import STAGES, BatchRow
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.texts import one_line, plain
from evprof.core.units import ms_from_ns, ms_text, percent_text
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.comparison.differences import difference_of, pairs_side_by_side
from evprof.metrics.configurations.baselines import repeats_of, runs_text
from evprof.metrics.configurations.gathering import (
    Configuration,
    by_sample,
    configuration_key,
    configurations_of,
    failed_only,
    sample_key,
)
from evprof.metrics.configurations.settings_text import run_label
from evprof.metrics.estimates.paired import mean_of
from evprof.metrics.facts import ACCURACY, IMPORTED, KV_CACHE, LAYOUT, LOADING, SETTINGS, WARNINGS, facts
from evprof.metrics.figures import decoding, stages
from evprof.metrics.figures.energy import throttle_sentence
from evprof.metrics.figures.kv_cache import part_times_ms
from evprof.metrics.figures.partition import shape_of
from evprof.metrics.speculation.failure_modes import Rejection, first_rejections
from evprof.metrics.speculation.verdicts import speculation_sentence

_MOST_PARTS = 6
"""Parts of a stage that are shown."""

_OWN = (KV_CACHE, LAYOUT, LOADING)
"""Sections of facts of a model that does not answer."""

_STAGE_KEYS = (*(f"{name}_ms" for name in STAGES), "unattributed_ms", "total_ms")
"""Figures in the table of stages."""

_ELSEWHERE = (SETTINGS, ACCURACY, IMPORTED, WARNINGS)
"""Sections of facts in the lines above the table."""


def print_runs(
    runs: Sequence[RunLog],
    console: Console,
    known: Sequence[RunLog] | None = None,
    *,
    has_rounds: bool = False,
) -> None:
    """Each run with its stages, figures and text; `known` are all runs that may serve as a baseline.

    `has_rounds`: every round of speculation has a line of its own.
    """
    for sentence in _differences(runs):
        console.wrapped(sentence)
        console.print()
    beside = by_sample(known or runs)
    for index, run in enumerate(runs):
        if index:
            console.print()
        run.has_spans()  # reads a stored run's rows, which may be damaged
        console.print(heading(run))
        for line in _remarks(run):
            console.print(f"  {line}")
        if run.info.is_over and not shape_of(run).blocks:
            continue  # nothing was measured
        console.table([("stage", "time", "parts"), *_stage_rows(run)], left=(0, 2), indent=2)
        if lines := list(_fact_rows(run)):
            console.print()
            console.table([("figures", "", ""), *lines], left=3, indent=2)
        same_sample = beside.get(sample_key(run), [])
        if mode_of(run.info.mode).is_paired and run.run_id == repeats_of(run, same_sample)[-1].run_id:
            console.print(f"\n  {speculation_sentence(run, same_sample)}")
        if has_rounds and run.rounds:
            _print_rounds(run, console)
        if run.info.imported is None or run.info.text is not None:
            console.print(f'  "{decoding.answer_text(run).strip()}"')


def _differences(runs: Sequence[RunLog]) -> Iterator[str]:
    """Why one side of each side by side takes longer."""
    for pair in pairs_side_by_side(configurations_of([run for run in runs if run.info.is_over])):
        if why := difference_of(*pair).why():
            yield why


def print_turns(runs: Sequence[RunLog], console: Console, known: Sequence[RunLog]) -> None:
    """Runs by configuration, their answers, and whether drafting pays; all of each run where one did not finish."""
    if any(run.info.status != FINISHED for run in runs):
        print_runs(runs, console, known)
        return
    listed = sorted(runs, key=lambda run: (run.info.group_id, run.info.role, run.run_id))
    print_configurations(listed, console)
    answers: dict[str, list[int]] = {}
    for run in listed:
        if not run.info.warmup:
            answers.setdefault(decoding.answer_text(run).strip(), []).append(run.run_id)
    for answer, run_ids in answers.items():
        console.print(f'{runs_text(run_ids)}: "{answer}"')
    for sentence in _differences(listed):
        console.wrapped(sentence)
    drafting = {run.info.mode: run for run in listed if mode_of(run.info.mode).is_paired}
    for run in drafting.values():
        console.print(speculation_sentence(run, known))


def print_configurations(runs: Sequence[RunLog], console: Console) -> None:
    """Runs by configuration: how many count, how many did not finish, and their mean times; failed ones last."""
    listed = configurations_of([run for run in runs if run.info.is_over])
    basis = stages.widest_basis([column.runs for column in listed])
    lines: list[list[str]] = [["configuration", "runs", "failed", f"total, {basis}", "decode a token"]]
    for column in listed:
        figures = partial(stages.total_ms, basis=basis), decoding.decode_ms_per_token
        means = [ms_text(mean_of(column, read)) for read in figures]
        failures = f"{column.failures:,}" if column.failures else ""
        lines.append([column.label, f"{len(column.runs):,}", failures, *means])
    unfinished: dict[object, list[RunLog]] = {}
    for run in failed_only(runs):
        unfinished.setdefault(configuration_key(run.info), []).append(run)
    for failed in unfinished.values():
        lines.append([Configuration(tuple(failed)).label, "0", f"{len(failed):,}", "n/a", "n/a"])
    console.table(lines)


def heading(run: RunLog) -> str:
    """Number, mode, model, device and status of a run in one line."""
    info = run.info
    model = info.models.get(info.role)
    where = f" · {model.dtype} on {model.device}" if model and model.device else ""
    place = f"{one_line(model.name)}{where}" if model else info.role
    name = f"run {info.run_id}" + (f" “{one_line(info.name)}”" if info.name else "")
    status = info.status if not info.repeat else f"{info.status} (repeat {info.repeat + 1})"
    return " · ".join([name, info.mode, place, *info.marks, status])


def _remarks(run: RunLog) -> Iterator[str]:
    """The note, the error, the warnings, the files, the part of the sample and the settings of a run."""
    for number, line in enumerate(plain(run.info.note).splitlines()):
        yield f"{'      ' if number else 'note: '}{line}"
    if run.info.error:
        yield run.info.error
    for warning in (*run.info.warnings, throttle_sentence(run)):
        if warning:
            yield f"warning: {warning}"
    for name, path in (("torch trace", run.info.trace_path), ("memory snapshot", run.info.snapshot_path)):
        if path:
            yield f"{name}: {path}"
    sample = run.info.sample
    if sample.is_clip:
        yield f"clip: {sample.clip_text} of {sample.whole_name or 'the sample'}"
    if label := run_label([run]):
        yield label


def _stage_rows(run: RunLog) -> Iterator[tuple[str, str, str]]:
    for span in run.stages():
        owner = f"{span.role} " if span.role != run.info.role else ""
        parts = [f"{name} {ms_text(spent)}" for name, spent in part_times_ms(run, span).items()]
        more = ["…"] if len(parts) > _MOST_PARTS else []
        yield owner + span.name, ms_text(stages.span_ms(span)), ", ".join([*parts[:_MOST_PARTS], *more])
    if not run.has_spans():  # its rows were dropped; the stages' times remain
        for name in STAGES:
            if (spent := stages.stage_ms(run, name)) is not None:
                yield name, ms_text(spent), ""
    yield "unattributed", ms_text(stages.unattributed_ms(run)), ""
    yield "wall", ms_text(stages.wall_ms(run)), ""


def _fact_rows(run: RunLog) -> Iterator[tuple[str, str, str]]:
    """Section, name and value of each fact; the section in its first line only. The answering model comes first."""
    rows = [
        (fact.section if role == run.info.role else f"{fact.section}, {role}", fact.name, fact.text)
        for role in sorted(run.info.models or (run.info.role,), key=lambda role: role != run.info.role)
        for fact in facts(run, role, None if role == run.info.role else _OWN)
        if fact.section not in _ELSEWHERE and fact.key not in _STAGE_KEYS
    ]
    for section, group in groupby(rows, key=lambda row: row[0]):
        for number, (_, name, text) in enumerate(group):
            yield "" if number else section, name, text


def _print_rounds(run: RunLog, console: Console) -> None:
    rejections = {entry.round_index: entry for entry in first_rejections(run)}
    lines: list[list[Cell]] = [["round", "start", "draft", "verify", "rollback", "accepted", "first rejection"]]
    for entry in run.rounds:
        failed = rejections.get(entry.round_index)
        remarks = ("hidden in the prefill" if entry.hidden else "", rejection_text(failed) if failed else "")
        lines.append(
            [
                f"{entry.round_index + 1}",
                ms_text(stages.start_ms(run, entry.start_ns)),
                *(ms_text(ms_from_ns(spent)) for spent in (entry.draft_ns, entry.verify_ns, entry.rollback_ns)),
                f"{entry.accepted} of {entry.drafted}",
                "; ".join(filter(None, remarks)),
            ]
        )
    console.print()
    console.table(lines, left=(6,), indent=2)


def rejection_text(entry: Rejection) -> str:
    """`draft " left" (100 %), target " video" (100 %): content`."""
    sides = ((entry.draft_piece, entry.draft_chance), (entry.target_piece, entry.target_chance))
    texts = [
        (f'"{piece}"' if piece else "the end") + ("" if chance is None else f" ({percent_text(chance, 1)})")
        for piece, chance in sides
    ]
    return f"draft {texts[0]}, target {texts[1]}: {entry.kind}"


_BATCH_KEYS = (
    *("model", "batch", "samples_per_s", "decode_tok_s", "prefill_ms", "cache_bytes", "peak_bytes", "peak_of"),
    *("n", "requests"),
)


def print_batches(rows: Sequence[BatchRow], console: Console) -> None:
    if rows:
        console.print()
        print_rows(console, [row.to_json() for row in rows], _BATCH_KEYS)
