"""The runs of the session as a list: one line per request's run or pair, with its outcome in a word or a ratio.

Runs of a suite or an import are gathered below one line per cell, repeats of one request below one line of theirs; the
runs themselves are told when that is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evprof.core.records import DRAFT
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, RUNNING
from evprof.core.run_log import RunLog
from evprof.core.units import ms_text
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.scoring import RIGHT
from evprof.run.kept_repeatability import spread_for
from ui.run_facts.figures import MOST_NUMBERS, spread_text
from ui.run_facts.provenance import cell_names
from ui.run_facts.run_text import mode_name, mode_words, stage_now
from ui.runs.payoffs import Payoffs
from ui.runs.run_groups import BETWEEN, CELL, REPEATS, FoldKey, Members, RunGroups, Slot, SlotList, parted
from ui.state.cells import configuration_counts

if TYPE_CHECKING:
    from evprof.metrics.speculation.payoff import Payoff

CLOSED, OPEN = "closed", "open"
"""Whether the runs of a cell or of a request are listed below it."""

MOST_WEIGHED = 300
"""Runs of a cell whose interval the list tells: over more it takes too long while runs end; the comparison has it."""

_BADGES = {"profiled": "trace"}


@dataclass(frozen=True)
class RunEntry:
    """One line of the list. `role` is "good", "bad" or "" for the outcome; `sentence` says why a run failed.

    `label` is the note, and the settings that are not at their defaults: what tells two runs of one mode apart. A line
    with a `fold` has others below it, its counts as `label`, and a `group`; those below are `is_inner`, and
    `is_row` in a cell. `badges` say
    why runs stand in no figure. `against` names the baseline of the outcome, "" where it is no ratio; `spread` is half
    the 95 % interval of a mean.
    """

    run_ids: tuple[int, ...]
    title: str
    outcome: str
    role: str
    sentence: str
    tip: str
    is_running: bool
    label: str = ""
    group: FoldKey | None = None
    fold: str = ""
    is_inner: bool = False
    is_row: bool = False
    badges: tuple[str, ...] = ()
    against: str = ""
    spread: str = ""

    @property
    def key(self) -> tuple[int, ...] | FoldKey:
        """What a click on the line reports."""
        return self.group or self.run_ids


class RunEntries:
    """The lines of growing runs: what has not changed since is not worked out again."""

    def __init__(self, payoffs: Payoffs | None = None) -> None:
        self._known: dict[object, tuple[object, RunEntry]] = {}
        self._times: dict[int, tuple[int, float | None]] = {}
        self._texts: dict[int, tuple[int, str]] = {}
        self._payoffs = payoffs or Payoffs()
        self._groups = RunGroups(self._text)
        self._changes = 0

    def lines(
        self, runs: Mapping[int, RunLog], opened: Collection[FoldKey] = (), wanted: str = ""
    ) -> SlotList[RunEntry]:
        """Lines, newest first; below a group of `opened` its runs. `wanted`: only runs that hold all of these words:
        in number, mode, name, note, settings, sample, models, outcome or badges."""
        self._payoffs.look(runs)
        parts = parted(runs)
        # Versions of stored runs count what was said of them since; others count their rows, too.
        self._changes = 0 if parts.stored is None else sum(run.version for run in list(parts.stored.made.values()))
        words = wanted.casefold().split()
        matching = self._groups.matching(runs, words) if words else None
        found: list[Slot[RunEntry]] = []
        for key, members in reversed(self._groups.of(runs).items()):
            if matching is None or not matching.isdisjoint(members.run_ids):
                found += self._slots(key, members, key in opened, matching)
        return SlotList(found)

    def _slots(
        self, key: FoldKey, members: Members, is_open: bool, matching: frozenset[int] | None
    ) -> Iterator[Slot[RunEntry]]:
        """The line of a group, and those below it."""
        is_cell = key[0] == CELL
        if not is_cell and len(members) == 1:
            yield self._run_slot(members)
            return
        groups = _paired(members) if is_open or not is_cell else []
        if not is_cell and len(groups) == 1:
            yield self._run_slot(groups[0])
            return
        make = self._cell_line if is_cell else self._repeats_line
        yield Slot(key, members.run_ids, False, lambda: make(key, members, is_open))
        for group in groups if is_open else []:
            if matching is None or any(run.run_id in matching for run in group):
                yield self._run_slot(group, key[0])

    def _run_slot(self, group: Sequence[RunLog], inner: str = "") -> Slot[RunEntry]:
        ids = tuple(group.run_ids) if isinstance(group, Members) else tuple(sorted(run.run_id for run in group))
        return Slot(ids, ids, bool(inner), lambda: self._run_line(list(group), inner))

    def _state(self, members: Members) -> tuple[int, int]:
        """What tells that runs of a line have changed, without making those that lie in a file."""
        stored = parted(members.runs).stored
        own = sum(members.runs[run_id].version for run_id in members.run_ids if stored is None or run_id not in stored)
        return len(members), self._changes + own

    def _text(self, run: RunLog) -> str:
        from evprof.metrics.configurations.settings_text import run_label

        known = self._texts.get(run.run_id)
        if known is None or known[0] != run.version:
            info = run.info
            told = [
                str(run.run_id),
                mode_words(run),
                info.name,
                info.note,
                run_label([run]),
                info.sample.name,
                info.cell,
                info.status,
            ]
            told += [*_badges([run]), *(model.name for model in info.models.values())]
            known = self._texts[run.run_id] = (run.version, f"{BETWEEN}{BETWEEN.join(told)}{BETWEEN}".casefold())
        return known[1]

    # Lines that others lie below.

    def _cell_line(self, key: FoldKey, members: Members, is_open: bool) -> RunEntry:
        state = (is_open, *self._state(members))
        known = self._known.get(key)
        if known is not None and known[0] == state:
            return known[1]
        from ui.runs.cell_facts import MOST_ERRORS, cell_facts  # not before there are runs: it brings SQLite

        facts = cell_facts(members)
        counts = configuration_counts(members) if facts is None else facts.counts
        mean = self._mean_ms(members) if facts is None else facts.mean_ms
        errors = (
            list(dict.fromkeys(run.info.error for run in members if run.info.error)) if facts is None else facts.errors
        )
        lines = [key[1], mode_name(members[0].info.mode), counts.sentence]
        lines += [f"{counts.warmups} warm-up runs, in no figure"] if counts.warmups else []
        lines += errors[:MOST_ERRORS]
        lines += ["figure: mean total time of a sample"] if mean is not None else []
        name, file = cell_names(members[0])
        right = self._right(members) if facts is None else facts.right
        label = " · ".join(filter(None, (counts.sentence, "" if right is None else f"{right:.0%} right", file)))
        entry = RunEntry(
            tuple(members.run_ids),
            name,
            "" if mean is None else ms_text(mean),
            "",
            label if counts.failed else "",
            "\n".join(lines),
            counts.running > 0,
            label,
            key,
            OPEN if is_open else CLOSED,
            spread=self._spread(members) if facts is None else "",
        )
        self._known[key] = (state, entry)
        return entry

    def _repeats_line(self, key: FoldKey, members: Members, is_open: bool) -> RunEntry:
        """The repeats of one request: how many count, and their mean or speed-up with its interval."""
        from evprof.metrics.speculation.verdicts import payoff_sentence

        others = self._payoffs.state if mode_of(members[0].info.mode).drafts else 0
        state = (is_open, others, *self._state(members))
        known = self._known.get(key)
        if known is not None and known[0] == state:
            return known[1]
        lines = _paired(members)
        counted = [group for group in lines if all(run.info.status == FINISHED for run in group) and _counts(group)]
        counted = [group for group in counted if not group[-1].info.is_cold] or counted
        payoff = self._payoffs.of(counted[-1][-1]) if counted and _is_weighed(counted[-1][-1]) else None
        running = next((run for run in members if run.info.status == RUNNING), None)
        outcome, role, spread = _whole(counted, payoff)
        if running is not None:
            outcome, role, spread = stage_now(running, running.info.role), "", ""
        failed = [run for run in members if run.info.status in (FAILED, CANCELLED)]
        ids = sorted(run.run_id for run in members)
        measured = [group for group in lines if _counts(group)] or lines
        titled = [run for group in measured for run in group]
        name = _common_name(titled) or mode_words(members[0])
        few = f" of {len(measured)}" if len(counted) < len(measured) else ""
        count = f"×{len(counted)}{few}" if len(measured) > 1 else ""
        label = " · ".join(filter(None, (count, _note(titled[:1]), _settings(lines[-1]))))
        marks = Counter(mark for group in lines for mark in _badges(group))
        tip = [f"{name} · runs {ids[0]} to {ids[-1]}", _counted_tip(counted, lines)]
        tip += [payoff_sentence(payoff)] if payoff is not None else []
        tip += list(dict.fromkeys(run.info.error for run in failed if run.info.error))[:3]
        entry = RunEntry(
            tuple(ids),
            f"{_numbers(titled if len(measured) == 1 else members)} · {name}",
            outcome or (failed[-1].info.status if failed else ""),
            role or ("bad" if failed and not outcome and failed[-1].info.status == FAILED else ""),
            failed[-1].info.error or "" if failed and not counted else "",
            "\n".join(filter(None, tip)),
            running is not None,
            label,
            key,
            OPEN if is_open else CLOSED,
            badges=tuple(f"{count} {mark}" if count > 1 else mark for mark, count in marks.items()),
            against=_against(payoff) if counted and _is_weighed(counted[-1][-1]) else "",
            spread=spread,
        )
        self._known[key] = (state, entry)
        return entry

    def _mean_ms(self, members: Sequence[RunLog]) -> float | None:
        """Mean total of a sample; those of two models that answered it one after the other are added."""
        from evprof.metrics.comparison.document import is_comparable, warm_of

        by_role: dict[str, list[RunLog]] = {}
        for run in members:
            if run.info.status == FINISHED and is_comparable(run):
                by_role.setdefault(run.info.role, []).append(run)
        times = [list(filter(None, map(self._total_ms, warm_of(found)))) for found in by_role.values()]
        return sum(sum(found) / len(found) for found in times if found) if any(times) else None

    def _right(self, members: Sequence[RunLog]) -> float | None:
        """The share of right answers among those that are scored."""
        from evprof.metrics.comparison.document import is_comparable
        from evprof.metrics.figures.scores import score

        if not members[0].info.sample.is_scored:
            return None
        done = [run for run in members if run.info.status == FINISHED and is_comparable(run)]
        scored = [value for run in done if (value := score(run, RIGHT)) is not None]
        return sum(scored) / len(scored) if scored else None

    def _spread(self, members: Sequence[RunLog]) -> str:
        """Half the 95 % interval of that mean, where one model answered."""
        from evprof.metrics.comparison.document import is_comparable, warm_of
        from evprof.metrics.estimates.estimates import mean_of, observe

        counted = warm_of([run for run in members if run.info.status == FINISHED and is_comparable(run)])
        if len(counted) > MOST_WEIGHED or len({run.info.role for run in counted}) != 1:
            return ""
        found = mean_of(observe(counted, self._total_ms), spread_for(counted[-1]))
        return "" if found is None else _percent(found.value, found.interval)

    def _total_ms(self, run: RunLog) -> float | None:
        from evprof.metrics.figures.stages import total_ms

        known = self._times.get(run.run_id)
        if known is None or known[0] != run.version:
            known = self._times[run.run_id] = (run.version, total_ms(run))
        return known[1]

    # Single runs and pairs.

    def _run_line(self, group: list[RunLog], inner: str = "") -> RunEntry:
        # A speculative run is told against the plain ones beside it, whichever come.
        others = self._payoffs.state if mode_of(group[0].info.mode).drafts and not inner else 0
        state = (others, *(run.version for run in group))
        key = (inner, *(run.run_id for run in group))
        known = self._known.get(key)
        if known is not None and known[0] == state:
            return known[1]
        entry = _entry(group, self._payoffs, inner)
        self._known[key] = (state, entry)
        return entry


def _paired(members: Sequence[RunLog]) -> list[list[RunLog]]:
    """The runs of one line each: alone, or the two that ran side by side, the draft's first."""
    found: dict[object, list[RunLog]] = {}
    for run in members:
        info = run.info
        is_pair = mode_of(info.mode).is_side_by_side
        key = (info.group_id, info.repeat, info.warmup, info.profiled) if is_pair else run.run_id
        found.setdefault(key, []).append(run)
    return [sorted(group, key=lambda run: run.info.role != DRAFT) for group in found.values()]


def _counts(group: Sequence[RunLog]) -> bool:
    from evprof.metrics.comparison.document import is_comparable

    return all(is_comparable(run) for run in group)


def _is_weighed(run: RunLog) -> bool:
    from evprof.metrics.configurations.baselines import is_counted

    return mode_of(run.info.mode).drafts and is_counted(run.info)


def _badges(group: Sequence[RunLog]) -> tuple[str, ...]:
    """Why the runs of a line stand in no figure, each reason once."""
    return tuple(dict.fromkeys(_BADGES.get(mark, mark) for run in group for mark in run.info.marks))


def _common_name(members: Sequence[RunLog]) -> str:
    names = {run.info.name for run in members}
    return names.pop() if len(names) == 1 else ""


def _numbers(runs: Sequence[RunLog]) -> str:
    """`3`, `3–8`."""
    ids = [run.run_id for run in runs]
    return "–".join(dict.fromkeys(map(str, (min(ids), max(ids)))))


def _settings(group: Sequence[RunLog]) -> str:
    """The settings that are not at their defaults."""
    from evprof.metrics.configurations.settings_text import run_label
    from evprof.metrics.speculation.outcome import is_lossy

    return " · ".join(filter(None, ("lossy" if is_lossy(group[-1]) else "", run_label(group))))


def _note(group: Sequence[RunLog]) -> str:
    """The first line that somebody wrote about runs."""
    return next((run.info.note.strip().split("\n")[0] for run in group if run.info.note.strip()), "")


def _against(payoff: Payoff | None) -> str:
    """`vs 2, 5`, `vs 12 runs`: what a ratio is a ratio to."""
    if payoff is None:
        return "no baseline"
    ids = payoff.baseline.run_ids
    return f"vs {', '.join(map(str, ids))}" if len(ids) <= MOST_NUMBERS else f"vs {len(ids)} runs"


def _whole(lines: Sequence[Sequence[RunLog]], payoff: Payoff | None) -> tuple[str, str, str]:
    """The speed-up of repeats, else their mean time and half its 95 % interval."""
    from evprof.metrics.estimates.estimates import mean_of, observe

    if payoff is not None and payoff.whole is not None:
        return (*_speed(payoff), "")
    if not lines:
        return "", "", ""
    mates = {group[-1].run_id: group for group in lines}
    answers = [group[-1] for group in lines]
    found = mean_of(observe(answers, lambda run: _time_ms(mates[run.run_id])), spread_for(answers[-1]))
    return ("", "", "") if found is None else (ms_text(found.value), "", _percent(found.value, found.interval))


def _speed(payoff: Payoff) -> tuple[str, str]:
    """`0.77× ±3 %`, and whether that is good; grey where the interval holds 1."""
    found = payoff.whole
    if found is None:
        return "", ""
    role = ("good" if found.speedup > 1 else "bad") if payoff.is_clear else ""
    return " ".join(filter(None, (f"{found.speedup:.2f}×", _percent(found.speedup, found.interval)))), role


def _percent(value: float, ends: Sequence[float] | None) -> str:
    half = spread_text(value, ends)
    return f"{half} %" if half else ""


def _counted_tip(counted: Sequence[Sequence[RunLog]], lines: Sequence[Sequence[RunLog]]) -> str:
    if not counted:
        return ""
    figure = "the mean" if len(counted) > 1 else "the one that counts"
    left = len(lines) - len(counted)
    return f"figure: {figure} of {len(counted)} of {len(lines)} repeats" + (
        "; warm-up, cold and profiled ones are left out" if left else ""
    )


def _time_ms(group: Sequence[RunLog]) -> float | None:
    """The time of the runs of one line together."""
    from evprof.metrics.figures.stages import total_ms, wall_ms

    whole = [total_ms(entry) if entry.info.imported is not None else wall_ms(entry) for entry in group]
    known = [value for value in whole if value is not None]
    return sum(known) if known and len(known) == len(whole) else None


def _entry(group: list[RunLog], payoffs: Payoffs, inner: str) -> RunEntry:
    ids = tuple(sorted(run.run_id for run in group))
    number = _numbers(group)
    title = f"{number} · {_common_name(group) or mode_words(group[0])}"
    label = " · ".join(filter(None, (_note(group), _settings(group))))
    marks = _badges(group)
    if inner == CELL:
        title, marks = _row_title(group[0], title), ()
        label = " · ".join(filter(None, (_verdict(group[-1]), _note(group))))
    elif inner == REPEATS:
        title, label = f"{number} · {_common_name(group) or _repeat_words(group[0])}", _note(group)
    troubled = next((run for run in group if run.info.status in (FAILED, CANCELLED)), None)
    running = next((run for run in group if run.info.status == RUNNING), None)
    sentence = troubled.info.error or "" if troubled else ""
    is_weighed = not inner and _is_weighed(group[-1])
    payoff = payoffs.of(group[-1]) if is_weighed else None
    if troubled is not None:
        outcome, role = troubled.info.status, "bad" if troubled.info.status == FAILED else ""
    elif running is not None:
        outcome, role = stage_now(running, running.info.role), ""
    else:
        outcome, role = _outcome(group, payoff)
    return RunEntry(
        ids,
        title,
        outcome,
        role,
        sentence,
        _tip(group, label, payoff),
        running is not None,
        label,
        is_inner=bool(inner),
        is_row=inner == CELL,
        badges=marks,
        against=_against(payoff) if is_weighed else "",
    )


def _verdict(run: RunLog) -> str:
    """Whether an answer is right; "" where nothing is expected, or it is not over."""
    from ui.run_facts.expected import verdict_of

    is_told = run.info.status == FINISHED and run.info.sample.is_scored
    return verdict_of(run).lower() if is_told else ""


def _repeat_words(run: RunLog) -> str:
    """What a run is among the repeats of its request; warm-up runs and traces are none, which their badges say."""
    return mode_name(run.info.mode) if run.info.warmup or run.info.profiled else f"repeat {run.info.repeat + 1}"


def _row_title(run: RunLog, title: str) -> str:
    """`interlaken_00_c · repeat 2 · warm-up`: within a cell the sample tells runs apart, neither number nor mode."""
    parts = [run.info.name or run.info.sample.name or title]
    parts += [f"repeat {run.info.repeat + 1}"] if run.info.repeat else []
    parts += run.info.marks
    return " · ".join(parts)


def _outcome(group: list[RunLog], payoff: Payoff | None) -> tuple[str, str]:
    """A speculative run's speed-up over the plain target, otherwise the time it took."""
    if payoff is not None and payoff.whole is not None:
        return _speed(payoff)
    whole = _time_ms(group)
    return ("" if whole is None else ms_text(whole)), ""


def _tip(group: list[RunLog], label: str, payoff: Payoff | None) -> str:
    from evprof.metrics.speculation.verdicts import payoff_sentence

    run = group[0]
    names = [model.name for entry in group for model in entry.info.models.values()]
    sample = run.info.sample.name
    numbers = " and ".join(str(entry.run_id) for entry in group)
    lines = [f"{mode_name(run.info.mode)} · run {numbers}" + (f" · {sample}" if sample else "")]
    lines += dict.fromkeys(names)
    lines += [label] if label else []
    lines += list(dict.fromkeys(entry.info.note for entry in group if entry.info.note))
    lines += [entry.info.error for entry in group if entry.info.error]
    lines += [warning for entry in group for warning in entry.info.warnings]
    lines += [note for entry in group if entry.info.imported is not None for note in entry.info.imported.notes]
    lines += [payoff_sentence(payoff)] if payoff is not None else []
    return "\n".join(lines)
