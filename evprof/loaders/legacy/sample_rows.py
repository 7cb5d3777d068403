"""Files that are one list of rows, each with the texts, token ids and stage times of both models.

Three stages (load, preprocess, everything else) or four (vision apart from the language model).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.loaders.legacy.checks import FileProblems, RowCheck, mib_bytes
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.reading import AnswerReader, Preview, Published
from evprof.loaders.legacy.rows import (
    DEFAULT_PROMPT,
    NO_TIME,
    SIDE_BY_SIDE,
    SIDES,
    LegacyModel,
    LegacyRow,
    eventgpt_model,
    llava_model,
    video_llava_model,
)

_STAGE_KEY = re.compile(r"([a-z0-9_.-]{1,40})_stage1_time\Z")

_SCRIPT_TOKENS, _SCRIPT_TEMPERATURE = 512, 0.6
"""What the script that wrote these files asked EventGPT for; the files do not say."""


_NAMES = {"eventgpt": "EventGPT", "llava": "LLaVA-1.5", "video_llava": "Video-LLaVA"}


class SampleRows(AnswerReader):
    name = "per-sample rows"
    looks_for = "a list of rows with egpt_stage1_time or egpt_token_ids"
    _place = ()

    @staticmethod
    def recognises(preview: Preview) -> bool:
        return bool(_prefixes(preview))

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        self._prefixes = _prefixes(preview)
        rows = preview.objects(())
        keys = {key for row in rows for key in row}
        self._stages = {prefix: _stage_keys(prefix, keys) for prefix in self._prefixes}
        self._texts = {prefix: _text_key(prefix, rows) for prefix in self._prefixes}
        self.covers = {
            SIDES[prefix]: {key: list(stages) for key, stages in found.items()}
            for prefix, found in self._stages.items()
        }
        self.published = Published(
            totals={SIDES[prefix]: list(found) for prefix, found in self._stages.items()},
            names={
                key: f"Stage {place}" for found in self._stages.values() for place, key in enumerate(found, start=1)
            },
        )

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        return [self._row(prefix, number, raw) for prefix in self._prefixes if self._has(prefix, raw)]

    def _has(self, prefix: str, raw: dict[str, Any]) -> bool:
        return any(raw.get(key) is not None for key in (*self._stages[prefix], f"{prefix}_token_ids", prefix))

    def _row(self, prefix: str, number: int, raw: dict[str, Any]) -> LegacyRow:
        role = SIDES[prefix]
        check = RowCheck(raw, number, self._problems, prefix)
        intervals = check.intervals(self._stages[prefix], role)
        check.adds_up(f"{prefix}_time", self._stages[prefix], f"{prefix}_time is not the sum of its stages")
        text = check.text(self._texts[prefix])
        ids = check.ids(f"{prefix}_token_ids")
        count = check.counts_agree(None, ids, text)
        weights = mib_bytes(check.number(f"{prefix}_memory_model_mb", is_expected=False))
        inference = mib_bytes(check.number(f"{prefix}_memory_inference_mb", is_expected=False))
        if weights is None or inference is None:
            self._problems.of_row(f"{prefix}: the memory fields are null or not there", number)
        sample = check.text("event_data") or check.text("id") or f"row {number}"
        error, model = check.text(f"{prefix}_error"), self._model(prefix, weights)
        if not intervals and not error:
            error = NO_TIME
        row = self._row_of(check, role, _NAMES[model.family], model, intervals, sample=sample)
        return replace(
            row,
            mode=SIDE_BY_SIDE if len(self._prefixes) > 1 else role,
            prompt=check.text("query") or DEFAULT_PROMPT,
            events_path=check.text("event_data"),
            video_path=check.text("video_data"),
            token_ids=ids if count is not None else (),
            text=text,
            output_tokens=count,
            figures={
                **({"inference_memory_bytes": float(inference)} if inference else {}),
                **({"published_output_tokens": float(len(ids))} if ids and count is None else {}),
            },
            settings={"temperature": _SCRIPT_TEMPERATURE, "max_new_tokens": _SCRIPT_TOKENS} if role == DRAFT else {},
            error=error,
        )

    def _model(self, prefix: str, weights: int | None) -> LegacyModel:
        if SIDES[prefix] == DRAFT:
            return eventgpt_model(weight_bytes=weights)
        is_llava = prefix == "llava" or self._texts[prefix].startswith("llava-")
        return llava_model(weight_bytes=weights) if is_llava else video_llava_model(weight_bytes=weights)

    def finish(self) -> None:
        tell = self._problems.of_file
        if any(len(found) == 3 for found in self._stages.values()):
            tell("Stage 3 is vision, prefill and decode in one piece; their shares are not known")
        if any(len(found) == 4 for found in self._stages.values()):
            tell("Stage 4 is prefill and decode in one piece, of the video model vision once more as well")
        if "egpt" in self._prefixes or "eventgpt" in self._prefixes:
            tell(
                "The file does not say how texts were generated: its script sampled EventGPT at a temperature of "
                f"{_SCRIPT_TEMPERATURE} with up to {_SCRIPT_TOKENS} tokens, so lengths vary by chance"
            )


def _stage_keys(prefix: str, keys: set[str]) -> dict[str, tuple[str, ...]]:
    """The keys of the stages and what they cover, by how many there are."""
    listed = [f"{prefix}_stage{place}_time" for place in range(1, 6)]
    count = max((place for place, key in enumerate(listed, start=1) if key in keys), default=3)
    is_target = SIDES[prefix] == TARGET
    once_more = ("vision",) if is_target else ()
    parts: dict[int, tuple[tuple[str, ...], ...]] = {
        3: (("load",), ("preprocess",), ("vision", "prefill", "decode")),
        4: (("load",), ("preprocess",), ("vision",), (*once_more, "prefill", "decode")),
        5: (("load",), ("preprocess",), ("vision",), (*once_more, "prefill"), ("decode",)),
    }
    return dict(zip(listed, parts[max(3, count)], strict=False))


def _text_key(prefix: str, rows: list[dict[str, Any]]) -> str:
    """The key of the answers: the prefix itself, or the model's own name that begins with it."""
    for row in rows:
        for key, value in row.items():
            if isinstance(value, str) and (key == prefix or (key.startswith(f"{prefix}-") and "_" not in key)):
                return key
    return prefix


def _prefixes(preview: Preview) -> list[str]:
    """How the rows' keys call the models, EventGPT first."""
    found: dict[str, None] = {}
    for row in preview.first.get((), []):
        for key in row if isinstance(row, dict) else ():
            match = _STAGE_KEY.match(key)
            prefix = match[1] if match else key.removesuffix("_token_ids") if key.endswith("_token_ids") else ""
            if prefix in SIDES:
                found[prefix] = None
    return sorted(found, key=lambda prefix: SIDES[prefix] != DRAFT)
