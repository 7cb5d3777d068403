"""Files of two models' answers side by side and how many of their tokens are equal: no draft was verified in them.

What a time covers is read in the scripts: generate() as a whole, or, for the shared decoder, from finished features on.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from evprof.core.records import TARGET
from evprof.loaders.legacy.checks import MS_PER_S, SUM_TOLERANCE, Problems, RowCheck, finite
from evprof.loaders.legacy.failures import failed_rows
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.matched_shapes import WORD_ESTIMATES, Answer, Shape, shape_of
from evprof.loaders.legacy.one_vs_eight import SIDE_BY_SIDE
from evprof.loaders.legacy.reading import Covers, Preview, Published, Statistic, told_statistics
from evprof.loaders.legacy.rows import DEFAULT_PROMPT, Interval, LegacyRow
from evprof.loaders.legacy.speculation_formula import Again

_FORMULA = "results.theoretical_speedup"


class MatchedAnswers:
    """The family."""

    name = "matched answers"
    looks_for = "samples[].eventgpt_tokens, samples[].draft_tokens or results[].egpt_text"

    def recognises(self, preview: Preview) -> bool:
        """By the keys of the rows."""
        return shape_of(preview) is not None

    def reader(self, preview: Preview, problems: Problems) -> _Reader:
        """For its rows."""
        shape = shape_of(preview)
        assert shape is not None
        return _Reader(preview, shape, problems)


class _Reader:
    def __init__(self, preview: Preview, shape: Shape, problems: Problems) -> None:
        self._problems = problems
        self._preview = preview
        self._shape = shape
        keys = set().union(*(row for row in preview.first.get(shape.place, []) if isinstance(row, dict)))
        self._answers = [answer for answer in shape.answers if {answer.text, answer.ids, answer.count} & keys]
        self.covers: Covers = {
            answer.role: {answer.time: list(answer.covers)} for answer in self._answers if answer.covers
        }
        side = next(answer.side for answer in shape.answers if answer.role == TARGET)
        told = told_statistics(preview.head, shape.told)
        self.published = Published(
            totals={role: list(keys) for role, keys in self.covers.items()},
            names={answer.time: "Answer" for answer in self._answers if answer.covers},
            statistics={name: Statistic(side, key, kind, over) for name, (key, kind, over) in shape.statistics.items()},
            told=told,
        )
        query = preview.config.get("query")
        self._prompt = query if isinstance(query, str) and query else DEFAULT_PROMPT
        most = finite(preview.config.get("max_new_tokens", preview.config.get("max_tokens")))
        self._settings: dict[str, object] = {} if most is None else {"max_new_tokens": int(most)}
        self._gamma = finite(preview.config.get("gamma"))
        self._sums: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._runs_of_matches: Counter[int] = Counter()

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        """All answers to one sample, or its failure."""
        if place == ("errors",):
            cells = {answer.role: (answer.cell, answer.model) for answer in self._answers}
            return failed_rows(raw, number, self._problems, cells)
        if place != self._shape.place or not isinstance(raw, dict):
            self._problems.of_row("a row is no object and was left out", number)
            return []
        ids = {
            answer.side: RowCheck(raw, number, Problems(), "").ids(answer.ids) for answer in self._answers if answer.ids
        }
        return [self._row(answer, number, raw, ids) for answer in self._answers]

    def _row(self, answer: Answer, number: int, raw: dict[str, Any], ids: dict[str, tuple[int, ...]]) -> LegacyRow:
        check = RowCheck(raw, number, self._problems, answer.side)
        duration = check.duration_ms(answer.time) if answer.covers else None
        text, own = check.text(answer.text), check.ids(answer.ids) if answer.ids else ()
        told = check.count(answer.count) if answer.count else None
        count = check.counts_agree(told, own, text)
        error = None
        if answer.covers and duration is None:
            error = "the row holds no time that was measured"
        elif not text and (not count or not any(own)):
            error = "the answer is empty"
            self._problems.of_row(f"{answer.side}: the answer is empty", number)
        figures: dict[str, float] = {}
        if not answer.covers and answer.time and (value := finite(raw.get(answer.time))) is not None:
            figures["published_time_ms"] = value * MS_PER_S
        if own and count is None:
            figures["published_output_tokens"] = float(len(own))
        values: dict[str, float] = {}
        if answer.role == TARGET:
            figures |= self._match(check, ids)
            values = check.numbers() | {a.ids: float(len(ids[a.side])) for a in self._answers if ids.get(a.side)}
        name = raw.get(self._shape.index)
        return LegacyRow(
            row=number,
            group=number,
            side=answer.side,
            role=answer.role,
            mode=SIDE_BY_SIDE,
            cell=answer.cell,
            sample=name if isinstance(name, str) else f"sample {self._index(raw, number)}",
            prompt=check.text("question") or check.text("query") or self._prompt,
            models={answer.role: answer.model},
            intervals=() if duration is None else (Interval(answer.time, answer.covers, duration, answer.role),),
            token_ids=own if count is not None and error is None else (),
            text=text,
            output_tokens=count if error is None else None,
            figures=figures,
            values=values,
            settings=dict(self._settings),
            error=error,
        )

    def _index(self, raw: dict[str, Any], number: int) -> int:
        found = finite(raw.get(self._shape.index))
        return number if found is None else int(found)

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
        *drafts, target = (ids.get(answer.side, ()) for answer in self._answers)
        own = sum(one == other for one, other in zip(drafts[-1] if drafts else (), target, strict=False))
        if drafts and drafts[-1] and target and own != equal:
            self._problems.of_row(f"{equal_key} is {equal} where {own} ids are equal at their places", check.row)
        rate = check.number("acceptance_rate", is_expected=False)
        if rate is not None and compared and abs(rate - equal / compared) > SUM_TOLERANCE * max(abs(rate), 1e-9):
            self._problems.of_row("acceptance_rate is not what its own row gives", check.row)
        return {"published_equal_tokens": float(equal), "published_compared_tokens": float(compared)}

    def _add_times(self, check: RowCheck) -> None:
        for answer in self._answers:
            if answer.covers and (value := check.number(answer.time, is_expected=False)) is not None:
                self._seconds[answer.role] = self._seconds.get(answer.role, 0.0) + value
        self._sums["rows"] += 1

    def finish(self) -> None:
        """What these files measure and what they do not."""
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
            times = [self._seconds.get(answer.role, 0.0) / rows for answer in self._answers]
            speedup = Again(sums["equal"], sums["compared"], times[0], times[-1], self._gamma).speedup
            if speedup is not None:
                self.published.computed[_FORMULA] = speedup
        for run, count in self._runs_of_matches.items():
            self.published.computed[f"summary.consecutive_distribution.{run}"] = float(count)
