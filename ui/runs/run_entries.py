"""The runs of the session as a list: one line per request's run or pair, with its outcome in a word or a ratio.

Runs of a suite or an import are gathered below one line per cell; the runs themselves are told when that is opened.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from evprof.core.records import DRAFT
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, RUNNING
from evprof.core.run_log import RunLog
from evprof.core.units import ms_text
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.comparison.document import is_comparable, warm_of
from evprof.metrics.configurations.baselines import is_counted
from evprof.metrics.configurations.settings_text import run_label
from evprof.metrics.figures.stages import total_ms, wall_ms
from evprof.metrics.speculation.outcome import is_lossy
from evprof.metrics.speculation.payoff import Payoff
from evprof.metrics.speculation.verdicts import payoff_sentence
from ui.run_facts.provenance import cell_names
from ui.run_facts.run_text import mode_name, run_title, stage_now
from ui.runs.payoffs import Payoffs
from ui.state.cells import configuration_counts

CLOSED, OPEN = "closed", "open"
"""Whether the runs of a cell are listed below it."""

CellKey = tuple[str, str]
"""The key of a cell's line: ("cell", its name)."""

CELL = "cell"


@dataclass(frozen=True)
class RunEntry:
    """One line of the list. `role` is "good", "bad" or "" for the outcome; `sentence` says why a run failed.

    `label` names the settings that are not at their defaults: what tells two runs of one mode apart. A cell's line has
    a `fold` and its counts as `label`, and `cell` as part of its key; runs below it are `is_inner`.
    """

    run_ids: tuple[int, ...]
    title: str
    outcome: str
    role: str
    sentence: str
    tip: str
    is_running: bool
    label: str = ""
    cell: str = ""
    fold: str = ""
    is_inner: bool = False

    @property
    def key(self) -> tuple[int, ...] | CellKey:
        """What a click on the line reports."""
        return (CELL, self.cell) if self.fold else self.run_ids


class RunEntries:
    """The lines of growing runs: what has not changed since is not worked out again."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[object, RunEntry]] = {}
        self._times: dict[int, tuple[int, float | None]] = {}
        self._payoffs = Payoffs()

    def lines(self, runs: Mapping[int, RunLog], opened: Collection[str] = ()) -> list[RunEntry]:
        """Lines, newest first; below a cell of `opened` its runs."""
        self._payoffs.look(runs)
        cells: dict[str, list[RunLog]] = {}
        order: list[object] = []
        gathered: dict[object, list[RunLog]] = {}
        for run in runs.values():
            cell = run.info.cell
            if cell:
                if cell not in cells:
                    order.append((CELL, cell))
                cells.setdefault(cell, []).append(run)
                continue
            key = _group_key(run)
            if key not in gathered:
                order.append(key)
            gathered.setdefault(key, []).append(run)
        found: list[RunEntry] = []
        for key in reversed(order):
            if isinstance(key, tuple) and key[0] == CELL:
                found += self._cell_lines(str(key[1]), cells[str(key[1])], key[1] in opened)
            else:
                found.append(self._run_line(key, gathered[key]))
        return found

    def _cell_lines(self, cell: str, members: list[RunLog], is_open: bool) -> list[RunEntry]:
        found = [self._cell_line(cell, members, is_open)]
        if is_open:
            gathered: dict[object, list[RunLog]] = {}
            for run in members:
                gathered.setdefault((cell, _group_key(run)), []).append(run)
            found += [self._run_line(key, group, is_inner=True) for key, group in gathered.items()]
        return found

    def _cell_line(self, cell: str, members: list[RunLog], is_open: bool) -> RunEntry:
        state = (is_open, len(members), sum(run.version for run in members))
        known = self._known.get((CELL, cell))
        if known is not None and known[0] == state:
            return known[1]
        counts = configuration_counts(members)
        mean = self._mean_ms(members)
        lines = [cell, mode_name(members[0].info.mode), counts.sentence]
        lines += [f"{counts.warmups} warm-up runs, in no figure"] if counts.warmups else []
        lines += list(dict.fromkeys(run.info.error for run in members if run.info.error))[:3]
        lines += ["figure: mean total time of a sample"] if mean is not None else []
        name, file = cell_names(members[0])
        label = " · ".join(filter(None, (counts.sentence, file)))
        entry = RunEntry(
            tuple(run.run_id for run in members),
            name,
            "" if mean is None else ms_text(mean),
            "",
            label if counts.failed else "",
            "\n".join(lines),
            counts.running > 0,
            label,
            cell,
            OPEN if is_open else CLOSED,
        )
        self._known[CELL, cell] = (state, entry)
        return entry

    def _mean_ms(self, members: list[RunLog]) -> float | None:
        """Mean total of a sample; those of two models that answered it one after the other are added."""
        by_role: dict[str, list[RunLog]] = {}
        for run in members:
            if run.info.status == FINISHED and is_comparable(run):
                by_role.setdefault(run.info.role, []).append(run)
        times = [list(filter(None, map(self._total_ms, warm_of(found)))) for found in by_role.values()]
        return sum(sum(found) / len(found) for found in times if found) if any(times) else None

    def _total_ms(self, run: RunLog) -> float | None:
        known = self._times.get(run.run_id)
        if known is None or known[0] != run.version:
            known = self._times[run.run_id] = (run.version, total_ms(run))
        return known[1]

    def _run_line(self, key: object, group: list[RunLog], *, is_inner: bool = False) -> RunEntry:
        # A speculative run is told against the plain ones beside it, whichever come.
        others = self._payoffs.counted if mode_of(group[0].info.mode).drafts and not is_inner else 0
        state = (others, *(run.version for run in group))
        known = self._known.get(key)
        if known is not None and known[0] == state:
            return known[1]
        entry = _entry(group, self._payoffs, is_inner)
        self._known[key] = (state, entry)
        return entry


def _group_key(run: RunLog) -> object:
    info = run.info
    if mode_of(info.mode).is_side_by_side:
        return (info.group_id, info.repeat, info.warmup, info.profiled)
    return (run.run_id,)


def _entry(group: list[RunLog], payoffs: Payoffs, is_inner: bool) -> RunEntry:
    group = sorted(group, key=lambda run: run.info.role != DRAFT)
    ids = tuple(sorted(run.run_id for run in group))
    title, label = run_title(group[0]), run_label(group)
    if is_lossy(group[-1]):
        label = " · ".join(filter(None, ("lossy", label)))
    if len(ids) > 1:
        title = f"{ids[0]}–{ids[-1]} · {title.split(' · ', 1)[1]}"
    if is_inner:
        title, label = _inner_title(group[0], title), ""
    troubled = next((run for run in group if run.info.status in (FAILED, CANCELLED)), None)
    running = next((run for run in group if run.info.status == RUNNING), None)
    sentence = troubled.info.error or "" if troubled else ""
    is_weighed = not is_inner and mode_of(group[-1].info.mode).drafts and is_counted(group[-1].info)
    payoff = payoffs.of(group[-1]) if is_weighed else None
    if troubled is not None:
        outcome, role = troubled.info.status, "bad" if troubled.info.status == FAILED else ""
    elif running is not None:
        outcome, role = stage_now(running, running.info.role), ""
    else:
        outcome, role = _outcome(group, payoff)
    tip = _tip(group, label, payoff)
    return RunEntry(ids, title, outcome, role, sentence, tip, running is not None, label, is_inner=is_inner)


def _inner_title(run: RunLog, title: str) -> str:
    """`interlaken_00_c · repeat 2 · warm-up`: within a cell the sample tells runs apart, neither number nor mode."""
    parts = [run.info.sample.name or title]
    parts += [f"repeat {run.info.repeat + 1}"] if run.info.repeat else []
    parts += run.info.marks
    return " · ".join(parts)


def _outcome(group: list[RunLog], payoff: Payoff | None) -> tuple[str, str]:
    """A speculative run's speed-up over the plain target, otherwise the time it took."""
    if payoff is not None and payoff.whole is not None:
        speed = payoff.whole.speedup
        return f"{speed:.2f}×", ("good" if speed > 1 else "bad") if payoff.is_clear else ""
    whole = [total_ms(entry) if entry.info.imported is not None else wall_ms(entry) for entry in group]
    known = [value for value in whole if value is not None]
    return (ms_text(sum(known)), "") if len(known) == len(whole) and known else ("", "")


def _tip(group: list[RunLog], label: str, payoff: Payoff | None) -> str:
    run = group[0]
    names = [model.name for entry in group for model in entry.info.models.values()]
    sample = run.info.sample.name
    numbers = " and ".join(str(entry.run_id) for entry in group)
    lines = [f"{mode_name(run.info.mode)} · run {numbers}" + (f" · {sample}" if sample else "")]
    lines += dict.fromkeys(names)
    lines += [label] if label else []
    lines += [entry.info.error for entry in group if entry.info.error]
    lines += [warning for entry in group for warning in entry.info.warnings]
    lines += [note for entry in group if entry.info.imported is not None for note in entry.info.imported.notes]
    lines += [payoff_sentence(payoff)] if payoff is not None else []
    return "\n".join(lines)
