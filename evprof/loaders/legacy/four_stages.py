"""Files with four stage times of both models, each in a list of its own, and how their answers match.

What the times cover is read in the script that wrote them: EventGPT's stage 3 encodes the first of its five pictures
and stage 4 generates from it; the target's stage 3 is clocked by hooks on its vision tower inside generate(), and its
stage 4 is the rest. The target is LLaVA-1.5, shown the first picture of events: no video takes part.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.loaders.legacy.checks import FileProblems, RowCheck, finite, known, mapping, sample_name
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.reading import (
    NO_SAMPLE,
    AnswerReader,
    Preview,
    Published,
    Statistic,
    speculation_again,
    told_statistics,
)
from evprof.loaders.legacy.rows import (
    LLAVA_PATCHES,
    SIDE_BY_SIDE,
    LegacyRow,
    Lengths,
    eventgpt_model,
    llava_model,
)

_LISTS = {"eventgpt_results": DRAFT, "videollava_results": TARGET}
_KEYS = {
    "stage1_time": ("load",),
    "stage2_time": ("preprocess",),
    "stage3_time": ("vision",),
    "stage4_time": ("prefill", "decode"),
}
_CELLS = {DRAFT: "EventGPT, 1 event frame", TARGET: "LLaVA-1.5, 1 picture of events"}

_IMAGE_ID, _ASSISTANT = 32000, (9047, 13566, 29901)
"""The id of a picture's place in LLaVA's prompts, and the end of “ASSISTANT:”, with which they end."""

_SCRIPT_TOKENS, _SCRIPT_TEMPERATURE = 512, 0.6
"""What the script asks of both models, whatever its files say of max_new_tokens."""


class FourStages(AnswerReader):
    name = "four stages"
    looks_for = "eventgpt_results[].stage4_time"
    left_out = NO_SAMPLE

    @staticmethod
    def recognises(preview: Preview) -> bool:
        return any("stage4_time" in preview.first_row((name,)) for name in _LISTS)

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        self._sides = {name: role for name, role in _LISTS.items() if (name,) in preview.counts}
        self._models = {DRAFT: eventgpt_model(), TARGET: llava_model()}
        self.covers = {role: {key: list(stages) for key, stages in _KEYS.items()} for role in self._sides.values()}
        matching = mapping(preview.head.get("speculative_decoding"))
        parts = ("eventgpt_summary", "videollava_summary", "speculative_decoding")
        self.published = Published(
            totals={role: list(_KEYS) for role in self._sides.values()},
            names=dict(zip(_KEYS, ("Load", "Preprocess", "Vision encoding", "LLM decoding"), strict=True)),
            statistics=_statistics(self._sides),
            computed={f"speculative_decoding.{key}": value for key, value in _matching(matching).items()},
            told=told_statistics(preview.head, parts),
        )
        self._rows_with_prompt = 0

    def _holds_answers(self, place: Place) -> bool:
        return len(place) == 1 and place[0] in self._sides

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        role = self._sides[place[0]]
        name = "eventgpt" if role == DRAFT else "videollava"
        check = RowCheck(raw, number, self._problems, name)
        intervals = check.intervals(_KEYS, role)
        check.adds_up("total_time", _KEYS, "total_time is not the sum of the four stages")
        text, all_ids = check.text("output"), check.ids("token_ids")
        prompt, ids = self._answer(check, all_ids)
        told = check.count("tokens")
        count = check.counts_agree(None if prompt else told, ids, text)
        sample = check.count("sample")
        counted = float(told) if told and told != count else None
        group = number if sample is None else sample
        row = self._row_of(check, role, _CELLS[role], self._models[role], intervals, sample=sample_name(sample, number))
        return [
            replace(
                row,
                group=group,
                mode=SIDE_BY_SIDE if len(self._sides) > 1 else role,
                token_ids=ids if count is not None else (),
                text=text,
                output_tokens=count,
                lengths=Lengths(prompt, prompt - LLAVA_PATCHES, LLAVA_PATCHES, (LLAVA_PATCHES,)) if prompt else None,
                figures={} if counted is None else {"published_output_tokens": counted},
                settings={
                    **({"event_frames": 1} if role == DRAFT else {"frames": 1}),
                    "temperature": _SCRIPT_TEMPERATURE,
                    "max_new_tokens": _SCRIPT_TOKENS,
                },
            )
        ]

    def _answer(self, check: RowCheck, ids: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """Length of the prompt that ids begin with (0: none), and the ids of the answer."""
        if ids.count(_IMAGE_ID) != LLAVA_PATCHES:
            return 0, ids
        last = len(ids) - 1 - ids[::-1].index(_IMAGE_ID)
        ends = (place + 3 for place in range(last, len(ids) - 2) if ids[place : place + 3] == _ASSISTANT)
        end = next(ends, None)
        if end is None:
            return 0, ids
        self._problems.of_row(
            f"{check.name}: token_ids begin with the {end} ids of the prompt, so tokens counts both; ours are those "
            "after it",
            check.row,
        )
        self._rows_with_prompt += 1
        return end, ids[end:]

    def finish(self) -> None:
        tell = self._problems.of_file
        tell("Stage 4 is prefill and decode in one piece; their shares are not known")
        if DRAFT in self.covers:
            tell("EventGPT's stage 3 encodes the first of its pictures, without the adaptor and without pooling")
        if TARGET in self.covers:
            tell(
                f"What the file calls videollava is {self._models[TARGET].name}, shown one picture of events and no "
                "video"
            )
        told = finite(self._preview.config.get("max_new_tokens"))
        tell(
            f"The script samples both models at temperature {_SCRIPT_TEMPERATURE} with up to {_SCRIPT_TOKENS} tokens"
            + (f", not {told:.0f} as its settings say" if told is not None and told != _SCRIPT_TOKENS else "")
        )
        if self._rows_with_prompt and "speculative_decoding" in self._preview.head:
            tell(
                "speculative_decoding holds EventGPT's answers against ids that begin with the target's prompt, so its "
                "acceptance is of no answer"
            )


def _matching(told: dict[str, Any]) -> dict[str, float]:
    """What the file says of matching answers, from its own rows of pairs."""
    listed = told.get("per_sample")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    if not rows:
        return {}
    found = speculation_again(
        rows, ("matched_tokens", "compared_tokens"), ("egpt_time", "vllava_time"), finite(told.get("gamma"))
    )
    return known(
        {
            "matched_samples": float(len(rows)),
            "total_matched_tokens": found.matched,
            "total_compared_tokens": found.compared,
            "overall_acceptance_rate": found.rate,
            "avg_egpt_time": found.draft_time,
            "avg_vllava_time": found.target_time,
            "c_ratio": found.cost,
            "theoretical_speedup": found.speedup,
        }
    )


def _statistics(sides: dict[str, str]) -> dict[str, Statistic]:
    found: dict[str, Statistic] = {}
    for listed in sides:
        side = listed.removesuffix("_results")
        found[f"{side}_summary.samples"] = Statistic(side, "total_time", "count")
        for key in (*_KEYS, "total_time"):
            found[f"{side}_summary.{key.removesuffix('_time')}_avg"] = Statistic(side, key, "avg")
        found[f"{side}_summary.tokens_avg"] = Statistic(side, "tokens", "avg")
    return found
