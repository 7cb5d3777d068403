"""Section: the answers: scores beside time and energy, lengths, what answers share, and the samples one by one.

Texts go into cells as they are; the templates escape them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from statistics import fmean

from evprof.core.run_log import RunLog
from evprof.core.texts import join_pieces
from evprof.core.units import percent_text
from evprof.core.vocabulary.figures import FIGURES
from evprof.core.vocabulary.scoring import RIGHT, ROUGE_L, SCORING_RULES, TOKEN_F1
from evprof.export.report.data import ReportData, badge_of
from evprof.export.report.figures import (
    count_cell,
    interval_text,
    ms_cell,
    nothing_measured,
    number_text,
    ratio_cell,
    rows_cell,
    share_text,
)
from evprof.export.report.pairs import firsts_of_models
from evprof.export.report.parts import (
    Badge,
    Block,
    Bullets,
    Cell,
    ColumnsOf,
    Section,
    Table,
    headed,
    not_available,
    row_of,
    section_of,
    table_of,
)
from evprof.metrics.arithmetic.statistics import Interval, mean_interval, summarize
from evprof.metrics.comparison.accuracy import (
    Accuracy,
    accuracy_of,
    by_task,
    of_judged,
)
from evprof.metrics.comparison.differences import configuration_token_match, same_questions
from evprof.metrics.configurations.gathering import Configuration, SampleKey, sample_key
from evprof.metrics.estimates.estimates import Estimate
from evprof.metrics.estimates.paired import compare, values_of
from evprof.metrics.figures import scores
from evprof.metrics.figures.decoding import frames_shown, has_pieces, input_length, output_length
from evprof.metrics.figures.stages import stage_ms, total_ms

SHOWN_SAMPLES, SHOWN_CONFIGURATIONS, SHOWN_CHARACTERS = 3, 12, 1_200
"""Answers printed side by side; figures are over everything."""

MOST_LISTED, LISTED_CHARACTERS = 10, 240
"""Samples listed one by one, and characters of their answers."""


def section(data: ReportData) -> Section:
    """Scores, lengths and overlap, the first answers side by side, and the samples one by one."""
    blocks = [
        *headed("Accuracy beside time", accuracy(data)),
        *headed("Generated texts", generated_texts(data)),
        *headed("Samples one by one", samples(data)),
    ]
    missing = "Answers; run with --max-new-tokens above 0, or import a file that holds them."
    return section_of("Answers", blocks, missing)


def accuracy(data: ReportData) -> list[Block]:
    """Scores with time and energy, then by task, and the rules; `evprof compare` tests pairs of answers."""
    scored = [(column, scores) for column in data.columns if (scores := accuracy_of(column, data.basis)) is not None]
    if not scored:
        return []
    lines = [(data.name(column), scores) for column, scores in scored]
    blocks: list[Block] = [
        _scores(lines, f"Scores, times and energy, means over samples with 95 % intervals, {data.basis}")
    ]
    tasks = [(name, part) for name, scores in lines for part in by_task(scores)]
    if tasks:
        blocks.append(_scores(tasks, "The same by task", has_task=True))
    shown = {key for _, scores in lines for key in scores.scores}
    return [*blocks, Bullets(tuple(rule.sentence for key, rule in SCORING_RULES.items() if key in shown))]


Line = tuple[str, Accuracy]
"""A configuration's name and its scores."""


def _scores(lines: Sequence[Line], caption: str, *, has_task: bool = False) -> Table:
    keys = [key for key in SCORING_RULES if any(key in scores.scores for _, scores in lines)]
    if has_task:
        keys = [key for key in keys if key in (RIGHT, TOKEN_F1, ROUGE_L)]
    # Of free text none is right or wrong.
    rest = [
        (title, name, unit)
        for title, name, unit in (
            ("right per s", "per_second", ""),
            ("energy", "energy_j", "J"),
            ("right per J", "per_joule", ""),
        )
        if any(getattr(scores, name) for _, scores in lines)
    ]
    columns: ColumnsOf[Line] = [
        ("configuration", lambda line: line[0]),
        *([("task", lambda line: line[1].task)] if has_task else []),
        ("n", lambda line: rows_cell(line[1].samples)),
        *((FIGURES[key].title, lambda line, key=key: _score(line[1], key)) for key in keys),
        ("total", lambda line: _mean(line[1].total_ms, "ms")),
        *(
            (title, lambda line, name=name, unit=unit: _mean(getattr(line[1], name), unit))
            for title, name, unit in rest
        ),
    ]
    return table_of(lines, columns, caption, text_columns=2 if has_task else 1)


def _score(scores: Accuracy, key: str) -> Cell:
    """A mean of scores of 0…1 in percent, with its interval."""
    score = scores.scores.get(key)
    if score is None:
        return nothing_measured()
    text = f"{percent_text(score.value, 1)}{_share_ends(score.interval)}"
    return Cell(text + of_judged(key, scores.judged, scores.samples), Badge.DERIVED, note=score.note)


def _share_ends(interval: Interval | None) -> str:
    """The ends of a share's interval in percent; a share is within 0…1."""
    if interval is None:
        return ""
    low, high = (100 * min(max(end, 0.0), 1.0) for end in interval)
    return f" [{low:.1f}, {high:.1f}]"


def _mean(estimate: Estimate | None, unit: str) -> Cell:
    if estimate is None:
        return nothing_measured()
    interval = f" {interval_text(estimate.interval)}" if estimate.interval else ""
    return Cell(f"{number_text(estimate.value)} {unit}".rstrip() + interval, Badge.DERIVED, note=estimate.note)


def answer_of(run: RunLog) -> str | None:
    """The answer; None where neither a text nor a token's text is known."""
    if run.info.text is not None:
        return run.info.text
    return join_pieces(token.piece for token in run.tokens) if has_pieces(run) else None


def words_of(run: RunLog) -> int | None:
    """Words of the answer."""
    return scores.word_count(answer_of(run))


def generation_text(run: RunLog) -> str:
    """The sampling and the limits of an answer, as far as they were given."""
    given = run.info.given_settings
    parts: list[str] = []
    if "temperature" in given:
        words = [f"T = {given['temperature']:g}"]
        for key, name, neutral in (("top_p", "top-p", 1), ("top_k", "top-k", 0)):
            words += [f"{name} {given[key]:g}"] if given.get(key, neutral) != neutral else []
        words += [f"seed {given['seed']}"] if "seed" in given else []
        parts.append("greedy" if given["temperature"] == 0 else f"sampled at {', '.join(words)}")
    if "max_new_tokens" in given:
        parts.append(f"at most {given['max_new_tokens']} tokens")
    if given.get("ignore_eos"):
        parts.append("end of text ignored")
    return ", ".join(parts) or "not known"


def generated_texts(data: ReportData) -> list[Block]:
    """Lengths, overlap between configurations, and the first answers themselves."""
    if not any(answer_of(run) is not None or output_length(run) for run in data.runs):
        return []
    return [_lengths(data), *_shared(data), *_side_by_side(data)]


def _lengths(data: ReportData) -> Table:
    base = data.columns[0]

    def length(column: Configuration, read: Callable[[RunLog], float | None]) -> Cell:
        return count_cell(summarize(values_of(column, read)), badge=badge_of(column.runs))

    def verbosity(column: Configuration) -> Cell:
        ratio = None if column is base else compare(base, column, words_of)
        if ratio is None:
            return Cell("baseline") if column is base else not_available()
        return ratio_cell(ratio.ratio, ratio.interval, note=f"n = {ratio.count}")

    columns: ColumnsOf[Configuration] = [
        ("configuration", data.name),
        ("generated", lambda column: " / ".join(dict.fromkeys(map(generation_text, column.runs)))),
        ("n", lambda column: rows_cell(len(values_of(column, lambda run: output_length(run) or words_of(run))))),
        ("tokens", partial(length, read=output_length)),
        ("words", partial(length, read=words_of)),
        ("words to the baseline's", verbosity),
    ]
    caption = (
        "Lengths of answers: mean ± standard deviation over samples, ratio of means with its 95 % interval. Tokens "
        "count the end of the text where it was emitted; words are divided by blanks."
    )
    return table_of(data.columns, columns, caption, text_columns=2)


def _text_pairs(columns: Sequence[Configuration]) -> Iterator[tuple[Configuration, Configuration]]:
    """The first configuration with each other, and the models of one request with each other, a draft first."""
    for one, other in combinations(columns, 2):
        left, right = one.runs[0].info, other.runs[0].info
        is_same = left.cell == right.cell if left.cell else left.group_id == right.group_id
        if one is columns[0] or (one.session == other.session and is_same and left.role != right.role):
            yield (other, one) if right.role == "draft" and left.role != "draft" else (one, other)


@dataclass(frozen=True)
class _Answers:
    """Answers of two configurations to the same question about the same sample, in pairs; of repeats the first."""

    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, one: Configuration, other: Configuration) -> _Answers:
        kept = [
            (left, right)
            for before, after in same_questions(one, other)
            if sample_key(before) == sample_key(after)
            if (left := answer_of(before)) is not None and (right := answer_of(after)) is not None
        ]
        return cls(tuple(kept))

    def cell(self, measure: Callable[[str, str], float | None]) -> Cell:
        """The mean of a share in percent, with its interval."""
        values = [value for one, other in self.pairs if (value := measure(one, other)) is not None]
        if not values:
            return nothing_measured()
        text = f"{share_text(fmean(values))}{_share_ends(mean_interval(values))}"
        return Cell(text, Badge.DERIVED, note=f"n = {len(values)}")


def _shared(data: ReportData) -> Iterator[Block]:
    rows = []
    for left, right in _text_pairs(data.columns):
        answers, match = _Answers.of(left, right), configuration_token_match(left, right)
        if not answers.pairs and not match["compared"]:
            continue
        equal = nothing_measured()
        if match["rate"] is not None:
            text = f"{share_text(match['rate'])} ({match['matched']:,} of {match['compared']:,})"
            equal = Cell(text, Badge.DERIVED)
        overlap, jaccard = answers.cell(scores.word_overlap), answers.cell(scores.jaccard)
        rows.append(row_of(data.name(left), data.name(right), rows_cell(len(answers.pairs)), overlap, jaccard, equal))
    if rows:
        heads = ("answer", "compared with", "n", "word overlap", "Jaccard", "token match")
        caption = "What answers to the same question about the same sample share: means with 95 % intervals."
        yield Table(heads, tuple(rows), caption, text_columns=2)
        yield Bullets(
            (
                f"Word overlap: {scores.OVERLAP_DEFINITION}. It is not symmetric, and it is what earlier result files "
                "call word overlap.",
                f"Jaccard: {scores.JACCARD_DEFINITION}.",
                "Token match: same id at the same position, of the shorter answer's tokens; between models of "
                "different vocabularies it means nothing.",
            )
        )


def _side_by_side(data: ReportData) -> Iterator[Block]:
    """The first samples that most configurations answered; another question about a sample comes later."""
    typical = [column.typical_runs() for column in data.columns]
    answered: dict[SampleKey, int] = {}
    for runs in typical:
        for key, run in runs.items():
            if answer_of(run) is not None:
                answered[key] = answered.get(key, 0) + 1
    ordered = sorted(answered, key=lambda key: -answered[key])
    firsts = {name: (name, prompt) for name, prompt in reversed(ordered)}
    for key in sorted(ordered, key=lambda key: firsts[key[0]] != key)[:SHOWN_SAMPLES]:
        yield _answers_table(data, key, [runs.get(key) for runs in typical])


def _answers_table(data: ReportData, key: SampleKey, runs: Sequence[RunLog | None]) -> Table:
    sample, prompt = key
    answers = [
        (name, run, text)
        for name, run in zip(data.names, runs, strict=True)
        if run is not None and (text := answer_of(run)) is not None
    ]
    rows = []
    for name, run, text in answers[:SHOWN_CONFIGURATIONS]:
        counts = (count_cell(value, badge=badge_of([run])) for value in (output_length(run), words_of(run)))
        rows.append(row_of(name, _text_cell(text), *counts))
    reference = next((text for _, run, _ in answers if (text := run.info.sample.reference)), None)
    if reference is not None:
        words = rows_cell(scores.word_count(reference))
        rows.append(row_of("reference answer", _text_cell(reference), not_available(), words))
    more = len(answers) - SHOWN_CONFIGURATIONS
    caption = f"{sample or 'The sample'}: “{prompt}”" + (f" ({more} more configurations not shown)" if more > 0 else "")
    return Table(("configuration", "answer", "tokens", "words"), tuple(rows), caption, text_columns=2)


def _text_cell(text: str) -> Cell:
    if not text:
        return Cell("(empty)", tone="dim")
    if len(text) <= SHOWN_CHARACTERS:
        return Cell(text)
    return Cell(f"{text[:SHOWN_CHARACTERS]}…", note=f"the first {SHOWN_CHARACTERS:,} of {len(text):,} characters")


def samples(data: ReportData) -> list[Block]:
    """At most ten samples of the first configuration of every model: pictures, features, answer, tokens and times."""

    def text(run: RunLog) -> str:
        answer = answer_of(run) or ""
        return answer[:LISTED_CHARACTERS] + ("…" if len(answer) > LISTED_CHARACTERS else "")

    def counted(read: Callable[[RunLog], float | None]) -> Callable[[RunLog], Cell]:
        return lambda run: count_cell(read(run), badge=badge_of([run]))

    def timed(read: Callable[[RunLog], float | None]) -> Callable[[RunLog], Cell]:
        return lambda run: ms_cell(read(run), badge_of([run]), has_unit=False)

    columns: ColumnsOf[RunLog] = [
        ("sample", lambda run: run.info.sample.name or f"run {run.run_id}"),
        ("picture", _picture_size),
        ("visual features", _visual_shape),
        ("answer", text),
        ("pictures", counted(frames_shown)),
        ("prompt", counted(input_length)),
        ("tokens", counted(output_length)),
        *((f"{name}, ms", timed(partial(stage_ms, name=name))) for name in ("vision", "prefill", "decode")),
        ("total, ms", timed(partial(total_ms, basis=data.basis))),
    ]
    return [
        table_of(
            list(column.typical_runs().values())[:MOST_LISTED],
            columns,
            f"{data.name(column)}: of every sample the repeat of median total; at most {MOST_LISTED} samples",
            text_columns=4,
        )
        for column in firsts_of_models(data, lambda run: answer_of(run) is not None)
    ]


def _picture_size(run: RunLog) -> str:
    """Height and width of a picture before it is prepared for the tower: "180 × 240"; "" where it is not known."""
    for span in run.stages(run.info.role):
        for child in run.children(span.span_id):
            for record in child.tensors:
                sizes = [part.strip() for part in record.shape.split(",")]
                if record.dtype == "uint8" and len(sizes) >= 3 and sizes[-1] == "3":
                    return " × ".join(sizes[-3:-1])
    return ""


def _visual_shape(run: RunLog) -> str:
    """Shape of what vision hands to prefill; "" where it is not known."""
    span = run.stage("vision", run.info.role)
    shapes = [record.shape for record in span.tensors if record.direction == "out"] if span is not None else []
    return f"[{shapes[0].replace(',', ', ')}]" if shapes else ""
