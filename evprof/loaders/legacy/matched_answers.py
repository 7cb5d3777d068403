"""Files of two models' answers side by side and how many of their tokens are equal: no draft was verified in them.

What a time covers is read in the scripts: generate() as a whole, or, for the shared decoder, from finished features on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.loaders.legacy.checks import MS_PER_S, SUM_TOLERANCE, FileProblems, RowCheck, finite, sample_name
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.reading import Again, AnswerReader, Preview, Published, Statistic, told_statistics
from evprof.loaders.legacy.rows import NO_TIME, LegacyModel, LegacyRow, eventgpt_model, video_llava_model

Kind = tuple[str, str, str]
"""Key, kind and divisor of a statistic (`reading.Statistic`)."""


@dataclass(frozen=True)
class MatchedAnswer:
    """Where a row keeps one answer. `covers` is empty where it is not known what its time holds."""

    role: str
    side: str
    cell: str
    model: LegacyModel
    text: str
    ids: str = ""
    count: str = ""
    time: str = ""
    covers: tuple[str, ...] = ()


@dataclass(frozen=True)
class MatchedShape:
    """One kind of row: its list, the keys that tell it, its answers, the keys of its counts (equal tokens, compared
    ones), where the file keeps its statistics and how they come about, and what is to be said of its times."""

    place: Place
    marks: frozenset[str]
    answers: tuple[MatchedAnswer, ...]
    told: tuple[str, ...]
    statistics: Mapping[str, Kind]
    sentence: str
    counts: tuple[str, str] = ("", "")
    index: str = "sample_idx"
    keys: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        named = {key for answer in self.answers for key in (answer.text, answer.ids, answer.count, answer.time) if key}
        object.__setattr__(self, "keys", frozenset(named))


_DRAFT, _TARGET = eventgpt_model("4bit"), video_llava_model("4bit")
_GENERATED, _DECODED = ("vision", "prefill", "decode"), ("prefill", "decode")


def _answer(role: str, side: str, cell: str, model: LegacyModel, covers: tuple[str, ...]) -> MatchedAnswer:
    return MatchedAnswer(
        role, side, cell, model, f"{side}_output", f"{side}_tokens", time=f"{side}_time", covers=covers
    )


WHOLE_ANSWERS = MatchedShape(
    ("samples",),
    frozenset({"eventgpt_tokens", "videollava_tokens"}),
    (
        _answer(DRAFT, "eventgpt", "EventGPT", eventgpt_model(), _GENERATED),
        _answer(TARGET, "videollava", "Video-LLaVA, 8 video frames", video_llava_model(), _GENERATED),
    ),
    ("results",),
    {
        "results.total_samples": ("total_compared", "count", ""),
        "results.overall_token_acceptance_rate": ("accepted_tokens", "rate", "total_compared"),
        "results.total_accepted_tokens": ("accepted_tokens", "sum", ""),
        "results.total_compared_tokens": ("total_compared", "sum", ""),
        "results.avg_eventgpt_time": ("eventgpt_time", "avg", ""),
        "results.avg_videollava_time": ("videollava_time", "avg", ""),
        "results.avg_c_ratio": ("eventgpt_time", "rate", "videollava_time"),
    },
    "Both times are generate() as a whole; pictures were loaded and preprocessed before the clock starts",
    ("accepted_tokens", "total_compared"),
    "id",
)

SHARED_DECODER = MatchedShape(
    ("samples",),
    frozenset({"draft_tokens", "target_tokens"}),
    (
        _answer(DRAFT, "draft", "Video-LLaVA's decoder on EventGPT's features", video_llava_model(), _DECODED),
        _answer(TARGET, "target", "Video-LLaVA's decoder on its own features", video_llava_model(), _DECODED),
    ),
    ("results",),
    {
        "results.overall_token_acceptance_rate": ("matched_tokens", "rate", "total_tokens"),
        "results.total_matched_tokens": ("matched_tokens", "sum", ""),
        "results.total_tokens_compared": ("total_tokens", "sum", ""),
        "results.avg_draft_time": ("draft_time", "avg", ""),
        "results.avg_target_time": ("target_time", "avg", ""),
        "results.c_ratio": ("draft_time", "rate", "target_time"),
    },
    "Both answers come from one decoder; features and the adapter were worked out before the clock starts",
    ("matched_tokens", "total_tokens"),
    "id",
)

WORD_ESTIMATES = MatchedShape(
    ("results",),
    frozenset({"acceptance_estimate", "egpt_text"}),
    (
        MatchedAnswer(DRAFT, "egpt", "EventGPT 4bit", _DRAFT, "egpt_text", "", "egpt_tokens", "egpt_time"),
        MatchedAnswer(TARGET, "vl", "Video-LLaVA 4bit", _TARGET, "vl_text", "", "vl_tokens", "vl_time"),
    ),
    ("statistics",),
    {
        "statistics.n_samples": ("acceptance_estimate", "count", ""),
        "statistics.egpt_tokens_avg": ("egpt_tokens", "avg", ""),
        "statistics.vl_tokens_avg": ("vl_tokens", "avg", ""),
        "statistics.egpt_time_avg": ("egpt_time", "avg", ""),
        "statistics.vl_time_avg": ("vl_time", "avg", ""),
        "statistics.word_overlap_avg": ("word_overlap", "avg", ""),
        "statistics.char_similarity_avg": ("char_similarity", "avg", ""),
        "statistics.acceptance_rate_avg": ("acceptance_estimate", "avg", ""),
    },
    "Its script is not public, so what egpt_time and vl_time cover is not known; they are figures, no stages",
)

TOKEN_LISTS = MatchedShape(
    ("results",),
    frozenset({"egpt_tokens", "vl_tokens", "egpt_text"}),
    (
        MatchedAnswer(DRAFT, "egpt", "EventGPT 4bit", _DRAFT, "egpt_text", "egpt_tokens"),
        MatchedAnswer(
            DRAFT, "adapter", "EventGPT 4bit, through a token adapter", _DRAFT, "adapter_text", "adapter_tokens"
        ),
        MatchedAnswer(TARGET, "vl", "Video-LLaVA 4bit", _TARGET, "vl_text", "vl_tokens"),
    ),
    ("summary", "eventgpt_success", "videollava_success", "total_samples"),
    {
        "summary.total_samples": ("total_tokens", "count", ""),
        "summary.avg_consecutive_matches": ("consecutive_matches", "avg", ""),
        "summary.avg_total_matches": ("total_matches", "avg", ""),
        "summary.avg_tokens": ("total_tokens", "avg", ""),
        "summary.avg_acceptance_rate": ("acceptance_rate", "avg", ""),
        "eventgpt_success": ("egpt_tokens", "count", ""),
        "videollava_success": ("vl_tokens", "count", ""),
        "total_samples": ("sample_idx", "count", ""),
    },
    "No time is in the file; its runs hold texts and tokens",
    ("total_matches", "total_tokens"),
)

SHAPES = (WHOLE_ANSWERS, SHARED_DECODER, WORD_ESTIMATES, TOKEN_LISTS)
"""In order of asking."""


def shape_of(preview: Preview) -> MatchedShape | None:
    """The kind of a file's rows, by the keys of the first; None where they are none of these."""
    return next((shape for shape in SHAPES if shape.marks <= set(preview.first_row(shape.place))), None)


_FORMULA = "results.theoretical_speedup"


class MatchedAnswers(AnswerReader):
    name = "matched answers"
    looks_for = "samples[].eventgpt_tokens, samples[].draft_tokens or results[].egpt_text"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        return shape_of(preview) is not None

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        shape = shape_of(preview)
        assert shape is not None
        self._shape = shape
        self._place = shape.place
        keys = set().union(*preview.objects(shape.place))
        self._kinds = [answer for answer in shape.answers if {answer.text, answer.ids, answer.count} & keys]
        self._cells = {answer.role: (answer.cell, answer.model) for answer in self._kinds}
        self.covers = {answer.role: {answer.time: list(answer.covers)} for answer in self._kinds if answer.covers}
        side = next(answer.side for answer in shape.answers if answer.role == TARGET)
        told = told_statistics(preview.head, shape.told)
        self.published = Published(
            totals={role: list(keys) for role, keys in self.covers.items()},
            names={answer.time: "Answer" for answer in self._kinds if answer.covers},
            statistics={name: Statistic(side, key, kind, over) for name, (key, kind, over) in shape.statistics.items()},
            told=told,
        )
        self._settings = preview.count_setting("max_new_tokens", "max_new_tokens", "max_tokens")
        self._gamma = finite(preview.config.get("gamma"))
        self._sums: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._runs_of_matches: Counter[int] = Counter()

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        ids = {
            answer.side: RowCheck(raw, number, FileProblems(), "").ids(answer.ids)
            for answer in self._kinds
            if answer.ids
        }
        return [self._row(answer, number, raw, ids) for answer in self._kinds]

    def _row(
        self, answer: MatchedAnswer, number: int, raw: dict[str, Any], ids: dict[str, tuple[int, ...]]
    ) -> LegacyRow:
        check = RowCheck(raw, number, self._problems, answer.side)
        intervals = check.intervals({answer.time: answer.covers} if answer.covers else {}, answer.role)
        text, own = check.text(answer.text), check.ids(answer.ids) if answer.ids else ()
        told = check.count(answer.count) if answer.count else None
        count = check.counts_agree(told, own, text)
        error = None
        if answer.covers and not intervals:
            error = NO_TIME
        elif not text and (not count or not any(own)):
            error = "the answer is empty"
            self._problems.of_row(f"{answer.side}: the answer is empty", number)
        figures: dict[str, float] = {}
        if answer.time and not answer.covers:
            figures = check.figures({answer.time: "published_time_ms"}, MS_PER_S)
        if own and count is None:
            figures["published_output_tokens"] = float(len(own))
        values: dict[str, float] = {}
        if answer.role == TARGET:
            figures |= self._match(check, ids)
            values = check.numbers() | {a.ids: float(len(ids[a.side])) for a in self._kinds if ids.get(a.side)}
        name = raw.get(self._shape.index)
        sample = name if isinstance(name, str) else sample_name(name, number)
        return replace(
            self._row_of(check, answer.role, answer.cell, answer.model, intervals, sample=sample),
            prompt=check.text("question") or check.text("query") or self._preview.prompt,
            token_ids=own if count is not None and error is None else (),
            text=text,
            output_tokens=count if error is None else None,
            figures=figures,
            values=values,
            settings=dict(self._settings),
            error=error,
        )

    def _match(self, check: RowCheck, ids: dict[str, tuple[int, ...]]) -> dict[str, float]:
        """Equal tokens at their places as the file counts them, held against the ids."""
        equal_key, compared_key = self._shape.counts
        self._add_times(check)
        if not equal_key or equal_key not in check.raw:
            return {}
        equal, compared = check.count(equal_key, is_expected=True), check.count(compared_key, is_expected=True)
        if equal is None or compared is None:
            return {}
        self._sums.update(equal=equal, compared=compared)
        if (run := check.count("consecutive_matches")) is not None:
            self._runs_of_matches[run] += 1
        *drafts, target = (ids.get(answer.side, ()) for answer in self._kinds)
        own = sum(one == other for one, other in zip(drafts[-1] if drafts else (), target, strict=False))
        if drafts and drafts[-1] and target and own != equal:
            self._problems.of_row(f"{equal_key} is {equal} where {own} ids are equal at their places", check.row)
        rate = check.number("acceptance_rate", is_expected=False)
        if rate is not None and compared and abs(rate - equal / compared) > SUM_TOLERANCE * max(abs(rate), 1e-9):
            self._problems.of_row("acceptance_rate is not what its own row gives", check.row)
        return {"published_equal_tokens": float(equal), "published_compared_tokens": float(compared)}

    def _add_times(self, check: RowCheck) -> None:
        for answer in self._kinds:
            if answer.covers and (value := check.number(answer.time, is_expected=False)) is not None:
                self._seconds[answer.role] = self._seconds.get(answer.role, 0.0) + value
        self._sums["rows"] += 1

    def finish(self) -> None:
        tell, rows, sums = self._problems.of_file, self._sums["rows"], self._sums
        tell(self._shape.sentence)
        if self._shape is WORD_ESTIMATES:
            tell(
                "acceptance_estimate is the mean of word overlap and character similarity, no share of accepted tokens"
            )
        else:
            tell("acceptance_rate is the share of ids equal at their places in two answers; no draft was verified")
        if rows and _FORMULA in (self.published.told or {}):
            tell("theoretical_speedup follows from that share by a formula and was not measured")
            times = [self._seconds.get(answer.role, 0.0) / rows for answer in self._kinds]
            speedup = Again(sums["equal"], sums["compared"], times[0], times[-1], self._gamma).speedup
            if speedup is not None:
                self.published.computed[_FORMULA] = speedup
        for run, count in self._runs_of_matches.items():
            self.published.computed[f"summary.consecutive_distribution.{run}"] = float(count)
