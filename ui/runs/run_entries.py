"""The lines of the list of runs: cells, requests and single runs, each with its outcome in a word or a figure.

Runs of a suite or an import are below one line per cell, repeats of one request below one line of theirs. A figure is
over exactly the runs that its line counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evprof.core.records import DRAFT
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, RUNNING
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.scoring import RIGHT
from evprof.metrics.arithmetic.statistics import FEWEST
from ui.run_facts.run_text import cell_names, mode_name, mode_words, score_words, stage_now, verdicts_of
from ui.runs.run_remarks import counted_state
from ui.samples.clip_choice import sample_name
from ui.state.cells import configuration_counts
from ui.widgets.line_list import ListLine

if TYPE_CHECKING:
    from evprof.metrics.configurations.baselines import Baseline, RunPool
    from evprof.metrics.facts import Fact
    from evprof.metrics.speculation.payoff import Payoff

CELL, REPEATS = "cell", "repeats"

TOO_FEW = "Too few runs to call it faster or slower."

CLOSED, OPEN = "closed", "open"
"""Whether the runs of a cell or of a request are listed below it."""

FoldKey = tuple[str, str]
"""The key of a line with others below it: (CELL, its name) or (REPEATS, the number of the request)."""

MOST_ERRORS, MOST_NUMBERS = 3, 3
"""Errors in a tool tip, and runs that are listed by number."""

_UNCLEAR = "?"
"""In place of a speed-up that cannot be called faster or slower."""

_BADGES = {"profiled": "trace"}


@dataclass(frozen=True)
class Slot:
    """A line that is made when it is needed: its key, the numbers of its runs, and whether it lies below another."""

    key: object
    run_ids: tuple[int, ...]
    is_inner: bool
    make: Callable[[], ListLine]


class RunEntries:
    """The lines of growing runs; a line that has not changed is not made again."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[object, ListLine]] = {}
        self._texts: dict[int, tuple[int, str]] = {}
        self._state = (0, 0)
        self._runs: Mapping[int, RunLog] = {}
        self._pool: tuple[object, RunPool] | None = None
        """The runs that lines are weighed against, with the state they are of."""

    def lines(self, runs: Mapping[int, RunLog], opened: Collection[FoldKey] = (), wanted: str = "") -> list[ListLine]:
        """All lines of `slots`."""
        return [slot.make() for slot in self.slots(runs, opened, wanted)]

    def slots(self, runs: Mapping[int, RunLog], opened: Collection[FoldKey] = (), wanted: str = "") -> list[Slot]:
        """Lines, newest first; below a group of `opened` its runs. `wanted`: only runs that hold all of these words:
        in number, mode, name, note, settings, sample, models, outcome, badges, or whether the answer is right."""
        self._runs = runs
        self._state = counted_state(runs)
        groups: dict[FoldKey, list[RunLog]] = {}
        for run in runs.values():
            info = run.info
            key = (CELL, info.cell) if info.cell else (REPEATS, str(info.group_id))
            groups.setdefault(key, []).append(run)
        words = wanted.casefold().split()
        found: list[Slot] = []
        for key in reversed(groups):
            found += self._slots(key, groups[key], key in opened, words)
        return found

    def _slots(self, key: FoldKey, members: list[RunLog], is_open: bool, words: Sequence[str]) -> Iterator[Slot]:
        """The line of a group, and those below it."""
        if words and not any(self._holds(run, words) for run in members):
            return
        is_cell = key[0] == CELL
        lines = _paired(members) if is_open or not is_cell else []
        if not is_cell and len(lines) == 1:
            yield self._run_slot(lines[0])
            return
        make = self._cell_line if is_cell else self._repeats_line
        state = (is_open, self._state, len(members), sum(run.version for run in members))
        yield Slot(key, _ids(members), False, lambda: self._remembered(key, state, lambda: make(key, members, is_open)))
        for line in lines if is_open else []:
            if not words or any(self._holds(run, words) for run in line):
                yield self._run_slot(line, key[0])

    def _run_slot(self, line: list[RunLog], inner: str = "") -> Slot:
        ids = _ids(line)
        state = (self._state, *(run.version for run in line))
        return Slot(
            ids, ids, bool(inner), lambda: self._remembered((inner, *ids), state, lambda: self._run_line(line, inner))
        )

    def _remembered(self, key: object, state: object, make: Callable[[], ListLine]) -> ListLine:
        known = self._known.get(key)
        if known is None or known[0] != state:
            known = self._known[key] = (state, make())
        return known[1]

    def _holds(self, run: RunLog, words: Sequence[str]) -> bool:
        """Whether the line of a run holds every word."""
        from evprof.metrics.configurations.settings_text import run_label

        known = self._texts.get(run.run_id)
        if known is None or known[0] != run.version:
            info = run.info
            parts = [str(run.run_id), mode_words(run), info.name, info.note, run_label([run]), info.sample.name]
            parts += [info.cell, info.status, *badges_of([run]), verdicts_of([run])]
            parts += [model.name for model in info.models.values()]
            known = self._texts[run.run_id] = (run.version, "\x1f".join(parts).casefold())
        return all(word in known[1] for word in words)

    # Lines with others below them.

    def _cell_line(self, key: FoldKey, members: list[RunLog], is_open: bool) -> ListLine:
        from evprof.metrics import facts
        from evprof.metrics.configurations.gathering import warm_of

        counts = configuration_counts(members)
        counted = [run for run in _last_of_rows(members) if run.info.status == FINISHED and _counts([run])]
        roles = dict.fromkeys(run.info.role for run in counted)
        warm = [run for role in roles for run in warm_of([run for run in counted if run.info.role == role])]
        times, scores = facts.time_facts([[run] for run in warm]), facts.score_facts(counted)
        name, file = cell_names(members[0])
        tip = [key[1], mode_name(members[0].info.mode), counts.sentence]
        tip += [f"{counts.warmups:,} warm-up runs, in no figure"] if counts.warmups else []
        tip += list(dict.fromkeys(run.info.error for run in members if run.info.error))[:MOST_ERRORS]
        tip += [_over("mean total time of a sample", times)] if times else []
        tip += [f"{fact.name}: {fact.text} {_SCORED[fact.key == RIGHT]}" for fact in scores]
        return ListLine(
            key,
            name,
            role="bad" if counts.failed and not times else "",
            second=" · ".join(filter(None, (counts.sentence, score_words(scores), file))),
            tip="\n".join(tip),
            figure_below=_times_text(times),
            is_live=counts.running > 0,
            fold=OPEN if is_open else CLOSED,
            tells_by_end=True,
        )

    def _repeats_line(self, key: FoldKey, members: list[RunLog], is_open: bool) -> ListLine:
        """The repeats of one request: how many count, and their mean or speed-up."""
        lines = _paired(members)
        counted = [line for line in lines if all(run.info.status == FINISHED for run in line) and _counts(line)]
        counted = [line for line in counted if not line[-1].info.is_cold] or counted
        measured = [line for line in lines if _counts(line)] or lines
        titled = [run for line in measured for run in line]
        name = _common_name(titled) or mode_words(members[0])
        few = f" of {len(measured)}" if len(counted) < len(measured) else ""
        count = f"×{len(counted):,}{few}" if len(measured) > 1 else ""
        marks = Counter(mark for line in measured for mark in badges_of(line))
        line = self._outcome(members, counted)
        failed = [run for run in members if run.info.status in (FAILED, CANCELLED)]
        if failed and not (line.figure or line.figure_below):
            status = failed[-1].info.status
            line = replace(line, figure=status, role="bad" if status == FAILED else "")
        errors = list(dict.fromkeys(run.info.error for run in failed if run.info.error))[:MOST_ERRORS]
        label = " · ".join(filter(None, (count, _sample(members), _note(titled[:1]), _settings(lines[-1]))))
        return replace(
            line,
            key=key,
            name=f"{numbers_of(titled if len(measured) == 1 else members)} · {name}",
            second=(failed[-1].info.error if failed and not counted else "") or label,
            tip="\n".join(filter(None, (f"{name} · runs {numbers_of(members)}", line.tip, *errors))),
            fold=OPEN if is_open else CLOSED,
            badges=tuple(f"{times} {mark}" if times > 1 else mark for mark, times in marks.items()),
        )

    # Single runs and pairs.

    def _run_line(self, pair: list[RunLog], inner: str) -> ListLine:
        number, name, note, run = numbers_of(pair), _common_name(pair), _note(pair), pair[0]
        title, marks = f"{number} · {name or mode_words(run)}", badges_of(pair)
        label = " · ".join(filter(None, (_sample(pair), note, _settings(pair))))
        if inner == CELL:
            title, marks, label = _row_title(run, title), (), " · ".join(filter(None, (verdicts_of(pair), note)))
        elif inner == REPEATS:
            title, label = f"{number} · {name or _repeat_words(run)}", note
            marks = marks[1:] if not name and (run.info.warmup or run.info.profiled) else marks
        troubled = next((run for run in pair if run.info.status in (FAILED, CANCELLED)), None)
        if troubled is None:
            line, error = self._outcome(pair, [pair], is_weighed=not inner), ""
            if inner:
                line = replace(line, figure=line.figure or line.figure_below, figure_below="")
        else:
            status, error = troubled.info.status, troubled.info.error or ""
            line = ListLine(None, "", status, "bad" if status == FAILED else "", second_has_role=bool(error))
        return replace(
            line,
            key=_ids(pair),
            name=title,
            second=error or label,
            tip=_tip(pair, label, line.tip),
            is_inner=bool(inner),
            tells_by_end=inner == CELL,
            badges=marks,
        )

    def _outcome(
        self, members: Sequence[RunLog], counted: Sequence[Sequence[RunLog]], *, is_weighed: bool = True
    ) -> ListLine:
        """A line without a name: the stage of a running line, the speed-up of runs that draft, or mean times."""
        from evprof.metrics import facts

        running = next((run for run in members if run.info.status == RUNNING), None)
        if running is not None:
            return ListLine(None, "", stage_now(running, running.info.role), is_live=True)
        if not counted:
            return ListLine(None, "")
        last, times = counted[-1][-1], facts.time_facts(counted)
        plain = ListLine(None, "", figure_below=_times_text(times), tip=_over("time", times))
        if not is_weighed or not may_pay_off(last):
            return plain
        runs = [line[-1] for line in counted]
        baseline, payoff = self._weighed(runs)
        if baseline is None:
            return replace(plain, figure=plain.figure_below, figure_below="", chip="no baseline ▾")
        fact = None if payoff is None else facts.speedup_fact(payoff)
        ids = baseline.run_ids
        chip, weighed = f"vs {_numbered(ids, most=1)} ▾", f"Weighed against {_numbered(ids, most=2 * MOST_NUMBERS)}."
        if payoff is None or fact is None or not payoff.is_clear:
            told = fact.origin if fact is not None else TOO_FEW
            return ListLine(None, "", _UNCLEAR, tip=f"{told}\n{weighed}", chip=chip)
        tip = "\n".join(filter(None, (fact.origin, weighed, _over("speed-up", [fact]))))
        return ListLine(None, "", fact.text, role=fact.tone, tip=tip, chip=chip)

    def _weighed(self, runs: Sequence[RunLog]) -> tuple[Baseline | None, Payoff | None]:
        """What the runs of one line are weighed against, and their speed-up; None for fewer than an interval needs."""
        from evprof.metrics.configurations.baselines import RunPool, baseline_over
        from evprof.metrics.speculation.payoff import payoff_over

        if self._pool is None or self._pool[0] != self._state:
            self._pool = self._state, RunPool(self._runs.values())
        pool = self._pool[1]
        return baseline_over(runs, pool), payoff_over(runs, pool) if len(runs) >= FEWEST else None


_SCORED = {True: "of its answers are right", False: "token F1 on average"}


def may_pay_off(run: RunLog) -> bool:
    """Whether a run has a speed-up: one that drafts and counts."""
    from evprof.metrics.configurations.baselines import is_counted

    return mode_of(run.info.mode).drafts and is_counted(run.info)


def badges_of(line: Sequence[RunLog]) -> tuple[str, ...]:
    """Why the runs of a line stand in no figure, each reason once."""
    return tuple(dict.fromkeys(_BADGES.get(mark, mark) for run in line for mark in run.info.marks))


def against_of(payoff: Payoff, run_ids: Sequence[int]) -> str:
    """`vs run 7`, `vs 12 runs`; `runs 5, 8 vs run 7` where the ratio is over other runs than these."""
    own = [run.run_id for run in payoff.runs]
    over = "" if set(own) <= set(run_ids) else f"{_numbered(own)} "
    return f"{over}vs {_numbered(payoff.baseline.run_ids)}"


def _numbered(ids: Sequence[int], most: int = MOST_NUMBERS) -> str:
    """`run 7`, `runs 5, 8`, `12 runs`."""
    from evprof.metrics.configurations.baselines import runs_text

    return runs_text(ids) if len(ids) <= most else f"{len(ids):,} runs"


def _times_text(times: Sequence[Fact]) -> str:
    """`288 / 690 ms`: the times of both models, each its own, with one unit where they have the same."""
    texts = [fact.text for fact in times]
    units = {text.rpartition(" ")[2] for text in texts}
    return " / ".join([*(text.rpartition(" ")[0] for text in texts[:-1]), *texts[-1:]] if len(units) == 1 else texts)


def numbers_of(runs: Sequence[RunLog]) -> str:
    """`3`, `3–8`."""
    ids = [run.run_id for run in runs]
    return "–".join(dict.fromkeys(map(str, (min(ids), max(ids)))))


def _ids(runs: Sequence[RunLog]) -> tuple[int, ...]:
    return tuple(sorted(run.run_id for run in runs))


def _over(what: str, found: Sequence[Fact]) -> str:
    """`mean time over runs 2, 5, 8`."""
    ids = sorted({run_id for fact in found for run_id in fact.runs})
    return f"figure: {what}, mean over {_numbered(ids, most=2 * MOST_NUMBERS)}" if len(ids) > 1 else ""


def _paired(members: Sequence[RunLog]) -> list[list[RunLog]]:
    """The runs of one line each: alone, or the two that ran side by side, the draft's first."""
    found: dict[object, list[RunLog]] = {}
    for run in members:
        info = run.info
        is_pair = mode_of(info.mode).is_side_by_side
        key = (info.group_id, info.repeat, info.warmup, info.profiled) if is_pair else run.run_id
        found.setdefault(key, []).append(run)
    return [sorted(line, key=lambda run: run.info.role != DRAFT) for line in found.values()]


def _counts(line: Sequence[RunLog]) -> bool:
    from evprof.metrics.configurations.gathering import is_comparable

    return all(is_comparable(run) for run in line)


def _last_of_rows(members: Sequence[RunLog]) -> list[RunLog]:
    """Of rows that were begun more than once the last attempt."""
    return list({run.info.row: run for run in members}.values())


def _common_name(runs: Sequence[RunLog]) -> str:
    names = {run.info.name for run in runs}
    return names.pop() if len(names) == 1 else ""


def _sample(runs: Sequence[RunLog]) -> str:
    return sample_name(runs[0].info.sample)


def _note(runs: Sequence[RunLog]) -> str:
    return next((run.info.note.strip().split("\n")[0] for run in runs if run.info.note.strip()), "")


def _settings(line: Sequence[RunLog]) -> str:
    from evprof.metrics.configurations.settings_text import run_label
    from evprof.metrics.speculation.outcome import is_lossy

    return " · ".join(filter(None, ("lossy" if is_lossy(line[-1]) else "", run_label(line))))


def _repeat_words(run: RunLog) -> str:
    """`repeat 2`; warm-up runs and traces are no repeats."""
    return badges_of([run])[0] if run.info.warmup or run.info.profiled else f"repeat {run.info.repeat + 1}"


def _row_title(run: RunLog, title: str) -> str:
    """`interlaken_00_c · repeat 2 · warm-up`: within a cell the sample distinguishes runs."""
    parts = [run.info.name or run.info.sample.name or title]
    parts += [f"repeat {run.info.repeat + 1}"] if run.info.repeat else []
    return " · ".join([*parts, *run.info.marks])


def _tip(line: Sequence[RunLog], label: str, outcome: str) -> str:
    run = line[0]
    sample = f" · {run.info.sample.name}" if run.info.sample.name else ""
    lines = [f"{mode_name(run.info.mode)} · run {' and '.join(str(one.run_id) for one in line)}{sample}"]
    lines += dict.fromkeys(model.name for one in line for model in one.info.models.values())
    lines += [label, *dict.fromkeys(one.info.note for one in line)]
    lines += [one.info.error or "" for one in line]
    lines += [warning for one in line for warning in one.info.warnings]
    lines += [note for one in line if one.info.imported is not None for note in one.info.imported.notes]
    return "\n".join(filter(None, [*lines, outcome]))
