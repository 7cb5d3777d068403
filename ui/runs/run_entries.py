"""The runs of the session as a list: one line per request's run or pair, with its outcome in a word or a ratio.

Runs of a suite or an import are gathered below one line per cell, repeats of one request below one line of theirs; the
runs themselves are told when that is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from evprof.core.records import DRAFT
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, RUNNING
from evprof.core.run_log import RunLog
from evprof.core.units import ms_text, percent_text
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.scoring import RIGHT, TOKEN_F1
from evprof.run.kept_repeatability import spread_for
from ui.run_facts.expected import nearness_words, right_words, verdicts_of
from ui.run_facts.provenance import cell_names
from ui.run_facts.run_text import mode_name, mode_words, stage_now
from ui.runs.payoffs import Payoffs
from ui.runs.run_entry import (
    RunEntry,
    against_of,
    badges_of,
    common_name,
    entry_of,
    may_pay_off,
    note_of,
    numbers_of,
    percent_of,
    settings_of,
    speed_of,
    time_ms,
)
from ui.runs.run_groups import BETWEEN, CELL, FoldKey, Members, RunGroups, Slot, SlotList, parted
from ui.state.cells import configuration_counts

if TYPE_CHECKING:
    from evprof.metrics.speculation.payoff import Payoff

CLOSED, OPEN = "closed", "open"
"""Whether the runs of a cell or of a request are listed below it."""

MOST_WEIGHED = 300
"""Runs of a cell whose interval the list tells: over more it takes too long while runs end; the comparison has it."""


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
        in number, mode, name, note, settings, sample, models, outcome, badges, or whether its answer is right."""
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
            told += [*badges_of([run]), *(model.name for model in info.models.values()), verdicts_of([run])]
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
        lines += [f"{counts.warmups:,} warm-up runs, in no figure"] if counts.warmups else []
        lines += errors[:MOST_ERRORS]
        lines += ["figure: mean total time of a sample"] if mean is not None else []
        name, file = cell_names(members[0])
        right, shared = self._scores(members) if facts is None else (facts.right, facts.shared)
        scored = right_words(right) or nearness_words(shared)
        label = " · ".join(filter(None, (counts.sentence, scored, file)))
        lines += [f"{role}: {percent_text(share, 1)} of its answers are right" for role, share in right.items()]
        lines += [f"{role}: token F1 {percent_text(share, 1)} on average" for role, share in shared.items()]
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
        from evprof.metrics.speculation.verdicts import payoff_sentence, without_option

        others = self._payoffs.state if mode_of(members[0].info.mode).drafts else 0
        state = (is_open, others, *self._state(members))
        known = self._known.get(key)
        if known is not None and known[0] == state:
            return known[1]
        lines = _paired(members)
        counted = [group for group in lines if all(run.info.status == FINISHED for run in group) and _counts(group)]
        counted = [group for group in counted if not group[-1].info.is_cold] or counted
        payoff = self._payoffs.of(counted[-1][-1]) if counted and may_pay_off(counted[-1][-1]) else None
        running = next((run for run in members if run.info.status == RUNNING), None)
        outcome, role, spread = _whole(counted, payoff)
        if running is not None:
            outcome, role, spread = stage_now(running, running.info.role), "", ""
        failed = [run for run in members if run.info.status in (FAILED, CANCELLED)]
        ids = sorted(run.run_id for run in members)
        measured = [group for group in lines if _counts(group)] or lines
        titled = [run for group in measured for run in group]
        name = common_name(titled) or mode_words(members[0])
        few = f" of {len(measured)}" if len(counted) < len(measured) else ""
        count = f"×{len(counted):,}{few}" if len(measured) > 1 else ""
        label = " · ".join(filter(None, (count, note_of(titled[:1]), settings_of(lines[-1]))))
        marks = Counter(mark for group in lines for mark in badges_of(group))
        tip = [f"{name} · runs {ids[0]} to {ids[-1]}", _counted_tip(counted, lines)]
        tip += [without_option(payoff_sentence(payoff))] if payoff is not None else []
        tip += list(dict.fromkeys(run.info.error for run in failed if run.info.error))[:3]
        entry = RunEntry(
            tuple(ids),
            f"{numbers_of(titled if len(measured) == 1 else members)} · {name}",
            outcome or (failed[-1].info.status if failed else ""),
            role or ("bad" if failed and not outcome and failed[-1].info.status == FAILED else ""),
            failed[-1].info.error or "" if failed and not counted else "",
            "\n".join(filter(None, tip)),
            running is not None,
            label,
            key,
            OPEN if is_open else CLOSED,
            badges=tuple(f"{count} {mark}" if count > 1 else mark for mark, count in marks.items()),
            against=against_of(payoff) if counted and may_pay_off(counted[-1][-1]) else "",
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

    def _scores(self, members: Sequence[RunLog]) -> tuple[dict[str, float], dict[str, float]]:
        """By role the share of right answers and the mean token F1, among those that are scored."""
        from evprof.metrics.comparison.document import is_comparable
        from evprof.metrics.figures.scores import score

        ended = [run for run in members if run.info.status == FINISHED] if members[0].info.sample.is_scored else []
        counted = [run for run in ended if is_comparable(run)]

        def means(key: str) -> dict[str, float]:
            found: dict[str, list[float]] = {}
            for run in counted:
                if (value := score(run, key)) is not None:
                    found.setdefault(run.info.role, []).append(value)
            return {role: sum(values) / len(values) for role, values in found.items()}

        return means(RIGHT), means(TOKEN_F1)

    def _spread(self, members: Sequence[RunLog]) -> str:
        """Half the 95 % interval of that mean, where one model answered."""
        from evprof.metrics.comparison.document import is_comparable, warm_of
        from evprof.metrics.estimates.estimates import mean_of, observe

        counted = warm_of([run for run in members if run.info.status == FINISHED and is_comparable(run)])
        if len(counted) > MOST_WEIGHED or len({run.info.role for run in counted}) != 1:
            return ""
        found = mean_of(observe(counted, self._total_ms), spread_for(counted[-1]))
        return "" if found is None else percent_of(found.value, found.interval)

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
        entry = entry_of(group, self._payoffs, inner)
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


def _whole(lines: Sequence[Sequence[RunLog]], payoff: Payoff | None) -> tuple[str, str, str]:
    """The speed-up of repeats, else their mean time and half its 95 % interval."""
    from evprof.metrics.estimates.estimates import mean_of, observe

    if payoff is not None and payoff.whole is not None:
        return speed_of(payoff)
    if not lines:
        return "", "", ""
    mates = {group[-1].run_id: group for group in lines}
    answers = [group[-1] for group in lines]
    found = mean_of(observe(answers, lambda run: time_ms(mates[run.run_id])), spread_for(answers[-1]))
    return ("", "", "") if found is None else (ms_text(found.value), "", percent_of(found.value, found.interval))


def _counted_tip(counted: Sequence[Sequence[RunLog]], lines: Sequence[Sequence[RunLog]]) -> str:
    if not counted:
        return ""
    figure = "the mean" if len(counted) > 1 else "the one that counts"
    left = len(lines) - len(counted)
    return f"figure: {figure} of {len(counted):,} of {len(lines):,} repeats" + (
        "; warm-up, cold and profiled ones are left out" if left else ""
    )
