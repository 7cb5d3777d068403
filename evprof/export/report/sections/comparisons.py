"""Section: pairs of configurations: both models, contributions of stages, fewer or faster tokens, one setting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from evprof.core.records import COVERS, DRAFT, STAGES, TARGET
from evprof.core.units import count_text
from evprof.core.vocabulary.figures import figure_of
from evprof.core.vocabulary.modes import mode_of
from evprof.export.report import figures as fmt
from evprof.export.report import parts as doc
from evprof.export.report.data import ReportData, badge_of
from evprof.export.report.pairs import MOST_PAIRS, ConfigurationPair, difference_in, listed, model_pairs, pairs_of
from evprof.export.report.parts import Badge, Block, Cell, Paragraph, Section, Table
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.comparison.differences import Difference, part_reader
from evprof.metrics.comparison.rows import TOTAL, comparison_rows
from evprof.metrics.configurations.gathering import BOTH_MODELS, Configuration, without_reference
from evprof.metrics.configurations.settings_text import settings_of
from evprof.metrics.estimates.observations import Read
from evprof.metrics.estimates.paired import (
    DECODE,
    Generation,
    compare,
    fewer_or_faster,
    is_mostly_cut_off,
    values_of,
)
from evprof.metrics.figures.decoding import decode_ms_per_token
from evprof.metrics.figures.stages import total_ms
from evprof.metrics.limits.workload import holds_vision

LANGUAGE = ("prefill", "decode")
"""LLM decoding in files of four stages."""

MOST_ROWS = 40


def section(data: ReportData) -> Section:
    blocks = [
        *doc.headed("Both models side by side", both_models(data)),
        *doc.headed("What each stage contributes to the difference", contributions(data)),
        *doc.headed("Fewer tokens or faster tokens", fewer_or_faster_tokens(data)),
        *doc.headed("One setting against another", one_setting(data)),
    ]
    missing = "Two configurations are needed: a draft and a target, or one with and one without a switch."
    return doc.section_of("Comparisons", blocks, missing)


def both_models(data: ReportData) -> list[Block]:
    """A table for every draft and target of one request: every compared figure, with shares of the total."""
    pairs = model_pairs(data)
    blocks: list[Block] = [_both(pair, data) for pair in pairs]
    doubled = dict.fromkeys(data.name(side) for pair in pairs for side in pair.sides if holds_vision(side.runs[0]))
    if doubled:
        text = f"The prefill of {listed(list(doubled))} holds the vision pass once more."
        blocks.append(Paragraph(text, tone="warn"))
    return blocks


def _both(pair: ConfigurationPair, data: ReportData) -> Table:
    base, other = map(data.name, pair.sides)
    badges = [badge_of(side.runs) for side in pair.sides]
    found = comparison_rows(pair.sides, 0, data.basis)
    totals = next((row.values for row in found if row.metric == TOTAL), [None, None])
    rows = []
    for row in found:
        figure = figure_of(row.metric)
        cells: list[Cell | str] = [f"total, {data.basis}" if row.metric == TOTAL else figure.title]
        for value, total, badge in zip(row.values, totals, badges, strict=True):
            is_part = bool(_stages(row.metric)) or row.metric == TOTAL
            share = value / total if is_part and value is not None and total else None
            cells += [fmt.figure_cell(value, row.unit, badge), "" if share is None else fmt.share_cell(share)]
        count = row.paired_counts[1] if row.paired_counts[1] is not None else min(row.counts)
        ends = row.intervals[1] if row.intervals else None
        rows.append(doc.row_of(*cells, fmt.ratio_cell(row.ratio[1], ends), fmt.rows_cell(count)))
    both = compare(*pair.sides, part_reader(LANGUAGE))
    if both is not None and LANGUAGE not in [_stages(row.metric) for row in found]:
        cells = ["prefill + decode"]
        for mean, total, badge in zip(both.means, totals, badges, strict=True):
            cells += [fmt.ms_cell(mean, badge), fmt.share_cell(mean / total if total else None)]
        rows.append(doc.row_of(*cells, fmt.verdict_cell(both), fmt.rows_cell(both.count)))
    counted = " and ".join(f"{count_text(len(side.runs), 'run')} of {data.name(side)}" for side in pair.sides)
    return Table(
        ("figure", base, "share", other, "share", "ratio", "n"),
        tuple(rows),
        f"{other} / {base}: means over samples, ratios of means with 95 % intervals over the n samples that both "
        f"measured; {counted}",
    )


def _stages(metric: str) -> tuple[str, ...]:
    """The stages of a metric that is a time of stages; () of others."""
    names = tuple(metric.removesuffix("_ms").split(COVERS))
    return names if all(name in STAGES for name in names) else ()


def contributions(data: ReportData) -> list[Block]:
    """A table of the parts of the difference of the totals, and a sentence, for every pair."""
    pairs = pairs_of(data)
    blocks = [block for pair in pairs[:MOST_PAIRS] for block in _parts_of(pair, data)]
    if len(pairs) > MOST_PAIRS:
        text = f"{len(pairs) - MOST_PAIRS} other pairs are left out here; evprof compare compares them by name."
        blocks.append(Paragraph(text))
    return blocks


def _parts_of(pair: ConfigurationPair, data: ReportData) -> list[Block]:
    base, other = map(data.name, pair.sides)
    difference = difference_in(data, pair)
    total = difference.total
    if not difference.parts:
        return [Paragraph(f"{base} and {other} have no stage that both measured.", tone="warn")]
    listed = [(part.title, part.delta_ms, part.interval, part.share) for part in difference.parts]
    if total is not None:
        listed.append((f"total (ratio {fmt.verdict_cell(total).text})", total.delta, total.delta_interval, 1.0))
    rows = [
        doc.row_of(
            title,
            fmt.ms_cell(delta_ms, Badge.DERIVED, has_unit=False),
            fmt.interval_cell(ends, total.reason if total else ""),
            fmt.share_cell(share),
        )
        for title, delta_ms, ends, share in listed
    ]
    caption = f"{other} less {base}, {data.basis}, ms, mean over the samples that both measured"
    if BOTH_MODELS in (pair.base.model, pair.other.model):
        caption += f"; stages of {BOTH_MODELS} together"
    table = Table(("stage", "difference", "95 % of the difference", "share"), tuple(rows), caption)
    if total is None:
        text = f"Of {base} and {other} there is no total {data.basis}; the differences stand for themselves."
        return [table, Paragraph(text)]
    return [table, Paragraph(f"{difference.why((base, other))}{_largest(difference)}", badge=Badge.DERIVED)]


def _largest(difference: Difference) -> str:
    """A sentence about the largest part and its share, where there is a difference to share."""
    part, total = difference.main_parts[0], difference.total
    is_even = total is None or (total.interval is not None and total.interval[0] <= 1 <= total.interval[1])
    if is_even or part.share is None or not 0 < part.share < 1:
        return ""
    is_most = part.share > 0.5 and part.is_clear
    return f" {'Most of it' if is_most else 'The largest part'} is {part.title}, {fmt.share_text(part.share)}."


def fewer_or_faster_tokens(data: ReportData) -> list[Block]:
    """The two ratios of every pair that multiply to the ratio of the times."""
    compared = [(pair, found) for pair in pairs_of(data) if (found := fewer_or_faster(*pair.sides)) is not None]
    shown = compared[:MOST_PAIRS]
    if not shown:
        return []
    blocks: list[Block] = [_ratios(shown, data)]
    sides = {id(side): side for pair, _ in shown for side in pair.sides}.values()
    if cut := [data.name(column) for column in sides if is_mostly_cut_off(column)]:
        text = f"Most answers of {listed(cut)} are as long as the limit allows: the ratio of counts is the limit's."
        blocks.append(Paragraph(text, "warn"))
    if any(found.stages != DECODE for _, found in shown):
        text = "The file timed decoding together with earlier stages: a shorter answer then looks slower per token."
        blocks.append(Paragraph(text, "warn"))
    return blocks


def _ratios(compared: Iterable[tuple[ConfigurationPair, Generation]], data: ReportData) -> Table:
    def step(entry: tuple[ConfigurationPair, Generation], side: int) -> Cell:
        return fmt.ms_cell(entry[1].each_ms.means[side], badge_of(entry[0].runs, Badge.DERIVED))

    def count_share(entry: tuple[ConfigurationPair, Generation]) -> Cell:
        return fmt.share_cell(entry[1].token_share if entry[1].total_ms.is_clear else None)

    return doc.table_of(
        compared,
        [
            ("pair", lambda entry: f"{data.name(entry[0].other)} / {data.name(entry[0].base)}"),
            ("time of", lambda entry: entry[1].name),
            ("token count ratio", lambda entry: fmt.verdict_cell(entry[1].tokens)),
            ("× time per token ratio", lambda entry: fmt.verdict_cell(entry[1].each_ms, lower_is_better=True)),
            ("= time ratio", lambda entry: fmt.verdict_cell(entry[1].total_ms, lower_is_better=True)),
            ("of it the count's, in logarithms", count_share),
            ("ms per token, baseline", partial(step, side=0)),
            ("ms per token, other", partial(step, side=1)),
            ("n", lambda entry: fmt.rows_cell(entry[1].tokens.count)),
        ],
        "Ratios with 95 % intervals; n counts samples in pairs, or runs of one sample",
        text_columns=2,
    )


def one_setting(data: ReportData) -> list[Block]:
    """A row for every configuration that differs from an earlier one in one setting, and equals none."""
    known = [(column, _settings(column)) for column in _alone(data)]
    pairs = []
    for place, (column, settings) in enumerate(known):
        if any(settings == others for _, others in known[:place]):
            continue
        for base, others in known[:place]:
            differing = [name for name in {**others, **settings} if others.get(name) != settings.get(name)]
            if base.session == column.session and len(differing) == 1:
                (name,) = differing
                words = f"{name}: {others.get(name, '—')} → {settings.get(name, '—')}"
                pairs.append(((words, data.name(base), data.name(column)), base, column))
                break
    heads = ("setting", "first", "second", "total of the first", "of the second", "total")
    return _compared(pairs[:MOST_ROWS], heads, "second / first", data.basis)


def same_input(data: ReportData) -> list[Block]:
    """Draft and target where both read the same kind of input in the same way."""
    inputs: dict[str, dict[str, Configuration]] = {}
    for column in _alone(data):
        settings = _settings(column)
        words = f"{settings.get('reads')} with {settings['read with']}, vision cache {settings.get('vision cache')}"
        inputs.setdefault(words, {}).setdefault(settings["role"], column)
    pairs = [
        ((words,), sides[DRAFT], sides[TARGET]) for words, sides in inputs.items() if {DRAFT, TARGET} <= set(sides)
    ]
    heads = ("input", "draft", "target", "target / draft")
    return _compared(pairs, heads, "both models shown the same input", data.basis)


def _compared(
    pairs: Sequence[tuple[tuple[str, ...], Configuration, Configuration]], heads: tuple[str, ...], what: str, basis: str
) -> list[Block]:
    """Of each pair its names, both totals, the ratios of total and time per token, samples and runs."""
    total: Read = partial(total_ms, basis=basis)
    found = [compare(base, other, read) for _, base, other in pairs for read in (total, decode_ms_per_token)]
    ratios = (fmt.verdict_cell(one, lower_is_better=True) for one in found)
    rows = [
        doc.row_of(
            *names,
            *(fmt.ms_cell(summarize(values_of(side, total)), badge_of(side.runs)) for side in (base, other)),
            next(ratios),
            next(ratios),
            fmt.rows_cell(whole.count if whole else None),
            f"{len(base.runs)} and {len(other.runs)}",
        )
        for (names, base, other), whole in zip(pairs, found[::2], strict=True)
    ]
    caption = (
        f"Totals {basis}, means over samples; {what}: ratios with 95 % intervals, better or worse by Holm's correction "
        "over the table"
    )
    heads = (*heads, "time per token", "n", "runs")
    return [Table(heads, tuple(rows), caption, text_columns=len(pairs[0][0]))] if pairs else []


def _alone(data: ReportData) -> list[Configuration]:
    return [column for column in without_reference(data.columns) if not mode_of(column.runs[0].info.mode).is_paired]


def _settings(column: Configuration) -> dict[str, str]:
    """Every setting of a configuration by name, with the model that answers and the decoder of its input."""
    run = column.runs[0]
    model, loading = run.info.models.get(run.info.role), run.info.loading.get(run.info.role)
    own = {
        "role": run.info.role,
        "model": model.name if model else "",
        "read with": (loading and loading.decoder) or "",
    }
    return own | {setting.name: setting.text for setting in settings_of(run, run.info.role)}
