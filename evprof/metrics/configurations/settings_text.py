"""What was set about a run, in words: rows for one model, a short label for the run, and what tells two runs apart.

Where the engine reported what it took, that is said, not what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import ModelFacts
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.families import FAMILIES, READ_BY
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.inputs import OF_EVENTGPT, of_eventgpt
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.setting import Setting, Situation, said
from evprof.core.vocabulary.settings import SETTINGS
from evprof.core.vocabulary.speculation import PARALLEL, SPECULATION
from evprof.view.columns import ShownModel

_TAKEN = ("attention", "cache", "step")
"""Settings whose "auto" the engine decides; it reports what it took under the same names."""

_EVENTGPT_ONLY = tuple(e.key for e in SETTINGS.values() if e.idle is of_eventgpt or e.head == OF_EVENTGPT)

_OF_MODEL = ("dtype", "device", "quantization")
"""What a model's own facts tell."""

SPECULATION_KEYS = tuple(entry.key for entry in SETTINGS.values() if entry.group == "speculation")
"""Settings of drafting: they decide when an answer comes, never what it is."""


@dataclass(frozen=True)
class ToldSetting:
    """One thing that was set: a row's `name` and `text`, and what the run's label says (nothing at the default)."""

    key: str
    name: str
    text: str
    label: str = ""

    @property
    def is_default(self) -> bool:
        return not self.label


def kind_read(run: RunLog, role: str) -> str:
    """EVENTS or VIDEO: the half of the sample that a model of a run reads."""
    return situation_of(run, role).reads(role)


def situation_of(run: RunLog, role: str) -> Situation:
    """What decides which settings count for one model of a run; one that is not known yet is of its role's family."""
    model = run.info.models.get(role)
    usual = next(family.key for family in FAMILIES.values() if family.role == role)
    return Situation(run.info.mode, run.info.settings.flat(), {role: model.family if model else usual}, (role,))


def settings_of(run: RunLog, role: str) -> tuple[ToldSetting, ...]:
    """Everything set that concerns one model of a run, defaults included, in order of reading."""
    info = run.info
    key = (id(info.settings), role, info.mode)
    known = _known.get(key)
    if known is None or known.settings is not info.settings or known.model is not info.models.get(role):
        known = _Known(info.settings, info.models.get(role), tuple(_settings(run, role)))
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = known
    return known.listed


def told_settings(run: RunLog, role: str) -> tuple[ToldSetting, ...]:
    """Like `settings_of`; of an imported run only what its file gives: what it leaves out, nobody chose."""
    listed = settings_of(run, role)
    if run.info.imported is None:
        return listed
    of_model = _OF_MODEL if role in run.info.models else ()
    return tuple(setting for setting in listed if setting.key in run.info.given_settings or setting.key in of_model)


class _Known(NamedTuple):
    """What was worked out for a run's settings: lists of runs ask for it many times a second, and it never changes."""

    settings: GenerationSettings
    model: ModelFacts | None
    listed: tuple[ToldSetting, ...]


_known: dict[tuple[int, str, str], _Known] = {}
_MOST_KNOWN = 2000


def _settings(run: RunLog, role: str) -> Iterator[ToldSetting]:
    of_mode, model = situation_of(run, role), run.info.models.get(role)
    # What a model is shown and how it computes is told in the same lines whatever else the mode does with it.
    of_model = replace(of_mode, mode=role)
    for entry in SETTINGS.values():
        here = of_mode if entry.head in (SPECULATION, PARALLEL) else of_model
        if entry.group == "model":
            if hasattr(model, entry.key):
                own = getattr(model, entry.key)
                yield ToldSetting(entry.key, entry.name, said(entry.text, own, {}), _label(entry, own, here))
        elif _has_line(entry, here) and not (entry.told_with and _has_line(SETTINGS[entry.told_with], here)):
            told = _told(entry, here, role, model)
            if told.text:
                yield told


def _has_line(entry: Setting, here: Situation) -> bool:
    return entry.is_told_idle or not entry.idle(here)


def _told(entry: Setting, here: Situation, role: str, model: ModelFacts | None) -> ToldSetting:
    value = here.reads(role) if entry.key == f"{role}_input" else here.values[entry.key]
    text, label = said(entry.text, value, here.values), _label(entry, value, here)
    if entry.key in _TAKEN and model is not None:
        text = str(getattr(model, entry.key))
        label = f"{label} → {text}" if label and text != value else label
    if value == READ_BY[role]:
        label = ""
    return ToldSetting(entry.row or entry.key, entry.row or entry.name, text, label)


def _label(entry: Setting, value: Any, here: Situation) -> str:
    return "" if value == entry.default or not entry.label else said(entry.label, value, here.values)


def run_label(runs: Sequence[RunLog]) -> str:
    """`static · compiled · keep 0.5`: what is not at its default in a run, or in a pair that ran side by side.

    A setting that only one of two models has, or that differs between them, is said with its role.
    """
    said: dict[str, dict[str, str]] = {}
    roles: set[str] = set()
    for run in runs:
        for role in _roles(run):
            roles.add(role)
            for setting in settings_of(run, role):
                if not setting.is_default:
                    said.setdefault(setting.key, {})[role] = setting.label
    parts = []
    for key, by_role in said.items():
        words = list(dict.fromkeys(by_role.values()))
        # EventGPT's own settings need no role: no other model has them.
        if len(words) == 1 and (len(by_role) == len(roles) or key in _EVENTGPT_ONLY):
            parts.append(words[0])
        else:
            parts += [f"{role} {word}" for role, word in by_role.items()]
    return " · ".join(parts)


def differences(a: ShownModel | None, b: ShownModel | None) -> list[tuple[ToldSetting, ToldSetting]]:
    """The settings in which two models of two runs differ, in pairs; none within one run.

    Between a draft and a target, what they read and how much of it is no difference of settings.
    """
    if a is None or b is None or a.run is b.run:
        return []
    others = {setting.key: setting for setting in told_settings(*b)}
    passed = () if a.role == b.role else ("reads", "frames")
    return [
        (mine, others[mine.key])
        for mine in told_settings(*a)
        if mine.key in others and mine.text != others[mine.key].text and mine.key not in passed
    ]


def _roles(run: RunLog) -> tuple[str, ...]:
    own = run.info.role
    return (DRAFT, TARGET) if mode_of(run.info.mode).is_paired and DRAFT in run.info.models else (own,)
