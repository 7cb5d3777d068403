"""Quantities of claims about one or two models: caches, formats, vocabularies, prefill, decoding and vision."""

from __future__ import annotations

import math
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import partial
from statistics import fmean

from evprof.core.run_log import RunLog
from evprof.metrics.arithmetic.statistics import FEWEST
from evprof.metrics.claims.evidence import (
    Evidence,
    Measured,
    Words,
    answering_model,
    are_claims_models,
    are_claims_times,
    exact,
    is_told,
    models_text,
    open_,
)
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.paired import compare, fewer_or_faster, is_mostly_cut_off, mean_of, values_of
from evprof.metrics.figures.decoding import answer_text, decode_ms_per_token, input_length
from evprof.metrics.figures.kv_cache import bytes_per_position
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.sizes import ModelSizes, ceiling_of, sizes_of
from evprof.metrics.limits.workload import MEMORY, Work, decode_work, linear_share, prefill_flops, prefill_work, typical

CACHE_HIT = "vision cache hit"
"""The part of stage vision that stands for a hit."""

LESS = 0.99
"""Below this share of the other's bytes is less memory."""

EXPLAINED = 0.8
"""The part of a ratio's logarithm that a cause must give to be its cause."""

LENGTHS_000, COLD_000 = (600, 700), (90.0, 115.0)
LONG_PROMPT, MOST_ANSWERS = 4000, 50
FEWEST_WORDS, FEWEST_IDS = 4, 5

_prefill = partial(stage_ms, name="prefill")
_vision = partial(stage_ms, name="vision")


def _is_hit(run: RunLog) -> bool:
    """Whether the visual embeddings came out of a cache."""
    span = run.stage("vision", run.info.role)
    return span is not None and any(child.name == CACHE_HIT for child in run.children(span.span_id))


def feature_caching(evidence: Evidence) -> Iterator[Measured]:
    """Vision saved by a hit, ms; without a hit, the whole cost of vision, which bounds it."""
    for one, other in evidence.twins("vision_cache"):
        missed, hit = (one, other) if all(map(_is_hit, other.runs)) else (other, one)
        compared = compare(hit, missed, _vision)
        if compared is None or not all(map(_is_hit, hit.runs)) or any(map(_is_hit, missed.runs)):
            continue
        words = {"saved": compared.delta}
        yield Measured(words, (hit, missed), compared.delta, compared.delta_interval, ("hit",))
        return
    costs = [(cost, column) for column in evidence.plain() if (cost := mean_of(column, _vision)) is not None]
    if costs:
        cost, column = max(costs, key=lambda pair: pair[0])
        if are_claims_times(column):
            yield Measured({"cost": cost}, (column,), cost, (0.0, cost), ("vision_cost",))
        else:
            yield open_("vision_cost", "of_models", cost=cost, models=models_text(column))


def bfloat16(evidence: Evidence) -> Iterator[Measured]:
    """Time per token of bfloat16 / float16; where the weights are not smaller, their share of the bytes."""
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
        words = {"share": share, "ratio": speed.ratio, "interval": speed.interval}
        if share < LESS:
            yield Measured(words, (bf16, fp16), speed.ratio, speed.interval, ("bfloat16",))
        else:
            yield exact("bfloat16", share, bf16, fp16, **words)


def tokenizers(evidence: Evidence) -> Iterator[Measured]:
    """The share of both models' ids that stand for the same text, or of common words that have the same ids."""
    for draft, target in evidence.pairs:
        same, shared = _equal_pieces(draft, target)
        if shared >= FEWEST_IDS:
            yield exact("ids", same / shared, draft, target, shared=shared, same=same)
            continue
        words, ids = _longest_common(draft, target)
        if words:
            verdict = "one vocabulary" if ids >= words else "the vocabularies differ"
            yield exact("words", float(ids >= words), draft, target, words=words, ids=ids, verdict=verdict)


def _answers(draft: Configuration, target: Configuration) -> Iterator[tuple[RunLog, RunLog]]:
    others = target.samples()
    pairs = ((runs[0], others[key][0]) for key, runs in draft.samples().items() if key in others)
    for _, pair in zip(range(MOST_ANSWERS), pairs, strict=False):
        if all(run.tokens and run.tokens[0].known_id is not None for run in pair):
            yield pair


def _equal_pieces(draft: Configuration, target: Configuration) -> tuple[int, int]:
    """Ids with the same text, and ids used by both models with a known text."""
    known: tuple[dict[int, str], dict[int, str]] = {}, {}
    for pair in _answers(draft, target):
        for texts, run in zip(known, pair, strict=True):
            texts.update((token.token_id, token.piece) for token in run.tokens if token.piece)
    shared = known[0].keys() & known[1].keys()
    return sum(known[0][number] == known[1][number] for number in shared), len(shared)


def _longest_common(draft: Configuration, target: Configuration) -> tuple[int, int]:
    """The longest run of words that two answers share, and the longest run of ids that the same two share."""
    best = 0, 0
    for one, other in _answers(draft, target):
        words = _common([*answer_text(one).split()], [*answer_text(other).split()])
        ids = _common([token.token_id for token in one.tokens], [token.token_id for token in other.tokens])
        if words >= FEWEST_WORDS and words > best[0]:
            best = words, ids
    return best


def _common(one: list[object], other: list[object]) -> int:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.find_longest_match(0, len(one), 0, len(other)).size


def eventgpt_context(evidence: Evidence) -> Iterator[Measured]:
    """Positions of EventGPT's prompt."""
    lengths = [
        (length, one) for one in evidence.plain("eventgpt") if (length := mean_of(one, input_length)) is not None
    ]
    mine = [(length, column) for length, column in lengths if are_claims_models(column, needs_times=False)]
    positions = ", ".join(map(str, sorted({round(length) for length, _ in mine or lengths})))
    if mine:
        value = fmean(length for length, _ in mine)
        yield exact("context", value, *(column for _, column in mine), positions=positions)
    elif lengths:
        yield open_("other_context", positions=positions, models=models_text(lengths[0][1]))


def _sizes(evidence: Evidence, column: Configuration) -> ModelSizes | None:
    return sizes_of(answering_model(column), evidence.models)


def _decode_work(evidence: Evidence, column: Configuration) -> Work | None:
    sizes = _sizes(evidence, column)
    return None if sizes is None else typical([work for run in column.runs if (work := decode_work(run, sizes))])


def _is_as_large(one: ModelSizes, other: ModelSizes) -> bool:
    return abs(one.text.layer_weights / other.text.layer_weights - 1) < 0.01 and one.text.layers == other.text.layers


def smaller_cache(evidence: Evidence) -> Iterator[Measured]:
    """The part of the logarithm of two decode steps' ratio that the bytes of the cache explain.

    Of equally large language models at the two most different prompt lengths; a cache that is copied to grow is read
    and written twice more.
    """
    kin = [pair for key in ("frames", "event_frames") for pair in evidence.twins(key)]
    pairs = []
    for pair in (*kin, *evidence.pairs):
        sizes, lengths = [_sizes(evidence, one) for one in pair], [mean_of(one, input_length) for one in pair]
        if sizes[0] and sizes[1] and lengths[0] and lengths[1] and _is_as_large(sizes[0], sizes[1]):
            shorter, longer = sorted(pair, key=lambda one: mean_of(one, input_length) or 0)
            pairs.append((max(lengths[0], lengths[1]) / min(lengths[0], lengths[1]), shorter, longer))
    if not pairs:
        return
    ratio, shorter, longer = max(pairs, key=lambda one: one[0])
    if ratio == 1:
        return
    works = _decode_work(evidence, shorter), _decode_work(evidence, longer)
    times = compare(shorter, longer, decode_ms_per_token)
    if works[0] is None or works[1] is None or times is None or not times.ratio:
        return
    reading = works[1].bytes / works[0].bytes
    copying = (works[1].bytes + 2 * _cache_bytes(longer)) / (works[0].bytes + 2 * _cache_bytes(shorter))
    words = {"ratio": times.ratio, "reading": reading}
    words |= {"longer": mean_of(longer, input_length) or 0.0, "shorter": mean_of(shorter, input_length) or 0.0}
    if times.interval is None:
        yield open_("steps", "few", **words)
    elif times.interval[0] <= 1:
        yield Measured(words, (shorter, longer), 0.0, (0.0, 0.0), ("steps", "not_slower"))
    else:
        read, copied = (math.log(grown) / math.log(times.ratio) for grown in (reading, copying))
        words |= {"read": read, "copied": copied}
        kinds = {_cache_kind(shorter), _cache_kind(longer)}
        if kinds not in ({"dynamic"}, {"static"}) and read < EXPLAINED <= copied:
            yield open_("steps", "explained", "cache_unknown", **words)
        else:
            value = copied if kinds == {"dynamic"} else read
            yield Measured(words, (shorter, longer), value, (value, value), ("steps", "explained"))


def _cache_bytes(column: Configuration) -> float:
    model = answering_model(column)
    return (mean_of(column, input_length) or 0) * bytes_per_position(model) if model else 0.0


def _cache_kind(column: Configuration) -> str | None:
    model = answering_model(column)
    return None if model is None or column.runs[0].info.imported is not None else model.cache


def memory_bound_prefill(evidence: Evidence) -> Iterator[Measured]:
    """The part of the longest prefill that memory explains: by the roofline, or by the rate of its own decode steps."""
    works = []
    for column in evidence.plain():
        sizes, length = _sizes(evidence, column), mean_of(column, input_length)
        each = (prefill_work(run, sizes) for run in column.runs) if sizes and length else ()
        work = typical([one for one in each if one is not None])
        if sizes and length and work:
            works.append((length, column, sizes, work))
    if not works:
        return
    length, column, sizes, work = max(works, key=lambda one: one[0])
    words = {"positions": round(length), "linear": linear_share(sizes, round(length)), "intensity": work.intensity}
    ceiling = ceiling_of(column.runs[0], column.runs[0].info.role, evidence.ceilings)
    decode = _decode_work(evidence, column)
    if are_claims_models(column) and words["positions"] < LONG_PROMPT:
        yield open_("short_prompt", **words)
    elif ceiling is not None:
        words |= {"balance": ceiling.balance, "mfu": work.mfu(ceiling), "mbu": work.mbu(ceiling)}
        yield exact("roofline", float(work.bound(ceiling) == MEMORY), column, **words)
    elif decode is not None:
        share = work.bytes / decode.bytes_s / work.seconds
        yield exact("bandwidth", share, column, share=share, rate=decode.bytes_s / 1e9, **words)
    else:
        yield open_("no_bandwidth", **words)


def warm_prefill(evidence: Evidence) -> Iterator[Measured]:
    """EventGPT's warm prefill at about 640 positions, ms."""
    known = [
        (spent, column)
        for column in evidence.plain("eventgpt")
        if LENGTHS_000[0] <= (mean_of(column, input_length) or 0) <= LENGTHS_000[1]
        and (spent := mean_of(column, _prefill)) is not None
    ]
    mine = [(spent, column) for spent, column in known if are_claims_times(column)]
    if not mine:
        for spent, column in known[:1]:
            yield open_("other_prefill", models=models_text(column), spent=spent)
        return
    spent, column = mine[0]
    values = values_of(column, _prefill)
    cold = [ms for run in evidence.warmups if run.info.cell == column.cell and (ms := _prefill(run)) is not None]
    gpu = column.runs[0].info.environment.get("gpu") or {}
    clocks = gpu.get("clocks_mhz") if isinstance(gpu, dict) else None
    is_known = isinstance(clocks, int | float) and clocks > 0
    parts = ["warm", *(["cold"] if cold else [])]
    parts += ["as_000"] if cold and COLD_000[0] <= cold[0] <= COLD_000[1] else []
    parts += ["clocks" if is_known else "no_clocks"]
    words = {"spent": spent, "least": min(values), "most": max(values), "count": len(values), "clocks": clocks}
    interval = (spent, spent) if len(values) >= FEWEST else None
    yield Measured(words | {"cold": cold[0] if cold else None}, (column,), spent, interval, tuple(parts))


def seven_percent(evidence: Evidence) -> Iterator[Measured]:
    """The part of two prefills' ratio that their operations give, of about as many tokens, EventGPT's more."""
    for draft, target in evidence.pairs:
        sizes = _sizes(evidence, draft), _sizes(evidence, target)
        lengths = mean_of(draft, input_length), mean_of(target, input_length)
        times = compare(target, draft, _prefill)
        if not sizes[0] or not sizes[1] or not lengths[0] or not lengths[1] or times is None or not times.ratio:
            continue
        tokens = lengths[0] / lengths[1]
        if not _is_as_large(sizes[0], sizes[1]) or not 1 < tokens <= 1.2:
            continue
        flops = prefill_flops(sizes[0].text, round(lengths[0])) / prefill_flops(sizes[1].text, round(lengths[1]))
        visual = [run.info.lengths.get(run.info.role) for run in (draft.runs[0], target.runs[0])]
        parts = f" (visual {visual[0].visual} and {visual[1].visual})" if visual[0] and visual[1] else ""
        words = {"tokens": tokens - 1, "visual": parts, "flops": flops - 1, "ratio": times.ratio}
        words |= {"interval": times.interval}
        if times.interval is not None and times.interval[0] > 1:
            yield exact("more_tokens", math.log(flops) / math.log(times.ratio), draft, target, **words)
        else:
            value = None if times.interval is None else (0.0, 0.0)
            yield Measured(words, (draft, target), 0.0, value, ("more_tokens", *(["not_for_sure"] if value else [])))


def fewer_tokens(evidence: Evidence) -> Iterator[Measured]:
    """The token counts' part of the logarithm of the generation time's ratio."""
    for draft, target in evidence.pairs:
        told = fewer_or_faster(draft, target)
        if told is None or told.tokens.ratio is None or told.total_ms.ratio is None or told.token_share is None:
            continue
        settings = [column.runs[0].info.settings for column in (draft, target)]
        if any(entry.ignore_eos for entry in settings) or told.tokens.means[0] == told.tokens.means[1]:
            continue
        if any(map(is_mostly_cut_off, (draft, target))):
            yield open_("cut_off")
            continue
        whole, share = told.total_ms.ratio, told.token_share
        words: Words = {"tokens": told.tokens.ratio, "step": told.step_ratio, "whole": whole, "share": share}
        words |= {"name": told.name, "count": told.tokens.count}
        if told.step_interval is None or not is_told(told.total_ms.interval, 1):
            yield open_("count", "not_apart", **words)
            continue
        # The count gives what the time per token leaves of the logarithm.
        low, high = sorted(1 - math.log(end) / math.log(whole) for end in told.step_interval)
        yield Measured(words, (draft, target), share, (low, high), ("count",))


def vision_share(evidence: Evidence) -> Iterator[Measured]:
    """Vision's part of the difference of vision, prefill and decode together."""
    for draft, target in evidence.pairs:
        vision, whole = compare(draft, target, _vision), compare(draft, target, _model_ms)
        if vision is None or whole is None or not whole.delta:
            continue
        words = {"part": vision.delta, "whole": whole.delta, "share": vision.delta / whole.delta}
        if is_told(whole.delta_interval, 0):
            yield exact("vision_share", words["share"], draft, target, **words)
        else:
            yield open_("vision_share", "not_apart", **words)


def _model_ms(run: RunLog) -> float | None:
    parts = [stage_ms(run, name) for name in ("vision", "prefill", "decode")]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def vision_per_frame(evidence: Evidence) -> Iterator[Measured]:
    """Vision time of one frame, EventGPT's / the video model's."""
    for draft, target in evidence.pairs:
        compared = compare(target, draft, _frame_ms)
        if compared is not None and compared.ratio is not None:
            theirs, mine = compared.means
            words = {"mine": mine, "theirs": theirs, "ratio": compared.ratio, "interval": compared.interval}
            yield Measured(words, (draft, target), compared.ratio, compared.interval, ("frame",))


def _frame_ms(run: RunLog) -> float | None:
    lengths, spent = run.info.lengths.get(run.info.role), _vision(run)
    return None if spent is None or lengths is None or not lengths.per_frame else spent / len(lengths.per_frame)
