"""Runs for people to read in a terminal."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial

from evprof.cli.run.speculation_lines import clinic_lines, round_lines
from evprof.cli.terminal.console import Console
from evprof.core.records import DRAFT, STAGES, TARGET
from evprof.core.run_info import KvFacts, KvLayout, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.safe_text import plain
from evprof.core.units import amount_text, bytes_text, count_text, ms_text, percent_text
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
from evprof.metrics.figures import decoding, kv_cache
from evprof.metrics.figures.energy import energy_document
from evprof.metrics.figures.loading import Loading, loading_of, part_times_ms
from evprof.metrics.figures.partition import shape_of
from evprof.metrics.figures.stages import (
    END_TO_END,
    span_ms,
    stage_ms,
    total_ms,
    unattributed_ms,
    wall_ms,
    widest_basis,
)
from evprof.metrics.figures.throttling import throttle_sentence
from evprof.metrics.speculation.outcome import acceptance


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
        print_run(run, beside.get(sample_key(run), []), console, has_rounds=has_rounds)


def print_configurations(runs: Sequence[RunLog], console: Console) -> None:
    """Runs by configuration: how many count, how many did not finish, and their mean times, from what is kept. Those of
    which no run finished stand last."""
    listed = configurations_of([run for run in runs if run.info.is_over])
    basis = widest_basis([column.runs for column in listed])
    lines: list[list[str]] = [["configuration", "runs", "failed", f"total, {basis}", "decode a token"]]
    for column in listed:
        figures: tuple[Read, ...] = partial(total_ms, basis=basis), decoding.decode_ms_per_token
        means = [ms_text(mean_of(column, read)) for read in figures]
        failures = f"{column.failures:,}" if column.failures else ""
        lines.append([column.label, f"{len(column.runs):,}", failures, *means])
    unfinished: dict[Hashable, list[RunLog]] = {}
    for run in failed_only(runs):
        unfinished.setdefault(configuration_key(run.info), []).append(run)
    for failed in unfinished.values():
        lines.append([Configuration(tuple(failed)).label, "0", f"{len(failed):,}", "n/a", "n/a"])
    console.table(lines)


def print_run(
    run: RunLog,
    known: list[RunLog],
    console: Console,
    *,
    has_rounds: bool = False,
) -> None:
    """One run."""
    run.has_spans()  # reads a stored run's rows, which may be damaged
    console.folded(heading(run))
    for line in _remarks(run):
        console.folded(f"  {line}")
    sample = run.info.sample
    if sample.is_clip:
        console.folded(f"  clip: {sample.clip_text} of {sample.whole_name or 'the sample'}")
    if label := run_label([run]):
        console.folded(f"  {label}")
    if run.info.is_over and not shape_of(run).blocks:
        return  # nothing was measured
    for line in _stage_lines(run):
        console.folded(f"  {line}")
    for name, value in _figures(run):
        console.folded(f"  {name:<22}{value}")
    for line in clinic_lines(run, known):
        console.folded(f"  {line}")
    if has_rounds:
        for line in round_lines(run):
            console.folded(f"  {line}")
    if run.info.imported is None or run.info.text is not None:
        console.folded(f'  "{decoding.answer_text(run).strip()}"')


def _remarks(run: RunLog) -> Iterator[str]:
    """What was noted of the run, what became of it, what to know of it, and which files it left."""
    for place, line in enumerate(plain(run.info.note).splitlines()):
        yield f"{'      ' if place else 'note: '}{line}"
    if run.info.error:
        yield run.info.error
    for warning in (*run.info.warnings, throttle_sentence(run)):
        if warning:
            yield f"warning: {warning}"
    for name, path in (("torch trace", run.info.trace_path), ("memory snapshot", run.info.snapshot_path)):
        if path:
            yield f"{name}: {path}"


def heading(run: RunLog) -> str:
    """Number, mode, model, place and status of a run in one line."""
    info = run.info
    model = info.models.get(info.role)
    # Of a model behind a server nothing but its name is told.
    where = f" · {model.dtype} on {model.device}" if model and model.device else ""
    place = f"{model.name}{where}" if model else info.role
    name = f"run {info.run_id}" + (f" “{plain(info.name)}”" if info.name else "")
    return " · ".join([name, info.mode, place, *info.marks, _status(info)])


def _status(info: RunInfo) -> str:
    return info.status if not info.repeat else f"{info.status} (repeat {info.repeat + 1})"


def _stage_lines(run: RunLog) -> list[str]:
    lines = []
    for span in run.stages():
        owner = f"{span.role} " if span.role != run.info.role else ""
        children = part_times_ms(run, span)
        parts = ", ".join(f"{name} {ms_text(spent)}" for name, spent in list(children.items())[:6])
        many = "" if len(children) <= 6 else ", …"
        lines.append(f"{owner + span.name:<22}{ms_text(span_ms(span)):>9}{f'   {parts}{many}' if parts else ''}")
    if not run.has_spans():  # its rows were dropped, and how long stages took is left of them
        kept = [(name, stage_ms(run, name)) for name in STAGES]
        lines += [f"{name:<22}{ms_text(spent):>9}" for name, spent in kept if spent is not None]
    lines.append(f"{'unattributed':<22}{ms_text(unattributed_ms(run)):>9}")
    lines.append(f"{'wall':<22}{ms_text(wall_ms(run)):>9}")
    return lines


def _figures(run: RunLog) -> list[tuple[str, str]]:
    is_ours = run.info.imported is None
    out = decoding.answer_length(run) if is_ours else decoding.output_length(run)
    lengths = [decoding.input_length(run), decoding.visual_tokens(run), out]
    basis = END_TO_END if is_ours else widest_basis([[run]])
    first = decoding.time_to_first_token_ms(run, basis)
    figures = [
        ("time to first token", ms_text(first) + ("" if first is None or basis == END_TO_END else f", {basis}")),
        ("inter-token latency", ms_text(decoding.inter_token_latency_ms(run))),
        ("decode speed", _rate(decoding.decode_throughput_tok_s(run))),
        ("prefill speed", _rate(decoding.prefill_throughput_tok_s(run))),
        ("tokens in/visual/out", " / ".join("n/a" if length is None else str(length) for length in lengths)),
        ("KV cache", f"{bytes_text(kv_cache.measured_bytes(run))}, formula {bytes_text(kv_cache.formula_bytes(run))}"),
    ]
    figures += [*_clock_figures(run), *_kernel_figures(run), *_layout_figures(run), *_loading_figures(run)]
    figures += _energy_figures(run)
    counts = acceptance(run)
    if counts is not None:
        figures.append(
            (
                "draft acceptance",
                f"{percent_text(counts.draft_acceptance_rate, 1)} ({counts.accepted:,} of {counts.drafted:,})",
            )
        )
        is_told = counts.rounds or not counts.drafted  # a file may tell drafted tokens and no rounds
        over = f" over {count_text(counts.rounds, 'round')}" if is_told else ""
        figures.append(("acceptance length", f"{_number(counts.mean_acceptance_length)}{over}"))
    return figures


def _energy_figures(run: RunLog) -> list[tuple[str, str]]:
    """In all and by stage, where it was sampled; what is shorter than a step of the counter is n/a."""
    found = energy_document(run)
    if found is None:
        return []
    devices = [name for name, entry in found["devices"].items() if entry["computes"]]
    parts = {**found["stages"], "unattributed": found["unattributed_j"]}
    powers = (found["mean_power_w"], found["peak_power_w"])
    of = " and ".join(devices) or "devices that were not sampled"
    return [
        ("energy", f"{amount_text(found['energy_j'], 'J')} of {of}"),
        ("energy by stage", ", ".join(f"{name} {amount_text(value, 'J')}" for name, value in parts.items())),
        ("energy per token", amount_text(found["energy_per_token_j"], "J")),
        ("power mean / peak", " / ".join(amount_text(value, "W") for value in powers)),
    ]


def _clock_figures(run: RunLog) -> list[tuple[str, str]]:
    """How devices' clocks ran against the host's."""
    return [
        (
            "device clock",
            f"{facts.drift_us:+.1f} µs (± {facts.uncertainty_us:.1f}) behind the host's on {device} by the end"
            + (", corrected" if facts.is_corrected else ""),
        )
        for device, facts in run.info.clocks.items()
    ]


def _kernel_figures(run: RunLog) -> list[tuple[str, str]]:
    """The attention kernels that a run's models took."""
    return [
        (
            "attention" if role == run.info.role else f"{role} attention",
            ", ".join(f"{kernel} ({name})" for name, kernel in model.attention_kernels.items()),
        )
        for role, model in run.info.models.items()
        if model.attention_kernels
    ]


def _layout_figures(run: RunLog) -> list[tuple[str, str]]:
    """How the caches of a run's models lie in memory."""
    found = []
    for role, facts in run.info.kv.items():
        if facts.layout is not None and facts.layout.shape:
            name = "cache layout" if role == run.info.role else f"{role} cache layout"
            found.append((name, layout_text(facts, facts.layout)))
    return found


def layout_text(facts: KvFacts, layout: KvLayout) -> str:
    """`4 layers of 2 x [1, 4, 132, 32] float32, strides 17792, 4448, 32, 1 (with gaps), 4.00 KiB a position`."""
    shape, strides = ", ".join(map(str, layout.shape)), ", ".join(map(str, layout.strides))
    gaps = "contiguous" if layout.is_contiguous else "with gaps"
    positions = layout.shape[2] if len(layout.shape) == 4 else 0
    each = f", {bytes_text(facts.measured_bytes // positions)} a position" if positions else ""
    layers = len(facts.per_layer_bytes)
    return f"{count_text(layers, 'layer')} of 2 x [{shape}] {layout.dtype}, strides {strides} ({gaps}){each}"


def _loading_figures(run: RunLog) -> list[tuple[str, str]]:
    found = []
    for role in (DRAFT, TARGET):
        loading = loading_of(run, role)
        if loading is not None:
            found.append(("loaded" if role == run.info.role else f"{role} loaded", loading_text(loading)))
    return found


def loading_text(loading: Loading) -> str:
    """`20,000 events (npy), 41.2 Mev/s, 260 kB read, none of it from disk`."""
    facts = loading.facts
    parts = []
    if facts.events is not None:
        parts.append(f"{facts.events:,} events ({facts.decoder})")
    if facts.frames is not None:
        parts.append(f"{count_text(facts.frames, 'frame')} ({facts.decoder})")
    if loading.events_per_s is not None:
        parts.append(f"{loading.events_per_s / 1e6:.1f} Mev/s")
    if loading.frames_per_s is not None:
        parts.append(f"{loading.frames_per_s:,.0f} frames/s")
    if facts.frame_cache is not None:
        parts.append(f"frame cache {facts.frame_cache}")
    if facts.bytes_read is not None:
        parts.append(f"{bytes_text(facts.bytes_read)} read")
    if facts.bytes_from_disk is not None:
        from_disk = "none of it" if facts.bytes_from_disk == 0 else bytes_text(facts.bytes_from_disk)
        parts.append(f"{from_disk} from disk")
    return ", ".join(parts)


def _rate(tokens_per_s: float | None) -> str:
    return "n/a" if tokens_per_s is None else f"{tokens_per_s:,.1f} tok/s"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"
