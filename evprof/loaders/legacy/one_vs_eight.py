"""Files of the comparison of one event frame with eight video frames: two lists of samples with stage times.

What the times cover is read in the script that wrote them: `stage12_time` starts when the files are loaded already,
and the video model's pixels go into `s4_time` once more, so that its `s3_time` is a vision pass thrown away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.loaders.legacy.checks import FileProblems, RowCheck, finite, mapping, mib_bytes, sample_name
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.reading import NO_SAMPLE, AnswerReader, Covers, Preview, Published, Statistic, averages
from evprof.loaders.legacy.rows import (
    EVENTGPT_PATCHES,
    LLAVA_PATCHES,
    SIDE_BY_SIDE,
    SIDES,
    LegacyRow,
    Lengths,
    eventgpt_lengths,
    eventgpt_model,
    llava_model,
)

_COVERS: Covers = {
    DRAFT: {"stage12_time": ["preprocess"], "s3_time": ["vision"], "s4_time": ["prefill"], "s5_time": ["decode"]},
    TARGET: {
        "stage12_time": ["preprocess"],
        "s3_time": ["vision"],
        "s4_time": ["vision", "prefill"],
        "s5_time": ["decode"],
    },
}

_NAMES = {
    "stage12_time": "Load and preprocess",
    "s3_time": "Vision encoding",
    "s4_time": "Prefill",
    "s5_time": "Decode",
}

_MODEL_KEYS = ["s3_time", "s4_time", "s5_time"]


class OneVersusEight(AnswerReader):
    name = "one-vs-eight"
    looks_for = "config.eventgpt_frames with eventgpt.samples"
    left_out = NO_SAMPLE

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By the frames in the settings and rows with `s4_time`."""
        places = [place for place in preview.counts if len(place) == 2 and place[1] == "samples" and place[0] in SIDES]
        has_times = any("s4_time" in preview.first_row(place) for place in places)
        return bool(places) and (has_times or "eventgpt_frames" in preview.config)

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        self.covers = _COVERS
        self._stats = {
            side: mapping(mapping(preview.head.get(side)).get("stats")) for side in SIDES if side in preview.head
        }
        self._counts = {place[0]: count for place, count in preview.counts.items() if len(place) == 2}
        self._frames = {
            DRAFT: _count(preview.config, "eventgpt_frames"),
            TARGET: _count(preview.config, "videollava_frames"),
        }
        self._has_preprocessing = any("stage12_time" in preview.first_row(place) for place in preview.counts)
        self._steps = {side: _decode_steps(stats) for side, stats in self._stats.items()}
        self.published = Published(
            totals={DRAFT: _MODEL_KEYS, TARGET: _MODEL_KEYS},
            names=_NAMES,
            statistics=_statistics(self._stats),
        )

    def _holds_answers(self, place: Place) -> bool:
        return len(place) == 2 and place[0] in SIDES and place[1] == "samples"

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        side = place[0]
        role = SIDES[side]
        check = RowCheck(raw, number, self._problems, side)
        intervals = check.intervals(self.covers[role], role, () if self._has_preprocessing else ("stage12_time",))
        check.adds_up(
            "total_time", self.covers[role], "total_time is not the sum of stage12_time, s3_time, s4_time and s5_time"
        )
        frames = check.count("n_frames") or self._frames[role]
        length = check.count("prefill_len", is_expected=True, most=1 << 24)
        kv_bytes = mib_bytes(check.number("kv_cache_mb"))
        sample = check.count("sample")
        model = eventgpt_model() if role == DRAFT else llava_model()
        cell = f"{_name(role)}, {_frames_text(role, frames)}"
        row = self._row_of(check, role, cell, model, intervals, sample=sample_name(sample, number))
        return [
            replace(
                row,
                mode=SIDE_BY_SIDE if len(self._counts) > 1 else role,
                decode_steps=self._steps.get(side),
                lengths=_lengths(role, length, frames),
                figures={
                    **({"kv_cache_bytes": float(kv_bytes)} if kv_bytes else {}),
                    **({"published_prefill_length": float(length)} if length else {}),
                },
                values=_values(check),
                settings=_settings(role, frames),
                error=None,  # lengths and caches are told without times, too
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


def _name(role: str) -> str:
    return "EventGPT" if role == DRAFT else "LLaVA-1.5"


def _frames_text(role: str, frames: int | None) -> str:
    kind = "event frame" if role == DRAFT else "video frame"
    return f"{kind}s unknown" if frames is None else f"{frames} {kind}{'' if frames == 1 else 's'}"


def _count(values: dict[str, Any], key: str) -> int | None:
    found = finite(values.get(key))
    return int(found) if found is not None and 0 < found < 10_000 else None


def _decode_steps(stats: dict[str, Any]) -> int | None:
    """Passes of s5_time: their rate times their mean time, when that is a whole number."""
    rate, seconds = finite(stats.get("decode_throughput")), finite(stats.get("s5_time_avg"))
    if not rate or not seconds:
        return None
    steps = rate * seconds
    return round(steps) if 0.5 < steps < 100_000 and abs(steps - round(steps)) < 0.02 else None


def _lengths(role: str, length: int | None, frames: int | None) -> Lengths | None:
    if role == DRAFT:
        return eventgpt_lengths(length, EVENTGPT_PATCHES) if frames == 1 else None
    if length is None or not frames or length < LLAVA_PATCHES * frames:
        return None
    visual = LLAVA_PATCHES * frames
    return Lengths(length, length - visual, visual, (LLAVA_PATCHES,) * frames)


def _settings(role: str, frames: int | None) -> dict[str, object]:
    if frames is None:
        return {}
    if role == TARGET:
        return {"frames": frames}
    return {"event_frames": frames, **({"input": {"pooling": "none"}} if frames == 1 else {})}


_PRINTED_TOTAL = "s3_time + s4_time + s5_time"


def _values(check: RowCheck) -> dict[str, float]:
    found = check.numbers()
    if all(key in found for key in _MODEL_KEYS):
        found[_PRINTED_TOTAL] = sum(found[key] for key in _MODEL_KEYS)
    return found


def _statistics(sides: Iterable[str]) -> dict[str, Statistic]:
    found: dict[str, Statistic] = {}
    for side in sides:
        head = f"{side}.stats"
        found[f"{head}.n_samples"] = Statistic(side, "prefill_len", "count")
        found |= averages(head, side, (*_MODEL_KEYS, "prefill_len", "kv_cache_mb"), "avg", "std")
        found[f"{head}.total_time_avg"] = Statistic(side, _PRINTED_TOTAL, "avg")
        found[f"{head}.prefill_throughput"] = Statistic(side, "prefill_len", "rate", "s4_time")
    return found
