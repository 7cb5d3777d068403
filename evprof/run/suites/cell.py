"""One configuration of a suite: mode, models and settings, what of them means anything, and what it is called."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath
from typing import Any

from evprof.core.errors import UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import RunRequest, input_of, roles_of
from evprof.core.run_info import REFERENCE
from evprof.core.sample import Sample
from evprof.core.vocabulary.families import EVENTS
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.setting import Situation, said
from evprof.core.vocabulary.settings import SETTINGS, in_force

FILE, PNG = "file", "png"
EVENT_SOURCES = (FILE, PNG)
"""Where a model that reads events finds them: in the sample's own file, or as event frames drawn from it beforehand."""

FamilyOf = Callable[[str], str | None]
"""Model name -> its family; None where nobody knows."""


@dataclass(frozen=True)
class SuiteConfiguration:
    """A configuration. `prompt` None: each sample's own. `axes` are the fields that vary over the suite, of this cell.

    `event_source` is one of EVENT_SOURCES.
    """

    mode: str
    draft: ModelChoice | None
    target: ModelChoice | None
    settings: GenerationSettings = field(default_factory=GenerationSettings)
    prompt: str | None = None
    event_source: str = FILE
    label: str = ""
    axes: dict[str, Any] = field(default_factory=dict)

    @property
    def roles(self) -> tuple[str, ...]:
        return roles_of(self.mode, self.settings.speculation)

    @property
    def reading(self) -> tuple[str, ...]:
        return tuple(role for role in self.roles if role in mode_of(self.mode).reading)

    @property
    def answering(self) -> tuple[str, ...]:
        return mode_of(self.mode).answering

    def choice(self, role: str) -> ModelChoice | None:
        return self.draft if role == "draft" else self.target

    def weights(self, roles: Iterable[str] | None = None) -> frozenset[tuple[str, ModelChoice]]:
        wanted = self.roles if roles is None else roles
        return frozenset((role, choice) for role in wanted if (choice := self.choice(role)) is not None)

    def lacks(self, sample: Sample) -> str | None:
        """ "event recording" or "video" when the sample does not have what a model of this cell reads."""
        for role in self.reading:
            if input_of(self.settings.input, role) == EVENTS:
                if sample.events_path is None:
                    return "event recording"
            elif sample.video_path is None:
                return "video"
        return None

    def request(self, sample: Sample) -> RunRequest:
        return RunRequest(self.mode, sample, self.draft, self.target, self.settings, cell=self.label)

    def check(self) -> None:
        """Raises UserError (exit code 2) for what cannot work whatever the sample."""
        try:
            self.request(Sample("events", "video")).validate()
        except UserError as error:
            named = f"Cell '{self.label}': " if self.label else ""
            raise UserError(named + error.sentence, exit_code=error.exit_code) from None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "settings": self.settings.to_json()}


def meaningful(cell: SuiteConfiguration, family_of: FamilyOf) -> SuiteConfiguration:
    """The cell with everything that has no effect in it at its default, so that equal measurements look equal."""
    here = situation_of(cell, family_of)
    asked = in_force(cell.settings, here)
    inputs: dict[str, Any] = {f"{role}_input": here.reads(role) for role in here.reading}
    return replace(
        cell,
        draft=cell.draft if DRAFT in cell.roles else None,
        target=cell.target if TARGET in cell.roles else None,
        settings=replace(asked, input=replace(asked.input, **inputs)),
        event_source=cell.event_source if EVENTS in inputs.values() else FILE,
    )


def situation_of(cell: SuiteConfiguration, family_of: FamilyOf = lambda _: None) -> Situation:
    choices = {role: choice for role in cell.roles if (choice := cell.choice(role)) is not None}
    families = {role: family_of(choice.name) for role, choice in choices.items()}
    return Situation(cell.mode, cell.settings.flat(), families, cell.roles)


def flat_values(cell: SuiteConfiguration) -> dict[str, Any]:
    """Everything a cell may differ in, one level deep, in the order labels name it; absent where it has no model."""
    values: dict[str, Any] = {"mode": cell.mode}
    for role in cell.roles:
        choice = cell.choice(role)
        if choice is not None:
            names = {"name": role, **{name: f"{role}_{name}" for name in ("dtype", "device", "quantization", "clip")}}
            values |= {key: getattr(choice, name) for name, key in names.items()}
    values |= {key: value for key, value in cell.settings.flat().items() if not _is_input_of_nobody(key, cell)}
    return values | {"event_source": cell.event_source, "prompt": cell.prompt}


def _is_input_of_nobody(key: str, cell: SuiteConfiguration) -> bool:
    return key.endswith("_input") and key.removesuffix("_input") not in cell.roles


def label_cells(cells: Sequence[SuiteConfiguration], given: Sequence[str | None]) -> list[SuiteConfiguration]:
    """The cells with labels made of what varies among them, or the given ones, and with their axes.

    Raises UserError (exit code 2) when two given labels are equal, or one is that of the reference.
    """
    flats = _merged([flat_values(cell) for cell in cells])
    names = list(dict.fromkeys(name for flat in flats for name in flat))
    varying = [name for name in names if len({repr(flat[name]) for flat in flats if name in flat}) > 1]
    known = [label for label in given if label]
    for label in known:
        if known.count(label) > 1 or label == REFERENCE:
            raise UserError(
                f"Two cells would be called '{label}'; give each a label of its own"
                f"{' (that one is for the repeated reference row)' if label == REFERENCE else ''}.",
                exit_code=2,
            )
    taken: set[str] = {*known, REFERENCE}
    found: list[SuiteConfiguration] = []
    for cell, flat, own in zip(cells, flats, given, strict=True):
        axes = {name: flat[name] for name in varying if name in flat and _counts(name, flat, cell)}
        title = own or free_name(
            " · ".join(value_text(name, value) for name, value in axes.items()) or cell.mode, taken
        )
        taken.add(title)
        found.append(replace(cell, label=title, axes=axes))
    return found


def _merged(flats: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Dtype, device and quantization once where the two models never differ in them, after the mode."""
    for name in ("dtype", "device", "quantization"):
        keys = (f"draft_{name}", f"target_{name}")
        values = [{flat[key] for key in keys if key in flat} for flat in flats]
        if all(len(found) == 1 for found in values):
            flats = [
                {"mode": flat["mode"], name: found.pop()} | {key: flat[key] for key in flat if key not in keys}
                for flat, found in zip(flats, values, strict=True)
            ]
    return flats


def _counts(name: str, flat: Mapping[str, Any], cell: SuiteConfiguration) -> bool:
    """Whether a varying field is worth naming here: not one that `meaningful` has set to its default."""
    entry = SETTINGS.get(name)
    here = situation_of(cell)
    if entry is None or entry.group == "model":
        return not (name == "event_source" and flat[name] == FILE and EVENTS not in map(here.reads, here.reading))
    if name == "drafter" and flat["adapter"]:
        return False  # an adapter's name says more than its kind
    is_own_number = entry.row and flat[name] is None
    counts = entry.is_told_idle or not entry.idle(here)
    return bool(value_text(name, flat[name])) and not is_own_number and counts


def free_name(name: str, taken: Container[str]) -> str:
    return next(
        free for free in itertools.chain([name], (f"{name} ({n})" for n in itertools.count(2))) if free not in taken
    )


def _model_name(value: Any) -> str:
    return PurePath(str(value).rstrip("/")).name.removeprefix("random:") or str(value)


_SPOKEN: dict[str, Callable[[Any], str]] = {
    "mode": str,
    "prompt": lambda value: "own prompt" if value is None else f"“{value if len(value) <= 32 else value[:31] + '…'}”",
    "draft": _model_name,
    "target": _model_name,
    "event_source": lambda value: "PNG event frames" if value == PNG else "event file",
}
"""Fields that are no settings, in words."""


def value_text(name: str, value: Any) -> str:
    """A value in a label: "8 frames", "γ 3", "bfloat16", "no ignore-eos"."""
    if name in _SPOKEN:
        return _SPOKEN[name](value)
    entry = SETTINGS.get(name)
    if entry is not None and entry.axis:
        return said(entry.axis, value, {})
    words = name.replace("_", "-" if entry is not None and entry.group == "input" else " ")
    if isinstance(value, bool):
        return words if value else f"no {words}"
    if value is None:
        return f"no {words}" if name.endswith("quantization") else f"{words} by default"
    return f"{words} {value}"
