"""The runs of the session as a list: one line per request's run or pair, with its outcome in a word or a ratio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evprof.core.records import DRAFT
from evprof.core.run_info import CANCELLED, FAILED, RUNNING
from evprof.core.run_log import RunLog
from evprof.core.units import ms_text
from evprof.metrics.speculation import plain_baseline
from evprof.metrics.stages import total_ms, wall_ms
from evprof.view.settings_text import run_label
from ui.models.run_text import mode_name, run_title, stage_now


@dataclass(frozen=True)
class RunEntry:
    """One line of the list. `role` is "good", "bad" or "" for the outcome; `sentence` says why a run failed.

    `label` names the settings that are not at their defaults: what tells two runs of one mode apart.
    """

    run_ids: tuple[int, ...]
    title: str
    outcome: str
    role: str
    sentence: str
    tip: str
    is_running: bool
    label: str = ""


def entries(runs: Mapping[int, RunLog]) -> list[RunEntry]:
    """Lines, newest first. The two runs of one side-by-side repetition are one line."""
    gathered: dict[tuple[object, ...], list[RunLog]] = {}
    for run in runs.values():
        info = run.info
        key: tuple[object, ...] = (run.run_id,)
        if info.mode == "side-by-side":
            key = (info.group_id, info.repeat, info.warmup, info.profiled)
        gathered.setdefault(key, []).append(run)
    return [_entry(group, runs) for group in reversed(gathered.values())]


def _entry(group: list[RunLog], runs: Mapping[int, RunLog]) -> RunEntry:
    group.sort(key=lambda run: run.info.role != DRAFT)
    ids = tuple(sorted(run.run_id for run in group))
    title, label = run_title(group[0]), run_label(group)
    if len(ids) > 1:
        title = f"{ids[0]}–{ids[-1]} · {title.split(' · ', 1)[1]}"
    troubled = next((run for run in group if run.info.status in (FAILED, CANCELLED)), None)
    running = next((run for run in group if run.info.status == RUNNING), None)
    sentence = troubled.info.error or "" if troubled else ""
    if troubled is not None:
        outcome, role = troubled.info.status, "bad" if troubled.info.status == FAILED else ""
    elif running is not None:
        outcome, role = stage_now(running, running.info.role), ""
    else:
        outcome, role = _outcome(group, runs)
    return RunEntry(ids, title, outcome, role, sentence, _tip(group, label), running is not None, label)


def _outcome(group: list[RunLog], runs: Mapping[int, RunLog]) -> tuple[str, str]:
    """A speculative run's speed-up over the plain target, otherwise the time it took."""
    run = group[-1]
    if run.info.mode == "speculative":
        baseline = plain_baseline(run, list(runs.values()))
        plain, mine = (total_ms(baseline) if baseline else None), total_ms(run)
        if plain and mine:
            gain = plain / mine
            return f"{gain:.2f}×", "good" if gain > 1.02 else "bad" if gain < 0.98 else ""
    whole = [wall_ms(entry) for entry in group]
    known = [value for value in whole if value is not None]
    return (ms_text(sum(known)), "") if len(known) == len(whole) and known else ("", "")


def _tip(group: list[RunLog], label: str) -> str:
    run = group[0]
    names = [model.name for entry in group for model in entry.info.models.values()]
    sample = run.info.sample.get("name") or ""
    lines = [mode_name(run.info.mode) + (f" · {sample}" if sample else ""), *dict.fromkeys(names)]
    lines += [label] if label else []
    lines += [entry.info.error for entry in group if entry.info.error]
    lines += [warning for entry in group for warning in entry.info.warnings]
    if run.info.mode == "speculative":
        lines.append("ratio: total time of the plain target / total time of this run")
    return "\n".join(lines)
