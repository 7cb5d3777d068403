"""What the models said: lengths beside the settings of generation, what answers share, and answers side by side.

Texts go into cells as they are; the writers escape them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from evprof.core.run_log import RunLog
from evprof.core.text import join_pieces
from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, nothing_measured, ratio_cell, rows_cell, share_text
from evprof.export.report.parts import Badge, Block, Bullets, Cell, Section, Table, not_available
from evprof.export.report.sections.evidence import badge_of
from evprof.metrics.arithmetic.statistics import mean_interval, summarize
from evprof.metrics.comparison.differences import configuration_token_match, matched
from evprof.metrics.configurations.gathering import Configuration, SampleKey, sample_key
from evprof.metrics.estimates.paired import compare, values_of
from evprof.metrics.figures import texts
from evprof.metrics.figures.decoding import has_pieces, output_length

TITLE = "Generated texts"

MISSING = "No run has a text. Run with --max-new-tokens above 0, or import a file that holds the answers."

SHOWN_SAMPLES, SHOWN_CONFIGURATIONS, SHOWN_CHARACTERS = 3, 12, 1_200
"""What is printed side by side; figures are over everything."""

Read = Callable[[RunLog], float | None]


def section(data: ReportData) -> Section:
    """Lengths, overlap between configurations, and the first answers themselves."""
    if not any(said(run) is not None or output_length(run) for run in data.runs):
        return Section(TITLE, missing=MISSING)
    blocks: list[Block] = [_lengths(data), *_shared(data), *_side_by_side(data)]
    return Section(TITLE, tuple(blocks))


def said(run: RunLog) -> str | None:
    """The answer; None where neither a text nor a token's text is known."""
    if run.info.text is not None:
        return run.info.text
    return join_pieces(token.piece for token in run.tokens) if has_pieces(run) else None


def words_said(run: RunLog) -> int | None:
    """Words of the answer."""
    return texts.word_count(said(run))


def generation_text(run: RunLog) -> str:
    """How the answer was generated: greedily or sampled, how long it might become, and whether it had to."""
    given = run.info.given_settings
    parts: list[str] = []
    if "temperature" in given:
        parts.append("greedy" if given["temperature"] == 0 else _sampling(given))
    if "max_new_tokens" in given:
        parts.append(f"at most {given['max_new_tokens']} tokens")
    if given.get("ignore_eos"):
        parts.append("end of text ignored")
    return ", ".join(parts) or "not known"


def _sampling(given: dict[str, Any]) -> str:
    words = [f"T = {given['temperature']:g}"]
    for key, name, neutral in (("top_p", "top-p", 1), ("top_k", "top-k", 0)):
        if given.get(key, neutral) != neutral:
            words.append(f"{name} {given[key]:g}")
    if "seed" in given:
        words.append(f"seed {given['seed']}")
    return "sampled at " + ", ".join(words)


def _lengths(data: ReportData) -> Table:
    base = data.columns[0]
    rows = []
    for column, name in zip(data.columns, data.names, strict=True):
        ratio = None if column is base else compare(base, column, words_said)
        verbosity = Cell("baseline") if column is base else not_available()
        if ratio is not None:
            verbosity = ratio_cell(ratio.ratio, ratio.ratio_interval, note=f"n = {ratio.count}")
        rows.append(
            (
                Cell(name),
                Cell(" / ".join(dict.fromkeys(generation_text(run) for run in column.runs))),
                count_cell(
                    len(values_of(column, lambda run: output_length(run) or words_said(run))),
                    badge=badge_of(column.runs),
                ),
                _length(column, output_length),
                _length(column, words_said),
                verbosity,
            )
        )
    return Table(
        ("configuration", "generated", "n", "tokens", "words", "words to the baseline's"),
        tuple(rows),
        caption="How long the answers are: mean ± standard deviation over samples, ratio of means with its 95 % "
        "interval. Tokens count the end of the text where it was emitted; words are divided by blanks.",
        text_columns=2,
    )


def _length(column: Configuration, read: Read) -> Cell:
    return count_cell(summarize(values_of(column, read)), badge=badge_of(column.runs))


def _pairs(data: ReportData) -> Iterator[tuple[int, int]]:
    """The first configuration with each other, and the models of one request with each other."""
    listed = data.columns
    for one, other in combinations(range(len(listed)), 2):
        left, right = listed[one], listed[other]
        # Of two models the draft's answer is the one whose words are looked for.
        order = (
            (other, one) if right.runs[0].info.role == "draft" and left.runs[0].info.role != "draft" else (one, other)
        )
        if one == 0 or _is_one_request(left, right):
            yield order


def _is_one_request(one: Configuration, other: Configuration) -> bool:
    left, right = one.runs[0].info, other.runs[0].info
    same = left.cell == right.cell if left.cell else left.group_id == right.group_id
    return one.session == other.session and same and left.role != right.role


@dataclass(frozen=True)
class _Answers:
    """Answers of two configurations to the same question about the same sample, in pairs; of repeats the first."""

    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, one: Configuration, other: Configuration) -> _Answers:
        found = matched(one, other)
        kept = [
            (left, right)
            for (before, *_), (after, *_) in zip(found.before, found.after, strict=False)
            if found.is_paired and sample_key(before) == sample_key(after)
            if (left := said(before)) is not None and (right := said(after)) is not None
        ]
        return cls(tuple(kept))

    def mean(self, measure: Callable[[str, str], float | None]) -> list[float]:
        return [value for one, other in self.pairs if (value := measure(one, other)) is not None]


def _shared(data: ReportData) -> Iterator[Block]:
    rows: list[tuple[Cell, ...]] = []
    for one, other in _pairs(data):
        left, right = data.columns[one], data.columns[other]
        answers = _Answers.of(left, right)
        match = configuration_token_match(left, right)
        if not answers.pairs and not match["compared"]:
            continue
        rate = match["rate"]
        counted = f"{share_text(rate)} ({match['matched']:,} of {match['compared']:,})" if rate is not None else ""
        rows.append(
            (
                Cell(data.names[one]),
                Cell(data.names[other]),
                rows_cell(len(answers.pairs)),
                _mean_share(answers.mean(texts.word_overlap)),
                _mean_share(answers.mean(texts.jaccard)),
                Cell(counted, Badge.DERIVED) if counted else nothing_measured(),
            )
        )
    if not rows:
        return
    yield Table(
        ("answer", "compared with", "n", "word overlap", "Jaccard", "token match"),
        tuple(rows),
        caption="What the answers to the same question about the same sample share: means with 95 % intervals.",
        text_columns=2,
    )
    yield Bullets(
        (
            f"Word overlap: {texts.OVERLAP_DEFINITION}. It is not symmetric, and it is what earlier result files "
            "call word overlap.",
            f"Jaccard: {texts.JACCARD_DEFINITION}.",
            "Token match: same id at the same position, of the shorter answer's tokens. It says nothing of models "
            "whose vocabularies differ.",
        )
    )


def _mean_share(values: Sequence[float]) -> Cell:
    """A mean of shares in percent, with its interval."""
    if not values:
        return nothing_measured()
    interval = mean_interval(values)
    # A share is nowhere outside 0…1, whatever a few values seem to allow.
    low, high = (100 * min(max(end, 0.0), 1.0) for end in interval or (0.0, 0.0))
    ends = f" [{low:.1f}, {high:.1f}]" if interval is not None else ""
    return Cell(f"{share_text(fmean(values))}{ends}", Badge.DERIVED, note=f"n = {len(values)}")


def _side_by_side(data: ReportData) -> Iterator[Block]:
    """The first samples that several configurations answered, or else the first ones."""
    typical = [column.typical_runs() for column in data.columns]
    answered: dict[SampleKey, int] = {}
    for runs in typical:
        for key, run in runs.items():
            if said(run) is not None:
                answered[key] = answered.get(key, 0) + 1
    # Of equally often answered ones the first: sorting keeps their order. Another question about a sample waits.
    listed = sorted(answered, key=lambda key: -answered[key])
    firsts = {name: (name, prompt) for name, prompt in reversed(listed)}
    chosen = [key for key in listed if firsts[key[0]] == key] + [key for key in listed if firsts[key[0]] != key]
    for key in chosen[:SHOWN_SAMPLES]:
        yield _answers_table(data, key, [runs.get(key) for runs in typical])


def _answers_table(data: ReportData, key: SampleKey, runs: Sequence[RunLog | None]) -> Table:
    sample, prompt = key
    found = [(place, run) for place, run in enumerate(runs) if run is not None and said(run) is not None]
    rows = []
    for place, run in found[:SHOWN_CONFIGURATIONS]:
        badge = badge_of(data.columns[place].runs)
        rows.append(
            (
                Cell(data.names[place]),
                _text_cell(said(run) or ""),
                count_cell(output_length(run), badge=badge),
                count_cell(words_said(run), badge=badge),
            )
        )
    reference = next((run.info.sample.reference for _, run in found if run.info.sample.reference), None)
    if reference is not None:
        rows.append(
            (
                Cell("reference answer"),
                _text_cell(reference),
                not_available(),
                rows_cell(texts.word_count(reference)),
            )
        )
    more = len(found) - SHOWN_CONFIGURATIONS
    return Table(
        ("configuration", "answer", "tokens", "words"),
        tuple(rows),
        caption=f"{sample or 'The sample'}: “{prompt}”"
        + (f" ({more} more configurations not shown)" if more > 0 else ""),
        text_columns=2,
    )


def _text_cell(text: str) -> Cell:
    if not text:
        return Cell("(empty)", tone="dim")
    if len(text) <= SHOWN_CHARACTERS:
        return Cell(text)
    return Cell(f"{text[:SHOWN_CHARACTERS]}…", note=f"the first {SHOWN_CHARACTERS:,} of {len(text):,} characters")
