"""Files of parallel prefill on one card: prefill and drafting times of both models per sample, and many errors.

Three shapes of the same rows: flat with `egpt_` and `vl_` before the keys, flat with EventGPT's vision apart, or one
object per model. A row may be half a result: EventGPT finished while the video model failed with a sentence of its own.
What `generation_time` covers is read in the script: it calls generate() anew, with the pixels once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.loaders.legacy.checks import SUM_TOLERANCE, FileProblems, RowCheck, finite, mapping, sample_name
from evprof.loaders.legacy.failures import error_kind
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.reading import AnswerReader, Covers, Preview, Published, Statistic, averages
from evprof.loaders.legacy.rows import (
    EVENTGPT_PATCHES,
    LegacyModel,
    LegacyRow,
    eventgpt_lengths,
    eventgpt_model,
    video_llava_model,
)

_WHOLE = ["vision", "prefill", "decode"]
_NESTED = {DRAFT: "eventgpt", TARGET: "videollava"}


@dataclass(frozen=True)
class _Shape:
    """How rows of one kind call things. `sides` are the models' names in sentences and statistics."""

    covers: Covers
    sides: Mapping[str, str]
    lengths: Mapping[str, str]
    is_nested: bool = False


_FLAT_SIDES = {DRAFT: "EventGPT", TARGET: "video model"}

_TOGETHER = _Shape(
    {
        DRAFT: {"egpt_prefill_time": ["vision", "prefill"], "draft_time": ["decode"]},
        TARGET: {"vl_prefill_time": ["vision", "prefill"]},
    },
    _FLAT_SIDES,
    {DRAFT: "egpt_prefill_length", TARGET: "vl_prefill_length"},
)
_APART = _Shape(
    {
        DRAFT: {"vision_time": ["vision"], "prefill_time": ["prefill"], "draft_time": ["decode"]},
        TARGET: {"vl_prefill_time": ["vision", "prefill"], "vl_generation_time": _WHOLE},
    },
    _FLAT_SIDES,
    {DRAFT: "prefill_length", TARGET: "vl_prefill_length"},
)
_PER_MODEL = _Shape(
    {
        DRAFT: {"vision_time": ["vision"], "prefill_time": ["prefill"], "draft_time": ["decode"]},
        TARGET: {"prefill_time": ["vision", "prefill"], "generation_time": _WHOLE},
    },
    _NESTED,
    {DRAFT: "prefill_length", TARGET: "prefill_length"},
    is_nested=True,
)


class PrefillRows(AnswerReader):
    name = "prefill rows"
    looks_for = "results[].egpt_prefill_time or results[].eventgpt.prefill_time, or errors[] with nothing else"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By the keys of its rows, or by errors where no row came about."""
        row = preview.first_row(("results",))
        if "egpt_prefill_time" in row or "vl_prefill_time" in row or _is_per_model(row):
            return True
        has_errors = any(
            {"error", "egpt_error", "vl_error"} & set(entry)
            for entry in preview.first.get(("errors",), [])
            if isinstance(entry, dict)
        )
        return not preview.counts.get(("results",)) and has_errors

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        self._models = {
            DRAFT: eventgpt_model(preview.quantization),
            TARGET: video_llava_model(preview.quantization),
        }
        self._cells = {role: (_cell(model), model) for role, model in self._models.items()}
        first = preview.first_row(("results",))
        self._shape = _shape_of(first)
        self.covers = {
            role: {key: stages for key, stages in keys.items() if key in _part(first, role, self._shape)}
            for role, keys in self._shape.covers.items()
        }
        self.published = Published(
            totals={role: list(keys) for role, keys in self.covers.items()},
            names={key: _name_of(key) for keys in self.covers.values() for key in keys},
            statistics=_statistics(self._shape, self.covers),
        )
        self._succeeded = 0

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        rows = [self._row(role, number, raw) for role in (DRAFT, TARGET)]
        self._succeeded += all(row.error is None for row in rows)
        self._check_pair(number, raw)
        return rows

    def _check_pair(self, number: int, raw: dict[str, Any]) -> None:
        window = finite((mapping(raw.get("parallel")) if self._shape.is_nested else raw).get("overlap_window"))
        if window is not None and window < 0:
            self._problems.of_row(
                "overlap_window is negative: it is a time of nothing less EventGPT's prefill, no window", number
            )
        total = finite(_part(raw, DRAFT, self._shape).get("total_time"))
        parts = [finite(_part(raw, DRAFT, self._shape).get(key)) for key in self.covers[DRAFT]]
        known = [part for part in parts if part is not None]
        if (
            total is not None
            and len(known) == len(parts)
            and abs(total - sum(known)) > SUM_TOLERANCE * max(total, 1e-9)
        ):
            self._problems.of_row("total_time is not the sum of prefill and drafting", number)

    def _row(self, role: str, number: int, raw: dict[str, Any]) -> LegacyRow:
        own = _part(raw, role, self._shape)
        check = RowCheck(own, number, self._problems, self._shape.sides[role])
        error = check.text("error" if self._shape.is_nested else "egpt_error" if role == DRAFT else "vl_error")
        intervals = check.intervals(self.covers[role], role, () if error is None else self.covers[role])
        if error is not None:
            intervals = ()
            self._problems.of_row(f"{check.name}: failed: {error_kind(error)}", number)
        model, sample = self._models[role], sample_name(raw.get("sample_idx"), number)
        row = self._row_of(check, role, _cell(model), model, intervals, sample=sample)
        values = row.values | _beside(raw, own, role)
        row = replace(row, prompt=self._preview.prompt, values=values, error=row.error if error is None else error)
        return row if row.error else self._with_answer(row, check)

    def _with_answer(self, row: LegacyRow, check: RowCheck) -> LegacyRow:
        """Its lengths, text and tokens; a flat row's text is the video model's."""
        has_text = self._shape.is_nested or row.role == TARGET
        text = check.text("output_text") if has_text else None
        ids = check.ids("output_tokens") if has_text else ()
        told = check.count("draft_tokens") if row.role == DRAFT else None
        count = check.counts_agree(told, ids, text)
        length = check.count(self._shape.lengths[row.role], most=1 << 24)
        return replace(
            row,
            text=text,
            token_ids=ids if count is not None else (),
            output_tokens=count,
            lengths=eventgpt_lengths(length, EVENTGPT_PATCHES + 1) if row.role == DRAFT else None,
            figures={"published_prefill_length": float(length)} if length else {},
            settings=self._preview.count_setting("max_new_tokens", "max_new_tokens", "max_draft_tokens"),
        )

    def finish(self) -> None:
        tell = self._problems.of_file
        errors = self._preview.counts.get(("errors",), 0)
        results = self._preview.counts.get(("results",), 0)
        if results:
            tell("Loading and preprocessing were not measured; the video model's vision is inside its prefill")
        if any(stages == _WHOLE for stages in self.covers[TARGET].values()):
            tell(
                "The video model's text was generated anew after its prefill was timed, so that its generation holds "
                "vision and prefill once more, and its total holds them twice"
            )
        if not self._succeeded:
            tell(f"Not one of {results + errors:,} samples succeeded with both models")
        told = finite(self._preview.config.get("max_samples"))
        if told is not None and 0 < results + errors < told:
            tell(f"Up to {told:.0f} samples were asked for, and the file tells of {results + errors:,}")


_FLAT_FIGURES = (
    *("vision_time", "egpt_complete_time", "vl_total_time", "draft_tokens", "output_tokens", "overlap_window"),
    *("theoretical_draft_tokens", "tokens_to_verify", "estimated_acceptance_rate", "accepted_tokens"),
    *("rejected_tokens", "speedup", "ideal_speedup"),
)
"""Numbers of flat rows that some files average under `statistics`."""


def _part(raw: dict[str, Any], role: str, shape: _Shape) -> dict[str, Any]:
    return mapping(raw.get(_NESTED[role])) if shape.is_nested else raw


_COMPLETE = "vision_time + prefill_time"


def _beside(raw: dict[str, Any], own: dict[str, Any], role: str) -> dict[str, float]:
    """What statistics are of and no number of the row's own: its answer's length, sums, and what is of both models."""
    found: dict[str, float] = {}
    if isinstance(own.get("output_tokens"), list):
        found["output_tokens"] = float(len(own["output_tokens"]))
    vision, prefill = finite(own.get("vision_time")), finite(own.get("prefill_time"))
    if vision is not None and prefill is not None:
        found[_COMPLETE] = vision + prefill
    if role == DRAFT:
        pairs = mapping(raw.get("parallel")).items()
        found |= {f"parallel.{key}": value for key, entry in pairs if (value := finite(entry)) is not None}
    return found


def _name_of(key: str) -> str:
    words = key.removeprefix("egpt_").removeprefix("vl_").removesuffix("_time")
    return {"draft": "Drafting", "vision": "Vision encoding"}.get(words, words.capitalize())


def _cell(model: LegacyModel) -> str:
    kind = f" {model.quantization}" if model.quantization else ""
    return f"EventGPT{kind}" if model.family == "eventgpt" else f"Video-LLaVA{kind}"


def _statistics(shape: _Shape, covers: Covers) -> dict[str, Statistic]:
    draft, target = shape.sides[DRAFT], shape.sides[TARGET]
    found = {"statistics.n_samples": Statistic(draft, next(iter(covers[DRAFT]), ""), "count")}
    for role, name in _NESTED.items():
        side = shape.sides[role]
        for key in (*covers[role], shape.lengths[role], "total_time", "draft_tokens"):
            short = key.removeprefix("egpt_").removeprefix("vl_")
            found[f"statistics.{name}.{short}_avg"] = Statistic(side, key, "avg")
            found[f"statistics.{name}.{short}_std"] = Statistic(side, key, "std")
    of_pairs = ("overlap_window", "draft_tokens", "draft_time", "total_time", "parallel_efficiency")
    found |= averages("statistics.parallel", draft, of_pairs)
    if shape.is_nested:
        found["statistics.eventgpt.prefill_complete_time"] = Statistic(draft, _COMPLETE, "avg")
        for role, name in _NESTED.items():
            found |= averages(f"statistics.{name}", shape.sides[role], ("output_tokens",))
        for key in ("overlap_window", "theoretical_draft_tokens", "actual_draft_tokens"):
            found[f"statistics.parallel.{key}_avg"] = Statistic(draft, f"parallel.{key}", "avg")
    else:
        found["statistics.egpt_prefill_time_avg"] = Statistic(draft, "prefill_time", "avg")
        found |= averages("statistics", draft, _FLAT_FIGURES)
    found["statistics.parallel.draft_tokens_max"] = Statistic(draft, "draft_tokens", "max")
    return found if shape.is_nested else found | averages("statistics", target, covers[TARGET])


def _is_per_model(row: dict[str, Any]) -> bool:
    return any("prefill_time" in mapping(row.get(side)) for side in _NESTED.values())


def _shape_of(row: dict[str, Any]) -> _Shape:
    if _is_per_model(row):
        return _PER_MODEL
    return _APART if "prefill_time" in row else _TOGETHER
