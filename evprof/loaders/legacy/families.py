"""The result files of earlier scripts: `families.toml` lists them, this module recognizes and interprets them.

Of a family it holds what follows from values: how a file is recognized, and figures that are not under a key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.loaders.legacy.json_rows import ERRORS, Place, Preview
from evprof.loaders.legacy.reading import Answer, Covers, Shape
from evprof.loaders.legacy.rows import (
    EVENTGPT_PATCHES,
    LLAVA_PATCHES,
    MS_PER_S,
    NO_TIME,
    SHORTEST_MS,
    SIDES,
    Interval,
    LegacyRow,
    RowCheck,
    finite,
    mapping,
    mib_bytes,
    model_facts,
    prompt_lengths,
    shortened,
)

_RESULTS: Place = ("results",)
_NESTED = ("eventgpt", "videollava")

Table = Mapping[str, Any]


@cache
def families() -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))[
        "family"
    ]
    return listed


def shape_of(table: Table, preview: Preview) -> Shape | None:
    """The shape of a file of this family; None for another file."""
    name = table["name"]
    if not _RECOGNIZED.get(name, _has_marks)(table, preview):
        return None
    answers = [_answer(table, values, preview) for values in table.get("answers", ())]
    answers = _CHANGED.get(name, _present)(preview, answers)
    covers: Covers | None = {
        role: {key: stages.split("+") for key, stages in keys.items()} for role, keys in table.get("covers", {}).items()
    }
    return Shape(
        answers,
        table.get("names")
        or {key: f"Stage {key.removesuffix('_time')[-1]}" for answer in answers for key in answer.covers},
        table["sentences"],
        tuple(table.get("index", ("sample_idx",))),
        is_paired=table.get("is_paired", True) and len({answer.role for answer in answers}) > 1,
        has_errors=table.get("has_errors", False),
        covers=covers or None,
        totals={answer.role: table["totals"] for answer in answers} if "totals" in table else None,
    )


def _answer(table: Table, values: Table, preview: Preview) -> Answer:
    fields = {**table.get("shared", {}), **values}
    quantization = fields.pop("quantization", None)
    if quantization == "config":
        quantization = preview.quantization
    weights = mib_bytes(finite(mapping(preview.head.get("gpu_memory")).get(fields.pop("weights", ""))))
    settings: dict[str, Any] = {}
    for key, value in fields.pop("settings", {}).items():
        settings |= preview.setting(key) if value == "config" else {key: value}
    refine = _REFINED.get(table["name"])
    return Answer(
        role=fields.pop("role"),
        side=fields.pop("side"),
        cell=fields.pop("cell").format(quantization=f" {quantization}" if quantization else ""),
        model=model_facts(fields.pop("model"), quantization=quantization, weight_bytes=weights),
        covers={key: tuple(stages.split("+")) for key, stages in fields.pop("covers", {}).items()},
        place=tuple(fields.pop("place", table.get("place", _RESULTS))),
        settings=settings,
        refine=None if refine is None else partial(refine, preview=preview, table=table),
        **fields,
    )


def _has_marks(table: Table, preview: Preview) -> bool:
    return set(table["marks"]) <= preview.first_row(tuple(table.get("place", _RESULTS))).keys()


def _present(preview: Preview, answers: list[Answer]) -> list[Answer]:
    """The answers in lists that the file has, without times that its first row does not have."""
    return [answer for answer in answers if answer.place in preview.counts]


def _timed(preview: Preview, answers: list[Answer]) -> list[Answer]:
    first = preview.first_row(_RESULTS)
    kept = []
    for answer in answers:
        own = mapping(first.get(answer.part)) if answer.part else first
        kept.append(replace(answer, covers={key: stages for key, stages in answer.covers.items() if key in own}))
    return kept


def _is_one_versus_eight(table: Table, preview: Preview) -> bool:
    places = [(side, "samples") for side in _NESTED if (side, "samples") in preview.counts]
    has_times = any("s4_time" in preview.first_row(place) for place in places)
    return has_times or (bool(places) and "eventgpt_frames" in preview.config)


def _of_frames(row: LegacyRow, check: RowCheck, raw: Table, preview: Preview, table: Table) -> LegacyRow:
    is_draft = row.role == DRAFT
    given = finite(preview.config.get(f"{row.side}_frames"))
    frames = check.count("n_frames") or (int(given) if given is not None and 0 < given < 10_000 else None)
    length, kv_bytes = check.count("prefill_len"), mib_bytes(check.number("kv_cache_mb"))
    kind = "event frame" if is_draft else "video frame"
    counted = f"{kind}s unknown" if frames is None else f"{frames} {kind}{'' if frames == 1 else 's'}"
    settings: dict[str, object] = {} if frames is None else {"event_frames" if is_draft else "frames": frames}
    patches = EVENTGPT_PATCHES if is_draft else LLAVA_PATCHES
    is_known = frames is not None and (frames == 1 or not is_draft)
    if is_draft and is_known:
        settings["input"] = {"pooling": "none"}
    return replace(
        row,
        cell=f"{row.cell}, {counted}",
        decode_steps=_decode_steps(preview, row.side),
        lengths=prompt_lengths(length, [patches] * frames) if is_known and frames else None,
        figures=row.figures | ({"kv_cache_bytes": float(kv_bytes)} if kv_bytes else {}),
        settings=settings,
        error=None,  # Rows with lengths and caches and without times are valid.
    )


def _decode_steps(preview: Preview, side: str) -> int | None:
    """Passes of s5_time: their rate times their mean time, if that is a whole number."""
    stats = mapping(mapping(preview.head.get(side)).get("stats"))
    steps = (finite(stats.get("decode_throughput")) or 0.0) * (finite(stats.get("s5_time_avg")) or 0.0)
    return round(steps) if 0.5 < steps < 100_000 and abs(steps - round(steps)) < 0.02 else None


_FRAME_PATCHES = 256
"""The script adds this for each video frame to a length that contains the frames already."""


def _is_five_stages(table: Table, preview: Preview) -> bool:
    return any("stage4_time" in mapping(row.get(side)) for row in preview.objects(_RESULTS) for side in _NESTED)


def _five_answers(preview: Preview, answers: list[Answer]) -> list[Answer]:
    kept = []
    for answer in answers:
        parts = [part for row in preview.objects(_RESULTS) if isinstance(part := row.get(answer.part), dict)]
        covers = dict(answer.covers)
        if answer.role == TARGET:
            vision = [time for part in parts if (time := finite(part.get("stage3_time"))) is not None]
            if vision and max(vision) * MS_PER_S < SHORTEST_MS:
                covers["stage3_time"] = ()
            if not any("tokens_per_sec" in part for part in parts):
                covers["stage5_time"] = ("vision", "prefill", "decode")
        kept += [replace(answer, covers=covers)] if parts else []
    return kept


def _five(row: LegacyRow, check: RowCheck, raw: Table, preview: Preview, table: Table) -> LegacyRow:
    named = check.raw.get("model")
    if isinstance(named, str) and ("eventgpt" in named.lower()) != (row.role == DRAFT):
        check.tell("the row names another model than its key, so no time of the row was taken")
        return replace(row, intervals=(), error=f"the row names the model {shortened(named, 60)}")
    figures = dict(row.figures)
    if row.error is None:
        figures |= check.figures({"tokens_per_sec": "published_decode_tok_s"})
    row = replace(row, peak_bytes=mib_bytes(finite(mapping(check.raw.get("gpu_memory_mb")).get("peak"))))
    if row.role == DRAFT:
        return replace(_pooled(row), figures=figures)
    frames = check.count("num_frames", most=10_000)
    if frames is not None:
        cell = re.sub(r"\d+ video frames", f"{frames} video frames", row.cell)
        row = replace(row, cell=cell, settings=row.settings | {"frames": frames})
    added, length = _FRAME_PATCHES * (frames or 0), figures.get("published_prefill_length", 0.0)
    if added and length > 2 * added:
        check.tell(
            f"prefill_length {length:.0f} counts the visual tokens twice (the script adds {frames} times "
            f"{_FRAME_PATCHES} to a prompt that holds them already; {length - added:.0f} were processed), so the run "
            "has no prompt length"
        )
    pair = replace(check, raw=mapping(raw.get("parallel")), name="parallel")
    times = {"overlap_window": "overlap_window_from_load_ms", "wall_clock_total": "modelled_wall_ms"}
    figures |= pair.figures(times, MS_PER_S) | pair.figures({"hidden_tokens": "published_hidden_tokens"})
    draft, target = (mapping(raw.get(side)) for side in _NESTED)
    first, second = finite(draft.get("stage4_time")), finite(target.get("stage4_time"))
    if first is not None and second is not None:
        vision = finite(draft.get("stage3_time")) or 0.0
        figures["overlap_window_from_vision_ms"] = (second - (first + vision)) * MS_PER_S
    match = replace(check, raw=mapping(raw.get("acceptance")), name="acceptance")
    keys = ("acceptance_rate", "word_overlap", "char_similarity", "length_similarity")
    return replace(row, figures=figures | match.figures({key: f"published_{key}" for key in keys}))


def _pooled(row: LegacyRow) -> LegacyRow:
    """EventGPT's row with the lengths of a prompt of one pooled frame: its mean and the spatial means."""
    length = int(row.figures.get("published_prefill_length", 0))
    return replace(row, lengths=prompt_lengths(length, [EVENTGPT_PATCHES], shared=1))


_IMAGE_ID, _ASSISTANT = 32000, (9047, 13566, 29901)
"""The id of a picture's position in LLaVA's prompts, and the end of “ASSISTANT:”, with which they end."""


def _is_four_stages(table: Table, preview: Preview) -> bool:
    return any("stage4_time" in preview.first_row((f"{side}_results",)) for side in _NESTED)


def _after_prompt(row: LegacyRow, check: RowCheck, raw: Table, preview: Preview, table: Table) -> LegacyRow:
    sample, prompt = check.count("sample"), _prompt_length(raw.get("token_ids"))
    row = replace(row, group=row.row if sample is None else sample)
    if not prompt:
        return row
    check.tell(f"token_ids begin with the {prompt} ids of the prompt, so tokens counts both; ours are those after it")
    ids, tokens = row.token_ids[prompt:], finite(raw.get("tokens"))
    count = check.counts_agree(None, ids, row.text)
    return replace(
        row,
        token_ids=ids if count is not None else (),
        output_tokens=count,
        lengths=prompt_lengths(prompt, [LLAVA_PATCHES]),
        figures={"published_output_tokens": tokens} if tokens and tokens != count else {},
    )


def _prompt_length(ids: object) -> int:
    """Length of the prompt at the start of the ids; 0 if they are the answer alone."""
    if not isinstance(ids, list) or ids.count(_IMAGE_ID) != LLAVA_PATCHES:
        return 0
    last = len(ids) - 1 - ids[::-1].index(_IMAGE_ID)
    ends = (place + 3 for place in range(last, len(ids) - 2) if tuple(ids[place : place + 3]) == _ASSISTANT)
    return next(ends, 0)


# One list of rows with three, four or five stages


_STAGE_KEY = re.compile(r"([a-z0-9_.-]{1,40}?)_(?:stage1_time|token_ids)\Z")


def _prefixes(preview: Preview) -> list[str]:
    matches = (_STAGE_KEY.match(key) for row in preview.objects(()) for key in row)
    prefixes = dict.fromkeys(match[1] for match in matches if match and match[1] in SIDES)
    return sorted(prefixes, key=lambda prefix: SIDES[prefix] != DRAFT)


def _sample_answers(preview: Preview, answers: list[Answer]) -> list[Answer]:
    return [_prefixed(prefix, preview.objects(())) for prefix in _prefixes(preview)]


def _prefixed(prefix: str, rows: list[dict[str, Any]]) -> Answer:
    """The answer of the model whose keys begin with `prefix`. The key of its text is that, or the model's name."""
    role = SIDES[prefix]
    listed = [f"{prefix}_stage{place}_time" for place in range(1, 6)]
    count = max((place for place, key in enumerate(listed, start=1) for row in rows if key in row), default=3)
    again = ("vision",) if role == TARGET else ()
    last: tuple[tuple[str, ...], ...] = {
        3: (("vision", "prefill", "decode"),),
        4: (("vision",), (*again, "prefill", "decode")),
        5: (("vision",), (*again, "prefill"), ("decode",)),
    }[max(3, count)]
    texts = (
        key
        for row in rows
        for key, value in row.items()
        if isinstance(value, str) and (key == prefix or (key.startswith(f"{prefix}-") and "_" not in key))
    )
    text = next(texts, prefix)
    family = "eventgpt" if role == DRAFT else "video_llava"
    if prefix == "llava" or text.startswith("llava-"):
        family = "llava"
    covers = dict(zip(listed, (("load",), ("preprocess",), *last), strict=False))
    return Answer(
        role,
        prefix,
        {"eventgpt": "EventGPT", "llava": "LLaVA-1.5", "video_llava": "Video-LLaVA"}[family],
        model_facts(family),
        covers,
        (),
        total=f"{prefix}_time",
        error=f"{prefix}_error",
        text=text,
        ids=f"{prefix}_token_ids",
        settings={"temperature": 0.6, "max_new_tokens": 512} if role == DRAFT else {},
        wanted=(*covers, f"{prefix}_token_ids", prefix),
        refine=_with_paths,
    )


def _with_paths(row: LegacyRow, check: RowCheck, raw: Table) -> LegacyRow:
    weights, inference = (mib_bytes(finite(raw.get(f"{row.side}_memory_{part}_mb"))) for part in ("model", "inference"))
    names = (raw.get(key) for key in ("event_data", "id"))
    return replace(
        row,
        sample=next((name for name in names if isinstance(name, str) and name), f"row {row.row}"),
        models={row.role: replace(row.models[row.role], weight_bytes=weights)},
        events_path=check.text("event_data"),
        video_path=check.text("video_data"),
        figures=row.figures | ({"inference_memory_bytes": float(inference)} if inference else {}),
    )


def _is_prefill_rows(table: Table, preview: Preview) -> bool:
    """By the keys of its rows: nested, flat with EventGPT's vision apart, or flat; or by errors without a row."""
    first = preview.first_row(_RESULTS)
    if "part" in table["answers"][0]:
        return any("prefill_time" in mapping(first.get(side)) for side in _NESTED)
    if "marks" in table:
        return _has_marks(table, preview)
    has_errors = any({"error", "egpt_error", "vl_error"} & entry.keys() for entry in preview.objects(ERRORS))
    is_empty = not preview.counts.get(_RESULTS) and has_errors
    return is_empty or bool(first.keys() & {"egpt_prefill_time", "vl_prefill_time"})


def _prefilled(row: LegacyRow, check: RowCheck, raw: Table, preview: Preview, table: Table) -> LegacyRow:
    row = replace(row, prompt=preview.prompt, settings=row.settings if row.error is None else {})
    return _pooled(row) if row.role == DRAFT else row


# Two models' answers side by side


def _matched_answers(preview: Preview, answers: list[Answer]) -> list[Answer]:
    keys = set().union(*preview.objects(answers[0].place)) - {""}
    return [answer for answer in answers if {answer.text, answer.ids, answer.count} & keys]


def _matched(row: LegacyRow, check: RowCheck, raw: Table, preview: Preview, table: Table) -> LegacyRow:
    figures = dict(row.figures)
    if not row.intervals:
        figures |= check.figures({f"{row.side}_time": "published_time_ms"}, MS_PER_S)
    if row.role == TARGET:
        equal, compared = (check.count(key) for key in table.get("counts", ("", "")))
        if equal is not None and compared is not None:
            figures |= {"published_equal_tokens": float(equal), "published_compared_tokens": float(compared)}
    is_empty = not row.text and not any(row.token_ids) and (bool(row.token_ids) or not row.output_tokens)
    if row.error is None and is_empty:
        check.tell("the answer is empty")
        row = replace(row, error="the answer is empty", token_ids=(), output_tokens=None)
    return replace(row, figures=figures)


def _speculative(row: LegacyRow, intervals: list[Interval], figures: dict[str, float]) -> LegacyRow:
    draft = model_facts("eventgpt", quantization="4bit")
    return replace(
        row,
        mode="speculative",
        models={DRAFT: draft, **row.models},
        intervals=tuple(intervals),
        figures=figures,
        error=None if any(entry.role == TARGET for entry in intervals) else NO_TIME,
    )


def _counts(check: RowCheck, drafted: int | None, accepted: int | None) -> dict[str, float]:
    """Drafted and accepted tokens; {} if they contradict each other."""
    if drafted is None or accepted is None:
        return {}
    if accepted > drafted:
        check.tell("more tokens were accepted than drafted")
        return {}
    return {"drafted_tokens": float(drafted), "accepted_tokens": float(accepted)}


def _is_end_to_end(table: Table, preview: Preview) -> bool:
    return any(place[:1] in (("baseline_per_sample",), ("sd_per_sample",)) for place in preview.counts)


def _end_to_end_answers(preview: Preview, answers: list[Answer]) -> list[Answer]:
    """The target alone, and an answer for each adapter. One measurement of prefill serves all adapters."""
    plain, drafted = answers
    places = [place for place in preview.counts if place[:1] == drafted.place and len(place) == 2]
    named = [(shortened(place[1], 60), place) for place in places]
    return [
        replace(plain, refine=None),
        *(replace(drafted, side=name, cell=drafted.cell + name, place=place) for name, place in named),
    ]


def _end_to_end(row: LegacyRow, check: RowCheck, raw: Table, preview: Preview, table: Table) -> LegacyRow:
    section, overlap = check.duration_ms("parallel_prefill_ms"), check.number("overlap_ms") or 0.0
    intervals: list[Interval] = []
    end_ms = 0.0
    for key, role, stages in (
        ("egpt_prefill_ms", DRAFT, ("vision", "prefill")),
        ("vl_prefill_ms", TARGET, ("vision", "prefill")),
        ("egpt_decode_ms", DRAFT, ("decode",)),
        ("sd_decode_ms", TARGET, ("decode",)),
    ):
        if stages == ("decode",) and section is not None and section > end_ms:
            if len(intervals) == 2 and intervals[1].role == TARGET:
                # The section ends with the last prefill. What both took from each other lies between them.
                intervals[1] = replace(intervals[1], start_ms=section - intervals[1].duration_ms)
            end_ms = section
        if (duration := check.duration_ms(key)) is not None:
            begin = max(0.0, end_ms - overlap) if key == "vl_prefill_ms" and intervals else end_ms
            intervals.append(Interval(key, stages, duration, role, begin))
            end_ms = max(end_ms, begin + duration)
    figures = _counts(check, check.count("drafted"), check.count("accepted"))
    names = {"sd_total_ms": "published_total_ms", "parallel_prefill_ms": "prefill_section_ms"}
    figures |= check.figures(names | {"speedup": "published_speedup"})
    per_round, tokens = check.number("tokens_per_iter", is_expected=False), check.count("n_tokens")
    if per_round and tokens:
        figures["rounds"] = round(tokens / per_round)
    return _speculative(row, intervals, figures)


def _verified(row: LegacyRow, check: RowCheck, raw: Table, preview: Preview, table: Table) -> LegacyRow:
    if row.side.endswith("alone"):
        return row
    intervals = []
    for role in (DRAFT, TARGET):
        for key, stages in table["covers"][role].items():
            duration = sum(check.duration_ms(part) or 0.0 for part in key.split(" + ")) if key != "vl_time_ms" else 0.0
            intervals += [Interval(key, tuple(stages.split("+")), duration, role)] if duration else []
    check.adds_up("sd_time_ms", ("vl_prefill_ms", "vl_verify_ms", "vl_decode_ms"))
    if raw.get("output_matches") is False:
        check.problems.of_row("the answer with a draft differs from the target's own: not lossless", check.row)
    figures = _counts(check, len(check.ids("adapted_draft_tokens")) or None, check.count("accepted_tokens"))
    figures |= check.figures({"sd_time_ms": "published_total_ms", "speedup": "published_speedup"})
    return _speculative(row, intervals, figures)


_RECOGNIZED: Mapping[str, Callable[[Table, Preview], bool]] = {
    "one-vs-eight": _is_one_versus_eight,
    "end to end": _is_end_to_end,
    "five stages": _is_five_stages,
    "four stages": _is_four_stages,
    "prefill rows": _is_prefill_rows,
    "per-sample rows": lambda table, preview: bool(_prefixes(preview)),
}
"""Families that are not recognized by the `marks` of their first row."""

_CHANGED: Mapping[str, Callable[[Preview, list[Answer]], list[Answer]]] = {
    "end to end": _end_to_end_answers,
    "five stages": _five_answers,
    "prefill rows": _timed,
    "matched answers": _matched_answers,
    "per-sample rows": _sample_answers,
}
_REFINED: Mapping[str, Callable[..., LegacyRow]] = {
    "one-vs-eight": _of_frames,
    "end to end": _end_to_end,
    "five stages": _five,
    "four stages": _after_prompt,
    "prefill rows": _prefilled,
    "matched answers": _matched,
    "verified drafts": _verified,
}
