"""Section: fewer tokens or faster tokens, and under which settings answers had their length."""

from __future__ import annotations

from functools import partial

from evprof.core.run_log import RunLog
from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, ms_cell, number_text, ratio_cell, ratio_text, rows_cell, share_text
from evprof.export.report.parts import Badge, Block, Cell, ColumnsOf, Paragraph, Section, Table, table_of
from evprof.export.report.sections.evidence import MOST_PAIRS, ConfigurationPair, badge_of, listed, names_of, pairs_of
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.generation import DECODE, Generation, fewer_or_faster, is_mostly_cut_off
from evprof.metrics.estimates.paired import values_of
from evprof.metrics.figures.decoding import decode_steps, output_length

TITLE = "Fewer tokens or faster tokens"


def section(data: ReportData) -> Section:
    """Lengths with their settings, and for every pair the two ratios that multiply to that of the times."""
    answered = [column for column in data.columns if values_of(column, _length)]
    if not answered:
        return Section(TITLE, missing="No run says how many tokens it gave; record answers, or import their token ids.")
    names = names_of(data)
    blocks: list[Block] = [_lengths(answered, names)]
    found = [(pair, told) for pair in pairs_of(data) if (told := fewer_or_faster(pair.base, pair.other)) is not None]
    if not found:
        blocks.append(Paragraph("No two configurations have both token counts and decoding times to compare."))
        return Section(TITLE, tuple(blocks))
    shown = found[:MOST_PAIRS]
    blocks.append(_ratios(shown, names))
    blocks += [Paragraph(text, badge=Badge.DERIVED) for text in _sentences(shown, names)]
    cut = [
        names[id(column)]
        for column in {id(c): c for pair, _ in shown for c in (pair.base, pair.other)}.values()
        if is_mostly_cut_off(column)
    ]
    if cut:
        blocks.append(
            Paragraph(
                f"Most answers of {listed(cut)} are as long as the limit allows: the ratio of counts is the limit's.",
                tone="warn",
            )
        )
    if any(told.stages != DECODE for _, told in shown):
        blocks.append(
            Paragraph(
                "Where a file timed decoding together with earlier stages, the time per token holds those, too: a "
                "shorter answer then looks slower per token than it is.",
                tone="warn",
            )
        )
    return Section(TITLE, tuple(blocks))


def _lengths(columns: list[Configuration], names: dict[int, str]) -> Table:
    lengths = {id(column): summarize(values_of(column, _length)) for column in columns}
    told: ColumnsOf[Configuration] = [
        ("configuration", lambda column: names[id(column)]),
        ("generation settings", settings_words),
        ("length of the answers", lambda column: count_cell(lengths[id(column)], "tokens", badge_of(column.runs))),
        ("samples", lambda column: rows_cell(found.count if (found := lengths[id(column)]) else None)),
        ("cut off at the limit", _at_limit),
    ]
    return table_of(
        columns, told, "Lengths mean nothing without the settings they were generated under", text_columns=2
    )


def _length(run: RunLog) -> float | None:
    """Tokens of the answer; of a file that counts decode steps only, those."""
    return output_length(run) or decode_steps(run)


def settings_words(column: Configuration) -> str:
    """How the answers of a configuration were generated; what an imported file does not say is said to be unknown."""
    info = column.runs[0].info
    asked = info.settings
    if info.imported is not None and "max_new_tokens" not in info.given_settings:
        return "not told by the file"
    degree = asked.temperature
    if info.imported is not None and "temperature" not in info.given_settings:
        how = "sampling not told"
    else:
        how = f"temperature {degree:g}" if degree else "greedy"
    past = ", past the end of sequence" if asked.ignore_eos else ""
    return f"{how}, up to {asked.max_new_tokens:,} tokens{past}"


def _at_limit(column: Configuration) -> Cell:
    """How many answers are as long as allowed: their length is the setting's, not the model's."""
    counted = [(length, _limit(run)) for run in column.runs if (length := output_length(run)) is not None]
    known = [(length, limit) for length, limit in counted if limit is not None]
    if not known:
        return Cell("n/a", tone="dim", note="the limit is not known")
    if all(run.info.settings.ignore_eos for run in column.runs):
        return Cell("all, as asked")
    cut = sum(length >= limit for length, limit in known)
    return Cell(f"{cut:,} of {len(known):,}", badge_of(column.runs), tone="warn" if cut else "")


def _limit(run: RunLog) -> int | None:
    return run.info.given_settings.get("max_new_tokens")


def _ratios(found: list[tuple[ConfigurationPair, Generation]], names: dict[int, str]) -> Table:
    def step_ms(entry: tuple[ConfigurationPair, Generation], side: int) -> Cell:
        pair, told = entry
        return ms_cell(told.step_ms[side], badge_of((*pair.base.runs, *pair.other.runs), Badge.DERIVED))

    columns: ColumnsOf[tuple[ConfigurationPair, Generation]] = [
        ("pair", lambda entry: f"{names[id(entry[0].other)]} / {names[id(entry[0].base)]}"),
        ("time of", lambda entry: entry[1].name),
        ("token count ratio", lambda entry: ratio_cell(entry[1].tokens.ratio, entry[1].tokens.ratio_interval)),
        (
            "× time per token ratio",
            lambda entry: ratio_cell(entry[1].step_ratio, entry[1].step_interval, lower_is_better=True),
        ),
        (
            "= time ratio",
            lambda entry: ratio_cell(entry[1].total_ms.ratio, entry[1].total_ms.ratio_interval, lower_is_better=True),
        ),
        ("ms per token, baseline", partial(step_ms, side=0)),
        ("ms per token, other", partial(step_ms, side=1)),
        ("samples", lambda entry: rows_cell(entry[1].tokens.count)),
    ]
    return table_of(found, columns, "Ratios with 95 % intervals over samples in pairs", text_columns=2)


def _sentences(found: list[tuple[ConfigurationPair, Generation]], names: dict[int, str]) -> list[str]:
    """One for every pair whose counts differ, and one for all whose counts do not."""
    equal = [pair for pair, told in found if told.tokens.before == told.tokens.after]
    said = [_sentence(pair, told, names) for pair, told in found if pair not in equal]
    if equal:
        pairs = listed([f"{names[id(pair.other)]} and {names[id(pair.base)]}" for pair in equal])
        said.append(f"{pairs} gave the same numbers of tokens on every sample: what differs is time per token.")
    return said


def _sentence(pair: ConfigurationPair, told: Generation, names: dict[int, str]) -> str:
    base, other = names[id(pair.base)], names[id(pair.other)]
    tokens, whole = told.tokens.ratio, told.total_ms.ratio
    if not tokens or not whole:
        return f"{other} against {base}: a count or a time is 0, so there is no ratio."
    head = (
        f"{other} against {base}: {ratio_text(tokens)} as many tokens × {ratio_text(told.step_ratio)} the time per "
        f"token = {ratio_text(tokens * told.step_ratio)} the time ({told.name})"
    )
    return f"{head}; {_cause(told)}."


def _cause(told: Generation) -> str:
    interval, share = told.total_ms.ratio_interval, told.token_share
    if share is None or (interval is not None and interval[0] <= 1 <= interval[1]):
        return "the times cannot be told apart"
    if share > 1:
        return "the number of tokens makes up more than all of it, the time per token works the other way"
    if share < 0:
        return "the time per token makes up more than all of it, the number of tokens works the other way"
    before, after = (number_text(sum(side) / len(side)) for side in (told.tokens.before, told.tokens.after))
    return (
        f"in logarithms the number of tokens makes up {share_text(share)} of it and the time per token "
        f"{share_text(1 - share)} ({before} against {after} tokens)"
    )
