"""Files in which EventGPT drafts for a target: end to end, verified once, or as two models' answers side by side.

The scripts that wrote the files define what each time covers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.loaders.legacy.checks import MS_PER_S, FileProblems, RowCheck, differs, finite, mapping, shortened
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.reading import (
    AnswerField,
    AnswerReader,
    Preview,
    Published,
    Statistic,
    told_statistics,
)
from evprof.loaders.legacy.rows import (
    NO_TIME,
    Interval,
    LegacyModel,
    LegacyRow,
    eventgpt_model,
    video_llava_model,
)

_DRAFT, _TARGET = eventgpt_model("4bit"), video_llava_model("4bit")
"""The models of the scripts, which the files do not name."""

_VISION_PREFILL, _DECODE = ("vision", "prefill"), ("decode",)


def _speculative(row: LegacyRow, intervals: tuple[Interval, ...], figures: dict[str, float]) -> LegacyRow:
    """The row of a target with drafts."""
    measured = [entry for entry in intervals if entry.role == TARGET]
    return replace(
        row,
        mode="speculative",
        models={DRAFT: _DRAFT, TARGET: _TARGET},
        intervals=intervals,
        figures=figures,
        error=None if measured else NO_TIME,
    )


def _counts(check: RowCheck, drafted: int | None, accepted: int | None) -> dict[str, float]:
    """Drafted and accepted tokens; empty where they contradict each other."""
    if drafted is None or accepted is None:
        return {}
    if accepted > drafted:
        check.problems.of_row(f"{check.name}: more tokens were accepted than drafted", check.row)
        return {}
    return {"drafted_tokens": float(drafted), "accepted_tokens": float(accepted)}


# End to end


_BASELINE, _SPECULATIVE = "baseline_per_sample", "sd_per_sample"
_PLAIN = "VL baseline"
_TIMES: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "prefill_ms": (TARGET, _VISION_PREFILL, "Prefill"),
    "vl_prefill_ms": (TARGET, _VISION_PREFILL, "Prefill"),
    "decode_ms": (TARGET, _DECODE, "Decode"),
    "sd_decode_ms": (TARGET, _DECODE, "Decode"),
    "egpt_prefill_ms": (DRAFT, _VISION_PREFILL, "EventGPT's prefill"),
    "egpt_decode_ms": (DRAFT, _DECODE, "EventGPT's decode"),
}


class EndToEnd(AnswerReader):
    """The target alone for each question, and with EventGPT's drafts through adapters. EventGPT answers completely
    before the adapter drafts from its hidden states. One measurement of prefill serves all adapters."""

    name = "end to end"
    looks_for = "baseline_per_sample and sd_per_sample"
    left_out = "a row is no run that is known and was left out"
    _index = "sample"
    _is_paired = False

    @staticmethod
    def recognises(preview: Preview) -> bool:
        return any(place[:1] in ((_BASELINE,), (_SPECULATIVE,)) for place in preview.counts)

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        settings = preview.count_setting("max_new_tokens", "max_new_tokens") | preview.count_setting("gamma", "gamma")
        self._drafted = AnswerField(TARGET, "", "", _TARGET, text="text", count="n_tokens", settings=settings)
        self._plain = replace(
            self._drafted,
            side=_PLAIN,
            cell="Video-LLaVA 4bit, alone",
            covers={"prefill_ms": _VISION_PREFILL, "decode_ms": _DECODE},
            total="total_ms",
        )
        self._adapters = [place[1] for place in preview.counts if place[:1] == (_SPECULATIVE,) and len(place) == 2]
        self._sections: dict[int, set[float]] = {}
        self.covers = {
            side: {key: list(stages) for key, (role, stages, _) in _TIMES.items() if role == side}
            for side in (TARGET, DRAFT)
        }
        statistics = {
            f"aggregate.{_PLAIN}.{key}_mean": Statistic(_PLAIN, key, "avg") for key in ("prefill_ms", "decode_ms")
        }
        renamed = {"prefill_ms": "parallel_prefill_ms", "decode_ms": "sd_decode_ms", "total_ms": "sd_total_ms"}
        renamed |= {key: key for key in ("speedup", "accept_rate", "overlap_ms", "num_free_tok")}
        for adapter in self._adapters:
            head, side = f"aggregate.{adapter}", shortened(adapter, 60)
            statistics |= {f"{head}.{name}_mean": Statistic(side, key, "avg") for name, key in renamed.items()}
            statistics[f"{head}.n_samples"] = Statistic(side, "sd_total_ms", "count")
        self.published = Published(
            totals={TARGET: ["prefill_ms", "decode_ms"]},
            names={key: name for key, (_, _, name) in _TIMES.items()},
            statistics=statistics,
            over_nothing=frozenset(f"aggregate.{_PLAIN}.{key}_mean" for key in ("speedup", "accept_rate")),
        )

    def _holds_answers(self, place: Place) -> bool:
        return place == (_BASELINE,) or (len(place) == 2 and place[0] == _SPECULATIVE)

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        if place == (_BASELINE,):
            return [self._row(self._plain, number, raw)[0]]
        name = shortened(place[1], 60)
        answer = replace(self._drafted, side=name, cell=f"Video-LLaVA 4bit, {name}")
        row, check = self._row(answer, number, raw)
        section = check.duration_ms("parallel_prefill_ms")
        overlap = check.number("overlap_ms") or 0.0
        prefills = _laid_out(check, ("egpt_prefill_ms", "vl_prefill_ms"), overlap)
        reach = max((_end_ms(entry) for entry in prefills), default=0.0)
        if section is not None and section > reach and len(prefills) == 2:
            # The section ends with the last prefill: the time that both took from each other lies between them.
            prefills = (prefills[0], replace(prefills[1], start_ms=section - prefills[1].duration_ms))
        if section is not None:
            self._sections.setdefault(number, set()).add(section)
            if section > 1.02 * sum(entry.duration_ms for entry in prefills) > 0:
                self._problems.of_row(
                    "parallel_prefill_ms is longer than both prefills one after the other: the threads hindered each "
                    "other",
                    number,
                )
        decodes = _laid_out(check, ("egpt_decode_ms", "sd_decode_ms"), start_ms=max(reach, section or 0.0))
        self._check_total(check)
        return [_speculative(row, (*prefills, *decodes), self._figures(check))]

    def _check_total(self, check: RowCheck) -> None:
        keys = ("sd_total_ms", "parallel_prefill_ms", "egpt_decode_ms", "sd_decode_ms")
        values = [check.number(key, is_expected=False) for key in keys]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return
        total, section, drafted, decode = known
        if not differs(total, section + decode) and differs(total, total - drafted):
            self._problems.of_row(
                "sd_total_ms leaves egpt_decode_ms out, as if EventGPT had answered beside the target's prefill; both "
                "ran one after the other, so total and speedup are of a model and were not measured",
                check.row,
            )
        elif differs(total, section + drafted + decode):
            self._problems.of_row("sd_total_ms is not the sum of its parts", check.row)

    def _figures(self, check: RowCheck) -> dict[str, float]:
        drafted, accepted = check.count("drafted"), check.count("accepted")
        figures = _counts(check, drafted, accepted)
        if figures:
            check.ratio_agrees("accept_rate", figures["accepted_tokens"], figures["drafted_tokens"])
        total, plain = check.number("sd_total_ms"), check.number("bl_total_ms", is_expected=False)
        check.ratio_agrees("speedup", plain, total)
        named = {"sd_total_ms": "published_total_ms", "parallel_prefill_ms": "prefill_section_ms"}
        figures |= check.figures(named | {"speedup": "published_speedup"})
        per_turn, tokens = check.number("tokens_per_iter", is_expected=False), check.count("n_tokens")
        if per_turn and tokens:
            figures["rounds"] = round(tokens / per_turn)
            if drafted is not None and drafted < tokens / 2:
                self._problems.of_row(
                    "fewer than half as many tokens were drafted as answered; the rest was decoded "
                    "plainly and counts in tokens_per_iter",
                    check.row,
                )
        return figures

    def finish(self) -> None:
        tell, config = self._problems.of_file, self._preview.config
        tell("Loading and preprocessing were not measured; every prefill_ms is vision and prefill in one piece")
        tell(
            "Which models and weights were used is not in the file; its script loads EventGPT and "
            f"{_TARGET.name}, both in {_TARGET.quantization}"
        )
        timing = mapping(self._preview.head.get("stage_timing"))
        for side, values in timing.items():
            if finite(mapping(values).get("vision_ms")) == 0:
                tell(f"stage_timing.{side}.vision_ms is 0.0: not measured, that vision is inside prefill_ms")
        if timing:
            tell("stage_timing is of one warm-up sample; no run is made of it")
        if len(self._adapters) > 1 and all(len(values) == 1 for values in self._sections.values()):
            tell(
                f"The {len(self._adapters)} adapters share one measurement of both prefills per question, so their "
                "prefill times are not independent"
            )
        questions = finite(config.get("n_questions"))
        if finite(config.get("max_samples")) == 1 and questions:
            tell(
                f"All rows are questions about one sample ({questions:,.0f} questions); they say nothing of other "
                "scenes"
            )
        if finite(config.get("warmup")) == 0:
            tell("The script was asked for no warm-up")


def _end_ms(entry: Interval) -> float:
    return (entry.start_ms or 0.0) + entry.duration_ms


def _laid_out(
    check: RowCheck, keys: tuple[str, ...], overlap_ms: float = 0.0, start_ms: float = 0.0
) -> tuple[Interval, ...]:
    """Times one after the other, the second beginning `overlap_ms` before the first ends."""
    laid: list[Interval] = []
    for key in keys:
        duration = check.duration_ms(key)
        if duration is not None:
            role, stages, _ = _TIMES[key]
            begin = max(start_ms, _end_ms(laid[-1]) - overlap_ms) if laid else start_ms
            laid.append(Interval(key, stages, duration, role, begin))
    return tuple(laid)


# Drafts verified in one pass


_VERIFIED = {
    "egpt_prefill_ms": ((DRAFT, _VISION_PREFILL), "EventGPT's prefill"),
    "egpt_draft_ms": ((DRAFT, _DECODE), "EventGPT's draft"),
    "vl_prefill_ms": ((TARGET, _VISION_PREFILL), "Prefill"),
    "vl_verify_ms + vl_decode_ms": ((TARGET, _DECODE), "Verification and decode"),
}
_ALONE = "vl_time_ms"


class VerifiedDrafts(AnswerReader):
    """Drafts of a fixed length through a token adapter, verified once, beside the target alone. The file's total leaves
    EventGPT's times out. The script drops the first token that the target decodes itself."""

    name = "verified drafts"
    looks_for = "results[].vl_verify_ms"
    _is_paired = False

    @staticmethod
    def recognises(preview: Preview) -> bool:
        return "vl_verify_ms" in preview.first_row(("results",))

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        alone, drafted = "Video-LLaVA 4bit, alone", "Video-LLaVA 4bit, EventGPT's draft through a token adapter"
        settings = preview.count_setting("max_new_tokens", "max_tokens")
        covers = {_ALONE: ("preprocess", "vision", "prefill", "decode")}
        self._alone, self._drafted = (
            AnswerField(TARGET, side, side, _TARGET, times, text=f"{key}_text", ids=f"{key}_tokens", settings=settings)
            for side, times, key in ((alone, covers, "vl_output"), (drafted, {}, "sd_output"))
        )
        self._publish([self._alone], {_ALONE: "Answer"} | {key: name for key, (_, name) in _VERIFIED.items()})
        for key, ((role, stages), _) in _VERIFIED.items():
            self.covers.setdefault(role, {})[key] = list(stages)
        means = {"acceptance_rate": "avg_acceptance_rate", "speedup": "avg_speedup"}
        means["output_matches"] = "output_match_rate"
        self.published.statistics = {f"summary.{name}": Statistic(drafted, key, "avg") for key, name in means.items()}
        self.published.statistics["summary.n_samples"] = Statistic(drafted, "sd_time_ms", "count")
        self.published.told = told_statistics(preview.head, ("summary",))

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        alone, _ = self._row(self._alone, number, raw)
        row, check = self._row(self._drafted, number, raw)
        intervals = []
        for key, ((role, stages), _) in _VERIFIED.items():
            duration = sum(check.duration_ms(part) or 0.0 for part in key.split(" + "))
            intervals += [Interval(key, stages, duration, role)] if duration else []
        check.adds_up("sd_time_ms", ("vl_prefill_ms", "vl_verify_ms", "vl_decode_ms"))
        check.ratio_agrees("speedup", finite(raw.get(_ALONE)), finite(raw.get("sd_time_ms")))
        matches = raw.get("output_matches")
        if matches is False:
            self._problems.of_row("the answer with a draft differs from the target's own: not lossless", number)
        ids = check.ids("adapted_draft_tokens")
        figures = _counts(check, len(ids) or None, check.count("accepted_tokens"))
        figures |= check.figures({"sd_time_ms": "published_total_ms", "speedup": "published_speedup"})
        drafted = _speculative(row, tuple(intervals), figures)
        values = {"output_matches": float(matches)} if isinstance(matches, bool) else {}
        return [alone, replace(drafted, values=row.values | values)]

    def finish(self) -> None:
        tell = self._problems.of_file
        tell("sd_time_ms and speedup leave out EventGPT's prefill and draft; our totals hold them")
        tell("vl_time_ms begins before preprocessing, the times with a draft after it")
        tell("The script drops the target's first own token, so its answers with a draft are not the target's")


# Two models' answers side by side


@dataclass(frozen=True)
class MatchedShape:
    """One kind of row: its list, the keys that identify it, its answers (the target's last), the keys of its equal and
    compared tokens, the parts of the file with its statistics, and how these follow from the rows."""

    place: Place
    marks: frozenset[str]
    answers: tuple[AnswerField, ...]
    told: tuple[str, ...]
    statistics: Mapping[str, tuple[str, ...]]
    sentence: str
    counts: tuple[str, str] = ("", "")


_ESTIMATE = "acceptance_estimate is the mean of word overlap and character similarity, no share of accepted tokens"
_SHARE = "acceptance_rate is the share of ids equal at their places in two answers; no draft was verified"


def _timed(role: str, side: str, cell: str, model: LegacyModel, stages: tuple[str, ...]) -> AnswerField:
    return AnswerField(role, side, cell, model, {f"{side}_time": stages}, text=f"{side}_output", ids=f"{side}_tokens")


def _means(*keys: str) -> dict[str, tuple[str, ...]]:
    return {f"statistics.{key}_avg": (key, "avg") for key in keys}


SHAPES = (
    MatchedShape(
        ("samples",),
        frozenset({"eventgpt_tokens", "videollava_tokens"}),
        (
            _timed(DRAFT, "eventgpt", "EventGPT", eventgpt_model(), (*_VISION_PREFILL, "decode")),
            _timed(
                TARGET,
                "videollava",
                "Video-LLaVA, 8 video frames",
                video_llava_model(),
                (*_VISION_PREFILL, "decode"),
            ),
        ),
        ("results",),
        {
            "results.total_samples": ("total_compared", "count"),
            "results.overall_token_acceptance_rate": ("accepted_tokens", "rate", "total_compared"),
            "results.total_accepted_tokens": ("accepted_tokens", "sum"),
            "results.total_compared_tokens": ("total_compared", "sum"),
            "results.avg_eventgpt_time": ("eventgpt_time", "avg"),
            "results.avg_videollava_time": ("videollava_time", "avg"),
            "results.avg_c_ratio": ("eventgpt_time", "rate", "videollava_time"),
        },
        "Both times are generate() as a whole; pictures were loaded and preprocessed before the clock starts",
        ("accepted_tokens", "total_compared"),
    ),
    MatchedShape(
        ("samples",),
        frozenset({"draft_tokens", "target_tokens"}),
        (
            _timed(
                DRAFT,
                "draft",
                "Video-LLaVA's decoder on EventGPT's features",
                video_llava_model(),
                ("prefill", "decode"),
            ),
            _timed(
                TARGET,
                "target",
                "Video-LLaVA's decoder on its own features",
                video_llava_model(),
                ("prefill", "decode"),
            ),
        ),
        ("results",),
        {
            "results.overall_token_acceptance_rate": ("matched_tokens", "rate", "total_tokens"),
            "results.total_matched_tokens": ("matched_tokens", "sum"),
            "results.total_tokens_compared": ("total_tokens", "sum"),
            "results.avg_draft_time": ("draft_time", "avg"),
            "results.avg_target_time": ("target_time", "avg"),
            "results.c_ratio": ("draft_time", "rate", "target_time"),
        },
        "Both answers come from one decoder; features and the adapter were worked out before the clock starts",
        ("matched_tokens", "total_tokens"),
    ),
    MatchedShape(
        ("results",),
        frozenset({"acceptance_estimate", "egpt_text"}),
        (
            AnswerField(DRAFT, "egpt", "EventGPT 4bit", _DRAFT, text="egpt_text", count="egpt_tokens"),
            AnswerField(TARGET, "vl", "Video-LLaVA 4bit", _TARGET, text="vl_text", count="vl_tokens"),
        ),
        ("statistics",),
        {
            "statistics.n_samples": ("acceptance_estimate", "count"),
            "statistics.acceptance_rate_avg": ("acceptance_estimate", "avg"),
            **_means("egpt_tokens", "vl_tokens", "egpt_time", "vl_time", "word_overlap", "char_similarity"),
        },
        "Its script is not public, so what egpt_time and vl_time cover is not known; they are figures, no stages",
    ),
    MatchedShape(
        ("results",),
        frozenset({"egpt_tokens", "vl_tokens", "egpt_text"}),
        (
            AnswerField(DRAFT, "egpt", "EventGPT 4bit", _DRAFT, text="egpt_text", ids="egpt_tokens"),
            AnswerField(
                DRAFT,
                "adapter",
                "EventGPT 4bit, through a token adapter",
                _DRAFT,
                text="adapter_text",
                ids="adapter_tokens",
            ),
            AnswerField(TARGET, "vl", "Video-LLaVA 4bit", _TARGET, text="vl_text", ids="vl_tokens"),
        ),
        ("summary", "eventgpt_success", "videollava_success", "total_samples"),
        {
            "summary.total_samples": ("total_tokens", "count"),
            "summary.avg_consecutive_matches": ("consecutive_matches", "avg"),
            "summary.avg_total_matches": ("total_matches", "avg"),
            "summary.avg_tokens": ("total_tokens", "avg"),
            "summary.avg_acceptance_rate": ("acceptance_rate", "avg"),
            "eventgpt_success": ("egpt_tokens", "count"),
            "videollava_success": ("vl_tokens", "count"),
            "total_samples": ("sample_idx", "count"),
        },
        "No time is in the file; its runs hold texts and tokens",
        ("total_matches", "total_tokens"),
    ),
)
"""In order of precedence."""


def _shape_of(preview: Preview) -> MatchedShape | None:
    return next((shape for shape in SHAPES if shape.marks <= set(preview.first_row(shape.place))), None)


class MatchedAnswers(AnswerReader):
    """Two models' answers and how many of their tokens are equal: the scripts verified no draft."""

    name = "matched answers"
    looks_for = "samples[].eventgpt_tokens, samples[].draft_tokens or results[].egpt_text"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        return _shape_of(preview) is not None

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        shape = _shape_of(preview)
        assert shape is not None
        self._shape, self._place = shape, shape.place
        self._index = "id" if shape.place == ("samples",) else "sample_idx"
        keys = set().union(*preview.objects(shape.place))
        settings = preview.count_setting("max_new_tokens", "max_new_tokens", "max_tokens")
        self._sides = [
            replace(answer, settings=settings)
            for answer in shape.answers
            if {answer.text, answer.ids, answer.count} & (keys - {""})
        ]
        self._cells = {answer.role: (answer.cell, answer.model) for answer in self._sides}
        side = shape.answers[-1].side
        timed = [answer for answer in self._sides if answer.covers]
        self._publish(
            timed,
            {key: "Answer" for answer in timed for key in answer.covers},
            statistics={name: Statistic(side, *made) for name, made in shape.statistics.items()},
            told=told_statistics(preview.head, shape.told),
        )
        self._runs_of_matches: Counter[int] = Counter()

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        rows = [self._of_side(answer, number, raw) for answer in self._sides]
        ids = {answer.ids: RowCheck(raw, number, FileProblems(), "").ids(answer.ids) for answer in self._sides}
        lengths = {key: float(len(listed)) for key, listed in ids.items() if key and listed}
        target = rows[-1]
        if target.role == TARGET:
            check = RowCheck(raw, number, self._problems, target.side)
            figures = target.figures | self._match(check, list(ids.values()))
            rows[-1] = replace(target, figures=figures, values=target.values | lengths)
        return rows

    def _of_side(self, answer: AnswerField, number: int, raw: dict[str, Any]) -> LegacyRow:
        row, check = self._row(answer, number, raw)
        figures, error = dict(row.figures), row.error
        if not answer.covers:
            figures |= check.figures({f"{answer.side}_time": "published_time_ms"}, MS_PER_S)
        if (
            error is None
            and not row.text
            and (not row.output_tokens or not any(check.ids(answer.ids) or (answer.count,)))
        ):
            error = "the answer is empty"
            self._problems.of_row(f"{answer.side}: the answer is empty", number)
        if error is not None:
            row = replace(row, token_ids=(), output_tokens=None)
        return replace(row, figures=figures, error=error)

    def _match(self, check: RowCheck, ids: list[tuple[int, ...]]) -> dict[str, float]:
        """The file's counts of tokens that are equal at their positions, checked against the ids."""
        equal_key, compared_key = self._shape.counts
        if equal_key not in check.raw:
            return {}
        equal, compared = check.count(equal_key, is_expected=True), check.count(compared_key, is_expected=True)
        if equal is None or compared is None:
            return {}
        if (run := check.count("consecutive_matches")) is not None:
            self._runs_of_matches[run] += 1
        draft, target = ids[-2] if len(ids) > 1 else (), ids[-1]
        own = sum(one == other for one, other in zip(draft, target, strict=False))
        if draft and target and own != equal:
            self._problems.of_row(f"{equal_key} is {equal} where {own} ids are equal at their places", check.row)
        check.ratio_agrees("acceptance_rate", equal, compared)
        return {"published_equal_tokens": float(equal), "published_compared_tokens": float(compared)}

    def finish(self) -> None:
        self._problems.of_file(self._shape.sentence)
        self._problems.of_file(_SHARE if self._shape.counts[0] else _ESTIMATE)
        if "results.theoretical_speedup" in (self.published.told or {}):
            self._problems.of_file("theoretical_speedup follows from that share by a formula and was not measured")
        runs = {f"summary.consecutive_distribution.{run}": float(n) for run, n in self._runs_of_matches.items()}
        self.published.computed |= runs
