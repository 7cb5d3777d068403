"""The kinds of rows that hold two models' answers side by side, as tables: where each thing stands in a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evprof.core.records import DRAFT, TARGET
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.reading import Preview
from evprof.loaders.legacy.rows import LegacyModel, eventgpt_model, video_llava_model

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
