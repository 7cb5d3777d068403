"""What a suite asks for, read from a grid: axes, fixed settings and cells; checked before anything is loaded.

It knows no file format and no engine. What the words mean is `docs/suites.md`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evprof.core.errors import USAGE, UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.suggestions import guess_among
from evprof.core.vocabulary.generation import OF_MODEL, OF_RUN, GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import MODES, SIDE_BY_SIDE, mode_of
from evprof.core.vocabulary.setting import Setting
from evprof.core.vocabulary.settings import DEFAULTS, SETTINGS, with_value
from evprof.loaders.adapters import check_mode, drafter_of
from evprof.run.demo import BUNDLED_DRAFT, BUNDLED_TARGET
from evprof.run.meters.cooldown import Cooldown
from evprof.run.suites.cell import (
    EVENT_SOURCES,
    FILE,
    FamilyOf,
    SuiteConfiguration,
    flat_values,
    label_cells,
    meaningful,
)

MOST_CELLS = 1000

_OWN_CHOICES: dict[str, tuple[str, ...]] = {"mode": tuple(MODES), "event_source": EVENT_SOURCES}
"""Fields of a cell that are no settings, and what they may be."""

_OF_MODELS: dict[str, Setting] = {
    f"{role}{entry.key}": entry
    for entry in OF_MODEL
    for role in (("", "draft_", "target_") if entry.is_per_role else ("",))
}
CELL_FIELDS: tuple[str, ...] = (
    "mode",
    "draft",
    "target",
    *_OF_MODELS,
    "prompt",
    "event_source",
    *(entry.key for entry in OF_RUN),
)
"""What may stand in `settings`, `axes` and `cells`."""

TOP_KEYS = (
    "title",
    "data",
    "root",
    "questions",
    "samples",
    "limit",
    "repeat",
    "warmup",
    "cooldown",
    "within_context",
    "settings",
    "axes",
    "cells",
    "parts",
)
_GRID_KEYS = {"axes", "cells", "settings", "parts"}
_PART_KEYS = ("title", "repeat", "settings", "axes", "cells", "within_context")

PART = " · "
"""Between the name of a part and that of a cell in it."""


@dataclass(frozen=True)
class SuiteSpec:
    """What to measure: every cell on every sample, `repeat` times, after `warmup` runs that do not count.

    All of it in each of `sessions` engine processes, with a `cooldown` between two rows.
    `within_context`: a cell whose prompt passes the positions its model was trained for is left out and told.
    `data`, `root`, `questions`, `samples` and `limit` name the samples as the grid file does. `notes` are sentences
    about the grid itself.
    """

    name: str
    title: str
    cells: tuple[SuiteConfiguration, ...]
    repeat: int = 3
    warmup: int = 1
    within_context: bool = False
    data: str | None = None
    root: str | None = None
    questions: str | None = None
    samples: tuple[str, ...] = ()
    limit: int | None = None
    sessions: int = 1
    cooldown: Cooldown = field(default_factory=Cooldown)
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def choices(self) -> list[tuple[str, ModelChoice]]:
        """All models of all cells with their roles, each once, in order."""
        found = {(role, choice): None for cell in self.cells for role in cell.roles if (choice := cell.choice(role))}
        return list(found)


def is_grid(raw: Any) -> bool:
    """Whether a TOML or JSON document is a suite rather than a list of samples."""
    return isinstance(raw, Mapping) and bool(_GRID_KEYS & raw.keys())


def parse_suite(
    raw: Mapping[str, Any],
    name: str,
    *,
    overrides: Mapping[str, Any] | None = None,
    repeat: int | None = None,
    warmup: int | None = None,
    family_of: FamilyOf = lambda _: None,
) -> SuiteSpec:
    """The suite that a grid describes; `overrides` are fields that hold for all cells whatever the grid says of them.

    Raises UserError (exit code 2) for unknown keys, values of the wrong kind and cells that cannot work.
    """
    _known(raw, TOP_KEYS, f"suite '{name}'")
    fixed = {**checked_fields(raw.get("settings", {}), "settings"), **(overrides or {})}
    if "parts" in raw:
        listed, notes = _parts(raw, overrides, family_of)
    else:
        listed, notes = _listed_cells(raw, fixed, set(overrides or ()), family_of)
    for cell in listed:
        cell.check()
    return SuiteSpec(
        name=name,
        title=_text(raw, "title") or name,
        cells=tuple(listed),
        repeat=_count(repeat if repeat is not None else raw.get("repeat", 3), "repeat", 1),
        warmup=_count(warmup if warmup is not None else raw.get("warmup", 1), "warmup", 0),
        within_context=_flag(raw, "within_context"),
        data=_text(raw, "data"),
        root=_text(raw, "root"),
        questions=_text(raw, "questions"),
        samples=_names(raw.get("samples", [])),
        cooldown=Cooldown.of(raw.get("cooldown")),
        limit=None if raw.get("limit") is None else _count(raw["limit"], "limit", 1),
        notes=tuple(notes),
    )


def _listed_cells(
    raw: Mapping[str, Any], fixed: dict[str, Any], overridden: set[str], family_of: FamilyOf
) -> tuple[list[SuiteConfiguration], list[str]]:
    """The different cells of a grid with their labels, and what is to be said of the others."""
    wishes, labels = _wishes(raw, fixed, overridden)
    asked = [_cell(values) for values in wishes]
    for cell in label_cells(asked, labels):
        if mode_of(cell.mode).is_paired:
            cell.check()  # what contradicts itself is refused, not taken for what changes nothing
    cells = [meaningful(cell, family_of) for cell in asked]
    kept: dict[str, int] = {}
    for index, cell in enumerate(cells):
        kept.setdefault(repr(flat_values(cell)), index)
    notes = []
    if len(kept) < len(cells):
        notes.append(
            f"{len(cells)} combinations are {len(kept)} different measurements; the others change nothing that counts "
            "in their mode and are not measured twice."
        )
    return label_cells([cells[index] for index in kept.values()], [labels[index] for index in kept.values()]), notes


def _parts(
    raw: Mapping[str, Any], overrides: Mapping[str, Any] | None, family_of: FamilyOf
) -> tuple[list[SuiteConfiguration], list[str]]:
    """The cells of several grids, called after their part: "shapes · bfloat16"."""
    parts = raw["parts"]
    if not isinstance(parts, Mapping) or not parts or any(key in raw for key in ("settings", "axes", "cells")):
        raise UserError(
            "parts must be a table of grids, beside no settings, axes or cells of its own.", exit_code=USAGE
        )
    cells: list[SuiteConfiguration] = []
    notes: list[str] = []
    for name, grid in parts.items():
        if not isinstance(grid, Mapping):
            raise UserError(f"Part '{name}' must be a table with settings, axes or cells.", exit_code=USAGE)
        _known(grid, _PART_KEYS, f"part '{name}'")
        found = parse_suite(grid, name, overrides=overrides, family_of=family_of)
        cells += [replace(cell, label=f"{name}{PART}{cell.label}") for cell in found.cells]
        notes += [f"Part '{name}': {note}" for note in found.notes]
    if len(cells) > MOST_CELLS:
        raise UserError(f"The parts have {len(cells)} cells and may have {MOST_CELLS} together.", exit_code=USAGE)
    return cells, notes


def _wishes(
    raw: Mapping[str, Any], fixed: dict[str, Any], overridden: set[str]
) -> tuple[list[dict[str, Any]], list[str | None]]:
    """The values of every cell as asked for, the grid's first, and the labels given."""
    axes = _axes(raw.get("axes", {}), overridden)
    count = 1
    for entries in axes.values():
        count *= len(entries)
    listed = raw.get("cells", [])
    if not isinstance(listed, list) or not all(isinstance(entry, Mapping) for entry in listed):
        raise UserError("cells must be a list of tables, one for each cell.", exit_code=USAGE)
    if count + len(listed) > MOST_CELLS:
        raise UserError(
            f"The grid has {count + len(listed)} cells and may have {MOST_CELLS}; split it into several suites.",
            exit_code=USAGE,
        )
    wishes: list[dict[str, Any]] = []
    labels: list[str | None] = []
    if axes or not listed:
        for combination in itertools.product(*axes.values()):
            wish = dict(fixed)
            for values in combination:
                wish |= values
            wishes.append(wish)
            labels.append(None)
    for number, entry in enumerate(listed, start=1):
        own = {key: value for key, value in entry.items() if key != "label"}
        label = entry.get("label")
        if label is not None and (not isinstance(label, str) or not label.strip()):
            raise UserError(f"The label of cell {number} must be a text.", exit_code=USAGE)
        checked = checked_fields(own, f"cell {number}")
        wishes.append({**fixed, **{key: value for key, value in checked.items() if key not in overridden}})
        labels.append(label)
    return wishes, labels


def _axes(raw: Any, overridden: set[str]) -> dict[str, list[dict[str, Any]]]:
    """Axis -> the fields that each of its values sets. A table among the values sets several at once."""
    if not isinstance(raw, Mapping):
        raise UserError("axes must be a table: a name and its list of values on every line.", exit_code=USAGE)
    found: dict[str, list[dict[str, Any]]] = {}
    for key, values in raw.items():
        name = _plain(key)
        if not isinstance(values, list) or not values:
            raise UserError(f"Axis '{key}' must be a list with at least one value, such as [1, 8].", exit_code=USAGE)
        if name != "models":
            _known({name: None}, CELL_FIELDS, "axes", also=("models",))
        if name == "models" and not all(isinstance(value, Mapping) for value in values):
            raise UserError('Axis \'models\' is a list of tables such as {draft = "…", target = "…"}.', exit_code=USAGE)
        if name in overridden:
            continue
        entries = [
            checked_fields(value, f"axis '{key}'")
            if isinstance(value, Mapping)
            else checked_fields({name: value}, "axes")
            for value in values
        ]
        found[name] = [
            {field_name: value for field_name, value in entry.items() if field_name not in overridden}
            for entry in entries
        ]
    return found


def _cell(values: Mapping[str, Any]) -> SuiteConfiguration:
    settings = GenerationSettings()
    for key, value in {**values, **_drafter(values)}.items():
        if key in DEFAULTS:
            settings = with_value(settings, key, value)
    return SuiteConfiguration(
        mode=values.get("mode", SIDE_BY_SIDE),
        draft=_choice(values, DRAFT, BUNDLED_DRAFT),
        target=_choice(values, TARGET, BUNDLED_TARGET),
        settings=settings,
        prompt=values.get("prompt"),
        event_source=values.get("event_source", FILE),
    )


def _drafter(values: Mapping[str, Any]) -> dict[str, Any]:
    """Who drafts and the adapter's folder, by what either field names; as `--drafter` and `--adapter` do."""
    kind, info = drafter_of(values.get("drafter"), values.get("adapter"))
    if info is not None:
        check_mode(info, values.get("mode", SIDE_BY_SIDE))
    return {"drafter": kind, "adapter": None if info is None else str(info.folder)}


def _choice(values: Mapping[str, Any], role: str, default: str) -> ModelChoice:
    parts = {entry.key: values.get(f"{role}_{entry.key}", values.get(entry.key, entry.default)) for entry in OF_MODEL}
    return ModelChoice(values.get(role, default), **parts)


def checked_fields(values: Any, where: str) -> dict[str, Any]:
    """Known fields of a cell with values of their kind; "none" stands for nothing. Raises UserError (exit code 2)."""
    if not isinstance(values, Mapping):
        raise UserError(f"{where} must be a table of settings and their values.", exit_code=USAGE)
    plain = {_plain(key): value for key, value in values.items()}
    _known(plain, CELL_FIELDS, where)
    return {name: _value(name, value, where) for name, value in plain.items()}


def _value(name: str, value: Any, where: str) -> Any:
    """A checked value of a field. Raises UserError (exit code 2)."""
    if name in _OWN_CHOICES:
        return _one_of(_OWN_CHOICES[name], name, value, where)
    entry = _OF_MODELS.get(name) or SETTINGS.get(name)
    if entry is None:
        return _of_kind(str, name, value, where)
    means_none = entry.has_none or entry.default == ""
    if value == "none" and means_none and value not in entry.known:
        return entry.default
    if entry.kind is str and entry.known:
        return _one_of(entry.known, name, value, where)
    return _of_kind(entry.kind, name, value, where)


def _one_of(known: Sequence[Any], name: str, value: Any, where: str) -> Any:
    if value not in known:
        raise _wrong(where, name, f"one of {', '.join(word or 'none' for word in known)}", value)
    return value


def _of_kind(kind: type, name: str, value: Any, where: str) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if kind is float and is_number:
        value = float(value)
    if not (is_number if kind is int else isinstance(value, kind)):
        raise _wrong(where, name, _KINDS[kind], value)
    if is_number and abs(value) >= 1 << 63:
        raise _wrong(where, name, "a number of at most 63 bits", value)
    if kind is str and not value.strip():
        raise _wrong(where, name, "a text that is not empty", value)
    return value


_KINDS: dict[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _wrong(where: str, name: str, wanted: str, value: Any) -> UserError:
    return UserError(f"{where}: {name} must be {wanted}, not {value!r}.", exit_code=USAGE)


def _known(values: Mapping[str, Any], known: Iterable[str], where: str, also: Iterable[str] = ()) -> None:
    """Raises UserError (exit code 2) for a key that nobody knows, naming the nearest one that somebody does."""
    names = [*known, *also]
    for key in values:
        if key not in names:
            raise UserError(f"{where}: there is no '{key}'{guess_among(key, names, most=12)}", exit_code=USAGE)


def _plain(key: Any) -> str:
    return str(key).replace("-", "_")


def _text(raw: Mapping[str, Any], name: str) -> str | None:
    value = raw.get(name)
    if value is not None and not isinstance(value, str):
        raise UserError(f"{name} must be a text, not {value!r}.", exit_code=USAGE)
    return value


def _flag(raw: Mapping[str, Any], name: str) -> bool:
    value = raw.get(name, False)
    if not isinstance(value, bool):
        raise UserError(f"{name} must be true or false, not {value!r}.", exit_code=USAGE)
    return value


def _count(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} must be a whole number of at least {least}, not {value!r}.", exit_code=USAGE)
    return value


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UserError('samples must be a list of names, such as ["bus-approaching"].', exit_code=USAGE)
    return tuple(value)
