"""Files of parallel prefill on one card: prefill times of both models in one flat row, and many errors.

A row may be half a result: EventGPT finished while the video model failed with a sentence of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.loaders.legacy.checks import SUM_TOLERANCE, Problems, RowCheck, finite
from evprof.loaders.legacy.failures import failed_rows, shortened
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.one_vs_eight import SIDE_BY_SIDE
from evprof.loaders.legacy.reading import Covers, Preview, Published, Statistic
from evprof.loaders.legacy.rows import (
    DEFAULT_PROMPT,
    EVENTGPT_PATCHES,
    Interval,
    LegacyModel,
    LegacyRow,
    eventgpt_lengths,
    eventgpt_model,
    video_llava_model,
)

_DRAFT_SIDE, _TARGET_SIDE = "EventGPT", "video model"

_DRAFT_COVERS = {"egpt_prefill_time": ["vision", "prefill"], "draft_time": ["decode"]}
_TARGET_COVERS = {"vl_prefill_time": ["vision", "prefill"]}


class PrefillRows:
    """The family."""

    name = "prefill rows with errors"
    looks_for = "results[].egpt_prefill_time, or errors[] with nothing else"

    def recognises(self, preview: Preview) -> bool:
        """By the flat keys of its rows, or by errors where no row came about."""
        row = preview.first_row(("results",))
        if "egpt_prefill_time" in row or "vl_prefill_time" in row:
            return True
        has_errors = any(
            {"error", "egpt_error", "vl_error"} & set(entry)
            for entry in preview.first.get(("errors",), [])
            if isinstance(entry, dict)
        )
        return not preview.counts.get(("results",)) and has_errors

    def reader(self, preview: Preview, problems: Problems) -> _Reader:
        """For its rows."""
        return _Reader(preview, problems)


class _Reader:
    def __init__(self, preview: Preview, problems: Problems) -> None:
        self._problems = problems
        self._preview = preview
        told = preview.config.get("quantization")
        quantization = told if isinstance(told, str) and told not in ("bf16", "fp16", "none") else None
        self._models = {DRAFT: eventgpt_model(quantization), TARGET: video_llava_model(quantization)}
        self.covers: Covers = {DRAFT: dict(_DRAFT_COVERS), TARGET: dict(_TARGET_COVERS)}
        self.published = Published(
            totals={DRAFT: list(_DRAFT_COVERS), TARGET: list(_TARGET_COVERS)},
            names={
                "egpt_prefill_time": "EventGPT's prefill",
                "draft_time": "Drafting",
                "vl_prefill_time": "The video model's prefill",
            },
            statistics=_statistics(),
        )
        self._succeeded = 0

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        """Both models' parts of one sample, or the sample's failure."""
        if place == ("errors",):
            return failed_rows(raw, number, self._problems, list(self._models.values()))
        if place != ("results",) or not isinstance(raw, dict):
            self._problems.of_row("a row is no object and was left out", number)
            return []
        rows = [self._draft(number, raw), self._target(number, raw)]
        self._succeeded += all(row.error is None for row in rows)
        window = finite(raw.get("overlap_window"))
        if window is not None and window < 0:
            self._problems.of_row(
                "overlap_window is negative: it is a time of nothing less EventGPT's prefill, no window", number
            )
        parts = [finite(raw.get(key)) for key in ("total_time", "egpt_prefill_time", "draft_time")]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts) and abs(known[0] - known[1] - known[2]) > SUM_TOLERANCE * max(known[0], 1e-9):
            self._problems.of_row("total_time is not the sum of prefill and drafting", number)
        return rows

    def _draft(self, number: int, raw: dict[str, Any]) -> LegacyRow:
        check = RowCheck(raw, number, self._problems, _DRAFT_SIDE)
        row = self._row(DRAFT, check, "egpt_error", _DRAFT_COVERS)
        length, most = check.count("egpt_prefill_length", most=1 << 24), self._most_tokens()
        return replace(
            row,
            output_tokens=None if row.error else check.count("draft_tokens"),
            lengths=eventgpt_lengths(length, EVENTGPT_PATCHES + 1),
            figures={"published_prefill_length": float(length)} if length else {},
            settings={} if most is None else {"max_new_tokens": most},
        )

    def _target(self, number: int, raw: dict[str, Any]) -> LegacyRow:
        return self._row(TARGET, RowCheck(raw, number, self._problems, _TARGET_SIDE), "vl_error", _TARGET_COVERS)

    def _row(self, role: str, check: RowCheck, error_key: str, covers: dict[str, list[str]]) -> LegacyRow:
        error = check.text(error_key)
        intervals = tuple(
            Interval(key, tuple(stages), duration, role)
            for key, stages in covers.items()
            if (duration := check.duration_ms(key, is_expected=error is None)) is not None
        )
        if error is not None:
            intervals = ()
            self._problems.of_row(f"{check.name}: failed: {shortened(error)}", check.row)
        elif not intervals:
            error = "the row holds no time that was measured"
        index = finite(check.raw.get("sample_idx"))
        return LegacyRow(
            row=check.row,
            group=check.row,
            side=check.name,
            role=role,
            mode=SIDE_BY_SIDE,
            cell=_cell(self._models[role]),
            sample=f"sample {check.row if index is None else int(index)}",
            prompt=DEFAULT_PROMPT,
            models={role: self._models[role]},
            intervals=intervals,
            values=check.numbers(),
            error=error,
        )

    def _most_tokens(self) -> int | None:
        found = finite(self._preview.config.get("max_draft_tokens"))
        return None if found is None else int(found)

    def finish(self) -> None:
        """What these files measure and what they do not."""
        tell = self._problems.of_file
        errors = self._preview.counts.get(("errors",), 0)
        results = self._preview.counts.get(("results",), 0)
        if not self._succeeded:
            tell(
                f"Not one of {results + errors} samples succeeded with both models; averages that the file gives of "
                "the model that failed are 0.0 over no samples"
            )
        told = finite(self._preview.config.get("max_samples"))
        if told is not None and told > 0 and results + errors != told:
            tell(f"{told:.0f} samples were asked for, and the file tells of {results + errors}")


def _cell(model: LegacyModel) -> str:
    kind = f" {model.quantization}" if model.quantization else ""
    return f"EventGPT{kind}" if model.family == "eventgpt" else f"Video-LLaVA{kind}"


def _statistics() -> dict[str, Statistic]:
    found = {"statistics.n_samples": Statistic(_DRAFT_SIDE, "egpt_prefill_time", "count")}
    for side, key, own in (("eventgpt", "egpt_prefill", _DRAFT_SIDE), ("videollava", "vl_prefill", _TARGET_SIDE)):
        for name in ("time", "length"):
            found[f"statistics.{side}.prefill_{name}_avg"] = Statistic(own, f"{key}_{name}", "avg")
            found[f"statistics.{side}.prefill_{name}_std"] = Statistic(own, f"{key}_{name}", "std")
    for key in ("overlap_window", "draft_tokens", "draft_time", "total_time", "parallel_efficiency"):
        found[f"statistics.parallel.{key}_avg"] = Statistic(_DRAFT_SIDE, key, "avg")
    found["statistics.parallel.draft_tokens_max"] = Statistic(_DRAFT_SIDE, "draft_tokens", "max")
    return found
