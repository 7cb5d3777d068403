"""Files of EventGPT's drafts through a token adapter, verified by the target in one pass, beside the target alone.

Read in their script: the draft is of a fixed length and is verified once; EventGPT's prefill and drafting are timed and
not in the total; the first token that the target decodes itself is not kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.loaders.legacy.checks import SUM_TOLERANCE, FileProblems, RowCheck, sample_name
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.reading import AnswerReader, Covers, Preview, Published, Statistic, told_statistics
from evprof.loaders.legacy.rows import DEFAULT_PROMPT, Interval, LegacyRow, eventgpt_model, video_llava_model

_WHOLE, _VERIFY, _DECODE = "vl_time_ms", "vl_verify_ms", "vl_decode_ms"
_DECODED = f"{_VERIFY} + {_DECODE}"
_COVERS: Covers = {
    TARGET: {
        _WHOLE: ["preprocess", "vision", "prefill", "decode"],
        "vl_prefill_ms": ["vision", "prefill"],
        _DECODED: ["decode"],
    },
    DRAFT: {"egpt_prefill_ms": ["vision", "prefill"], "egpt_draft_ms": ["decode"]},
}
_NAMES = {
    _WHOLE: "Answer",
    "vl_prefill_ms": "Prefill",
    _DECODED: "Verification and decode",
    "egpt_prefill_ms": "EventGPT's prefill",
    "egpt_draft_ms": "EventGPT's draft",
}
_PLAIN, _DRAFTED = "Video-LLaVA 4bit, alone", "Video-LLaVA 4bit, EventGPT's draft through a token adapter"


class VerifiedDrafts(AnswerReader):
    name = "verified drafts"
    looks_for = "results[].vl_verify_ms"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        return _VERIFY in preview.first_row(("results",))

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        self.covers = _COVERS
        self._models = {DRAFT: eventgpt_model("4bit"), TARGET: video_llava_model("4bit")}
        self._settings = preview.count_setting("max_new_tokens", "max_tokens")
        side = _DRAFTED
        self.published = Published(
            totals={TARGET: [_WHOLE]},
            names=_NAMES,
            statistics={
                "summary.n_samples": Statistic(side, "sd_time_ms", "count"),
                "summary.avg_acceptance_rate": Statistic(side, "acceptance_rate", "avg"),
                "summary.avg_speedup": Statistic(side, "speedup", "avg"),
                "summary.output_match_rate": Statistic(side, "output_matches", "avg"),
            },
            told=told_statistics(preview.head, ("summary",)),
        )

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        return [self._plain(number, raw), self._drafted(number, raw)]

    def _plain(self, number: int, raw: dict[str, Any]) -> LegacyRow:
        check = RowCheck(raw, number, self._problems, _PLAIN)
        intervals = check.intervals({_WHOLE: _COVERS[TARGET][_WHOLE]}, TARGET)
        return self._row(check, "target", intervals, "vl_output")

    def _drafted(self, number: int, raw: dict[str, Any]) -> LegacyRow:
        check = RowCheck(raw, number, self._problems, _DRAFTED)
        decoded = [check.duration_ms(key) for key in (_VERIFY, _DECODE)]
        times = {
            "egpt_prefill_ms": (DRAFT, check.duration_ms("egpt_prefill_ms")),
            "egpt_draft_ms": (DRAFT, check.duration_ms("egpt_draft_ms")),
            "vl_prefill_ms": (TARGET, check.duration_ms("vl_prefill_ms")),
            _DECODED: (TARGET, sum(part for part in decoded if part is not None) or None),
        }
        intervals = tuple(
            Interval(key, tuple(_COVERS[role][key]), duration, role)
            for key, (role, duration) in times.items()
            if duration is not None
        )
        self._check_times(check)
        if raw.get("output_matches") is False:
            self._problems.of_row("the answer with a draft differs from the target's own: not lossless", number)
        return replace(self._row(check, "speculative", intervals, "sd_output"), figures=self._figures(check))

    def _check_times(self, check: RowCheck) -> None:
        check.adds_up("sd_time_ms", ("vl_prefill_ms", _VERIFY, _DECODE), "sd_time_ms is not the sum of its parts")
        plain, drafted, told = (check.number(key, is_expected=False) for key in (_WHOLE, "sd_time_ms", "speedup"))
        if plain and drafted and told and abs(told - plain / drafted) > SUM_TOLERANCE * told:
            self._problems.of_row("speedup is not what its own row gives", check.row)

    def _figures(self, check: RowCheck) -> dict[str, float]:
        drafted, accepted = check.ids("adapted_draft_tokens"), check.count("accepted_tokens")
        figures: dict[str, float] = {}
        if drafted and accepted is not None and accepted <= len(drafted):
            figures = {"drafted_tokens": float(len(drafted)), "accepted_tokens": float(accepted)}
        return figures | check.figures({"sd_time_ms": "published_total_ms", "speedup": "published_speedup"})

    def _row(self, check: RowCheck, mode: str, intervals: tuple[Interval, ...], answer: str) -> LegacyRow:
        text, ids = check.text(f"{answer}_text"), check.ids(f"{answer}_tokens")
        count = check.counts_agree(None, ids, text)
        sample, matches = check.count("sample_idx"), check.raw.get("output_matches")
        measured = [entry for entry in intervals if entry.role == TARGET]
        return LegacyRow(
            row=check.row,
            group=check.row,
            side=check.name,
            role=TARGET,
            mode=mode,
            cell=check.name,
            sample=sample_name(sample, check.row),
            prompt=check.text("question") or DEFAULT_PROMPT,
            models={TARGET: self._models[TARGET]} if mode == "target" else dict(self._models),
            intervals=intervals,
            token_ids=ids if count is not None else (),
            text=text,
            output_tokens=count,
            values=check.numbers() | ({"output_matches": float(matches)} if isinstance(matches, bool) else {}),
            settings=dict(self._settings),
            error=None if measured else "the row holds no time of the target that was measured",
        )

    def finish(self) -> None:
        tell = self._problems.of_file
        tell("sd_time_ms and speedup leave out EventGPT's prefill and draft; our totals hold them")
        tell("vl_time_ms begins before preprocessing, the times with a draft after it")
        tell("The script drops the target's first own token, so its answers with a draft are not the target's")
