"""One line of the list of runs: a run alone, or the two that ran side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evprof.core.run_info import CANCELLED, FAILED, RUNNING
from evprof.core.run_log import RunLog
from evprof.core.units import ms_text, times_text
from evprof.core.vocabulary.modes import mode_of
from ui.run_facts.expected import verdicts_of
from ui.run_facts.figures import MOST_NUMBERS, spread_text
from ui.run_facts.run_text import mode_name, mode_words, stage_now
from ui.runs.payoffs import Payoffs
from ui.runs.run_groups import CELL, REPEATS, FoldKey

if TYPE_CHECKING:
    from evprof.metrics.speculation.payoff import Payoff

_BADGES = {"profiled": "trace"}


@dataclass(frozen=True)
class RunEntry:
    """One line of the list. `role` is "good", "bad" or "" for the outcome; `sentence` says why a run failed.

    `label` is the note, and the settings that are not at their defaults: what tells two runs of one mode apart. A line
    with a `fold` has others below it, its counts as `label`, and a `group`; those below are `is_inner`, and `is_row` in
    a cell. `badges` say why runs stand in no figure. `against` names the baseline of the outcome, "" where it is no
    ratio; `spread` is half the 95 % interval of a mean or a ratio.
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


def may_pay_off(run: RunLog) -> bool:
    """Whether a run is told by its speed-up: one that drafts and counts."""
    from evprof.metrics.configurations.baselines import is_counted

    return mode_of(run.info.mode).drafts and is_counted(run.info)


def badges_of(group: Sequence[RunLog]) -> tuple[str, ...]:
    """Why the runs of a line stand in no figure, each reason once."""
    return tuple(dict.fromkeys(_BADGES.get(mark, mark) for run in group for mark in run.info.marks))


def common_name(members: Sequence[RunLog]) -> str:
    """The name that all of these runs have; "" where they have several."""
    names = {run.info.name for run in members}
    return names.pop() if len(names) == 1 else ""


def numbers_of(runs: Sequence[RunLog]) -> str:
    """`3`, `3–8`."""
    ids = [run.run_id for run in runs]
    return "–".join(dict.fromkeys(map(str, (min(ids), max(ids)))))


def settings_of(group: Sequence[RunLog]) -> str:
    """The settings that are not at their defaults."""
    from evprof.metrics.configurations.settings_text import run_label
    from evprof.metrics.speculation.outcome import is_lossy

    return " · ".join(filter(None, ("lossy" if is_lossy(group[-1]) else "", run_label(group))))


def note_of(group: Sequence[RunLog]) -> str:
    """The first line that somebody wrote about runs."""
    return next((run.info.note.strip().split("\n")[0] for run in group if run.info.note.strip()), "")


def against_of(payoff: Payoff | None) -> str:
    """`vs 2, 5`, `vs 12 runs`: what a ratio is a ratio to."""
    if payoff is None:
        return "no baseline"
    ids = payoff.baseline.run_ids
    return f"vs {', '.join(map(str, ids))}" if len(ids) <= MOST_NUMBERS else f"vs {len(ids):,} runs"


def speed_of(payoff: Payoff) -> tuple[str, str, str]:
    """`0.77×`, whether that is good, grey where the interval holds 1, and `±3 %`."""
    found = payoff.whole
    if found is None:
        return "", "", ""
    role = ("good" if found.speedup > 1 else "bad") if payoff.is_clear else ""
    return times_text(found.speedup), role, percent_of(found.speedup, found.interval)


def percent_of(value: float, ends: Sequence[float] | None) -> str:
    """`±3 %`: half an interval in percent of its value; "" without one."""
    half = spread_text(value, ends)
    return f"{half} %" if half else ""


def time_ms(group: Sequence[RunLog]) -> float | None:
    """The time of the runs of one line together."""
    from evprof.metrics.figures.stages import total_ms, wall_ms

    whole = [total_ms(entry) if entry.info.imported is not None else wall_ms(entry) for entry in group]
    known = [value for value in whole if value is not None]
    return sum(known) if known and len(known) == len(whole) else None


def entry_of(group: list[RunLog], payoffs: Payoffs, inner: str) -> RunEntry:
    """The line of a run or a pair; `inner` is the kind of line that it lies below, "" for none."""
    ids = tuple(sorted(run.run_id for run in group))
    number = numbers_of(group)
    title = f"{number} · {common_name(group) or mode_words(group[0])}"
    label = " · ".join(filter(None, (note_of(group), settings_of(group))))
    marks = badges_of(group)
    if inner == CELL:
        title, marks = _row_title(group[0], title), ()
        label = " · ".join(filter(None, (verdicts_of(group), note_of(group))))
    elif inner == REPEATS:
        title, label = f"{number} · {common_name(group) or _repeat_words(group[0])}", note_of(group)
    troubled = next((run for run in group if run.info.status in (FAILED, CANCELLED)), None)
    running = next((run for run in group if run.info.status == RUNNING), None)
    sentence = troubled.info.error or "" if troubled else ""
    is_weighed = not inner and may_pay_off(group[-1])
    payoff = payoffs.of(group[-1]) if is_weighed else None
    spread = ""
    if troubled is not None:
        outcome, role = troubled.info.status, "bad" if troubled.info.status == FAILED else ""
    elif running is not None:
        outcome, role = stage_now(running, running.info.role), ""
    else:
        outcome, role, spread = _outcome(group, payoff)
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
        against=against_of(payoff) if is_weighed else "",
        spread=spread,
    )


def _repeat_words(run: RunLog) -> str:
    """What a run is among the repeats of its request; warm-up runs and traces are none, which their badges say."""
    return mode_name(run.info.mode) if run.info.warmup or run.info.profiled else f"repeat {run.info.repeat + 1}"


def _row_title(run: RunLog, title: str) -> str:
    """`interlaken_00_c · repeat 2 · warm-up`: within a cell the sample tells runs apart, neither number nor mode."""
    parts = [run.info.name or run.info.sample.name or title]
    parts += [f"repeat {run.info.repeat + 1}"] if run.info.repeat else []
    parts += run.info.marks
    return " · ".join(parts)


def _outcome(group: list[RunLog], payoff: Payoff | None) -> tuple[str, str, str]:
    """A speculative run's speed-up over the plain target and how sure it is, otherwise the time it took."""
    if payoff is not None and payoff.whole is not None:
        return speed_of(payoff)
    whole = time_ms(group)
    return ("" if whole is None else ms_text(whole)), "", ""


def _tip(group: list[RunLog], label: str, payoff: Payoff | None) -> str:
    from evprof.metrics.speculation.verdicts import payoff_sentence, without_option

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
    lines += [without_option(payoff_sentence(payoff))] if payoff is not None else []
    return "\n".join(lines)
