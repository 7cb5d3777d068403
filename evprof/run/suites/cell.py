"""One configuration of a suite: mode, models and settings, what of them means anything, and what it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath
from typing import Any

from evprof.core.errors import UserError
from evprof.core.request import GenerationSettings, ModelChoice, RunRequest, input_of, roles_of
from evprof.core.run_info import REFERENCE
from evprof.core.sample import Sample
from evprof.core.speculation import (
    KV_ADAPTED,
    PAIRED_MODES,
    PARALLEL_PREFILL,
    SPECULATIVE,
    SPECULATIVE_MODES,
    SpeculationSettings,
)
from evprof.core.switches import InputSettings, Switches

FILE, PNG = "file", "png"
EVENT_SOURCES = (FILE, PNG)
"""Where a model that reads events finds them: in the sample's own file, or as event frames drawn from it beforehand."""

Wants = Callable[[str], str | None]
"""Model name -> "events" or "video", what its family was made for; None where nobody knows."""


@dataclass(frozen=True)
class SuiteCell:
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
        """The models it takes, the draft first."""
        return roles_of(self.mode, self.settings.speculation)

    @property
    def answering(self) -> tuple[str, ...]:
        """The roles whose runs a row of it leaves."""
        return ("target",) if self.mode in PAIRED_MODES else self.roles

    def choice(self, role: str) -> ModelChoice | None:
        """The model of that role."""
        return self.draft if role == "draft" else self.target

    def weights(self, roles: Iterable[str] | None = None) -> frozenset[tuple[str, ModelChoice]]:
        """What has to be loaded for it, or for these of its roles."""
        wanted = self.roles if roles is None else roles
        return frozenset((role, choice) for role in wanted if (choice := self.choice(role)) is not None)

    def lacks(self, sample: Sample) -> str | None:
        """ "event recording" or "video" when the sample does not have what a model of this cell reads."""
        for role in self.roles:
            kind = input_of(self.settings.input, role)
            if kind == "events" and sample.events_path is None:
                return "event recording"
            if kind == "video" and sample.video_path is None:
                return "video"
        return None

    def request(self, sample: Sample) -> RunRequest:
        """A run of it on a sample."""
        return RunRequest(self.mode, sample, self.draft, self.target, self.settings, cell=self.label)

    def check(self) -> None:
        """Raises UserError (exit code 2) for what cannot work whatever the sample."""
        try:
            self.request(Sample("events", "video")).validate()
        except UserError as error:
            raise UserError(f"Cell '{self.label}': {error.sentence}", exit_code=error.exit_code) from None

    def to_json(self) -> dict[str, Any]:
        """Everything that makes it what it is, as plain values."""
        return asdict(self)


def meaningful(cell: SuiteCell, wants: Wants) -> SuiteCell:
    """The cell with everything that has no effect in it at its default, so that equal measurements look equal."""
    plain, roles = GenerationSettings(), cell.roles
    asked, inputs, switches = cell.settings, cell.settings.input, cell.settings.switches
    changes: dict[str, Any] = {}
    changes["speculation"] = _meaningful_speculation(cell.mode, asked.speculation)
    if not _has_rounds(cell.mode, changes["speculation"]) or changes["speculation"].tree:
        changes["gamma"] = plain.gamma
    if asked.temperature == 0:
        changes |= {"top_p": plain.top_p, "top_k": plain.top_k, "seed": plain.seed}
    kinds = {wants(choice.name) for role in roles if (choice := cell.choice(role)) is not None}
    if None not in kinds:
        # Each family counts pictures by a setting of its own, whichever half of the sample they come from.
        if "video" not in kinds:
            changes["frames"] = None
        if "events" not in kinds:
            changes["event_frames"] = None
    own = {f"{role}_input": input_of(inputs, role) for role in roles}
    changes["input"] = replace(
        inputs, draft_input=own.get("draft_input", "auto"), target_input=own.get("target_input", "auto")
    )
    reset: dict[str, Any] = {}
    if "video" not in own.values():
        reset |= {"frame_cache": Switches().frame_cache, "video_decoder": Switches().video_decoder}
    if switches.early_exit is None:
        reset["exit_confidence"] = Switches().exit_confidence
    if switches.visual_keep == 1:
        reset["prune_by"] = Switches().prune_by
    changes["switches"] = replace(switches, **reset)
    reads_events = "events" in own.values()
    return replace(
        cell,
        draft=cell.draft if "draft" in roles else None,
        target=cell.target if "target" in roles else None,
        settings=replace(asked, **changes),
        event_source=cell.event_source if reads_events else FILE,
    )


def _has_rounds(mode: str, asked: SpeculationSettings) -> bool:
    """Whether tokens are drafted again and again behind the first ones."""
    return mode == SPECULATIVE or (mode == PARALLEL_PREFILL and asked.afterwards == "rounds")


def _meaningful_speculation(mode: str, asked: SpeculationSettings) -> SpeculationSettings:
    """The same for what concerns drafting."""
    plain = SpeculationSettings()
    if mode not in PAIRED_MODES:
        return plain
    if mode == KV_ADAPTED:
        return replace(plain, adapter=asked.adapter)
    reset: dict[str, Any] = {}
    if mode != PARALLEL_PREFILL:
        reset = {name: getattr(plain, name) for name in _OF_PARALLEL_PREFILL}
    if not _has_rounds(mode, asked) or asked.tree:
        reset["length"] = plain.length
    return replace(asked, **reset)


_OF_PARALLEL_PREFILL = ("begins", "hidden", "verify", "afterwards")


def flat_values(cell: SuiteCell) -> dict[str, Any]:
    """Everything a cell may differ in, one level deep, in the order labels name it; absent where it has no model."""
    values: dict[str, Any] = {"mode": cell.mode}
    for role in cell.roles:
        choice = cell.choice(role)
        if choice is not None:
            names = {"name": role, **{name: f"{role}_{name}" for name in ("dtype", "device", "quantization", "clip")}}
            values |= {key: getattr(choice, name) for name, key in names.items()}
    groups = (cell.settings, cell.settings.input, cell.settings.switches, cell.settings.speculation)
    for group in groups:
        values |= {
            name: getattr(group, name)
            for name in group.__dataclass_fields__
            if name not in ("input", "switches", "speculation")
        }
    for role in ("draft", "target"):
        if role not in cell.roles:
            values.pop(f"{role}_input")
    return values | {"event_source": cell.event_source, "prompt": cell.prompt}


def label_cells(cells: Sequence[SuiteCell], given: Sequence[str | None]) -> list[SuiteCell]:
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
    found: list[SuiteCell] = []
    for cell, flat, own in zip(cells, flats, given, strict=True):
        axes = {name: flat[name] for name in varying if name in flat and _counts(name, flat, cell)}
        title = own or _unique(" · ".join(value_text(name, value) for name, value in axes.items()) or cell.mode, taken)
        taken.add(title)
        found.append(replace(cell, label=title, axes=axes))
    return found


def _merged(flats: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Dtype, device and quantization told once where the two models never differ in them."""
    for name in ("dtype", "device", "quantization"):
        pairs = [{key: flat[key] for key in (f"draft_{name}", f"target_{name}") if key in flat} for flat in flats]
        if all(len(set(pair.values())) == 1 for pair in pairs):
            flats = [
                {name: next(iter(pair.values())), **{key: value for key, value in flat.items() if key not in pair}}
                for flat, pair in zip(flats, pairs, strict=True)
            ]
            flats = [{"mode": flat["mode"], **flat} for flat in flats]
    return flats


def _counts(name: str, flat: Mapping[str, Any], cell: SuiteCell) -> bool:
    """Whether a varying field is worth naming here: not one that `meaningful` has set to its default."""
    if name in ("gamma", "length"):
        asked = cell.settings.speculation
        return _has_rounds(cell.mode, asked) and not asked.tree
    if name in _OF_SPECULATION:
        return _counts_in_speculation(name, flat, cell.mode)
    if name in ("frames", "event_frames"):
        return flat[name] is not None
    return not (name == "event_source" and flat[name] == FILE and "events" not in _inputs(cell))


_OF_SPECULATION = frozenset(SpeculationSettings.__dataclass_fields__)


def _counts_in_speculation(name: str, flat: Mapping[str, Any], mode: str) -> bool:
    if name in _OF_PARALLEL_PREFILL:
        return mode == PARALLEL_PREFILL
    if name in ("adapter", "tree"):
        return bool(flat[name])
    if name == "drafter":
        # An adapter's name says more than its kind.
        return mode in SPECULATIVE_MODES and not flat["adapter"]
    return mode in PAIRED_MODES


def _inputs(cell: SuiteCell) -> set[str]:
    return {input_of(cell.settings.input, role) for role in cell.roles}


def _unique(label: str, taken: set[str]) -> str:
    number = 1
    found = label
    while found in taken:
        number += 1
        found = f"{label} ({number})"
    return found


def _model_name(value: Any) -> str:
    return PurePath(str(value).rstrip("/")).name.removeprefix("random:") or str(value)


_COUNTED = {"frames": "frame", "event_frames": "event frame", "max_new_tokens": "token"}
_INPUT_FIELDS = frozenset(InputSettings.__dataclass_fields__)
_SPOKEN: dict[str, Callable[[Any], str]] = {
    "mode": str,
    "dtype": str,
    "device": str,
    "gamma": lambda value: f"γ {value}",
    "prompt": lambda value: "own prompt" if value is None else f"“{value if len(value) <= 32 else value[:31] + '…'}”",
    "draft": _model_name,
    "target": _model_name,
    "event_source": lambda value: "PNG event frames" if value == PNG else "event file",
    "draft_input": lambda value: f"draft reads {value}",
    "target_input": lambda value: f"target reads {value}",
    "quantization": lambda value: value or "no quantization",
    "drafter": lambda value: f"{value} drafter",
    "adapter": _model_name,
    "length": lambda value: f"{value} length",
    "judges": lambda value: "judgements" if value else "no judgements",
    "begins": lambda value: f"from {value}",
    "hidden": lambda value: "hidden as time allows" if value is None else f"{value} hidden",
    "verify": lambda value: "verified after" if value == "after" else f"verified in the {value.replace('-', ' ')}",
    "afterwards": lambda value: f"then {value}",
}


def value_text(name: str, value: Any) -> str:
    """A value in a label: "8 frames", "γ 3", "bfloat16", "no ignore-eos"."""
    if name in _SPOKEN:
        return _SPOKEN[name](value)
    if name in _COUNTED and value is not None:
        return f"{value} {_COUNTED[name]}{'s' * (value != 1)}"
    words = name.replace("_", "-" if name in _INPUT_FIELDS else " ")
    if isinstance(value, bool):
        return words if value else f"no {words}"
    if value is None:
        return f"no {words}" if name.endswith("quantization") or name == "early_exit" else f"{words} by default"
    return f"{words} {value}"
