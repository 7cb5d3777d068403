"""Claims about caches of features, number formats, vocabularies and lengths of prompts (document 001)."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from statistics import fmean

from evprof.core.run_log import RunLog
from evprof.core.units import number_text
from evprof.metrics.claims.evidence import (
    CONFIRMED,
    REFUTED,
    Evidence,
    Finding,
    are_claims_models,
    are_claims_times,
    found,
    interval_words,
    is_told,
    models_text,
    nothing,
    on_others,
    within,
)
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.paired import compare, mean_of
from evprof.metrics.figures.decoding import answer_text, decode_ms_per_token, input_length
from evprof.metrics.figures.stages import stage_ms

CACHE_HIT = "vision cache hit"
"""The part of stage vision that stands for a hit."""

SAVED_MS = (100.0, 200.0)
CONTEXT, NEAR = 306, 0.1
LESS = 0.99
"""Below this share of the other's bytes is less memory."""

FEWEST_WORDS, MOST_ANSWERS, FEWEST_IDS = 4, 50, 5


def is_hit(run: RunLog) -> bool:
    """Whether the visual embeddings came out of a cache."""
    span = run.stage("vision", run.info.role)
    return span is not None and any(child.name == CACHE_HIT for child in run.children(span.span_id))


def _vision(run: RunLog) -> float | None:
    return stage_ms(run, "vision")


def feature_caching(evidence: Evidence) -> Finding:
    """Vision with a hit against vision computed; without a hit, what vision costs at all bounds what can be saved."""
    for one, other in evidence.twins("vision_cache"):
        missed, hit = (one, other) if all(map(is_hit, other.runs)) else (other, one)
        if not all(map(is_hit, hit.runs)) or any(map(is_hit, missed.runs)):
            continue
        compared = compare(hit, missed, _vision)
        if compared is None:
            continue
        saved = compared.delta
        sentence = f"A hit instead of computing saves {number_text(saved, 3)} ms of vision a sample."
        if not are_claims_times(hit, missed):
            return on_others(sentence, models_text(hit, missed))
        return within(saved, compared.delta_interval, SAVED_MS, sentence, hit, missed)
    costs = [(cost, column) for column in evidence.plain() if (cost := mean_of(column, _vision)) is not None]
    if not costs:
        return nothing()
    cost, column = max(costs, key=lambda pair: pair[0])
    bound = (
        f"Vision as a whole costs at most {number_text(cost, 3)} ms a sample here, and no cache saves more than that"
    )
    if cost < SAVED_MS[0] and are_claims_times(column):
        more = "encoding once before generation is what both models do, and is no caching"
        return found(False, f"{bound}; {more}.", column)
    return nothing(f"{bound} ({models_text(column)}); no run took its features from a cache.")


def bfloat16(evidence: Evidence) -> Finding:
    """The same configuration in both 16-bit formats: bytes of weights, and time per token."""
    for one, other in evidence.twins("dtype"):
        kinds = {column.runs[0].info.models[column.runs[0].info.role].dtype: column for column in (one, other)}
        if set(kinds) != {"bfloat16", "float16"}:
            continue
        bf16, fp16 = kinds["bfloat16"], kinds["float16"]
        weights = [mean_of(column, lambda run: run.info.memory.weights_bytes) for column in (bf16, fp16)]
        speed = compare(fp16, bf16, decode_ms_per_token)
        if weights[0] is None or not weights[1] or speed is None or speed.ratio is None:
            continue
        share = weights[0] / weights[1]
        sentence = (
            f"In bfloat16 the weights take {share:.3f} times the bytes of float16 and a token {speed.ratio:.2f} times "
            f"the time{interval_words(speed.ratio_interval)}: both formats have two bytes."
        )
        if share < LESS and not is_told(speed.ratio_interval, 1):
            return nothing(f"{sentence} The times cannot be told apart.")
        return found(share < LESS and speed.ratio < 1, sentence, bf16, fp16)
    return nothing("No configuration was run in both bfloat16 and float16.")


def tokenizers(evidence: Evidence) -> Finding:
    """Ids of both models' answers: the same id has the same text, or the same words have the same ids."""
    for draft, target in evidence.pairs:
        pieces = _piece_check(draft, target)
        if pieces is not None:
            same, shared = pieces
            sentence = f"Of {shared} ids that both models used, {same} stand for the same text in both."
            return found(same < 0.9 * shared, sentence, draft, target, needs_text=True, needs_times=False)
        run = _longest_common(draft, target)
        if run is not None:
            words, ids = run
            sentence = (
                f"Where both answers say the same {words} words in a row, their token ids agree over {ids} in a row: "
                + ("one vocabulary." if ids >= words else "the vocabularies differ.")
            )
            return found(ids < words, sentence, draft, target, needs_text=True, needs_times=False)
    return nothing("No two answers to one sample have token ids and enough words in common.")


def _answers(draft: Configuration, target: Configuration) -> Iterator[tuple[RunLog, RunLog]]:
    others = target.samples()
    pairs = ((runs[0], others[key][0]) for key, runs in draft.samples().items() if key in others)
    for _, pair in zip(range(MOST_ANSWERS), pairs, strict=False):
        if all(run.tokens and run.tokens[0].known_id is not None for run in pair):
            yield pair


def _piece_check(draft: Configuration, target: Configuration) -> tuple[int, int] | None:
    """(ids with the same text, ids used by both); None where texts of tokens are not known or too few are shared."""
    known: tuple[dict[int, str], dict[int, str]] = {}, {}
    for pair in _answers(draft, target):
        for texts, run in zip(known, pair, strict=True):
            texts.update((token.token_id, token.piece) for token in run.tokens if token.piece)
    shared = known[0].keys() & known[1].keys()
    if len(shared) < FEWEST_IDS:
        return None
    return sum(known[0][number] == known[1][number] for number in shared), len(shared)


def _longest_common(draft: Configuration, target: Configuration) -> tuple[int, int] | None:
    """The longest run of words that two answers share, and the longest run of ids that the same two share."""
    best: tuple[int, int] | None = None
    for one, other in _answers(draft, target):
        words = _common([*answer_text(one).split()], [*answer_text(other).split()])
        ids = _common([token.token_id for token in one.tokens], [token.token_id for token in other.tokens])
        if words >= FEWEST_WORDS and (best is None or words > best[0]):
            best = words, ids
    return best


def _common(one: list[object], other: list[object]) -> int:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.find_longest_match(0, len(one), 0, len(other)).size


def eventgpt_context(evidence: Evidence) -> Finding:
    """Positions of EventGPT's prompt."""
    lengths = [
        (length, column)
        for column in evidence.plain("eventgpt")
        if (length := mean_of(column, input_length)) is not None
    ]
    if not lengths:
        return nothing("No run of EventGPT says how long its prompt was.")
    mine = [(length, column) for length, column in lengths if are_claims_models(column, needs_times=False)]
    told = sorted({round(length) for length, _ in mine or lengths})
    sentence = f"EventGPT's prompts have {', '.join(map(str, told))} positions"
    if not mine:
        return nothing(f"{sentence} here, with another layout ({models_text(lengths[0][1])}) than the 7B model's.")
    is_so = abs(fmean(length for length, _ in mine) / CONTEXT - 1) <= NEAR
    return Finding(CONFIRMED if is_so else REFUTED, f"{sentence}, not 306." if not is_so else f"{sentence}.")
