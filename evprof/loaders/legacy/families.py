"""The result files of earlier scripts: how each family is recognized, and what its rows contain.

Each function returns the `Shape` of a file, or None for a file of another family. The scripts that wrote the files
define what each time covers. The video model's vision runs inside its forward pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from evprof.core.records import DRAFT, STAGES, TARGET
from evprof.core.run_info import ModelFacts
from evprof.loaders.legacy.json_rows import ERRORS, Place, Preview
from evprof.loaders.legacy.reading import Answer, Covers, Shape
from evprof.loaders.legacy.rows import (
    EVENTGPT_PATCHES,
    LLAVA,
    LLAVA_PATCHES,
    MS_PER_S,
    NO_TIME,
    SHORTEST_MS,
    SIDES,
    VIDEO_LLAVA,
    Interval,
    LegacyRow,
    RowCheck,
    eventgpt_model,
    finite,
    llava_model,
    mapping,
    mib_bytes,
    prompt_lengths,
    shortened,
    video_llava_model,
)

_RESULTS: Place = ("results",)
_STAGES = tuple(f"stage{place}_time" for place in range(1, 6))
_VISION_PREFILL, _DECODE, _WHOLE = ("vision", "prefill"), ("decode",), ("vision", "prefill", "decode")

_POOLED = EVENTGPT_PATCHES + 1
"""Visual positions of one pooled event frame: its mean and the spatial means."""

_SAMPLING = {"temperature": 0.6, "max_new_tokens": 512}
"""Settings of the scripts that are not in their files."""


def _model(role: str, quantization: str | None = None, weight_bytes: int | None = None) -> ModelFacts:
    return (eventgpt_model if role == DRAFT else video_llava_model)(quantization, weight_bytes)


def _named(role: str, quantization: str | None) -> str:
    name = "EventGPT" if role == DRAFT else "Video-LLaVA"
    return f"{name} {quantization}" if quantization else name


def _pooled(row: LegacyRow) -> LegacyRow:
    """EventGPT's row with the lengths of its prompt of one pooled frame."""
    length = int(row.figures.get("published_prefill_length", 0))
    return replace(row, lengths=prompt_lengths(length, _POOLED, [EVENTGPT_PATCHES]))


# One event frame against eight video frames


_PRINTED = ["s3_time", "s4_time", "s5_time"]


def one_versus_eight(preview: Preview) -> Shape | None:
    """A list of samples for each model. `stage12_time` starts after the files are read."""
    places = {place[0]: place for place in preview.counts if place[1:] == ("samples",) and place[0] in SIDES}
    rows = [preview.first_row(place) for place in places.values()]
    if not any("s4_time" in row for row in rows) and not (places and "eventgpt_frames" in preview.config):
        return None
    has_preprocessing = any("stage12_time" in row for row in rows)
    answers = []
    for side, place in places.items():
        is_draft = SIDES[side] == DRAFT
        frames = finite(preview.config.get("eventgpt_frames" if is_draft else "videollava_frames"))
        default = int(frames) if frames is not None and 0 < frames < 10_000 else None
        covers = {
            "stage12_time": ("preprocess",),
            "s3_time": ("vision",),
            "s4_time": ("prefill",) if is_draft else _VISION_PREFILL,
            "s5_time": _DECODE,
        }
        answers.append(
            Answer(
                SIDES[side],
                side,
                "EventGPT" if is_draft else "LLaVA-1.5",
                eventgpt_model() if is_draft else llava_model(),
                covers,
                place,
                optional=frozenset() if has_preprocessing else frozenset({"stage12_time"}),
                total="total_time",
                length="prefill_len",
                refine=partial(_of_frames, frames=default, steps=_decode_steps(preview.head, side)),
            )
        )
    names = ("Load and preprocess", "Vision encoding", "Prefill", "Decode")
    return Shape(
        answers,
        dict(zip(("stage12_time", *_PRINTED), names, strict=True)),
        [
            "Loading was not measured: stage12_time starts when PNG and MP4 are read already and is preprocessing "
            "only; the printed totals leave it out",
            "The video model's s3_time is a vision pass whose output is thrown away; its s4_time is vision once more, "
            "projector and prefill, with logits for all positions",
            f"What the file calls videollava is {LLAVA}, shown its frames as so many images; EventGPT saw one event "
            "frame without pooling",
        ],
        ("sample",),
        is_paired=len(answers) > 1,
        totals={answer.role: _PRINTED for answer in answers},
    )


def _of_frames(
    row: LegacyRow, check: RowCheck, raw: dict[str, Any], *, frames: int | None, steps: int | None
) -> LegacyRow:
    is_draft = row.role == DRAFT
    frames = check.count("n_frames") or frames
    length, kv_bytes = check.count("prefill_len"), mib_bytes(check.number("kv_cache_mb"))
    kind = "event frame" if is_draft else "video frame"
    lengths, settings = None, dict[str, object]()
    if frames is None:
        counted = f"{kind}s unknown"
    else:
        counted = f"{frames} {kind}{'' if frames == 1 else 's'}"
        settings["event_frames" if is_draft else "frames"] = frames
        if not is_draft:
            lengths = prompt_lengths(length, LLAVA_PATCHES * frames, [LLAVA_PATCHES] * frames)
        elif frames == 1:
            lengths = prompt_lengths(length, EVENTGPT_PATCHES, [EVENTGPT_PATCHES])
            settings["input"] = {"pooling": "none"}
    return replace(
        row,
        cell=f"{row.cell}, {counted}",
        decode_steps=steps,
        lengths=lengths,
        figures=row.figures | ({"kv_cache_bytes": float(kv_bytes)} if kv_bytes else {}),
        settings=settings,
        error=None,  # Rows with lengths and caches and without times are valid.
    )


def _decode_steps(head: Mapping[str, Any], side: str) -> int | None:
    """Passes of s5_time: their rate times their mean time, if that is a whole number."""
    stats = mapping(mapping(head.get(side)).get("stats"))
    steps = (finite(stats.get("decode_throughput")) or 0.0) * (finite(stats.get("s5_time_avg")) or 0.0)
    return round(steps) if 0.5 < steps < 100_000 and abs(steps - round(steps)) < 0.02 else None


# Five stages


_FRAME_PATCHES = 256
"""The script adds this for each video frame to a length that contains the frames already."""


def five_stages(preview: Preview) -> Shape | None:
    """If the video model's stage 3 takes no time, its stage 4 is vision and prefill."""
    rows = preview.objects(_RESULTS)
    if not any("stage4_time" in mapping(row.get(side)) for row in rows for side in SIDES):
        return None
    memory, quantization = mapping(preview.head.get("gpu_memory")), preview.quantization
    settings = {
        name: value for name, value in preview.count_setting("max_new_tokens", "max_new_tokens").items() if value
    }
    answers, has_empty_stage = [], False
    for side, role in SIDES.items():
        parts = [part for row in rows if isinstance(part := row.get(side), dict)]
        if not parts:
            continue
        covers: dict[str, tuple[str, ...]] = {key: (stage,) for key, stage in zip(_STAGES, STAGES, strict=True)}
        cell = f"{_named(role, quantization)}, 1 event frame"
        own: dict[str, object] = {"event_frames": 1}
        if role == TARGET:
            vision = [seconds for part in parts if (seconds := finite(part.get(_STAGES[2]))) is not None]
            has_empty_stage = bool(vision) and max(vision) * MS_PER_S < SHORTEST_MS
            covers |= {_STAGES[2]: () if has_empty_stage else ("vision",), _STAGES[3]: _VISION_PREFILL}
            if not any("tokens_per_sec" in part for part in parts):
                covers[_STAGES[4]] = _WHOLE
            counts = (finite(part.get("num_frames")) for part in parts)
            frames = next((int(count) for count in counts if count), 8)
            cell, own = f"{_named(role, quantization)}, {frames} video frames", {"frames": frames}
        answers.append(
            Answer(
                role,
                side,
                cell,
                _model(role, quantization, mib_bytes(finite(memory.get(f"{side}_model_mb")))),
                covers,
                part=side,
                total="total_time",
                error="error",
                text="output_text",
                ids="output_tokens",
                count="num_output_tokens",
                length="prefill_length",
                settings=settings | own,
                refine=_five,
            )
        )
    third = "brackets nothing" if has_empty_stage else "is a vision pass thrown away"
    sentences = [
        f"The video model's stage 3 {third}: its vision runs inside stage 4, which covers vision and prefill",
        "tokens_per_sec divides all tokens by a stage without the first one's pass; ours counts the passes, n - 1",
        "The file's overlap window begins at the video model's load, not at its prefill; both are kept as figures of "
        "its runs; wall_clock_total is computed from separate runs",
        "EventGPT saw the first of its event frames only; the memory peak of each model holds the weights of both",
        "acceptance_rate is 0.5 · word overlap + 0.3 · character similarity + 0.2 · length similarity, no share of "
        "accepted tokens",
    ]
    names = ("Load", "Preprocess", "Vision encoding", "Prefill", "Decode")
    return Shape(answers, dict(zip(_STAGES, names, strict=True)), sentences, has_errors=True)


def _five(row: LegacyRow, check: RowCheck, raw: dict[str, Any]) -> LegacyRow:
    figures = dict(row.figures)
    if row.error is None:
        figures |= check.figures({"tokens_per_sec": "published_decode_tok_s"})
    row = replace(row, peak_bytes=mib_bytes(finite(mapping(check.raw.get("gpu_memory_mb")).get("peak"))))
    if row.role == DRAFT:
        return replace(_pooled(row), figures=figures)
    frames = check.count("num_frames", most=10_000)
    added, length = _FRAME_PATCHES * (frames or 0), figures.get("published_prefill_length", 0.0)
    if added and length > 2 * added:
        check.tell(
            f"prefill_length {length:.0f} counts the visual tokens twice (the script adds {frames} times "
            f"{_FRAME_PATCHES} to a prompt that holds them already; {length - added:.0f} were processed), so the run "
            "has no prompt length"
        )
    cell = row.cell if frames is None else f"{row.cell.split(', ')[0]}, {frames} video frames"
    settings = row.settings if frames is None else row.settings | {"frames": frames}
    return replace(row, cell=cell, settings=settings, figures=figures | _pair_figures(check, raw))


def _pair_figures(check: RowCheck, raw: dict[str, Any]) -> dict[str, float]:
    """The file's figures of both models, and its overlap window from prefill instead of load."""
    pair = replace(check, raw=mapping(raw.get("parallel")), name="parallel")
    times = {"overlap_window": "overlap_window_from_load_ms", "wall_clock_total": "modelled_wall_ms"}
    figures = pair.figures(times, MS_PER_S) | pair.figures({"hidden_tokens": "published_hidden_tokens"})
    parts: dict[str, float] = {}
    for side, role in SIDES.items():
        own = mapping(raw.get(side))
        if (prefill := finite(own.get(_STAGES[3]))) is not None:
            parts[role] = prefill + ((finite(own.get(_STAGES[2])) or 0.0) if role == DRAFT else 0.0)
    if len(parts) == 2:
        figures["overlap_window_from_vision_ms"] = (parts[TARGET] - parts[DRAFT]) * MS_PER_S
    match = replace(check, raw=mapping(raw.get("acceptance")), name="acceptance")
    keys = ("acceptance_rate", "word_overlap", "char_similarity", "length_similarity")
    return figures | match.figures({key: f"published_{key}" for key in keys})


# Four stages


_LISTS = {"eventgpt_results": DRAFT, "videollava_results": TARGET}

_IMAGE_ID, _ASSISTANT = 32000, (9047, 13566, 29901)
"""The id of a picture's position in LLaVA's prompts, and the end of “ASSISTANT:”, with which they end."""


def four_stages(preview: Preview) -> Shape | None:
    """A list of rows for each model. EventGPT's stage 3 encodes the first of its five pictures. Hooks in generate()
    time the target, which is LLaVA-1.5 with one picture of events."""
    if not any("stage4_time" in preview.first_row((name,)) for name in _LISTS):
        return None
    covers = dict(zip(_STAGES, (("load",), ("preprocess",), ("vision",), ("prefill", "decode")), strict=False))
    answers = [
        Answer(
            role,
            name.removesuffix("_results"),
            "EventGPT, 1 event frame" if role == DRAFT else "LLaVA-1.5, 1 picture of events",
            eventgpt_model() if role == DRAFT else llava_model(),
            covers,
            (name,),
            total="total_time",
            text="output",
            ids="token_ids",
            count="tokens",
            settings={"event_frames" if role == DRAFT else "frames": 1, **_SAMPLING},
            refine=_after_prompt,
        )
        for name, role in _LISTS.items()
        if (name,) in preview.counts
    ]
    sentences = [
        "Stage 4 is prefill and decode in one piece; their shares are not known",
        "EventGPT's stage 3 encodes the first of its pictures, without the adaptor and without pooling",
        f"What the file calls videollava is {LLAVA}, shown one picture of events and no video",
        f"The script samples both models at temperature {_SAMPLING['temperature']} with up to "
        f"{_SAMPLING['max_new_tokens']} tokens, whatever its settings say",
    ]
    names = dict(zip(covers, ("Load", "Preprocess", "Vision encoding", "LLM decoding"), strict=True))
    return Shape(answers, names, sentences, ("sample",), is_paired=len(answers) > 1)


def _after_prompt(row: LegacyRow, check: RowCheck, raw: dict[str, Any]) -> LegacyRow:
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
        lengths=prompt_lengths(prompt, LLAVA_PATCHES, [LLAVA_PATCHES]),
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


def sample_rows(preview: Preview) -> Shape | None:
    """One list of rows with the texts, token ids and stage times of both models."""
    rows = preview.objects(())
    matches = (_STAGE_KEY.match(key) for row in rows for key in row)
    prefixes = dict.fromkeys(match[1] for match in matches if match and match[1] in SIDES)
    if not prefixes:
        return None
    answers = [_prefixed(prefix, rows) for prefix in sorted(prefixes, key=lambda prefix: SIDES[prefix] != DRAFT)]
    sentences = [
        "Where the last stage holds prefill and decode, and maybe vision, in one piece, their shares are not known",
        f"The script sampled EventGPT at a temperature of {_SAMPLING['temperature']} with up to "
        f"{_SAMPLING['max_new_tokens']} tokens, so lengths vary by chance",
    ]
    names = {key: f"Stage {place}" for answer in answers for place, key in enumerate(answer.covers, start=1)}
    return Shape(answers, names, sentences, ("event_data", "id"), is_paired=len(answers) > 1)


def _prefixed(prefix: str, rows: list[dict[str, Any]]) -> Answer:
    """The answer of the model whose keys begin with `prefix`. The key of its text is that, or the model's name."""
    role = SIDES[prefix]
    listed = [f"{prefix}_{key}" for key in _STAGES]
    count = max((place for place, key in enumerate(listed, start=1) for row in rows if key in row), default=3)
    again = ("vision",) if role == TARGET else ()
    last: tuple[tuple[str, ...], ...] = {
        3: (_WHOLE,),
        4: (("vision",), (*again, "prefill", "decode")),
        5: (("vision",), (*again, "prefill"), _DECODE),
    }[max(3, count)]
    texts = (
        key
        for row in rows
        for key, value in row.items()
        if isinstance(value, str) and (key == prefix or (key.startswith(f"{prefix}-") and "_" not in key))
    )
    text = next(texts, prefix)
    cell, model = _named(role, None), _model(role)
    if prefix == "llava" or text.startswith("llava-"):
        cell, model = "LLaVA-1.5", llava_model()
    covers = dict(zip(listed, (("load",), ("preprocess",), *last), strict=False))
    return Answer(
        role,
        prefix,
        cell,
        model,
        covers,
        (),
        total=f"{prefix}_time",
        error=f"{prefix}_error",
        text=text,
        ids=f"{prefix}_token_ids",
        settings=_SAMPLING if role == DRAFT else {},
        wanted=(*covers, f"{prefix}_token_ids", prefix),
        refine=_with_paths,
    )


def _with_paths(row: LegacyRow, check: RowCheck, raw: dict[str, Any]) -> LegacyRow:
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


# Parallel prefill


_NESTED = {DRAFT: "eventgpt", TARGET: "videollava"}


def prefill_rows(preview: Preview) -> Shape | None:
    """Prefill and drafting times of both models on one card, and many errors. Rows are flat, flat with EventGPT's
    vision apart, or have an object for each model. `generation_time` is a new generate() with the pixels again.
    A file without a row is recognized by its errors."""
    first = preview.first_row(_RESULTS)
    is_nested = any("prefill_time" in mapping(first.get(side)) for side in _NESTED.values())
    if not (is_nested or first.keys() & {"egpt_prefill_time", "vl_prefill_time"}):
        has_errors = any({"error", "egpt_error", "vl_error"} & entry.keys() for entry in preview.objects(ERRORS))
        if preview.counts.get(_RESULTS) or not has_errors:
            return None
    answers = [_prefilled(role, preview, first, is_nested=is_nested) for role in (DRAFT, TARGET)]
    sentences = [
        "Loading and preprocessing were not measured; the video model's vision is inside its prefill",
        "generation_time is a new generate() after the prefill was timed: vision and prefill once more, so that its "
        "total holds them twice",
    ]
    words = {"draft": "Drafting", "vision": "Vision encoding"}
    keys = [key for answer in answers for key in answer.covers]
    short = {key: re.sub("^(egpt|vl)_", "", key).removesuffix("_time") for key in keys}
    names = {key: words.get(word, word.capitalize()) for key, word in short.items()}
    return Shape(answers, names, sentences, has_errors=True)


def _prefilled(role: str, preview: Preview, first: dict[str, Any], *, is_nested: bool) -> Answer:
    is_draft, prefix = role == DRAFT, "" if is_nested else "vl_"
    is_apart = is_nested or "prefill_time" in first
    covers: dict[str, tuple[str, ...]] = {f"{prefix}prefill_time": _VISION_PREFILL}
    length = f"{prefix}prefill_length"
    if is_draft and is_apart:
        covers = {"vision_time": ("vision",), "prefill_time": ("prefill",), "draft_time": _DECODE}
        length = "prefill_length"
    elif is_draft:
        covers = {"egpt_prefill_time": _VISION_PREFILL, "draft_time": _DECODE}
        length = "egpt_prefill_length"
    elif is_apart:
        covers[f"{prefix}generation_time"] = _WHOLE
    own = mapping(first.get(_NESTED[role])) if is_nested else first
    has_text = is_nested or not is_draft
    return Answer(
        role,
        _NESTED[role] if is_nested else "EventGPT" if is_draft else "video model",
        _named(role, preview.quantization),
        _model(role, preview.quantization),
        {key: stages for key, stages in covers.items() if key in own},
        part=_NESTED[role] if is_nested else "",
        total="total_time" if is_draft else "",
        error="error" if is_nested else "egpt_error" if is_draft else "vl_error",
        text="output_text" if has_text else "",
        ids="output_tokens" if has_text else "",
        count="draft_tokens" if is_draft else "",
        length=length,
        settings=preview.count_setting("max_new_tokens", "max_new_tokens", "max_draft_tokens"),
        refine=partial(_with_prompt, prompt=preview.prompt),
    )


def _with_prompt(row: LegacyRow, check: RowCheck, raw: dict[str, Any], *, prompt: str) -> LegacyRow:
    row = replace(row, prompt=prompt, settings=row.settings if row.error is None else {})
    return _pooled(row) if row.role == DRAFT else row


# Two models' answers side by side


class _Match(NamedTuple):
    """One kind of row: its list, the keys that identify it, its answers (the target's last), the keys of its equal and
    compared tokens, and a sentence."""

    place: Place
    marks: set[str]
    answers: tuple[Answer, ...]
    sentence: str
    counts: tuple[str, str] = ("", "")


def _side(role: str, side: str, cell: str, ids: str = "", count: str = "") -> Answer:
    """An answer of the 4-bit scripts without a time."""
    return Answer(role, side, cell, _model(role, "4bit"), text=f"{side}_text", ids=ids, count=count)


def _timed(role: str, side: str, cell: str, model: ModelFacts, stages: tuple[str, ...]) -> Answer:
    covers = {f"{side}_time": stages}
    return Answer(role, side, cell, model, covers, ("samples",), text=f"{side}_output", ids=f"{side}_tokens")


_PREFILL_DECODE = ("prefill", "decode")
_MATCHES = (
    _Match(
        ("samples",),
        {"eventgpt_tokens", "videollava_tokens"},
        (
            _timed(DRAFT, "eventgpt", "EventGPT", eventgpt_model(), _WHOLE),
            _timed(TARGET, "videollava", "Video-LLaVA, 8 video frames", video_llava_model(), _WHOLE),
        ),
        "Both times are generate() as a whole; pictures were loaded and preprocessed before the clock starts",
        ("accepted_tokens", "total_compared"),
    ),
    _Match(
        ("samples",),
        {"draft_tokens", "target_tokens"},
        (
            _timed(
                DRAFT, "draft", "Video-LLaVA's decoder on EventGPT's features", video_llava_model(), _PREFILL_DECODE
            ),
            _timed(TARGET, "target", "Video-LLaVA's decoder on its own features", video_llava_model(), _PREFILL_DECODE),
        ),
        "Both answers come from one decoder; features and the adapter were worked out before the clock starts",
        ("matched_tokens", "total_tokens"),
    ),
    _Match(
        _RESULTS,
        {"acceptance_estimate", "egpt_text"},
        (
            _side(DRAFT, "egpt", "EventGPT 4bit", count="egpt_tokens"),
            _side(TARGET, "vl", "Video-LLaVA 4bit", count="vl_tokens"),
        ),
        "Its script is not public, so what egpt_time and vl_time cover is not known; they are figures, no stages",
    ),
    _Match(
        _RESULTS,
        {"egpt_tokens", "vl_tokens", "egpt_text"},
        (
            _side(DRAFT, "egpt", "EventGPT 4bit", "egpt_tokens"),
            _side(DRAFT, "adapter", "EventGPT 4bit, through a token adapter", "adapter_tokens"),
            _side(TARGET, "vl", "Video-LLaVA 4bit", "vl_tokens"),
        ),
        "No time is in the file; its runs hold texts and tokens",
        ("total_matches", "total_tokens"),
    ),
)
"""In order of precedence."""

_ESTIMATE = "acceptance_estimate is the mean of word overlap and character similarity, no share of accepted tokens"
_SHARE = "acceptance_rate is the share of ids equal at their places in two answers; no draft was verified"


def matched_answers(preview: Preview) -> Shape | None:
    """Two models' answers and the number of their equal tokens. The scripts verified no draft."""
    match = next((match for match in _MATCHES if match.marks <= preview.first_row(match.place).keys()), None)
    if match is None:
        return None
    keys = set().union(*preview.objects(match.place))
    answers = [
        replace(
            answer,
            settings=preview.count_setting("max_new_tokens", "max_new_tokens", "max_tokens"),
            refine=partial(_matched, counts=match.counts),
        )
        for answer in match.answers
        if {answer.text, answer.ids, answer.count} & (keys - {""})
    ]
    return Shape(
        answers,
        {key: "Answer" for answer in answers for key in answer.covers},
        [match.sentence, _SHARE if match.counts[0] else _ESTIMATE],
        ("id",) if match.place == ("samples",) else ("sample_idx",),
        has_errors=True,
        covers={answer.role: answer.times() for answer in answers if answer.covers} or None,
    )


def _matched(row: LegacyRow, check: RowCheck, raw: dict[str, Any], *, counts: tuple[str, str]) -> LegacyRow:
    figures = dict(row.figures)
    if not row.intervals:
        figures |= check.figures({f"{row.side}_time": "published_time_ms"}, MS_PER_S)
    if row.role == TARGET:
        equal, compared = (check.count(key) for key in counts)
        if equal is not None and compared is not None:
            figures |= {"published_equal_tokens": float(equal), "published_compared_tokens": float(compared)}
    is_empty = not row.text and not any(row.token_ids) and (bool(row.token_ids) or not row.output_tokens)
    if row.error is None and is_empty:
        check.tell("the answer is empty")
        row = replace(row, error="the answer is empty", token_ids=(), output_tokens=None)
    return replace(row, figures=figures)


# Speculative decoding


def _speculative(row: LegacyRow, intervals: tuple[Interval, ...], figures: dict[str, float]) -> LegacyRow:
    return replace(
        row,
        mode="speculative",
        models={DRAFT: eventgpt_model("4bit"), TARGET: video_llava_model("4bit")},
        intervals=intervals,
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


Times = Mapping[str, tuple[str, tuple[str, ...], str]]
"""Key -> role, stages, and name."""


def _covers(times: Times) -> Covers:
    return {
        side: {key: list(stages) for key, (role, stages, _) in times.items() if role == side}
        for side in (TARGET, DRAFT)
    }


_END_TO_END: Times = {
    "prefill_ms": (TARGET, _VISION_PREFILL, "Prefill"),
    "vl_prefill_ms": (TARGET, _VISION_PREFILL, "Prefill"),
    "decode_ms": (TARGET, _DECODE, "Decode"),
    "sd_decode_ms": (TARGET, _DECODE, "Decode"),
    "egpt_prefill_ms": (DRAFT, _VISION_PREFILL, "EventGPT's prefill"),
    "egpt_decode_ms": (DRAFT, _DECODE, "EventGPT's decode"),
}
_BASELINE, _SPECULATIVE = "baseline_per_sample", "sd_per_sample"


def end_to_end(preview: Preview) -> Shape | None:
    """The target alone for each question, and with EventGPT's drafts through adapters. EventGPT answers completely
    before the adapter drafts from its hidden states. One measurement of prefill serves all adapters."""
    if not any(place[:1] in ((_BASELINE,), (_SPECULATIVE,)) for place in preview.counts):
        return None
    settings = preview.count_setting("max_new_tokens", "max_new_tokens") | preview.count_setting("gamma", "gamma")
    model = video_llava_model("4bit")
    drafted = Answer(TARGET, "", "", model, text="text", count="n_tokens", settings=settings, refine=_drafted)
    adapters = [place for place in preview.counts if place[0:1] == (_SPECULATIVE,) and len(place) == 2]
    answers = [
        replace(
            drafted,
            side="VL baseline",
            cell="Video-LLaVA 4bit, alone",
            place=(_BASELINE,),
            covers={"prefill_ms": _VISION_PREFILL, "decode_ms": _DECODE},
            total="total_ms",
            refine=None,
        )
    ]
    for place in adapters:
        name = shortened(place[1], 60)
        answers.append(replace(drafted, side=name, cell=f"Video-LLaVA 4bit, {name}", place=place))
    return Shape(
        answers,
        {key: name for key, (_, _, name) in _END_TO_END.items()},
        [
            "Loading and preprocessing were not measured; every prefill_ms is vision and prefill in one piece",
            f"Models and weights are not in the file; its script loads EventGPT and {VIDEO_LLAVA}, both in 4bit",
            "All adapters share one measurement of both prefills per question, so their prefill times are not "
            "independent",
        ],
        ("sample",),
        is_paired=False,
        covers=_covers(_END_TO_END),
        totals={TARGET: ["prefill_ms", "decode_ms"]},
    )


def _drafted(row: LegacyRow, check: RowCheck, raw: dict[str, Any]) -> LegacyRow:
    section = check.duration_ms("parallel_prefill_ms")
    prefills = _laid_out(check, ("egpt_prefill_ms", "vl_prefill_ms"), check.number("overlap_ms") or 0.0)
    reach = max((_end_ms(entry) for entry in prefills), default=0.0)
    if section is not None and section > reach and len(prefills) == 2:
        # The section ends with the last prefill. What both took from each other lies between them.
        prefills = (prefills[0], replace(prefills[1], start_ms=section - prefills[1].duration_ms))
    decodes = _laid_out(check, ("egpt_decode_ms", "sd_decode_ms"), start_ms=max(reach, section or 0.0))
    figures = _counts(check, check.count("drafted"), check.count("accepted"))
    names = {"sd_total_ms": "published_total_ms", "parallel_prefill_ms": "prefill_section_ms"}
    figures |= check.figures(names | {"speedup": "published_speedup"})
    per_round, tokens = check.number("tokens_per_iter", is_expected=False), check.count("n_tokens")
    if per_round and tokens:
        figures["rounds"] = round(tokens / per_round)
    return _speculative(row, (*prefills, *decodes), figures)


def _end_ms(entry: Interval) -> float:
    return (entry.start_ms or 0.0) + entry.duration_ms


def _laid_out(
    check: RowCheck, keys: tuple[str, ...], overlap_ms: float = 0.0, start_ms: float = 0.0
) -> tuple[Interval, ...]:
    """Times one after the other; the second begins `overlap_ms` before the end of the first."""
    laid: list[Interval] = []
    for key in keys:
        if (duration := check.duration_ms(key)) is not None:
            role, stages, _ = _END_TO_END[key]
            begin = max(start_ms, _end_ms(laid[-1]) - overlap_ms) if laid else start_ms
            laid.append(Interval(key, stages, duration, role, begin))
    return tuple(laid)


_VERIFIED: Times = {
    "egpt_prefill_ms": (DRAFT, _VISION_PREFILL, "EventGPT's prefill"),
    "egpt_draft_ms": (DRAFT, _DECODE, "EventGPT's draft"),
    "vl_prefill_ms": (TARGET, _VISION_PREFILL, "Prefill"),
    "vl_verify_ms + vl_decode_ms": (TARGET, _DECODE, "Verification and decode"),
}
_ALONE: Times = {"vl_time_ms": (TARGET, ("preprocess", *_WHOLE), "Answer")}


def verified_drafts(preview: Preview) -> Shape | None:
    """Drafts of a fixed length through a token adapter, verified once, beside the target alone. The file's total leaves
    EventGPT's times out. The script drops the first token that the target decodes itself."""
    if "vl_verify_ms" not in preview.first_row(_RESULTS):
        return None
    settings = preview.count_setting("max_new_tokens", "max_tokens")
    answers = [
        Answer(
            TARGET,
            cell,
            cell,
            video_llava_model("4bit"),
            {key: stages for key, (_, stages, _) in times.items()},
            total=total,
            text=f"{key}_text",
            ids=f"{key}_tokens",
            settings=settings,
            refine=refine,
        )
        for cell, times, total, key, refine in (
            ("Video-LLaVA 4bit, alone", _ALONE, "", "vl_output", None),
            ("Video-LLaVA 4bit, EventGPT's draft through a token adapter", {}, "", "sd_output", _verified),
        )
    ]
    return Shape(
        answers,
        {key: name for key, (_, _, name) in {**_ALONE, **_VERIFIED}.items()},
        [
            "sd_time_ms and speedup leave out EventGPT's prefill and draft; our totals hold them",
            "vl_time_ms begins before preprocessing, the times with a draft after it",
            "The script drops the target's first own token, so its answers with a draft are not the target's",
        ],
        is_paired=False,
        covers=_covers({**_ALONE, **_VERIFIED}),
        totals={TARGET: list(_ALONE)},
    )


def _verified(row: LegacyRow, check: RowCheck, raw: dict[str, Any]) -> LegacyRow:
    intervals = []
    for key, (role, stages, _) in _VERIFIED.items():
        duration = sum(check.duration_ms(part) or 0.0 for part in key.split(" + "))
        intervals += [Interval(key, stages, duration, role)] if duration else []
    check.adds_up("sd_time_ms", ("vl_prefill_ms", "vl_verify_ms", "vl_decode_ms"))
    if raw.get("output_matches") is False:
        check.problems.of_row("the answer with a draft differs from the target's own: not lossless", check.row)
    figures = _counts(check, len(check.ids("adapted_draft_tokens")) or None, check.count("accepted_tokens"))
    figures |= check.figures({"sd_time_ms": "published_total_ms", "speedup": "published_speedup"})
    return _speculative(row, tuple(intervals), figures)
