"""Files with five stage times of both models per sample, as the 4-bit scripts wrote them, and their failed samples.

What the times cover is read in those scripts: the video model's vision runs inside its forward pass, so where its
stage 3 takes no time its stage 4 is vision and prefill, and where it takes some that pass was thrown away.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evprof.core.records import DRAFT, STAGES, TARGET
from evprof.loaders.legacy.checks import (
    MS_PER_S,
    SUM_TOLERANCE,
    FileProblems,
    RowCheck,
    finite,
    mapping,
    mib_bytes,
    sample_name,
)
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.reading import AnswerReader, Preview, Published, Statistic, averages
from evprof.loaders.legacy.rows import (
    EVENTGPT_PATCHES,
    NO_TIME,
    SIDES,
    Interval,
    LegacyModel,
    LegacyRow,
    eventgpt_lengths,
    eventgpt_model,
    video_llava_model,
)

_KEYS = tuple(f"stage{place}_time" for place in range(1, 6))
_POOLED = EVENTGPT_PATCHES + 1
"""Visual positions of one pooled event frame: its mean beside the spatial means."""

_FRAME_PATCHES = 256
"""What the script adds per video frame to a length that holds the frames already."""

_ACCEPTANCE_PARTS = {"word_overlap": 0.5, "char_similarity": 0.3, "length_similarity": 0.2}
"""The weights of what the script mixes into an "acceptance rate"."""

_PAIR_TIMES = {"overlap_window": "overlap_window_from_load_ms", "wall_clock_total": "modelled_wall_ms"}


class FiveStages(AnswerReader):
    name = "five stages"
    looks_for = "results[].eventgpt.stage1_time"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By a row with a model that has a `stage4_time`."""
        return any("stage4_time" in mapping(row.get(side)) for row in preview.objects(("results",)) for side in SIDES)

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        rows = preview.objects(("results",))
        self._sides = [side for side in SIDES if any(isinstance(row.get(side), dict) for row in rows)]
        memory = mapping(preview.head.get("gpu_memory"))
        weights = {side: mib_bytes(finite(memory.get(f"{side}_model_mb"))) for side in self._sides}
        self._models = {
            side: (eventgpt_model if SIDES[side] == DRAFT else video_llava_model)(preview.quantization, weights[side])
            for side in self._sides
        }
        steps = finite(preview.config.get("max_new_tokens"))
        self._settings: dict[str, object] = {"max_new_tokens": int(steps)} if steps else {}
        frames = next((int(told) for row in rows if (told := _frames(row)) is not None), None)
        self._cells = {
            SIDES[side]: (_cell(self._models[side], frames if SIDES[side] == TARGET else None), self._models[side])
            for side in self._sides
        }
        self.covers = {
            SIDES[side]: _covers(SIDES[side], [mapping(row.get(side)) for row in rows]) for side in self._sides
        }
        self.published = Published(
            totals={SIDES[side]: list(_KEYS) for side in self._sides},
            names=dict(zip(_KEYS, ("Load", "Preprocess", "Vision encoding", "Prefill", "Decode"), strict=True)),
            statistics=_statistics(self._sides),
        )

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        return [self._row(side, number, raw) for side in self._sides]

    def _row(self, side: str, number: int, raw: dict[str, Any]) -> LegacyRow:
        role = SIDES[side]
        own = mapping(raw.get(side))
        check = RowCheck(own, number, self._problems, side)
        error = check.text("error") if own else "the file holds nothing of this model for this sample"
        intervals = () if error else self._intervals(check, role)
        if not error and not intervals:
            error = NO_TIME
        text, ids = check.text("output_text"), check.ids("output_tokens")
        told = check.count("num_output_tokens")
        count = check.counts_agree(told, ids, text)
        length = check.count("prefill_length", is_expected=not error, most=1 << 24)
        frames = check.count("num_frames", most=10_000)
        figures = self._figures(check, role, frames, length)
        if not error:
            figures |= check.figures({"tokens_per_sec": "published_decode_tok_s"})
        if count is None and (told or ids):
            figures["published_output_tokens"] = float(told or len(ids))
        if role == TARGET:
            figures |= self._pair_figures(number, raw)
        check.adds_up("total_time", _KEYS, "total_time is not the sum of the five stages")
        model, sample = self._models[side], sample_name(raw.get("sample_idx"), number)
        row = self._row_of(check, role, _cell(model, frames), model, intervals, sample=sample)
        return replace(
            row,
            token_ids=ids if count is not None else (),
            text=text,
            output_tokens=count,
            lengths=eventgpt_lengths(length, _POOLED) if role == DRAFT else None,
            peak_bytes=mib_bytes(finite(mapping(own.get("gpu_memory_mb")).get("peak"))),
            figures=figures,
            values=row.values | _nested(raw, own),
            settings={**self._settings, **({"event_frames": 1} if role == DRAFT else {"frames": frames or 8})},
            error=error,
        )

    def _intervals(self, check: RowCheck, role: str) -> tuple[Interval, ...]:
        covers = _stages(role)
        if role == TARGET and "tokens_per_sec" not in check.raw:
            covers[_KEYS[4]] = ["vision", "prefill", "decode"]
        return check.intervals(covers, role)

    def _figures(self, check: RowCheck, role: str, frames: int | None, length: int | None) -> dict[str, float]:
        figures: dict[str, float] = {}
        if length is not None:
            figures["published_prefill_length"] = float(length)
        added = _FRAME_PATCHES * (frames or 0)
        if role == TARGET and length is not None and added and length > 2 * added:
            self._problems.of_row(
                f"{check.name}: prefill_length {length} counts the visual tokens twice (the script adds {frames} times "
                f"{_FRAME_PATCHES} to a prompt that holds them already; {length - added} were processed), so the run "
                "has no prompt length",
                check.row,
            )
        return figures

    def _pair_figures(self, number: int, raw: dict[str, Any]) -> dict[str, float]:
        """What the file says of both models together, and the same window counted from prefill instead of load."""
        pair = RowCheck(mapping(raw.get("parallel")), number, self._problems, "parallel")
        figures = pair.figures(_PAIR_TIMES, MS_PER_S) | pair.figures({"hidden_tokens": "published_hidden_tokens"})
        window = _window_ms(raw)
        if window is not None:
            figures["overlap_window_from_vision_ms"] = window
        match = RowCheck(mapping(raw.get("acceptance")), number, self._problems, "acceptance")
        figures |= match.figures({key: f"published_{key}" for key in ("acceptance_rate", *_ACCEPTANCE_PARTS)})
        if figures.get("overlap_window_from_load_ms", 0) < 0:
            self._problems.of_row("parallel: overlap_window is negative: there was nothing to hide in", number)
        if _is_mixture(figures):
            self._problems.of_row(
                "acceptance: acceptance_rate is 0.5 · word overlap + 0.3 · character similarity + 0.2 · length "
                "similarity, no share of accepted tokens",
                number,
            )
        return figures

    def finish(self) -> None:
        tell = self._problems.of_file
        if TARGET in self.covers and not self.covers[TARGET][_KEYS[2]]:
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
        if len([model for model in self._models.values() if model.weight_bytes]) > 1:
            tell("Both models were loaded together, so the memory peak of each holds the weights of both")


def _frames(row: dict[str, Any]) -> float | None:
    return next(
        (told for side in SIDES if (told := finite(mapping(row.get(side)).get("num_frames"))) is not None), None
    )


def _takes_no_time(own: dict[str, Any]) -> bool:
    seconds = finite(own.get(_KEYS[2]))
    return seconds is not None and seconds * 1000 < 0.05


def _stages(role: str) -> dict[str, list[str]]:
    covers = {key: [stage] for key, stage in zip(_KEYS, STAGES, strict=True)}
    return covers | ({_KEYS[3]: ["vision", "prefill"]} if role == TARGET else {})


def _covers(role: str, rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    covers = _stages(role)
    if role == TARGET:
        measured = [row for row in rows if finite(row.get(_KEYS[2])) is not None]
        if measured and all(map(_takes_no_time, measured)):
            covers[_KEYS[2]] = []
    return covers


def _cell(model: LegacyModel, frames: int | None) -> str:
    kind = f" {model.quantization}" if model.quantization else ""
    if model.family == "eventgpt":
        return f"EventGPT{kind}, 1 event frame"
    return f"Video-LLaVA{kind}, {frames or 8} video frames"


def _window_ms(raw: dict[str, Any]) -> float | None:
    """The video model's vision and prefill less EventGPT's, in ms: when both begin at the same moment."""
    parts: dict[str, float] = {}
    for side, role in SIDES.items():
        own = mapping(raw.get(side))
        vision, prefill = finite(own.get(_KEYS[2])), finite(own.get(_KEYS[3]))
        if prefill is not None:
            parts[role] = prefill + (vision or 0.0 if role == DRAFT else 0.0)
    return (parts[TARGET] - parts[DRAFT]) * 1000 if len(parts) == 2 else None


def _is_mixture(figures: dict[str, float]) -> bool:
    told = figures.get("published_acceptance_rate")
    parts = {key: figures.get(f"published_{key}") for key in _ACCEPTANCE_PARTS}
    if told is None or None in parts.values():
        return False
    mixed = sum((part or 0.0) * _ACCEPTANCE_PARTS[key] for key, part in parts.items())
    return abs(mixed - told) <= SUM_TOLERANCE * max(told, 1e-9)


def _nested(raw: dict[str, Any], own: dict[str, Any]) -> dict[str, float]:
    """The row's numbers of both models and the memory's, under names of their own."""
    found = {
        f"{part}.{key}": value
        for part in ("parallel", "acceptance")
        for key, entry in mapping(raw.get(part)).items()
        if (value := finite(entry)) is not None
    }
    tokens = own.get("output_tokens")
    if isinstance(tokens, list):
        found["output_tokens"] = float(len(tokens))
    peak = finite(mapping(own.get("gpu_memory_mb")).get("peak"))
    return found if peak is None else found | {"gpu_peak_memory": peak}


_AVERAGED = (
    *("prefill_length", "tokens_per_sec", "total_time", "prefill_complete_time", "output_tokens", "gpu_peak_memory"),
)


def _statistics(sides: list[str]) -> dict[str, Statistic]:
    found: dict[str, Statistic] = {}
    for side in sides:
        head = f"statistics.{side}"
        found |= averages(head, side, _KEYS, "avg", "std") | averages(head, side, _AVERAGED)
    if sides:
        last = sides[-1]
        found["statistics.n_samples"] = Statistic(last, "total_time", "count")
        for key in ("overlap_window", "hidden_tokens", "wall_clock_total", "sequential_total", "parallel_speedup"):
            found[f"statistics.parallel.{key}_avg"] = Statistic(last, f"parallel.{key}", "avg")
        for key in ("acceptance_rate", "word_overlap", "char_similarity"):
            found[f"statistics.{key}_avg"] = Statistic(last, f"acceptance.{key}", "avg")
        found["statistics.matched_tokens_total"] = Statistic(last, "acceptance.matched_tokens", "sum")
        found["statistics.total_tokens_compared"] = Statistic(last, "acceptance.total_tokens", "sum")
        found["statistics.acceptance_rate_std"] = Statistic(last, "acceptance.acceptance_rate", "std")
    return found
