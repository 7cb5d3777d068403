"""What the inspector says of a span or a token, as names and figures; it knows no widget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evprof.core.records import TensorRecord
from evprof.core.rows.spans import Span
from evprof.core.run_log import RunLog
from evprof.core.units import NS_PER_S, bytes_text, ms_text, percent_text
from evprof.view.columns import ShownModel
from evprof.view.labels import SHORT_DTYPES, stage_title, stages_in
from ui.run_facts.figures import heads_of
from ui.run_facts.run_text import ENERGY_TIP, NOTHING, energy_text, expected_note, mode_name

if TYPE_CHECKING:
    from evprof.metrics.facts import Fact


MAX_CHILDREN = 40
"""Parts listed; a decode stage has one per token or round."""


@dataclass(frozen=True)
class Detail:
    """A name and what is to be said, in two columns where there is a `beside`; a stage marks it with its `swatch`,
    a share from 0 to 1 with its `bar`."""

    name: str
    text: str
    swatch: str = ""
    tip: str = ""
    unit: str = ""
    beside: str | None = None
    roles: tuple[str, ...] = ()
    bar: float | None = None


@dataclass(frozen=True)
class DetailSection:
    """Details under a head."""

    head: str
    details: list[Detail] = field(default_factory=list)
    note: str = ""
    heads: tuple[str, ...] = ()


def ns_text(duration_ns: float) -> str:
    return ms_text(duration_ns / 1e6)


def span_sections(run: RunLog, span: Span) -> list[DetailSection]:
    """A span: when, how long, its share, its tensors and its parts."""
    from evprof.metrics import facts

    zero = run.info.start_ns if run.info.start_ns is not None else span.start_ns
    model, parent = run.info.models.get(span.role), run.spans.get(span.parent_id)
    details = [Detail("start", ns_text(span.start_ns - zero)), Detail("duration", _duration_text(span))]
    details += [Detail("share of the run", text)] if (text := _share(run, span)) else []
    details += [Detail("energy", text, tip=ENERGY_TIP)] if (text := energy_text(run, span)) else []
    details += [Detail("throughput", text)] if (text := _rate(run, span)) else []
    details += [Detail("part of", stage_title(parent.name), _swatch(parent))] if parent is not None else []
    if span.is_settled and span.host_end_ns is not None and span.end_ns is not None and span.end_ns > span.host_end_ns:
        tip = "end on the device less end on the host"
        details.append(Detail("device behind host", ns_text(span.end_ns - span.host_end_ns), tip=tip))
    title = f"{stage_title(span.name)} · {model.name if model else span.role}"
    sections = [DetailSection(title, details, _note(run, span))]
    for head, direction in (("Inputs", "in"), ("Outputs", "out")):
        tensors = [record for record in span.tensors if record.direction == direction]
        sections.append(DetailSection(head, [Detail(record.name, tensor_text(record)) for record in tensors]))
    if span.name == "load" and span.is_stage:
        sections.append(DetailSection("Loading", beside([facts.facts(run, span.role, (facts.LOADING,))], "Loading")))
    parts = _parts(run, span)
    more = f"and {len(parts) - MAX_CHILDREN} more" if len(parts) > MAX_CHILDREN else ""
    sections.append(DetailSection("Parts", parts[:MAX_CHILDREN], more))
    return [section for section in sections if section.details]


def _parts(run: RunLog, span: Span) -> list[Detail]:
    """The parts of a span; parts of one name together where loading or preprocessing has several."""
    from evprof.metrics.figures.kv_cache import part_times_ms

    children = run.children(span.span_id)
    names = [child.name for child in children]
    if span.name not in ("load", "preprocess") or len(set(names)) == len(names):
        return [Detail(child.name, _duration_text(child), _swatch(child)) for child in children]
    counts = {name: names.count(name) for name in names}
    times = part_times_ms(run, span)
    return [Detail(times_text(name, counts[name]), ms_text(time_ms)) for name, time_ms in times.items()]


def times_text(name: str, count: int) -> str:
    return name if count == 1 else f"{name} × {count}"


def _swatch(span: Span) -> str:
    # A part may have the name of a stage: frames are decoded while they are loaded.
    return span.name if span.is_stage and stages_in(span.name) else ""


def _note(run: RunLog, span: Span) -> str:
    """The limits of an interval that an imported file measured in one piece."""
    if len(span.covers) < 2:
        return ""
    apart = [name for name in span.covers if name not in run.accounts_for(span)]
    more = f" {', '.join(apart).capitalize()} was measured apart, too, and counts there." if apart else ""
    return f"The file gives one time for {', '.join(span.covers)}; it is not divided among them.{more}"


def _rate(run: RunLog, span: Span) -> str:
    """Tokens per second of a settled prefill or decode stage; empty for other spans."""
    if not span.is_stage or not span.is_settled or not span.duration_ns:
        return ""
    lengths, length = run.info.lengths.get(span.role), run.answer_extent.length
    if span.name == "prefill" and lengths is not None:
        return f"{lengths.input * NS_PER_S / span.duration_ns:,.0f} tok/s"
    if span.name == "decode" and span.role == run.info.role and length > 1:
        return f"{(length - 1) * NS_PER_S / span.duration_ns:,.1f} tok/s"
    return ""


def tensor_text(record: TensorRecord) -> str:
    """`[1, 641, 4096] bf16 · 5.01 MiB`."""
    shape = ", ".join(part.strip() for part in record.shape.split(",") if part.strip())
    return f"[{shape}] {SHORT_DTYPES.get(record.dtype, record.dtype)} · {bytes_text(record.nbytes)}"


def _duration_text(span: Span) -> str:
    if span.duration_ns is None:
        return "running"
    return ns_text(span.duration_ns) + ("" if span.is_settled else ", provisional")


def _share(run: RunLog, span: Span) -> str:
    if run.info.start_ns is None or run.info.end_ns is None or span.duration_ns is None:
        return ""
    wall = run.info.end_ns - run.info.start_ns
    return percent_text(span.duration_ns / wall, 1) if wall > 0 else ""


_HINT = "Click a stage or a token, or drag over the time axis, for more."


def summary_sections(a: ShownModel | None, b: ShownModel | None) -> list[DetailSection]:
    """The facts of the models in the columns, side by side where there are two; nothing without a run."""
    from evprof.metrics import facts

    columns = [column for column in (a, b) if column is not None]
    if not columns:
        return []
    heads = heads_of(a, b) if len(columns) == 2 else ()
    runs = list({column.run.run_id: column.run for column in columns}.values())
    of_models = [facts.facts(*column, (facts.SETTINGS, facts.LOADING, facts.KV_CACHE)) for column in columns]
    of_runs = [facts.facts(run, None, (facts.ACCURACY, facts.ENERGY, facts.GPU, facts.WARNINGS)) for run in runs]
    numbers = " and ".join(str(run.run_id) for run in runs)
    is_single = len(runs) == 1
    title = f"Run {numbers} · {runs[0].info.name or mode_name(runs[0].info.mode)}" if is_single else f"Runs {numbers}"
    warnings = [_with_number(fact.text, fact.runs[0], is_single) for fact in _of(of_runs, facts.WARNINGS)]
    sections = [
        DetailSection(title, beside(of_models, facts.SETTINGS), heads=heads),
        DetailSection("Note", note="\n".join(_notes(runs))),
        DetailSection("Accuracy", beside(of_runs, facts.ACCURACY), note=expected_note(runs)),
        *(_imported(run, is_single) for run in runs),
        DetailSection("Loading", beside(of_models, facts.LOADING)),
        DetailSection("KV cache", beside(of_models, facts.KV_CACHE)),
        DetailSection("Energy", beside(of_runs, facts.ENERGY)),
        DetailSection("GPU", beside(of_runs, facts.GPU)),
        DetailSection("Warnings", note="\n".join(warnings)),
    ]
    return [*(section for section in sections if section.details or section.note), DetailSection("", note=_HINT)]


def beside(columns: Sequence[Sequence[Fact]], section: str) -> list[Detail]:
    """The facts of one section as lines of one or two cells; a dash where a column lacks one of them."""
    from evprof.metrics.facts import DEFAULT

    by_name = [{fact.name: fact for fact in column if fact.section == section} for column in columns]
    details = []
    for name in dict.fromkeys(name for found in by_name for name in found):
        cells = [found.get(name) for found in by_name]
        if all(cell is None or cell.origin == DEFAULT for cell in cells):
            continue
        texts = [cell.text if cell else NOTHING for cell in cells]
        first = next(cell for cell in cells if cell is not None)
        details.append(
            Detail(
                name,
                texts[0],
                swatch=name if section == "Energy" and stages_in(name) else "",
                tip=first.origin,
                beside=texts[1] if len(texts) > 1 else None,
                roles=tuple(cell.tone if cell else "dim" for cell in cells),
            )
        )
    return details


def _of(columns: Sequence[Sequence[Fact]], section: str) -> list[Fact]:
    return [fact for column in columns for fact in column if fact.section == section]


def _imported(run: RunLog, is_single: bool) -> DetailSection:
    """The file and row an imported run comes from, and the notes on it."""
    from evprof.metrics import facts

    found = facts.facts(run, None, (facts.IMPORTED,))
    notes = run.info.imported.notes if run.info.imported is not None else []
    head = "Imported" if is_single else f"Imported · run {run.run_id}"
    return DetailSection(head, beside([found], facts.IMPORTED), "\n".join(notes))


def _notes(runs: Sequence[RunLog]) -> list[str]:
    """People's notes on the runs, of two runs with number and name."""
    return [
        _with_number(run.info.note, f"{run.run_id}{f' “{run.info.name}”' * bool(run.info.name)}", len(runs) == 1)
        for run in runs
        if run.info.note
    ]


def _with_number(text: str, number: object, is_single: bool) -> str:
    return text if is_single else f"Run {number}: {text}"
