"""Files with stage times of both models for each sample.

The scripts that wrote the files define what each time covers. The video model's vision runs inside its forward pass.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from evprof.core.records import DRAFT, STAGES, TARGET
from evprof.loaders.legacy.checks import (
    MS_PER_S,
    FileProblems,
    RowCheck,
    differs,
    error_kind,
    finite,
    mapping,
    mib_bytes,
)
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.reading import (
    NO_SAMPLE,
    AnswerField,
    AnswerReader,
    Preview,
    Statistic,
    averages,
    told_statistics,
)
from evprof.loaders.legacy.rows import (
    EVENTGPT_PATCHES,
    LLAVA_PATCHES,
    SIDES,
    LegacyRow,
    Lengths,
    eventgpt_lengths,
    eventgpt_model,
    llava_model,
    video_llava_model,
)

_STAGES = tuple(f"stage{place}_time" for place in range(1, 6))
_VISION_PREFILL, _WHOLE = ("vision", "prefill"), ("vision", "prefill", "decode")

_POOLED = EVENTGPT_PATCHES + 1
"""Visual positions of one pooled event frame: its mean beside the spatial means."""

_SAMPLING = {"temperature": 0.6, "max_new_tokens": 512}
"""The scripts' settings, which their files do not hold."""


# One event frame against eight video frames


_PRINTED = ("s3_time", "s4_time", "s5_time")
_PRINTED_TOTAL = " + ".join(_PRINTED)


class OneVersusEight(AnswerReader):
    """Two lists of samples. `stage12_time` starts when the files are loaded."""

    name = "one-vs-eight"
    looks_for = "config.eventgpt_frames with eventgpt.samples"
    left_out = NO_SAMPLE
    _index = "sample"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By the frames in the settings, or rows with `s4_time`."""
        places = [place for place in preview.counts if len(place) == 2 and place[1] == "samples" and place[0] in SIDES]
        has_times = any("s4_time" in preview.first_row(place) for place in places)
        return bool(places) and (has_times or "eventgpt_frames" in preview.config)

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        self._counts = {place[0]: count for place, count in preview.counts.items() if len(place) == 2}
        self._is_paired = len(self._counts) > 1
        self._has_preprocessing = any("stage12_time" in preview.first_row(place) for place in preview.counts)
        stats = {side: mapping(mapping(preview.head.get(side)).get("stats")) for side in SIDES if side in preview.head}
        self._steps = {side: _decode_steps(told) for side, told in stats.items()}
        self._sides = {side: self._answer(side) for side in SIDES}
        names = ("Load and preprocess", "Vision encoding", "Prefill", "Decode")
        statistics: dict[str, Statistic] = {}
        for side in stats:
            head = f"{side}.stats"
            statistics[f"{head}.n_samples"] = Statistic(side, "prefill_len", "count")
            statistics |= averages(head, side, (*_PRINTED, "prefill_len", "kv_cache_mb"), "avg", "std")
            statistics[f"{head}.total_time_avg"] = Statistic(side, _PRINTED_TOTAL, "avg")
            statistics[f"{head}.prefill_throughput"] = Statistic(side, "prefill_len", "rate", "s4_time")
        self._publish(
            self._sides.values(),
            dict(zip(("stage12_time", *_PRINTED), names, strict=True)),
            totals={DRAFT: list(_PRINTED), TARGET: list(_PRINTED)},
            statistics=statistics,
        )

    def _answer(self, side: str) -> AnswerField:
        role = SIDES[side]
        covers: dict[str, tuple[str, ...]] = {
            "stage12_time": ("preprocess",),
            "s3_time": ("vision",),
            "s4_time": ("prefill",) if role == DRAFT else _VISION_PREFILL,
            "s5_time": ("decode",),
        }
        return AnswerField(
            role,
            side,
            "EventGPT" if role == DRAFT else "LLaVA-1.5",
            eventgpt_model() if role == DRAFT else llava_model(),
            covers,
            frozenset() if self._has_preprocessing else frozenset({"stage12_time"}),
            total="total_time",
            length="prefill_len",
        )

    def _holds_answers(self, place: Place) -> bool:
        return len(place) == 2 and place[0] in SIDES and place[1] == "samples"

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        row, check = self._row(self._sides[place[0]], number, raw)
        is_draft = row.role == DRAFT
        told = finite(self._preview.config.get("eventgpt_frames" if is_draft else "videollava_frames"))
        frames = check.count("n_frames") or (int(told) if told is not None and 0 < told < 10_000 else None)
        length, kind = check.count("prefill_len"), "event frame" if is_draft else "video frame"
        counted = f"{kind}s unknown" if frames is None else f"{frames} {kind}{'' if frames == 1 else 's'}"
        lengths = _llava_lengths(length, frames) if length and frames else None
        settings: dict[str, object] = {} if frames is None else {"event_frames" if is_draft else "frames": frames}
        if is_draft and frames == 1:
            lengths = eventgpt_lengths(length, EVENTGPT_PATCHES)
            settings["input"] = {"pooling": "none"}
        elif is_draft:
            lengths = None
        kv_bytes = mib_bytes(check.number("kv_cache_mb"))
        times = [row.values[key] for key in _PRINTED if key in row.values]
        return [
            replace(
                row,
                cell=f"{row.cell}, {counted}",
                decode_steps=self._steps.get(place[0]),
                lengths=lengths,
                figures=({"kv_cache_bytes": float(kv_bytes)} if kv_bytes else {}) | row.figures,
                values=row.values | ({_PRINTED_TOTAL: sum(times)} if len(times) == len(_PRINTED) else {}),
                settings=settings,
                error=None,  # The file holds lengths and caches without times, too.
            )
        ]

    def finish(self) -> None:
        tell = self._problems.of_file
        if self._has_preprocessing:
            tell(
                "Loading was not measured: stage12_time starts when PNG and MP4 are read already and is preprocessing "
                "only"
            )
            tell("The printed totals leave stage12_time out; ours count all stages that were measured")
        else:
            tell("Neither loading nor preprocessing is in the file")
        if "videollava" in self._counts:
            tell(
                "The video model's s3_time is a vision pass whose output is thrown away; its s4_time is vision once "
                "more, projector and prefill, with logits for all positions"
            )
            tell(f"What the file calls videollava is {llava_model().name}, shown its frames as so many images")
        if "eventgpt" in self._counts:
            tell(
                "EventGPT saw one event frame without pooling, and its adaptor was applied twice; the released path "
                "shows it five, pooled"
            )
        if len(set(self._counts.values())) > 1:
            told = ", ".join(f"{count} of {side}" for side, count in self._counts.items())
            tell(f"The models have different numbers of samples: {told}")


def _llava_lengths(length: int, frames: int) -> Lengths | None:
    visual = LLAVA_PATCHES * frames
    return Lengths(length, length - visual, visual, (LLAVA_PATCHES,) * frames) if length >= visual else None


def _decode_steps(stats: dict[str, Any]) -> int | None:
    """Passes of s5_time: their rate times their mean time, when that is a whole number."""
    steps = (finite(stats.get("decode_throughput")) or 0.0) * (finite(stats.get("s5_time_avg")) or 0.0)
    return round(steps) if 0.5 < steps < 100_000 and abs(steps - round(steps)) < 0.02 else None


# Five stages


_FRAME_PATCHES = 256
"""The script adds this number for each video frame to a length that holds the frames already."""

_MIXED = {"word_overlap": 0.5, "char_similarity": 0.3, "length_similarity": 0.2}
"""The script's weights of an "acceptance rate"."""


class FiveStages(AnswerReader):
    """Where the video model's stage 3 takes no time, its stage 4 is vision and prefill; otherwise the script throws the
    result of stage 3 away."""

    name = "five stages"
    looks_for = "results[].eventgpt.stage1_time"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        return any("stage4_time" in mapping(row.get(side)) for row in preview.objects(("results",)) for side in SIDES)

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        rows = preview.objects(("results",))
        memory = mapping(preview.head.get("gpu_memory"))
        counts = (finite(mapping(row.get(side)).get("num_frames")) for row in rows for side in SIDES)
        frames = next((int(count) for count in counts if count is not None), None)
        settings = {
            name: value for name, value in preview.count_setting("max_new_tokens", "max_new_tokens").items() if value
        }
        self._sides: list[AnswerField] = []
        for side, role in SIDES.items():
            if not any(isinstance(row.get(side), dict) for row in rows):
                continue
            make = eventgpt_model if role == DRAFT else video_llava_model
            model = make(preview.quantization, mib_bytes(finite(memory.get(f"{side}_model_mb"))))
            kind = f" {model.quantization}" if model.quantization else ""
            self._sides.append(
                AnswerField(
                    role,
                    side,
                    f"EventGPT{kind}, 1 event frame" if role == DRAFT else f"Video-LLaVA{kind}",
                    model,
                    {key: (stage,) for key, stage in zip(_STAGES, STAGES, strict=True)}
                    | ({_STAGES[3]: _VISION_PREFILL} if role == TARGET else {}),
                    part=side,
                    total="total_time",
                    error="error",
                    text="output_text",
                    ids="output_tokens",
                    count="num_output_tokens",
                    length="prefill_length",
                    patches=_POOLED if role == DRAFT else 0,
                    settings=settings | ({"event_frames": 1} if role == DRAFT else {"frames": 8}),
                )
            )
        self._cells = {answer.role: (_framed(answer, frames), answer.model) for answer in self._sides}
        names = ("Load", "Preprocess", "Vision encoding", "Prefill", "Decode")
        statistics = _five_statistics([answer.side for answer in self._sides])
        self._publish(self._sides, dict(zip(_STAGES, names, strict=True)), statistics=statistics)
        told = [finite(mapping(row.get(answer.part)).get(_STAGES[2])) for answer in self._sides[1:] for row in rows]
        measured = [seconds for seconds in told if seconds is not None]
        if TARGET in self.covers and measured and all(seconds * MS_PER_S < 0.05 for seconds in measured):
            self.covers[TARGET][_STAGES[2]] = []

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        return [self._of_side(answer, number, raw) for answer in self._sides]

    def _of_side(self, answer: AnswerField, number: int, raw: dict[str, Any]) -> LegacyRow:
        own = mapping(raw.get(answer.part))
        if not own:
            raw = raw | {answer.part: {"error": "the file holds nothing of this model for this sample"}}
        is_target = answer.role == TARGET
        if is_target and "tokens_per_sec" not in own:
            answer = replace(answer, covers={**answer.covers, _STAGES[4]: _WHOLE})
        row, check = self._row(answer, number, raw)
        frames = check.count("num_frames", most=10_000)
        figures = dict(row.figures)
        if row.error is None:
            figures |= check.figures({"tokens_per_sec": "published_decode_tok_s"})
        added, length = _FRAME_PATCHES * (frames or 0), row.figures.get("published_prefill_length", 0.0)
        if is_target and added and length > 2 * added:
            self._problems.of_row(
                f"{check.name}: prefill_length {length:.0f} counts the visual tokens twice (the script adds {frames} "
                f"times {_FRAME_PATCHES} to a prompt that holds them already; {length - added:.0f} were processed), so "
                "the run has no prompt length",
                number,
            )
        if is_target:
            figures |= self._pair_figures(number, raw)
        pairs = ((part, mapping(raw.get(part))) for part in ("parallel", "acceptance"))
        nested = {f"{part}.{key}": value for part, told in pairs for key, value in told.items()}
        peak = finite(mapping(own.get("gpu_memory_mb")).get("peak"))
        nested["gpu_peak_memory"] = peak
        return replace(
            row,
            cell=_framed(answer, frames),
            peak_bytes=mib_bytes(peak),
            figures=figures,
            values=row.values | RowCheck(nested, number, self._problems, "").numbers(),
            settings=row.settings | ({"frames": frames or 8} if is_target else {}),
        )

    def _pair_figures(self, number: int, raw: dict[str, Any]) -> dict[str, float]:
        """The file's figures of both models, and the same window from prefill instead of load."""
        pair = RowCheck(mapping(raw.get("parallel")), number, self._problems, "parallel")
        times = {"overlap_window": "overlap_window_from_load_ms", "wall_clock_total": "modelled_wall_ms"}
        figures = pair.figures(times, MS_PER_S) | pair.figures({"hidden_tokens": "published_hidden_tokens"})
        parts: dict[str, float] = {}
        for side, role in SIDES.items():
            own = mapping(raw.get(side))
            if (prefill := finite(own.get(_STAGES[3]))) is not None:
                parts[role] = prefill + ((finite(own.get(_STAGES[2])) or 0.0) if role == DRAFT else 0.0)
        if len(parts) == 2:
            figures["overlap_window_from_vision_ms"] = (parts[TARGET] - parts[DRAFT]) * MS_PER_S
        match = RowCheck(mapping(raw.get("acceptance")), number, self._problems, "acceptance").numbers()
        figures |= {f"published_{key}": match[key] for key in ("acceptance_rate", *_MIXED) if key in match}
        if figures.get("overlap_window_from_load_ms", 0) < 0:
            self._problems.of_row("parallel: overlap_window is negative: there was nothing to hide in", number)
        if match.keys() >= {"acceptance_rate", *_MIXED} and not differs(
            match["acceptance_rate"], sum(match[key] * weight for key, weight in _MIXED.items())
        ):
            self._problems.of_row(
                "acceptance: acceptance_rate is 0.5 · word overlap + 0.3 · character similarity + 0.2 · length "
                "similarity, no share of accepted tokens",
                number,
            )
        return figures

    def finish(self) -> None:
        tell = self._problems.of_file
        if TARGET in self.covers and not self.covers[TARGET][_STAGES[2]]:
            tell(
                "The video model's stage 3 brackets nothing: its vision runs inside stage 4, which covers vision and "
                "prefill"
            )
        elif TARGET in self.covers:
            tell("The video model's stage 3 is a vision pass thrown away; its stage 4 holds vision once more")
        tell("tokens_per_sec divides all tokens by a stage without the first one's pass; ours counts the passes, n - 1")
        tell(
            "The file's overlap window begins at the video model's load, not at its prefill; both are kept as figures "
            "of its runs"
        )
        tell("wall_clock_total and parallel_speedup are computed from separate runs; nothing ran at the same time")
        tell("EventGPT saw the first of its event frames only")
        if all(answer.model.weight_bytes for answer in self._sides) and len(self._sides) > 1:
            tell("Both models were loaded together, so the memory peak of each holds the weights of both")


def _framed(answer: AnswerField, frames: int | None) -> str:
    return answer.cell if answer.role == DRAFT else f"{answer.cell}, {frames or 8} video frames"


def _five_statistics(sides: list[str]) -> dict[str, Statistic]:
    statistics: dict[str, Statistic] = {}
    means = ("prefill_length", "tokens_per_sec", "total_time", "prefill_complete_time")
    for side in sides:
        head = f"statistics.{side}"
        statistics |= averages(head, side, _STAGES, "avg", "std")
        statistics |= averages(head, side, (*means, "output_tokens", "gpu_peak_memory"))
    if sides:
        last = sides[-1]
        statistics["statistics.n_samples"] = Statistic(last, "total_time", "count")
        for key in ("overlap_window", "hidden_tokens", "wall_clock_total", "sequential_total", "parallel_speedup"):
            statistics[f"statistics.parallel.{key}_avg"] = Statistic(last, f"parallel.{key}", "avg")
        for key in ("acceptance_rate", "word_overlap", "char_similarity"):
            statistics[f"statistics.{key}_avg"] = Statistic(last, f"acceptance.{key}", "avg")
        statistics["statistics.matched_tokens_total"] = Statistic(last, "acceptance.matched_tokens", "sum")
        statistics["statistics.total_tokens_compared"] = Statistic(last, "acceptance.total_tokens", "sum")
        statistics["statistics.acceptance_rate_std"] = Statistic(last, "acceptance.acceptance_rate", "std")
    return statistics


# Four stages


_LISTS = {"eventgpt_results": DRAFT, "videollava_results": TARGET}

_IMAGE_ID, _ASSISTANT = 32000, (9047, 13566, 29901)
"""The id of a picture's position in LLaVA's prompts, and the end of “ASSISTANT:”, with which they end."""


class FourStages(AnswerReader):
    """A list of rows for each model. EventGPT's stage 3 encodes the first of its five pictures; hooks in generate()
    time the target's. The target is LLaVA-1.5 with one picture of events: the file holds no video."""

    name = "four stages"
    looks_for = "eventgpt_results[].stage4_time"
    left_out = NO_SAMPLE
    _index = "sample"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        return any("stage4_time" in preview.first_row((name,)) for name in _LISTS)

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        covers = dict(zip(_STAGES, (("load",), ("preprocess",), ("vision",), ("prefill", "decode")), strict=False))
        self._sides = {
            name: AnswerField(
                role,
                name.removesuffix("_results"),
                "EventGPT, 1 event frame" if role == DRAFT else "LLaVA-1.5, 1 picture of events",
                eventgpt_model() if role == DRAFT else llava_model(),
                covers,
                total="total_time",
                text="output",
                ids="token_ids",
                count="tokens",
                settings={"event_frames" if role == DRAFT else "frames": 1, **_SAMPLING},
            )
            for name, role in _LISTS.items()
            if (name,) in preview.counts
        }
        self._is_paired = len(self._sides) > 1
        statistics: dict[str, Statistic] = {}
        for side in (answer.side for answer in self._sides.values()):
            statistics[f"{side}_summary.samples"] = Statistic(side, "total_time", "count")
            for key in (*covers, "total_time", "tokens"):
                statistics[f"{side}_summary.{key.removesuffix('_time')}_avg"] = Statistic(side, key, "avg")
        self._publish(
            self._sides.values(),
            dict(zip(covers, ("Load", "Preprocess", "Vision encoding", "LLM decoding"), strict=True)),
            statistics=statistics,
            told=told_statistics(preview.head, ("eventgpt_summary", "videollava_summary", "speculative_decoding")),
        )
        self._rows_with_prompt = 0

    def _holds_answers(self, place: Place) -> bool:
        return len(place) == 1 and place[0] in self._sides

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        answer = self._sides[place[0]]
        prompt = _prompt_length(raw.get("token_ids"))
        if prompt:
            self._rows_with_prompt += 1
            self._problems.of_row(
                f"{answer.side}: token_ids begin with the {prompt} ids of the prompt, so tokens counts both; ours are "
                "those after it",
                number,
            )
        told = {"token_ids": raw["token_ids"][prompt:], "tokens": None} if prompt else {}
        row, check = self._row(answer, number, raw | told)
        sample, tokens = check.count("sample"), finite(raw.get("tokens"))
        return [
            replace(
                row,
                group=number if sample is None else sample,
                lengths=Lengths(prompt, prompt - LLAVA_PATCHES, LLAVA_PATCHES, (LLAVA_PATCHES,)) if prompt else None,
                figures={"published_output_tokens": tokens} if tokens and tokens != row.output_tokens else {},
                values=RowCheck(raw, number, self._problems, "").numbers(),
            )
        ]

    def finish(self) -> None:
        tell = self._problems.of_file
        tell("Stage 4 is prefill and decode in one piece; their shares are not known")
        if DRAFT in self.covers:
            tell("EventGPT's stage 3 encodes the first of its pictures, without the adaptor and without pooling")
        if TARGET in self.covers:
            tell(f"What the file calls videollava is {llava_model().name}, shown one picture of events and no video")
        told, most = finite(self._preview.config.get("max_new_tokens")), _SAMPLING["max_new_tokens"]
        tell(
            f"The script samples both models at temperature {_SAMPLING['temperature']} with up to {most} tokens"
            + (f", not {told:.0f} as its settings say" if told is not None and told != most else "")
        )
        if self._rows_with_prompt and "speculative_decoding" in self._preview.head:
            tell(
                "speculative_decoding holds EventGPT's answers against ids that begin with the target's prompt, so its "
                "acceptance is of no answer"
            )


def _prompt_length(ids: object) -> int:
    """Length of the prompt that the ids begin with; 0 where they hold the answer alone."""
    if not isinstance(ids, list) or ids.count(_IMAGE_ID) != LLAVA_PATCHES:
        return 0
    last = len(ids) - 1 - ids[::-1].index(_IMAGE_ID)
    ends = (place + 3 for place in range(last, len(ids) - 2) if tuple(ids[place : place + 3]) == _ASSISTANT)
    return next(ends, 0)


# One list of rows with three, four or five stages


_STAGE_KEY = re.compile(r"([a-z0-9_.-]{1,40})_stage1_time\Z")
_NAMES = {"eventgpt": "EventGPT", "llava": "LLaVA-1.5", "video_llava": "Video-LLaVA"}


class SampleRows(AnswerReader):
    """One list of rows with the texts, token ids and stage times of both models."""

    name = "per-sample rows"
    looks_for = "a list of rows with egpt_stage1_time or egpt_token_ids"
    _place = ()

    @staticmethod
    def recognises(preview: Preview) -> bool:
        return bool(_prefixes(preview))

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        rows = preview.objects(())
        self._sides = [_prefixed(prefix, rows) for prefix in _prefixes(preview)]
        self._is_paired = len(self._sides) > 1
        keys = (pair for answer in self._sides for pair in enumerate(answer.covers, start=1))
        self._publish(self._sides, {key: f"Stage {place}" for place, key in keys})

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        return [
            self._of_side(answer, number, raw)
            for answer in self._sides
            if any(raw.get(key) is not None for key in (*answer.covers, answer.ids, answer.side))
        ]

    def _sample(self, raw: Any, number: int) -> str:
        names = (raw.get(key) for key in ("event_data", "id"))
        return next((name for name in names if isinstance(name, str) and name), f"row {number}")

    def _of_side(self, answer: AnswerField, number: int, raw: dict[str, Any]) -> LegacyRow:
        row, check = self._row(answer, number, raw)
        weights, inference = (
            mib_bytes(finite(raw.get(f"{answer.side}_memory_{part}_mb"))) for part in ("model", "inference")
        )
        if weights is None or inference is None:
            self._problems.of_row(f"{answer.side}: the memory fields are null or not there", number)
        return replace(
            row,
            models={answer.role: replace(answer.model, weight_bytes=weights)},
            events_path=check.text("event_data"),
            video_path=check.text("video_data"),
            figures=row.figures | ({"inference_memory_bytes": float(inference)} if inference else {}),
        )

    def finish(self) -> None:
        tell = self._problems.of_file
        if any(len(answer.covers) == 3 for answer in self._sides):
            tell("Stage 3 is vision, prefill and decode in one piece; their shares are not known")
        if any(len(answer.covers) == 4 for answer in self._sides):
            tell("Stage 4 is prefill and decode in one piece, of the video model vision once more as well")
        if any(answer.role == DRAFT for answer in self._sides):
            tell(
                "The file does not say how texts were generated: its script sampled EventGPT at a temperature of "
                f"{_SAMPLING['temperature']} with up to {_SAMPLING['max_new_tokens']} tokens, so lengths vary by chance"
            )


def _prefixed(prefix: str, rows: list[dict[str, Any]]) -> AnswerField:
    """The answer of the model whose keys begin with `prefix`; its text has that key or the model's name."""
    role = SIDES[prefix]
    listed = [f"{prefix}_stage{place}_time" for place in range(1, 6)]
    count = max((place for place, key in enumerate(listed, start=1) for row in rows if key in row), default=3)
    again = ("vision",) if role == TARGET else ()
    last = {
        3: (_WHOLE,),
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
    model = eventgpt_model()
    if role == TARGET:
        model = llava_model() if prefix == "llava" or text.startswith("llava-") else video_llava_model()
    return AnswerField(
        role,
        prefix,
        _NAMES[model.family],
        model,
        dict(zip(listed, (("load",), ("preprocess",), *last), strict=False)),
        total=f"{prefix}_time",
        error=f"{prefix}_error",
        text=text,
        ids=f"{prefix}_token_ids",
        settings=_SAMPLING if role == DRAFT else {},
    )


def _prefixes(preview: Preview) -> list[str]:
    """The models' prefixes in the rows' keys, EventGPT first."""
    prefixes: dict[str, None] = {}
    for key in (key for row in preview.objects(()) for key in row):
        match = _STAGE_KEY.match(key)
        prefix = match[1] if match else key.removesuffix("_token_ids") if key.endswith("_token_ids") else ""
        if prefix in SIDES:
            prefixes[prefix] = None
    return sorted(prefixes, key=lambda prefix: SIDES[prefix] != DRAFT)


# Parallel prefill


_FLAT = {DRAFT: "EventGPT", TARGET: "video model"}
_NESTED = {DRAFT: "eventgpt", TARGET: "videollava"}
_APART: dict[str, tuple[str, ...]] = {
    "vision_time": ("vision",),
    "prefill_time": ("prefill",),
    "draft_time": ("decode",),
}
_COMPLETE = "vision_time + prefill_time"

_FLAT_FIGURES = (
    *("vision_time", "egpt_complete_time", "vl_total_time", "draft_tokens", "output_tokens", "overlap_window"),
    *("theoretical_draft_tokens", "tokens_to_verify", "estimated_acceptance_rate", "accepted_tokens"),
    *("rejected_tokens", "speedup", "ideal_speedup"),
)
"""Numbers of flat rows that some files average under `statistics`."""


class PrefillRows(AnswerReader):
    """Prefill and drafting times of both models on one card, and many errors. Rows are flat, flat with EventGPT's
    vision apart, or hold an object for each model. `generation_time` is of a new generate(), with the pixels again."""

    name = "prefill rows"
    looks_for = "results[].egpt_prefill_time or results[].eventgpt.prefill_time, or errors[] with nothing else"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By the keys of its rows, or by errors where the file has no row."""
        row = preview.first_row(("results",))
        if "egpt_prefill_time" in row or "vl_prefill_time" in row or _is_per_model(row):
            return True
        errors = preview.objects(("errors",))
        return not preview.counts.get(("results",)) and any(
            {"error", "egpt_error", "vl_error"} & entry.keys() for entry in errors
        )

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        first = preview.first_row(("results",))
        self._is_nested = _is_per_model(first)
        self._sides = {role: self._answer(role, first) for role in (DRAFT, TARGET)}
        self._cells = {role: (answer.cell, answer.model) for role, answer in self._sides.items()}
        words = {"draft": "Drafting", "vision": "Vision encoding"}
        names = {key: _short(key).removesuffix("_time") for side in self._sides.values() for key in side.covers}
        names = {key: words.get(word, word.capitalize()) for key, word in names.items()}
        self._publish(self._sides.values(), names, statistics=self._statistics())
        self._succeeded = 0

    def _answer(self, role: str, first: dict[str, Any]) -> AnswerField:
        is_draft, quantization = role == DRAFT, self._preview.quantization
        own = mapping(first.get(_NESTED[role])) if self._is_nested else first
        prefix = "" if self._is_nested else "vl_"
        covers: dict[str, tuple[str, ...]] = {f"{prefix}prefill_time": _VISION_PREFILL}
        if not self._is_nested and "prefill_time" not in first:
            covers = {"egpt_prefill_time": _VISION_PREFILL, "draft_time": ("decode",)} if is_draft else covers
        else:
            covers = _APART if is_draft else covers | {f"{prefix}generation_time": _WHOLE}
        length = "prefill_length" if is_draft and covers is _APART else f"{prefix}prefill_length"
        if is_draft and covers is not _APART:
            length = "egpt_prefill_length"
        kind = f" {quantization}" if quantization else ""
        has_text = self._is_nested or not is_draft
        return AnswerField(
            role,
            (_NESTED if self._is_nested else _FLAT)[role],
            f"EventGPT{kind}" if is_draft else f"Video-LLaVA{kind}",
            (eventgpt_model if is_draft else video_llava_model)(quantization),
            {key: stages for key, stages in covers.items() if key in own},
            part=_NESTED[role] if self._is_nested else "",
            error="error" if self._is_nested else "egpt_error" if is_draft else "vl_error",
            text="output_text" if has_text else "",
            ids="output_tokens" if has_text else "",
            count="draft_tokens" if is_draft else "",
            length=length,
            patches=_POOLED if is_draft else 0,
            settings=self._preview.count_setting("max_new_tokens", "max_new_tokens", "max_draft_tokens"),
        )

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        rows = [self._of_side(answer, number, raw) for answer in self._sides.values()]
        self._succeeded += all(row.error is None for row in rows)
        pair, draft = (mapping(raw.get(key)) if self._is_nested else raw for key in ("parallel", _NESTED[DRAFT]))
        if (finite(pair.get("overlap_window")) or 0.0) < 0:
            self._problems.of_row(
                "overlap_window is negative: it is a time of nothing less EventGPT's prefill, no window", number
            )
        RowCheck(draft, number, self._problems, _FLAT[DRAFT]).adds_up("total_time", self._sides[DRAFT].covers)
        return rows

    def _of_side(self, answer: AnswerField, number: int, raw: dict[str, Any]) -> LegacyRow:
        row, check = self._row(answer, number, raw)
        if check.text(answer.error) is not None:
            self._problems.of_row(f"{check.name}: failed: {error_kind(row.error or '')}", number)
        values = dict(row.values)
        if isinstance(check.raw.get("output_tokens"), list):
            values["output_tokens"] = float(len(check.raw["output_tokens"]))
        if "vision_time" in values and "prefill_time" in values:
            values[_COMPLETE] = values["vision_time"] + values["prefill_time"]
        if answer.role == DRAFT:
            pairs = RowCheck(mapping(raw.get("parallel")), number, self._problems, "").numbers()
            values |= {f"parallel.{key}": value for key, value in pairs.items()}
        settings = row.settings if row.error is None else {}
        return replace(row, prompt=self._preview.prompt, values=values, settings=settings)

    def finish(self) -> None:
        tell = self._problems.of_file
        errors = self._preview.counts.get(("errors",), 0)
        results = self._preview.counts.get(("results",), 0)
        if results:
            tell("Loading and preprocessing were not measured; the video model's vision is inside its prefill")
        if _WHOLE in self._sides[TARGET].covers.values():
            tell(
                "The video model's text was generated anew after its prefill was timed, so that its generation holds "
                "vision and prefill once more, and its total holds them twice"
            )
        if not self._succeeded:
            tell(f"Not one of {results + errors:,} samples succeeded with both models")
        told = finite(self._preview.config.get("max_samples"))
        if told is not None and 0 < results + errors < told:
            tell(f"Up to {told:.0f} samples were asked for, and the file tells of {results + errors:,}")

    def _statistics(self) -> dict[str, Statistic]:
        draft, target = self._sides.values()
        statistics = {"statistics.n_samples": Statistic(draft.side, next(iter(draft.covers), ""), "count")}
        for role, answer in self._sides.items():
            for key in (*answer.covers, answer.length, "total_time", "draft_tokens"):
                for kind in ("avg", "std"):
                    name = f"statistics.{_NESTED[role]}.{_short(key)}_{kind}"
                    statistics[name] = Statistic(answer.side, key, kind)
        of_pairs = ("overlap_window", "draft_tokens", "draft_time", "total_time", "parallel_efficiency")
        statistics |= averages("statistics.parallel", draft.side, of_pairs)
        statistics["statistics.parallel.draft_tokens_max"] = Statistic(draft.side, "draft_tokens", "max")
        if not self._is_nested:
            statistics["statistics.egpt_prefill_time_avg"] = Statistic(draft.side, "prefill_time", "avg")
            statistics |= averages("statistics", draft.side, _FLAT_FIGURES)
            return statistics | averages("statistics", target.side, target.covers)
        statistics["statistics.eventgpt.prefill_complete_time"] = Statistic(draft.side, _COMPLETE, "avg")
        for role, answer in self._sides.items():
            statistics |= averages(f"statistics.{_NESTED[role]}", answer.side, ("output_tokens",))
        for key in ("overlap_window", "theoretical_draft_tokens", "actual_draft_tokens"):
            statistics[f"statistics.parallel.{key}_avg"] = Statistic(draft.side, f"parallel.{key}", "avg")
        return statistics


def _short(key: str) -> str:
    return key.removeprefix("egpt_").removeprefix("vl_")


def _is_per_model(row: dict[str, Any]) -> bool:
    return any("prefill_time" in mapping(row.get(side)) for side in _NESTED.values())
