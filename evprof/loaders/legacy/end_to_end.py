"""Files of speculative runs end to end: the target alone per question, and with EventGPT's drafts through adapters.

What the times cover is read in the script that wrote them: every `prefill_ms` is vision and prefill, EventGPT answers
completely before the adapter drafts from its hidden states, and prefill was measured once for all adapters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.loaders.legacy.checks import SUM_TOLERANCE, FileProblems, RowCheck, finite, mapping, sample_name
from evprof.loaders.legacy.failures import shortened
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.reading import AnswerReader, Covers, Preview, Published, Statistic
from evprof.loaders.legacy.rows import DEFAULT_PROMPT, Interval, LegacyRow, eventgpt_model, video_llava_model

_BASELINE = ("baseline_per_sample",)
_SPECULATIVE = "sd_per_sample"
_PLAIN = "VL baseline"
_KIND = "4bit"
"""Which weights the script loads; its files do not say."""

_COVERS: Covers = {
    TARGET: {
        "prefill_ms": ["vision", "prefill"],
        "vl_prefill_ms": ["vision", "prefill"],
        "decode_ms": ["decode"],
        "sd_decode_ms": ["decode"],
    },
    DRAFT: {"egpt_prefill_ms": ["vision", "prefill"], "egpt_decode_ms": ["decode"]},
}


class EndToEnd(AnswerReader):
    name = "end to end"
    looks_for = "baseline_per_sample and sd_per_sample"
    left_out = "a row is no run that is known and was left out"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        return _BASELINE in preview.counts or any(place[:1] == (_SPECULATIVE,) for place in preview.counts)

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        self.covers = _COVERS
        self._models = {DRAFT: eventgpt_model(_KIND), TARGET: video_llava_model(_KIND)}
        self._settings = {
            name: value
            for key in ("max_new_tokens", "gamma")
            for name, value in preview.count_setting(key, key).items()
        }
        self._adapters = [place[1] for place in preview.counts if place[:1] == (_SPECULATIVE,) and len(place) == 2]
        self._prefills: dict[int, set[float]] = {}
        self.published = Published(
            totals={TARGET: ["prefill_ms", "decode_ms"]},
            names={
                "prefill_ms": "Prefill",
                "vl_prefill_ms": "Prefill",
                "decode_ms": "Decode",
                "sd_decode_ms": "Decode",
                "egpt_prefill_ms": "EventGPT's prefill",
                "egpt_decode_ms": "EventGPT's decode",
            },
            statistics=_statistics(self._adapters),
            over_nothing=frozenset(f"aggregate.{_PLAIN}.{key}_mean" for key in ("speedup", "accept_rate")),
        )

    def _holds_answers(self, place: Place) -> bool:
        return place == _BASELINE or place[:1] == (_SPECULATIVE,)

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        return [self._plain(number, raw) if place == _BASELINE else self._speculative(place[1], number, raw)]

    def _plain(self, number: int, raw: dict[str, Any]) -> LegacyRow:
        check = RowCheck(raw, number, self._problems, _PLAIN)
        intervals = _laid_out(check, (("prefill_ms", TARGET), ("decode_ms", TARGET)))
        check.adds_up("total_ms", ("prefill_ms", "decode_ms"), "total_ms is not prefill_ms + decode_ms")
        return self._row(check, "Video-LLaVA 4bit, alone", intervals)

    def _speculative(self, adapter: str, number: int, raw: dict[str, Any]) -> LegacyRow:
        name = shortened(adapter, 60)
        check = RowCheck(raw, number, self._problems, name)
        prefills = _laid_out(check, (("egpt_prefill_ms", DRAFT), ("vl_prefill_ms", TARGET)), check.number("overlap_ms"))
        section = check.duration_ms("parallel_prefill_ms")
        prefills = _within(section, prefills)
        reach = _end_ms(prefills)
        decodes = _laid_out(
            check, (("egpt_decode_ms", DRAFT), ("sd_decode_ms", TARGET)), start_ms=max(reach, section or 0.0)
        )
        if section is not None:
            self._prefills.setdefault(number, set()).add(section)
        if section is not None and section > 1.02 * sum(entry.duration_ms for entry in prefills) > 0:
            self._problems.of_row(
                "parallel_prefill_ms is longer than both prefills one after the other: the threads hindered each other",
                number,
            )
        self._check_total(check)
        return self._row(check, f"Video-LLaVA 4bit, {name}", (*prefills, *decodes), self._drafting(check))

    def _check_total(self, check: RowCheck) -> None:
        section, drafted, decode, total = (
            check.number(key, is_expected=False)
            for key in ("parallel_prefill_ms", "egpt_decode_ms", "sd_decode_ms", "sd_total_ms")
        )
        if total is None or section is None or drafted is None or decode is None:
            return
        if abs(total - section - decode) <= SUM_TOLERANCE * total < drafted:
            self._problems.of_row(
                "sd_total_ms leaves egpt_decode_ms out, as if EventGPT had answered beside the target's prefill; both "
                "ran one after the other, so total and speedup are of a model and were not measured",
                check.row,
            )
        elif abs(total - section - drafted - decode) > SUM_TOLERANCE * total:
            self._problems.of_row("sd_total_ms is not the sum of its parts", check.row)

    def _drafting(self, check: RowCheck) -> dict[str, float]:
        figures: dict[str, float] = {}
        drafted, accepted = check.count("drafted"), check.count("accepted")
        if drafted is not None and accepted is not None:
            if accepted > drafted:
                self._problems.of_row(f"{check.name}: more tokens were accepted than drafted", check.row)
            else:
                figures |= {"drafted_tokens": float(drafted), "accepted_tokens": float(accepted)}
                _check_ratio(check, "accept_rate", float(accepted), float(drafted))
        total, plain = check.number("sd_total_ms"), check.number("bl_total_ms", is_expected=False)
        if total is not None:
            figures["published_total_ms"] = total
        if total is not None and plain is not None:
            _check_ratio(check, "speedup", plain, total)
        figures |= check.figures({"parallel_prefill_ms": "prefill_section_ms", "speedup": "published_speedup"})
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

    def _row(
        self,
        check: RowCheck,
        cell: str,
        intervals: tuple[Interval, ...],
        figures: dict[str, float] | None = None,
    ) -> LegacyRow:
        tokens = check.count("n_tokens", is_expected=True)
        sample = check.count("sample")
        roles = (TARGET,) if figures is None else (TARGET, DRAFT)
        measured = [entry for entry in intervals if entry.role == TARGET]
        return LegacyRow(
            row=check.row,
            group=check.row,
            side=check.name,
            role=TARGET,
            mode="target" if figures is None else "speculative",
            cell=cell,
            sample=sample_name(sample, check.row),
            prompt=check.text("question") or DEFAULT_PROMPT,
            models={role: self._models[role] for role in roles},
            intervals=intervals,
            text=check.text("text"),
            output_tokens=tokens,
            figures=figures or {},
            values=check.numbers(),
            settings=dict(self._settings),
            error=None if measured else "the row holds no time of the target that was measured",
        )

    def finish(self) -> None:
        tell = self._problems.of_file
        tell("Loading and preprocessing were not measured; every prefill_ms is vision and prefill in one piece")
        tell(
            "Which models and weights were used is not in the file; its script loads EventGPT and "
            f"{self._models[TARGET].name}, both in {_KIND}"
        )
        timing = mapping(self._preview.head.get("stage_timing"))
        for side, values in timing.items():
            if finite(mapping(values).get("vision_ms")) == 0:
                tell(f"stage_timing.{side}.vision_ms is 0.0: not measured, that vision is inside prefill_ms")
        if timing:
            tell("stage_timing is of one warm-up sample; no run is made of it")
        if len(self._adapters) > 1 and all(len(values) == 1 for values in self._prefills.values()):
            tell(
                f"The {len(self._adapters)} adapters share one measurement of both prefills per question, so their "
                "prefill times are not independent"
            )
        questions, samples = self._preview.config.get("n_questions"), finite(self._preview.config.get("max_samples"))
        if samples == 1 and finite(questions):
            tell(f"All rows are questions about one sample ({questions:,} questions); they say nothing of other scenes")
        if finite(self._preview.config.get("warmup")) == 0:
            tell("The script was asked for no warm-up")


def _laid_out(
    check: RowCheck, keys: tuple[tuple[str, str], ...], overlap_ms: float | None = None, start_ms: float = 0.0
) -> tuple[Interval, ...]:
    """Times one after the other, the second beginning `overlap_ms` before the first ends."""
    found: list[Interval] = []
    reach = start_ms
    for key, role in keys:
        duration = check.duration_ms(key)
        if duration is None:
            continue
        begin = max(start_ms, reach - (overlap_ms or 0.0)) if found else reach
        found.append(Interval(key, tuple(_COVERS[role][key]), duration, role, begin))
        reach = max(reach, begin + duration)
    return tuple(found)


def _within(section: float | None, prefills: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Both prefills in the section that was timed around them: the last one ends with it, so what they took from each
    other lies between them."""
    if section is None or section <= _end_ms(prefills) or len(prefills) < 2:
        return prefills
    last = prefills[-1]
    return (*prefills[:-1], replace(last, start_ms=section - last.duration_ms))


def _end_ms(intervals: Sequence[Interval]) -> float:
    return max(((entry.start_ms or 0.0) + entry.duration_ms for entry in intervals), default=0.0)


def _check_ratio(check: RowCheck, key: str, above: float, below: float) -> None:
    told = check.number(key, is_expected=False)
    if told is not None and below and abs(told - above / below) > SUM_TOLERANCE * max(abs(told), 1e-9):
        check.problems.of_row(f"{check.name}: {key} is not what its own row gives", check.row)


def _statistics(adapters: list[str]) -> dict[str, Statistic]:
    found: dict[str, Statistic] = {}
    for key in ("prefill_ms", "decode_ms"):
        found[f"aggregate.{_PLAIN}.{key}_mean"] = Statistic(_PLAIN, key, "avg")
    for adapter in adapters:
        head, side = f"aggregate.{adapter}", shortened(adapter, 60)
        for name, key in (
            ("speedup", "speedup"),
            ("prefill_ms", "parallel_prefill_ms"),
            ("decode_ms", "sd_decode_ms"),
            ("total_ms", "sd_total_ms"),
            ("accept_rate", "accept_rate"),
            ("overlap_ms", "overlap_ms"),
            ("num_free_tok", "num_free_tok"),
        ):
            found[f"{head}.{name}_mean"] = Statistic(side, key, "avg")
        found[f"{head}.n_samples"] = Statistic(side, "sd_total_ms", "count")
    return found
