"""Sections: the answers (scores beside time and energy, lengths, overlap, samples), and the claims of the documents.

Texts go into cells as they are; the templates escape them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from statistics import fmean

from evprof.core.run_log import RunLog
from evprof.core.texts import join_pieces
from evprof.core.units import percent_text
from evprof.core.vocabulary.figures import FIGURES
from evprof.core.vocabulary.scoring import RIGHT, ROUGE_L, SCORING_RULES, TOKEN_F1
from evprof.export.report import figures as fmt
from evprof.export.report import parts as doc
from evprof.export.report.data import ReportData, badge_of
from evprof.export.report.pairs import evidence_of, firsts_of_models
from evprof.export.report.parts import Badge, Block, Bullets, Cell, ColumnsOf, Paragraph, Section, Table
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.claims.evidence import CONFIRMED, NOT_MEASURED, REFUTED, Finding
from evprof.metrics.claims.models import answer_claims
from evprof.metrics.comparison.accuracy import Accuracy, accuracy_of, by_task, of_judged
from evprof.metrics.comparison.differences import configuration_token_match, same_questions
from evprof.metrics.configurations.gathering import Configuration, SampleKey, sample_key
from evprof.metrics.estimates.paired import compare, values_of
from evprof.metrics.figures import scores
from evprof.metrics.figures.decoding import frames_shown, has_pieces, input_length, output_length
from evprof.metrics.figures.stages import stage_ms, total_ms

SHOWN_SAMPLES, SHOWN_CONFIGURATIONS, SHOWN_CHARACTERS = 3, 12, 1_200
"""Answers printed side by side; figures are over everything."""

MOST_LISTED, LISTED_CHARACTERS = 10, 240
"""Samples listed one by one, and characters of their answers."""

SHARED = (
    f"Word overlap: {scores.OVERLAP_DEFINITION}. It is not symmetric, and it is what earlier result files call word "
    "overlap.",
    f"Jaccard: {scores.JACCARD_DEFINITION}.",
    "Token match: same id at the same position, of the shorter answer's tokens; between models of different "
    "vocabularies it means nothing.",
)


def section(data: ReportData) -> Section:
    """Scores, lengths and overlap, the first answers side by side, and the samples one by one."""
    blocks = [
        *doc.headed("Accuracy beside time", accuracy(data)),
        *doc.headed("Generated texts", generated_texts(data)),
        *doc.headed("Samples one by one", samples(data)),
    ]
    missing = "Answers; run with --max-new-tokens above 0, or import a file that holds them."
    return doc.section_of("Answers", blocks, missing)


def accuracy(data: ReportData) -> list[Block]:
    """Scores with time and energy, then by task, and the rules; `evprof compare` tests pairs of answers."""
    lines = [(data.name(column), found) for column in data.columns if (found := accuracy_of(column, data.basis))]
    if not lines:
        return []
    caption = f"Scores, times and energy, means over samples, {data.basis}"
    blocks: list[Block] = [_scores(lines, caption, list(SCORING_RULES))]
    tasks = [(f"{name}, {part.task}", part) for name, found in lines for part in by_task(found)]
    blocks += [_scores(tasks, "The same by task", [RIGHT, TOKEN_F1, ROUGE_L])] if tasks else []
    shown = {key for _, found in lines for key in found.means}
    return [*blocks, Bullets(tuple(rule.sentence for key, rule in SCORING_RULES.items() if key in shown))]


_BESIDE = (("right per s", "right_per_s", ""), ("energy", "energy_j", "J"), ("right per J", "right_per_j", ""))


def _scores(lines: Sequence[tuple[str, Accuracy]], caption: str, keys: Sequence[str]) -> Table:
    columns: list[tuple[str, Callable[[Accuracy], Cell]]] = [("n", lambda found: fmt.rows_cell(found.samples))]
    columns += [
        (FIGURES[key].title, partial(_score, key=key)) for key in keys if any(key in found.means for _, found in lines)
    ]
    columns.append(("total", partial(_beside, name="total_ms", unit="ms")))
    # Of free text none is right or wrong.
    columns += [
        (title, partial(_beside, name=name, unit=unit))
        for title, name, unit in _BESIDE
        if any(found.means.get(name) for _, found in lines)
    ]
    rows = tuple(doc.row_of(name, *(cell(found) for _, cell in columns)) for name, found in lines)
    return Table(("configuration", *(head for head, _ in columns)), rows, caption)


def _beside(found: Accuracy, name: str, unit: str) -> Cell:
    return fmt.number_cell(found.means.get(name), unit, Badge.DERIVED)


def _score(found: Accuracy, key: str) -> Cell:
    """A mean of scores of 0…1 in percent."""
    score = found.means.get(key)
    if score is None:
        return fmt.nothing_measured()
    return Cell(f"{percent_text(score, 1)}{of_judged(key, found.judged, found.samples)}", Badge.DERIVED)


def answer_of(run: RunLog) -> str | None:
    """The answer; None where neither a text nor a token's text is known."""
    if run.info.text is not None:
        return run.info.text
    return join_pieces(token.piece for token in run.tokens) if has_pieces(run) else None


def words_of(run: RunLog) -> int | None:
    return scores.word_count(answer_of(run))


def generation_text(run: RunLog) -> str:
    """The sampling and the limits of an answer, as far as the run has them."""
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
        return fmt.count_cell(summarize(values_of(column, read)), badge=badge_of(column.runs))

    def verbosity(column: Configuration) -> Cell:
        return Cell("baseline") if column is base else fmt.verdict_cell(compare(base, column, words_of))

    columns: ColumnsOf[Configuration] = [
        ("generated", lambda column: " / ".join(dict.fromkeys(map(generation_text, column.runs)))),
        ("n", lambda column: fmt.rows_cell(len(values_of(column, lambda run: output_length(run) or words_of(run))))),
        ("tokens", partial(length, read=output_length)),
        ("words", partial(length, read=words_of)),
        ("words to the baseline's", verbosity),
    ]
    caption = (
        "Lengths of answers: mean ± standard deviation over samples, ratio of means with its 95 % interval. Tokens "
        "count the end of the text where it was emitted; words are divided by blanks."
    )
    return data.table(columns, caption, text_columns=2)


def _text_pairs(columns: Sequence[Configuration]) -> Iterator[tuple[Configuration, Configuration]]:
    """The first configuration with each other, and the models of one request with each other, a draft first."""
    for one, other in combinations(columns, 2):
        left, right = one.runs[0].info, other.runs[0].info
        is_same = left.cell == right.cell if left.cell else left.group_id == right.group_id
        if one is columns[0] or (one.session == other.session and is_same and left.role != right.role):
            yield (other, one) if right.role == "draft" and left.role != "draft" else (one, other)


def _shared(data: ReportData) -> list[Block]:
    """What answers of two configurations to the same question share; of repeats the first."""
    rows = []
    for left, right in _text_pairs(data.columns):
        pairs = [
            (one, other)
            for before, after in same_questions(left, right)
            if sample_key(before) == sample_key(after)
            if (one := answer_of(before)) is not None and (other := answer_of(after)) is not None
        ]
        match = configuration_token_match(left, right)
        if not pairs and not match["compared"]:
            continue
        equal = fmt.nothing_measured()
        if match["rate"] is not None:
            text = f"{fmt.share_text(match['rate'])} ({match['matched']:,} of {match['compared']:,})"
            equal = Cell(text, Badge.DERIVED)
        shares = [
            [value for one, other in pairs if (value := measure(one, other)) is not None]
            for measure in (scores.word_overlap, scores.jaccard)
        ]
        cells = [fmt.share_cell(fmean(values)) if values else fmt.nothing_measured() for values in shares]
        rows.append(doc.row_of(data.name(left), data.name(right), fmt.rows_cell(len(pairs)), *cells, equal))
    heads = ("answer", "compared with", "n", "word overlap", "Jaccard", "token match")
    caption = "What answers to the same question about the same sample share: means."
    return [Table(heads, tuple(rows), caption, text_columns=2), Bullets(SHARED)] if rows else []


def _side_by_side(data: ReportData) -> Iterator[Block]:
    """The first samples that most configurations answered; another question about a sample comes later."""
    typical = [column.typical_runs() for column in data.columns]
    answered = Counter(key for runs in typical for key, run in runs.items() if answer_of(run) is not None)
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
        counts = (fmt.count_cell(value, badge=badge_of([run])) for value in (output_length(run), words_of(run)))
        rows.append(doc.row_of(name, _text_cell(text), *counts))
    reference = next((text for _, run, _ in answers if (text := run.info.sample.reference)), None)
    if reference is not None:
        words = fmt.rows_cell(scores.word_count(reference))
        rows.append(doc.row_of("reference answer", _text_cell(reference), doc.not_available(), words))
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
    """At most ten samples of the first configuration of every model: features, answer, tokens and times."""

    def features(run: RunLog) -> str:
        """Shape that vision gives to prefill; "" where it is not known."""
        span = run.stage("vision", run.info.role)
        shapes = [record.shape for record in span.tensors if record.direction == "out"] if span is not None else []
        return f"[{shapes[0].replace(',', ', ')}]" if shapes else ""

    def text(run: RunLog) -> str:
        answer = answer_of(run) or ""
        return answer[:LISTED_CHARACTERS] + ("…" if len(answer) > LISTED_CHARACTERS else "")

    def counted(run: RunLog, read: Callable[[RunLog], float | None]) -> Cell:
        return fmt.count_cell(read(run), badge=badge_of([run]))

    def timed(run: RunLog, read: Callable[[RunLog], float | None]) -> Cell:
        return fmt.ms_cell(read(run), badge_of([run]), has_unit=False)

    columns: ColumnsOf[RunLog] = [
        ("sample", lambda run: run.info.sample.name or f"run {run.run_id}"),
        ("visual features", features),
        ("answer", text),
        ("pictures", partial(counted, read=frames_shown)),
        ("prompt", partial(counted, read=input_length)),
        ("tokens", partial(counted, read=output_length)),
        *(
            (f"{name}, ms", partial(timed, read=partial(stage_ms, name=name)))
            for name in ("vision", "prefill", "decode")
        ),
        ("total, ms", partial(timed, read=partial(total_ms, basis=data.basis))),
    ]
    return [
        doc.table_of(
            list(column.typical_runs().values())[:MOST_LISTED],
            columns,
            f"{data.name(column)}: of every sample the repeat of median total; at most {MOST_LISTED} samples",
            text_columns=3,
        )
        for column in firsts_of_models(data, lambda run: answer_of(run) is not None)
    ]


_TONES = {CONFIRMED: "good", REFUTED: "bad", NOT_MEASURED: "dim"}


def claims(data: ReportData) -> Section:
    """One row per claim: document, verdict, evidence, and for an open claim what remains to measure."""
    answers = findings(data)
    counted = Counter(answer.verdict for answer in answers)
    counts = ", ".join(f"{counted[verdict]} {verdict}" for verdict in _TONES)
    others = sum(bool(answer.measured_on) for answer in answers)
    text = f" {others} of the latter: measured on other models, which confirms and refutes nothing." if others else ""
    summary = Paragraph(f"Of {len(answers)} claims: {counts}.{text}")
    return Section("Claims of the documents", (summary, _claims_table(answers, data)))


def claims_of(data: ReportData, document: str) -> list[Block]:
    answers = [answer for answer in findings(data) if answer.claim.document == document]
    return [_claims_table(answers, data)] if answers else []


def findings(data: ReportData) -> list[Finding]:
    return data.once("claims", partial(answer_claims, evidence_of(data)))


def _claims_table(answers: list[Finding], data: ReportData) -> Table:
    badge = badge_of(data.runs, Badge.DERIVED)
    rows = []
    for answer in answers:
        claim = answer.claim
        is_open = answer.verdict == NOT_MEASURED
        verdict = Cell(answer.verdict, None if is_open else badge, _TONES[answer.verdict])
        evidence = f"{answer.sentence} To be measured: {claim.wanted}." if is_open else answer.sentence
        measured_on = answer.measured_on if is_open else "the documents' models"
        rows.append(doc.row_of(claim.document, claim.text, verdict, evidence, measured_on))
    caption = (
        "A claim is confirmed where the whole 95 % interval (of one model's figure: the range of its runs) lies in the "
        "claimed range, and refuted where it lies outside. Only runs of the documents' models count: EventGPT-7B and "
        "LLaVA-1.5-7B, not quantized, in 16 bit; absolute times on a GPU"
    )
    return Table(("document", "claim", "verdict", "evidence", "measured on"), tuple(rows), caption, text_columns=5)
