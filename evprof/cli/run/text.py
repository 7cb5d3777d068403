"""Runs for people to read in a terminal: stages, facts, drafting, answers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial

from evprof.cli.terminal.console import Cell, Console
from evprof.cli.terminal.tables import Column, PrintedTable, print_blocks
from evprof.core.records import STAGES, BatchRow
from evprof.core.run_log import RunLog
from evprof.core.texts import plain
from evprof.core.units import bytes_text, ms_from_ns, ms_text, percent_text, times_text
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.configurations.baselines import repeats_of
from evprof.metrics.configurations.gathering import (
    Configuration,
    by_sample,
    configuration_key,
    configurations_of,
    failed_only,
    sample_key,
)
from evprof.metrics.configurations.settings_text import run_label
from evprof.metrics.estimates.estimates import Read
from evprof.metrics.estimates.paired import mean_of
from evprof.metrics.facts import ACCURACY, IMPORTED, KV_CACHE, LAYOUT, LOADING, SETTINGS, WARNINGS, facts
from evprof.metrics.figures import decoding, stages
from evprof.metrics.figures.energy import throttle_sentence
from evprof.metrics.figures.kv_cache import part_times_ms
from evprof.metrics.figures.partition import shape_of
from evprof.metrics.speculation.clinic import SHARE, definitions, per_position, plain_answer, round_histogram
from evprof.metrics.speculation.failure_modes import Rejection, counts, first_rejections
from evprof.metrics.speculation.payoff import Prediction, prediction_of
from evprof.metrics.speculation.verdicts import interval_text, speculation_sentence
from evprof.metrics.speculation.widths import measured_widths, width_sentence

_EXAMPLES = 3
"""Rejections that are shown."""

_MOST_PARTS = 6
"""Parts of a stage that are shown."""

_OWN = (KV_CACHE, LAYOUT, LOADING)
"""Sections of facts that a model has which does not answer."""

_STAGE_KEYS = (*(f"{name}_ms" for name in STAGES), "unattributed_ms", "total_ms")
"""Figures that the table of stages holds."""

_ELSEWHERE = (SETTINGS, ACCURACY, IMPORTED, WARNINGS)
"""Sections of facts that the lines above the table hold."""


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
    beside = by_sample(known or runs)
    for index, run in enumerate(runs):
        if index:
            console.print()
        run.has_spans()  # reads a stored run's rows, which may be damaged
        _print_run(run, console)
        if run.info.is_over and not shape_of(run).blocks:
            continue  # nothing was measured
        if mode_of(run.info.mode).is_paired:
            _print_drafting(run, beside.get(sample_key(run), []), console)
        if has_rounds and run.rounds:
            _print_rounds(run, console)
        if run.info.imported is None or run.info.text is not None:
            console.print(f'  "{decoding.answer_text(run).strip()}"')


def print_configurations(runs: Sequence[RunLog], console: Console) -> None:
    """Runs by configuration: how many count, how many did not finish, and their mean times; failed ones last."""
    listed = configurations_of([run for run in runs if run.info.is_over])
    basis = stages.widest_basis([column.runs for column in listed])
    lines: list[list[str]] = [["configuration", "runs", "failed", f"total, {basis}", "decode a token"]]
    for column in listed:
        figures: tuple[Read, ...] = partial(stages.total_ms, basis=basis), decoding.decode_ms_per_token
        means = [ms_text(mean_of(column, read)) for read in figures]
        failures = f"{column.failures:,}" if column.failures else ""
        lines.append([column.label, f"{len(column.runs):,}", failures, *means])
    unfinished: dict[Hashable, list[RunLog]] = {}
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
    place = f"{model.name}{where}" if model else info.role
    name = f"run {info.run_id}" + (f" “{plain(info.name)}”" if info.name else "")
    status = info.status if not info.repeat else f"{info.status} (repeat {info.repeat + 1})"
    return " · ".join([name, info.mode, place, *info.marks, status])


def _print_run(run: RunLog, console: Console) -> None:
    console.print(heading(run))
    for line in _remarks(run):
        console.print(f"  {line}")
    if run.info.is_over and not shape_of(run).blocks:
        return
    console.table([("stage", "time", "parts"), *_stage_rows(run)], left=(0, 2), indent=2)
    rows = [
        (fact.section if role == run.info.role else f"{fact.section}, {role}", fact.name, fact.text)
        for role in sorted(run.info.models or (run.info.role,), key=lambda role: role != run.info.role)
        for fact in facts(run, role, None if role == run.info.role else _OWN)
        if fact.section not in _ELSEWHERE and fact.key not in _STAGE_KEYS
    ]
    before = ["", *(section for section, _, _ in rows)]
    lines = [
        ("" if section == above else section, *rest) for above, (section, *rest) in zip(before, rows, strict=False)
    ]
    if lines:
        console.print()
        console.table([("figures", "", ""), *lines], left=3, indent=2)


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


def _print_drafting(run: RunLog, known: Sequence[RunLog], console: Console) -> None:
    """Acceptance by definition and position, rejections, costs and verdict; of several repeats below the last one."""
    if run.run_id != repeats_of(run, known)[-1].run_id:
        return
    rows = [entry for entry in definitions(run, plain_answer(run, known)) if entry.value is not None]
    if rows:
        console.print("\n  acceptance, by definition (different counts: not to be compared with each other)")
        lines = [
            (
                entry.name,
                percent_text(entry.value, 1) if entry.unit == SHARE else f"{entry.value:.2f}",
                f"{_count(entry.numerator)} / {_count(entry.denominator)}",
                entry.formula,
            )
            for entry in rows
        ]
        console.table([("definition", "value", "counts", "formula"), *lines], left=(0, 3), indent=2)
    console.print()
    rejections = first_rejections(run)
    drafting = [*_position_rows(run), *_cost_rows(run, prediction_of(run, known), known)]
    if rejections:
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts(rejections).items())
        drafting.append(("first rejections", kinds))
        drafting += [
            ("", f"round {entry.round_index + 1}, token {entry.position + 1}: {rejection_text(entry)}")
            for entry in rejections[:_EXAMPLES]
        ]
    if drafting:
        console.table([("drafting", ""), *drafting], left=2, indent=2)
    console.print(f"  {speculation_sentence(run, known)}")


def _count(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.0f}" if float(value).is_integer() else f"{value:.2f}"


def _position_rows(run: RunLog) -> Iterator[tuple[str, str]]:
    positions = [entry for entry in per_position(run) if entry.judged]
    if not positions:
        return
    shown = [percent_text(entry.conditional) for entry in positions[:12]] + ["…"] * (len(positions) > 12)
    yield "accepted by place", f"{' · '.join(shown)}  (of those that were judged there)"
    yield (
        "rounds by accepted",
        " · ".join(f"{accepted}: {count}" for accepted, count in round_histogram(run).items() if count),
    )


def rejection_text(entry: Rejection) -> str:
    """`draft " left" (100 %, to the target 0.0 %), target " video" (100 %): content`."""
    own, cross, target = (
        "" if chance is None else percent_text(chance, 1)
        for chance in (entry.draft_chance, entry.cross_chance, entry.target_chance)
    )
    of_draft = ", ".join(part for part in (own, cross and f"to the target {cross}") if part)
    pieces = [f'"{piece}"' if piece else "the end" for piece in (entry.draft_piece, entry.target_piece)]
    return (
        f"draft {pieces[0]}{f' ({of_draft})' if of_draft else ''}, "
        f"target {pieces[1]}{f' ({target})' if target else ''}: {entry.kind}"
    )


def _cost_rows(run: RunLog, found: Prediction | None, known: Sequence[RunLog]) -> Iterator[tuple[str, str]]:
    if found is None:
        return
    cost = "" if found.c is None else f"c {found.c:.2f} a drafted token, "
    yield "costs in plain steps", f"{cost}v {found.v:.2f} the rest of a round (a step {ms_text(found.costs.step_ms)})"
    measured = found.of("decode")
    speed = "n/a" if measured is None else f"{times_text(measured.speedup)}{interval_text(measured)}"
    line = f"measured {speed}; by the formula, from these runs, {times_text(found.predicted_decode)}"
    if run.info.speculation is None or not run.info.speculation.tree:
        yield "decoding speed", f"{line} at {found.mean_gamma:.1f} drafted a round"
        yield "best width", width_sentence(measured_widths(run, known))
    else:
        yield "decoding speed", line


def _print_rounds(run: RunLog, console: Console) -> None:
    rejections = {entry.round_index: entry for entry in first_rejections(run)}
    lines: list[list[Cell]] = [
        ["round", "start", "draft", "verify", "rollback", "accepted", "first rejection"],
    ]
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


_BATCH_COLUMNS: tuple[Column, ...] = (
    ("MODEL", "{model}"),
    ("batch", "{batch}"),
    ("samples/s", "{samples_per_s:.2f}"),
    ("ratio", "{samples_ratio:times}"),
    ("decode tok/s", "{decode_tok_s:.1f}"),
    ("ratio", "{decode_ratio:times}"),
    ("prefill", "{prefill_ms:ms}"),
    ("KV cache", "{cache_bytes:bytes}"),
    ("peak", lambda row: f"{bytes_text(row['peak_bytes'])} {row['peak_of']}"),
    ("rounds x requests", "{n} x {requests}"),
)


def print_batches(rows: Sequence[BatchRow], console: Console) -> None:
    """A line for each size; ratios are to the first size that answered the same model's same requests."""
    if not rows:
        return
    first: dict[tuple[object, ...], BatchRow] = {}
    table = []
    for row in rows:
        base = first.setdefault((row.model, row.device, row.dtype, row.positions, row.new_tokens, row.requests), row)
        ratios = {
            f"{name}_ratio": None if value is None or not of_base else value / of_base
            for name, value, of_base in (
                ("samples", row.samples_per_s, base.samples_per_s),
                ("decode", row.decode_tok_s, base.decode_tok_s),
            )
        }
        table.append(vars(row) | ratios)
    console.print()
    print_blocks([PrintedTable(_BATCH_COLUMNS, table, missing="n/a")], console)
