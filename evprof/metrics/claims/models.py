"""All claims, and the quantities of those about one or two models: caches, formats, prefill, decoding and vision."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from evprof.core.run_log import RunLog
from evprof.metrics.claims import speculation
from evprof.metrics.claims.evidence import (
    EVENTGPT,
    FEW_RUNS,
    FEW_SCENES,
    LIST,
    Claim,
    Evidence,
    Finding,
    Measured,
    Words,
    answering_model,
    are_claims_models,
    compared,
    estimated,
    judge,
    logarithms,
    quotient,
)
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.estimates import FEWEST_SCENES
from evprof.metrics.estimates.observations import scene_of
from evprof.metrics.estimates.paired import compare, fewer_or_faster, is_mostly_cut_off, mean_of, values_of
from evprof.metrics.figures.decoding import decode_ms_per_token, input_length
from evprof.metrics.figures.kv_cache import bytes_per_position
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.sizes import ModelSizes, ceiling_of, sizes_of
from evprof.metrics.limits.workload import Work, decode_work, linear_share, prefill_flops, prefill_work, typical

CACHE_HIT = "vision cache hit"
"""The part of stage vision that stands for a hit."""

LESS = 0.99
"""Below this share of the other's bytes is less memory."""

LENGTHS_000 = (600, 700)
LONG_PROMPT, MOST_ANSWERS = 4000, 50
FEWEST_IDS = 5

_prefill = partial(stage_ms, name="prefill")
_vision = partial(stage_ms, name="vision")


def is_hit(run: RunLog) -> bool:
    """Whether the visual embeddings came out of a cache."""
    span = run.stage("vision", run.info.role)
    return span is not None and any(child.name == CACHE_HIT for child in run.children(span.span_id))


def feature_caching(evidence: Evidence) -> Iterator[Measured]:
    """Vision saved by a hit, ms; without a hit, the longest vision of any sample, which bounds it."""
    for one, other in evidence.twins("vision_cache"):
        missed, hit = (one, other) if all(map(is_hit, other.runs)) else (other, one)
        saved = compare(hit, missed, _vision)
        if saved is not None and all(map(is_hit, hit.runs)) and not any(map(is_hit, missed.runs)):
            words = {"saved": saved.delta, "interval": saved.delta_interval}
            yield Measured(words, (hit, missed), saved.delta_interval, ("hit",), saved.reason)
            return
    plain = [column for column in evidence.plain() if values_of(column, _vision)]
    columns = tuple(filter(partial(are_claims_models, on_gpu=True), plain)) or tuple(plain)
    costs = [(cost, scene_of(run)) for one in columns for run in one.runs if (cost := _vision(run)) is not None]
    if costs:
        most = max(cost for cost, _ in costs)
        bound = (0.0, most) if len({scene for _, scene in costs}) >= FEWEST_SCENES else None
        yield Measured({"cost": most}, columns, bound, ("vision_cost",), FEW_SCENES)


def bfloat16(evidence: Evidence) -> Iterator[Measured]:
    """Time per token of bfloat16 / float16; where the weights are not smaller, their share of the bytes."""
    for one, other in evidence.twins("dtype"):
        kinds = {column.runs[0].info.models[column.runs[0].info.role].dtype: column for column in (one, other)}
        if set(kinds) != {"bfloat16", "float16"}:
            continue
        sides = kinds["bfloat16"], kinds["float16"]
        weights = [mean_of(column, lambda run: run.info.memory.weights_bytes) for column in sides]
        speed = compare(sides[1], sides[0], decode_ms_per_token)
        if weights[0] and weights[1] and speed is not None and speed.ratio is not None:
            share = weights[0] / weights[1]
            found = compared(speed, "bfloat16", columns=sides, share=share)
            yield found if share < LESS else replace(found, interval=(share, share))


def tokenizers(evidence: Evidence) -> Iterator[Measured]:
    """The share of the ids used by both models that stand for the same text in both."""
    for draft, target in evidence.model_pairs:
        one, other = _pieces(draft), _pieces(target)
        shared = one.keys() & other.keys()
        if len(shared) >= FEWEST_IDS:
            words = {"shared": len(shared), "same": sum(one[number] == other[number] for number in shared)}
            share = words["same"] / words["shared"]
            yield Measured(words, (draft, target), (share, share), ("ids",))


def _pieces(column: Configuration) -> dict[int, str]:
    """The texts of token ids, as far as the first answers tell them."""
    runs = [runs[0] for runs in column.samples().values()][:MOST_ANSWERS]
    return {token.token_id: token.piece for run in runs for token in run.tokens if token.piece}


def eventgpt_context(evidence: Evidence) -> Iterator[Measured]:
    """Positions of EventGPT's prompts, the fewest and the most."""
    columns = tuple(column for column in evidence.plain(EVENTGPT) if values_of(column, input_length))
    lengths = sorted({round(length) for column in columns for length in values_of(column, input_length)})
    if lengths:
        words = {"positions": ", ".join(map(str, lengths))}
        yield Measured(words, columns, (lengths[0], lengths[-1]), ("context",))


def _sizes(evidence: Evidence, column: Configuration) -> ModelSizes | None:
    return sizes_of(answering_model(column), evidence.models)


def _step_work(evidence: Evidence, column: Configuration) -> Work | None:
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
    for pair in (*kin, *evidence.model_pairs):
        sizes, lengths = [_sizes(evidence, one) for one in pair], [mean_of(one, input_length) or 0.0 for one in pair]
        if sizes[0] and sizes[1] and 0 < min(lengths) < max(lengths) and _is_as_large(sizes[0], sizes[1]):
            pairs.append(
                (max(lengths) / min(lengths), sorted(lengths), pair if lengths[0] < lengths[1] else pair[::-1])
            )
    if not pairs:
        return
    _, lengths, (shorter, longer) = max(pairs, key=lambda one: one[0])
    works = [_step_work(evidence, column) for column in (shorter, longer)]
    times = compare(shorter, longer, decode_ms_per_token)
    if works[0] is None or works[1] is None or times is None or not times.ratio:
        return
    extra = [2 * _cache_bytes(column) for column in (shorter, longer)]
    grown = [(works[1].bytes + copies * extra[1]) / (works[0].bytes + copies * extra[0]) for copies in (0, 1)]
    shares = [quotient((math.log(each), math.log(each)), logarithms(times.interval)) for each in grown]
    found = compared(times, "steps", columns=(shorter, longer), reading=grown[0], longer=lengths[1], shorter=lengths[0])
    if shares[0] is None or shares[1] is None:
        yield replace(found, interval=None)
        return
    kinds = {_cache_kind(shorter), _cache_kind(longer)}
    # A static cache is not copied to grow, a dynamic one is; of another it is not known.
    possible = shares[:1] if kinds == {"static"} else shares[1:] if kinds == {"dynamic"} else shares
    ends = [end for share in possible if share for end in share]
    words = found.words | {"read": shares[0], "copied": shares[1]}
    yield replace(found, words=words, interval=(min(ends), max(ends)), parts=("steps", "explained"))


def _cache_bytes(column: Configuration) -> float:
    model = answering_model(column)
    return (mean_of(column, input_length) or 0) * bytes_per_position(model) if model else 0.0


def _cache_kind(column: Configuration) -> str | None:
    model = answering_model(column)
    return None if model is None or column.runs[0].info.imported is not None else model.cache


def memory_bound_prefill(evidence: Evidence) -> Iterator[Measured]:
    """The part of the longest prefill that its bytes take at the measured bandwidth, or at that of its decode steps."""
    columns = [one for one in evidence.plain() if _sizes(evidence, one) and estimated(one, _prefill)]
    column = max(columns, key=lambda one: mean_of(one, input_length) or 0, default=None)
    sizes = _sizes(evidence, column) if column else None
    if column is None or sizes is None:
        return
    ceiling = ceiling_of(column.runs[0], column.runs[0].info.role, evidence.ceilings)

    def rate(run: RunLog) -> float | None:
        step = decode_work(run, sizes)
        return ceiling.bandwidth_bytes_s if ceiling else step.bytes_s if step else None

    def share(run: RunLog) -> float | None:
        work, bytes_s = prefill_work(run, sizes), rate(run)
        return work.bytes_s / bytes_s if work and bytes_s else None

    found, bytes_s = estimated(column, share), mean_of(column, rate)
    positions = round(mean_of(column, input_length) or 0)
    if found is None or not bytes_s or not positions:
        return
    words: Words = {"positions": positions, "linear": linear_share(sizes, positions), "share": found[0]}
    words |= {"rate": bytes_s / 1e9, "source": "the measured bandwidth" if ceiling else "its decode steps' rate"}
    is_short = positions < LONG_PROMPT
    reason = "the longest prompt here does not have 4,643 positions" if is_short else FEW_RUNS
    yield Measured(words, (column,), None if is_short else found[1], ("bandwidth",), reason)


def warm_prefill(evidence: Evidence) -> Iterator[Measured]:
    """EventGPT's warm prefill at about 640 positions, ms."""
    for column in evidence.plain(EVENTGPT):
        spent = estimated(column, _prefill)
        if spent is None or not LENGTHS_000[0] <= (mean_of(column, input_length) or 0) <= LENGTHS_000[1]:
            continue
        values = [ms for run in column.runs if (ms := _prefill(run)) is not None]
        cold = [ms for run in evidence.warmups if run.info.cell == column.cell and (ms := _prefill(run)) is not None]
        words = {"spent": spent[0], "least": min(values), "most": max(values), "cold": max(cold, default=0.0)}
        yield Measured(words, (column,), spent[1], ("warm", "cold") if cold else ("warm",), FEW_RUNS)


def seven_percent(evidence: Evidence) -> Iterator[Measured]:
    """The part of two prefills' ratio that their operations give, of about as many tokens, EventGPT's more."""
    for draft, target in evidence.model_pairs:
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
        words: Words = {"tokens": tokens - 1, "visual": parts, "flops": flops - 1}
        found = compared(times, "more_tokens", columns=(draft, target), **words)
        share = quotient((math.log(flops), math.log(flops)), logarithms(times.interval))
        yield replace(found, interval=share)


def fewer_tokens(evidence: Evidence) -> Iterator[Measured]:
    """The token counts' part of the logarithm of the generation time's ratio."""
    for draft, target in evidence.model_pairs:
        told = fewer_or_faster(draft, target)
        if told is None or told.tokens.ratio is None or told.total_ms.ratio is None or told.token_share is None:
            continue
        settings = [column.runs[0].info.settings for column in (draft, target)]
        if any(entry.ignore_eos for entry in settings) or told.tokens.means[0] == told.tokens.means[1]:
            continue
        if any(map(is_mostly_cut_off, (draft, target))):
            yield Measured({}, (draft, target), None, ("cut_off",), "their length is the limit's, not their own")
            continue
        words: Words = {"tokens": told.tokens.ratio, "step": told.each_ms.ratio, "whole": told.total_ms.ratio}
        words |= {"share": told.token_share, "name": told.name}
        # The count gives what the time per token leaves of the logarithm.
        rest = quotient(logarithms(told.each_ms.interval), logarithms(told.total_ms.interval))
        share = None if rest is None else (1 - rest[1], 1 - rest[0])
        yield Measured(words, (draft, target), share, ("count",), told.total_ms.reason)


def vision_share(evidence: Evidence) -> Iterator[Measured]:
    """Vision's part of the difference of vision, prefill and decode together."""
    for draft, target in evidence.model_pairs:
        vision, whole = compare(draft, target, _vision), compare(draft, target, _model_ms)
        if vision is not None and whole is not None and whole.delta:
            words = {"part": vision.delta, "whole": whole.delta, "share": vision.delta / whole.delta}
            share = quotient(vision.delta_interval, whole.delta_interval)
            yield Measured(words, (draft, target), share, ("vision_share",), whole.reason)


def vision_per_frame(evidence: Evidence) -> Iterator[Measured]:
    """Vision time of one frame, EventGPT's / the video model's."""
    for draft, target in evidence.model_pairs:
        times = compare(target, draft, _frame_ms)
        if times is not None and times.ratio is not None:
            theirs, mine = times.means
            yield compared(times, "frame", columns=(draft, target), mine=mine, theirs=theirs)


def _model_ms(run: RunLog) -> float | None:
    parts = [stage_ms(run, name) for name in ("vision", "prefill", "decode")]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _frame_ms(run: RunLog) -> float | None:
    lengths, spent = run.info.lengths.get(run.info.role), _vision(run)
    return None if spent is None or lengths is None or not lengths.per_frame else spent / len(lengths.per_frame)


_QUANTITIES = {**globals(), **vars(speculation), "nothing": lambda _: ()}


def _claim(entry: dict[str, Any]) -> Claim:
    least, most = entry["claimed"]
    return Claim(**entry | {"quantity": _QUANTITIES[entry["quantity"]], "claimed": (least, most)})


CLAIMS = tuple(map(_claim, LIST["claims"]))


def answer_claims(evidence: Evidence) -> list[Finding]:
    return [judge(claim, evidence) for claim in CLAIMS]
