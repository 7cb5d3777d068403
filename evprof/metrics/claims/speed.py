"""Claims about prefill, decoding and vision: why one model is faster, and what its times are (000, 002, 003)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean

from evprof.core.run_log import RunLog
from evprof.core.units import number_text, percent_text
from evprof.metrics.arithmetic.statistics import FEWEST
from evprof.metrics.claims.evidence import (
    CONFIRMED,
    REFUTED,
    Evidence,
    Finding,
    answering_model,
    are_claims_models,
    are_claims_times,
    first_judged,
    found,
    interval_words,
    is_told,
    models_text,
    nothing,
)
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.generation import fewer_or_faster, is_mostly_cut_off
from evprof.metrics.estimates.paired import Compared, compare, mean_of, values_of
from evprof.metrics.figures.decoding import decode_ms_per_token, input_length
from evprof.metrics.figures.kv_cache import bytes_per_position
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.roofline import prefill_flops
from evprof.metrics.limits.sizes import ModelSizes, ceiling_of, sizes_of
from evprof.metrics.limits.workload import MEMORY, Work, decode_work, linear_share, prefill_work, typical

EXPLAINED = 0.8
"""The part of a ratio's logarithm that a cause must give to be its cause."""

PREFILL_000, PREFILL_002 = (90.0, 115.0), (60.0, 72.0)
"""EventGPT's prefill in ms at about 640 positions: as 000 says, and 002's 66 within a tenth."""

LENGTHS_000 = (600, 700)
LONG_PROMPT = 4000
VISION_SHARE = (0.10, 0.20)
ALL = 0.95
"""The part from which on one cause is all of it."""


def _sizes(evidence: Evidence, column: Configuration) -> ModelSizes | None:
    return sizes_of(answering_model(column), evidence.models)


def _prefill(run: RunLog) -> float | None:
    return stage_ms(run, "prefill")


def _vision(run: RunLog) -> float | None:
    return stage_ms(run, "vision")


def _decode_work(evidence: Evidence, column: Configuration) -> Work | None:
    sizes = _sizes(evidence, column)
    return None if sizes is None else typical([work for run in column.runs if (work := decode_work(run, sizes))])


def _same_language_models(evidence: Evidence) -> Iterator[tuple[Configuration, Configuration]]:
    """(shorter, longer): configurations of equally large language models at different prompt lengths.

    Those of one model that differ in frames only first, then draft and target.
    """
    kin = [pair for key in ("frames", "event_frames") for pair in evidence.twins(key)]
    for one, other in [*kin, *evidence.pairs]:
        sizes = _sizes(evidence, one), _sizes(evidence, other)
        lengths = mean_of(one, input_length), mean_of(other, input_length)
        if sizes[0] is None or sizes[1] is None or lengths[0] is None or lengths[1] is None:
            continue
        if _is_as_large(sizes[0], sizes[1]) and lengths[0] != lengths[1]:
            yield (one, other) if lengths[0] < lengths[1] else (other, one)


def _is_as_large(one: ModelSizes, other: ModelSizes) -> bool:
    return abs(one.text.layer_weights / other.text.layer_weights - 1) < 0.01 and one.text.layers == other.text.layers


def smaller_cache(evidence: Evidence) -> Finding:
    """Bytes that a decode step reads against its time, at two lengths: read once, and with a cache copied to grow."""
    best: tuple[float, Configuration, Configuration] | None = None
    for shorter, longer in _same_language_models(evidence):
        ratio = (mean_of(longer, input_length) or 1) / (mean_of(shorter, input_length) or 1)
        if best is None or ratio > best[0]:
            best = ratio, shorter, longer
    if best is None:
        return nothing("No two configurations with equally large language models decode at different prompt lengths.")
    _, shorter, longer = best
    works = _decode_work(evidence, shorter), _decode_work(evidence, longer)
    times = compare(shorter, longer, decode_ms_per_token)
    if works[0] is None or works[1] is None or times is None or not times.ratio:
        return nothing("The decode steps of two prompt lengths were not measured.")
    reading = works[1].bytes / works[0].bytes
    copying = (works[1].bytes + 2 * _cache_bytes(longer)) / (works[0].bytes + 2 * _cache_bytes(shorter))
    sentence = (
        f"A step takes {times.ratio:.2f} times as long at {mean_of(longer, input_length):,.0f} positions as at "
        f"{mean_of(shorter, input_length):,.0f}; the bytes it reads (weights and cache) grow {reading:.2f} times"
    )
    if times.ratio_interval is None:
        return nothing(f"{sentence}. There are fewer than three samples.")
    if times.ratio_interval[0] <= 1:
        return found(False, f"{sentence}: it is not slower for sure.", shorter, longer)
    parts = [math.log(grown) / math.log(times.ratio) for grown in (reading, copying)]
    read, copied = map(percent_text, parts)
    sentence += f", which explains {read}; a cache that is copied to grow would explain {copied}."
    return _explained(sentence, parts, shorter, longer)


def _explained(sentence: str, parts: list[float], shorter: Configuration, longer: Configuration) -> Finding:
    """By the part that holds for how these caches grew; where that is not told, only if both parts say the same."""
    kinds = {_cache_kind(shorter), _cache_kind(longer)}
    if kinds == {"dynamic"}:
        return found(parts[1] >= EXPLAINED, sentence, shorter, longer)
    if kinds == {"static"} or parts[1] < EXPLAINED or parts[0] >= EXPLAINED:
        return found(parts[0] >= EXPLAINED, sentence, shorter, longer)
    return nothing(f"{sentence} How these caches grew is not told.")


def _cache_bytes(column: Configuration) -> float:
    model = answering_model(column)
    return (mean_of(column, input_length) or 0) * bytes_per_position(model) if model else 0.0


def _cache_kind(column: Configuration) -> str | None:
    model = answering_model(column)
    return None if model is None or column.runs[0].info.imported is not None else model.cache


def memory_bound_prefill(evidence: Evidence) -> Finding:
    """The longest prefill against the roofline, or, where no ceilings were measured, against its own decode steps."""
    longest = _longest_prefill(evidence)
    if longest is None:
        return nothing("No prefill was timed of a model whose shape is known.")
    column, sizes, work = longest
    positions = round(mean_of(column, input_length) or 0)
    if are_claims_models(column) and positions < LONG_PROMPT:
        return nothing(f"The longest prompt here has {positions:,} positions, not 4,643.")
    linear = f"{percent_text(linear_share(sizes, positions))} of its operations are linear in the prompt"
    ceiling = ceiling_of(column.runs[0], column.runs[0].info.role, evidence.ceilings)
    if ceiling is not None:
        sentence = (
            f"A prefill of {positions:,} positions does {work.intensity:,.0f} operations a byte; above "
            f"{ceiling.balance:,.1f} this machine is bound by arithmetic (MFU {percent_text(work.mfu(ceiling))}, MBU "
            f"{percent_text(work.mbu(ceiling), 1)}). {linear}."
        )
        return found(work.bound(ceiling) == MEMORY, sentence, column)
    decode = _decode_work(evidence, column)
    if decode is None:
        return nothing(f"Neither ceilings nor decode steps tell what bandwidth there was; {linear}.")
    share = work.bytes / decode.bytes_s / work.seconds
    sentence = (
        f"Its decode steps read {decode.bytes_s / 1e9:,.0f} GB/s; at that rate the bytes of a prefill of {positions:,} "
        f"positions take {percent_text(share)} of its time, and it does {work.intensity:,.0f} operations a byte. "
        f"{linear}."
    )
    return found(share > 1 / 2, sentence, column)


def _longest_prefill(evidence: Evidence) -> tuple[Configuration, ModelSizes, Work] | None:
    best: tuple[float, Configuration, ModelSizes, Work] | None = None
    for column in evidence.plain():
        sizes, length = _sizes(evidence, column), mean_of(column, input_length)
        if sizes is None or length is None or (best is not None and length <= best[0]):
            continue
        work = typical([work for run in column.runs if (work := prefill_work(run, sizes)) is not None])
        if work is not None:
            best = length, column, sizes, work
    return None if best is None else best[1:]


def warm_prefill(wanted: tuple[float, float], evidence: Evidence) -> Finding:
    """EventGPT's warm prefill at about 640 positions lies in a range of ms."""
    asked = [
        (spent, column)
        for column in evidence.plain("eventgpt")
        if LENGTHS_000[0] <= (mean_of(column, input_length) or 0) <= LENGTHS_000[1]
        and (spent := mean_of(column, _prefill)) is not None
    ]
    mine = [(spent, column) for spent, column in asked if are_claims_times(column)]
    if not mine:
        return nothing(
            "EventGPT-7B did not prefill 600 to 700 positions in 16 bit on a GPU here."
            + (f" ({models_text(asked[0][1])}: {asked[0][0]:,.1f} ms.)" if asked else "")
        )
    spent, column = mine[0]
    cold = [ms for run in evidence.warmups if run.info.cell == column.cell and (ms := _prefill(run)) is not None]
    values = values_of(column, _prefill)
    if len(values) < FEWEST:
        return nothing(f"{spent:,.1f} ms over {len(values)} samples, fewer than {FEWEST}.")
    sentence = f"Warm, it takes {spent:,.1f} ms ({min(values):,.1f} to {max(values):,.1f}, {len(values)} samples)"
    if cold:
        sentence += f"; the first, cold pass took {cold[0]:,.1f} ms"
        sentence += ", as 000 says" if PREFILL_000[0] <= cold[0] <= PREFILL_000[1] else ""
    gpu = column.runs[0].info.environment.get("gpu") or {}
    clocks = gpu.get("clocks_mhz") if isinstance(gpu, dict) else None
    is_told = isinstance(clocks, int | float) and clocks > 0
    sentence += f"; GPU clocks {clocks:,} MHz." if is_told else "; GPU clocks are not told."
    return Finding(CONFIRMED if wanted[0] <= spent <= wanted[1] else REFUTED, sentence)


def seven_percent(evidence: Evidence) -> Finding:
    """A prefill of about as many tokens: how much of the time's ratio the operations' gives."""
    return first_judged(
        (_prefill_pair(evidence, *pair) for pair in evidence.pairs),
        "No pair of equally large models prefilled prompts within a fifth of each other, EventGPT's longer.",
    )


def _prefill_pair(evidence: Evidence, draft: Configuration, target: Configuration) -> Finding | None:
    sizes = _sizes(evidence, draft), _sizes(evidence, target)
    lengths = mean_of(draft, input_length), mean_of(target, input_length)
    times = compare(target, draft, _prefill)
    if sizes[0] is None or sizes[1] is None or times is None or not times.ratio:
        return None
    if not lengths[0] or not lengths[1] or not _is_as_large(sizes[0], sizes[1]):
        return None
    if not 1 < lengths[0] / lengths[1] <= 1.2:
        return None
    flops = prefill_flops(sizes[0].text, round(lengths[0])) / prefill_flops(sizes[1].text, round(lengths[1]))
    return _seven_percent(times, lengths[0] / lengths[1], flops, draft, target)


def _seven_percent(
    times: Compared, tokens: float, flops: float, draft: Configuration, target: Configuration
) -> Finding:
    ratio = times.ratio or 1.0
    visual = [run.info.lengths.get(run.info.role) for run in (draft.runs[0], target.runs[0])]
    told = (
        f" (visual {visual[0].visual} and {visual[1].visual}, text {visual[0].input - visual[0].visual} and "
        f"{visual[1].input - visual[1].visual})"
        if visual[0] and visual[1]
        else ""
    )
    sentence = (
        f"{percent_text(tokens - 1, 1)} more tokens{told} are {percent_text(flops - 1, 1)} more operations; the "
        f"prefill takes {ratio:.2f} times the time{interval_words(times.ratio_interval)}."
    )
    if times.ratio_interval is None:
        return nothing(sentence)
    if times.ratio_interval[0] <= 1:
        return found(False, f"{sentence} It is not slower for sure.", draft, target)
    return found(math.log(flops) >= EXPLAINED * math.log(ratio), sentence, draft, target)


def fewer_tokens(evidence: Evidence) -> Finding:
    """The token counts' part of the generation time's ratio."""
    return first_judged(
        (_fewer_tokens(*pair) for pair in evidence.pairs), "No pair of models answered at lengths of their own choice."
    )


def _fewer_tokens(draft: Configuration, target: Configuration) -> Finding | None:
    told = fewer_or_faster(draft, target)
    if told is None or told.tokens.ratio is None or told.total_ms.ratio is None or told.token_share is None:
        return None
    settings = [column.runs[0].info.settings for column in (draft, target)]
    if any(entry.ignore_eos for entry in settings) or told.tokens.before == told.tokens.after:
        return None
    if any(map(is_mostly_cut_off, (draft, target))):
        return nothing("Most answers of one model are as long as allowed: their length is the limit's, not its own.")
    tokens, whole, share = told.tokens.ratio, told.total_ms.ratio, told.token_share
    sentence = (
        f"{tokens:.2f} times the tokens x {told.step_ratio:.2f} times the time per token = {whole:.2f} times the "
        f"time ({told.name}): the count makes up {percent_text(share)} of it in logarithms, {told.tokens.count} "
        "samples."
    )
    interval = told.step_interval
    if interval is None or not is_told(told.total_ms.ratio_interval, 1):
        return nothing(f"{sentence} The times cannot be told apart.")
    # What the time per token takes of the logarithm, the count gives.
    ends = sorted(1 - math.log(end) / math.log(whole) for end in interval)
    if ends[0] < ALL <= ends[1]:
        return nothing(
            f"{sentence} Between {percent_text(ends[0])} and {percent_text(ends[1])}: too few samples to tell."
        )
    return found(ends[0] >= ALL, sentence, draft, target, needs_text=True)


def vision_share(evidence: Evidence) -> Finding:
    """Vision's part of the difference of vision, prefill and decode together."""
    return first_judged(
        (_vision_share(*pair) for pair in evidence.pairs), "No pair has a vision stage of its own in both models."
    )


def _vision_share(draft: Configuration, target: Configuration) -> Finding | None:
    vision, whole = compare(draft, target, _vision), compare(draft, target, _model_ms)
    if vision is None or whole is None or not whole.delta:
        return None
    share = vision.delta / whole.delta
    part, all_of_it = number_text(vision.delta, 3), number_text(whole.delta, 3)
    sentence = f"Vision makes up {part} of {all_of_it} ms of difference, {percent_text(share)}."
    if not is_told(whole.delta_interval, 0):
        return nothing(f"{sentence} The totals cannot be told apart.")
    return found(VISION_SHARE[0] <= share <= VISION_SHARE[1], sentence, draft, target)


def _model_ms(run: RunLog) -> float | None:
    parts = [stage_ms(run, name) for name in ("vision", "prefill", "decode")]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def faster_per_frame(evidence: Evidence) -> Finding:
    """Vision time of one frame in both models."""
    return first_judged(
        (_per_frame(*pair) for pair in evidence.pairs),
        "No pair has a vision stage of its own and a known number of frames in both models.",
    )


def _per_frame(draft: Configuration, target: Configuration) -> Finding | None:
    compared = compare(target, draft, _vision_per_frame)
    if compared is None or compared.ratio is None:
        return None
    each = [fmean(side) for side in (compared.after, compared.before)]
    sentence = (
        f"A frame takes EventGPT {each[0]:.2f} ms and the video model {each[1]:.2f} ms: {compared.ratio:.2f} "
        f"times{interval_words(compared.ratio_interval)}; both run CLIP."
    )
    if not is_told(compared.ratio_interval, 1):
        return nothing(f"{sentence} No difference can be told.")
    return found(compared.ratio < 1, sentence, draft, target)


def _vision_per_frame(run: RunLog) -> float | None:
    lengths, spent = run.info.lengths.get(run.info.role), _vision(run)
    return None if spent is None or lengths is None or not lengths.per_frame else spent / len(lengths.per_frame)
