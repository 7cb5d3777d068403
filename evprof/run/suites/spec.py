"""What a suite asks for, read from a grid: axes, fixed settings and cells; checked before anything is loaded.

It knows no file format and no engine. What the words mean is `docs/suites.md`.
"""

from __future__ import annotations

import itertools
import math
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evprof.core.errors import UsageError
from evprof.core.records import DRAFT, TARGET
from evprof.core.texts import guess_among
from evprof.core.vocabulary.generation import OF_MODEL, OF_RUN, GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import MODES, SIDE_BY_SIDE, mode_of
from evprof.core.vocabulary.setting import Setting
from evprof.core.vocabulary.settings import DEFAULTS, SETTINGS, with_value
from evprof.loaders.adapters import check_mode, drafter_of
from evprof.run.requests import BUNDLED_DRAFT, BUNDLED_TARGET
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

_TOP: dict[str, type | int] = {
    "title": str,
    "data": str,
    "root": str,
    "questions": str,
    "within_context": bool,
    "limit": 1,
    "repeat": 1,
    "warmup": 0,
}
"""Plain keys of a grid: the kind of their value, or the least of a whole number."""

_GRID_KEYS = ("settings", "axes", "cells", "parts")
TOP_KEYS = (*_TOP, "samples", "cooldown", *_GRID_KEYS)

LONGEST_REST_S = 600.0
_PART_KEYS = ("title", "repeat", "settings", "axes", "cells", "within_context")

PART = " · "
"""Between the name of a part and that of a cell in it."""


@dataclass(frozen=True)
class SuiteSpec:
    """What to measure: every cell on every sample, `repeat` times, after `warmup` runs that do not count.

    All of it in each of `processes` engine processes, with a rest of `cooldown_s` between two rows.
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
    processes: int = 1
    cooldown_s: float = 0.0
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def choices(self) -> list[tuple[str, ModelChoice]]:
        found = {(role, choice): None for cell in self.cells for role in cell.roles if (choice := cell.choice(role))}
        return list(found)


def is_grid(raw: Any) -> bool:
    """Whether a TOML or JSON document is a suite rather than a list of samples."""
    return isinstance(raw, Mapping) and any(key in raw for key in _GRID_KEYS)


def parse_suite(
    raw: Mapping[str, Any],
    name: str,
    *,
    overrides: Mapping[str, Any] | None = None,
    repeat: int | None = None,
    warmup: int | None = None,
    family_of: FamilyOf = lambda _: None,
) -> SuiteSpec:
    """The suite that a grid describes; `overrides` are fields that replace those of all cells.

    Raises UserError (exit code 2) for unknown keys, values of the wrong kind and cells that cannot work.
    """
    where = f"suite '{name}'"
    _known(raw, TOP_KEYS, where)
    asked = {**raw, **{key: value for key, value in (("repeat", repeat), ("warmup", warmup)) if value is not None}}
    plain = {key: _top_value(key, asked[key], where) for key in _TOP if asked.get(key) is not None}
    samples = raw.get("samples", [])
    if not isinstance(samples, list) or not all(isinstance(sample, str) for sample in samples):
        raise UsageError('samples must be a list of names, such as ["bus-approaching"].')
    cells, notes = _parts(raw, overrides, family_of) if "parts" in raw else _grid(raw, overrides or {}, family_of)
    for cell in cells:
        cell.check()
    rest = checked_rest(raw.get("cooldown", 0), where)
    plain = {"title": name, **plain, "samples": tuple(samples), "cooldown_s": rest}
    return SuiteSpec(name, cells=tuple(cells), notes=tuple(notes), **plain)


def checked_rest(value: Any, where: str) -> float:
    """Seconds between two rows. Raises UserError (exit code 2)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_REST_S:
        raise _wrong(where, "cooldown", f"seconds from 0 to {LONGEST_REST_S:.0f}", value)
    return float(value)


def _top_value(name: str, value: Any, where: str) -> Any:
    kind = _TOP[name]
    if isinstance(kind, type):
        return _of_kind(kind, name, value, where)
    if isinstance(value, bool) or not isinstance(value, int) or value < kind:
        raise _wrong(where, name, f"a whole number of at least {kind}", value)
    return value


def _parts(
    raw: Mapping[str, Any], overrides: Mapping[str, Any] | None, family_of: FamilyOf
) -> tuple[list[SuiteConfiguration], list[str]]:
    """The cells of several grids, named after their part: "shapes · bfloat16"."""
    parts = raw["parts"]
    if not isinstance(parts, Mapping) or not parts or any(key in raw for key in ("settings", "axes", "cells")):
        raise UsageError("parts must be a table of grids, beside no settings, axes or cells of its own.")
    cells: list[SuiteConfiguration] = []
    notes: list[str] = []
    for name, grid in parts.items():
        if not isinstance(grid, Mapping):
            raise UsageError(f"Part '{name}' must be a table with settings, axes or cells.")
        _known(grid, _PART_KEYS, f"part '{name}'")
        part = parse_suite(grid, name, overrides=overrides, family_of=family_of)
        cells += [replace(cell, label=f"{name}{PART}{cell.label}") for cell in part.cells]
        notes += [f"Part '{name}': {note}" for note in part.notes]
    _check_count(len(cells))
    return cells, notes


def _grid(
    raw: Mapping[str, Any], overrides: Mapping[str, Any], family_of: FamilyOf
) -> tuple[list[SuiteConfiguration], list[str]]:
    """The different cells of a grid with their labels, and a note on the combinations that are equal."""
    wishes, labels = _wishes(raw, overrides)
    asked = [_cell(values) for values in wishes]
    for cell in label_cells(asked, labels):
        if mode_of(cell.mode).is_paired:
            cell.check()  # before `meaningful` removes a contradiction
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


def _wishes(raw: Mapping[str, Any], overrides: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str | None]]:
    """The values of every cell as the grid names them, and the labels that the grid gives."""
    axes = _axes(raw.get("axes", {}))
    listed = raw.get("cells", [])
    if not isinstance(listed, list) or not all(isinstance(entry, Mapping) for entry in listed):
        raise UsageError("cells must be a list of tables, one for each cell.")
    varied = [entries for name, entries in axes.items() if name not in overrides]
    _check_count(math.prod(map(len, varied)) + len(listed))
    own: list[dict[str, Any]] = []
    if varied or not listed:
        own = [dict(ChainMap(*reversed(entries))) for entries in itertools.product(*varied)]
    labels: list[str | None] = [None] * len(own)
    for number, entry in enumerate(listed, start=1):
        label = entry.get("label")
        if label is not None and (not isinstance(label, str) or not label.strip()):
            raise UsageError(f"The label of cell {number} must be a text.")
        labels.append(label)
        own.append(checked_fields({key: entry[key] for key in entry if key != "label"}, f"cell {number}"))
    fixed = checked_fields(raw.get("settings", {}), "settings")
    return [{**fixed, **values, **overrides} for values in own], labels


def _axes(raw: Any) -> dict[str, list[dict[str, Any]]]:
    """Axis -> the fields that each of its values sets. A table among the values sets several at once."""
    if not isinstance(raw, Mapping):
        raise UsageError("axes must be a table: a name and its list of values on every line.")
    axes: dict[str, list[dict[str, Any]]] = {}
    for key, values in raw.items():
        name = _plain(key)
        _known({name: None}, (*CELL_FIELDS, "models"), "axes")
        if not isinstance(values, list) or not values:
            raise UsageError(f"Axis '{key}' must be a list with at least one value, such as [1, 8].")
        if name == "models" and not all(isinstance(value, Mapping) for value in values):
            raise UsageError('Axis \'models\' is a list of tables such as {draft = "…", target = "…"}.')
        tables = [value if isinstance(value, Mapping) else {name: value} for value in values]
        axes[name] = [checked_fields(table, f"axis '{key}'") for table in tables]
    return axes


def _check_count(cells: int) -> None:
    if cells > MOST_CELLS:
        raise UsageError(f"The grid has {cells} cells and may have {MOST_CELLS}; split it into several suites.")


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
        raise UsageError(f"{where} must be a table of settings and their values.")
    plain = {_plain(key): value for key, value in values.items()}
    _known(plain, CELL_FIELDS, where)
    return {name: _value(name, value, where) for name, value in plain.items()}


def _value(name: str, value: Any, where: str) -> Any:
    entry = _OF_MODELS.get(name) or SETTINGS.get(name)
    known: tuple[Any, ...] = _OWN_CHOICES.get(name, ())
    if entry is not None:
        if value == "none" and (entry.has_none or entry.default == "") and value not in entry.known:
            return entry.default
        known = tuple(entry.known) if entry.kind is str else ()
    if known and value not in known:
        raise _wrong(where, name, f"one of {', '.join(word or 'none' for word in known)}", value)
    return value if known else _of_kind(str if entry is None else entry.kind, name, value, where)


_KINDS: dict[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _of_kind(kind: type, name: str, value: Any, where: str) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number and abs(value) >= 1 << 63:
        raise _wrong(where, name, "a number of at most 63 bits", value)
    if kind is float and is_number:
        value = float(value)
    if not (is_number if kind is int else isinstance(value, kind)):
        raise _wrong(where, name, _KINDS[kind], value)
    if kind is str and not value.strip():
        raise _wrong(where, name, "a text that is not empty", value)
    return value


def _wrong(where: str, name: str, wanted: str, value: Any) -> UsageError:
    return UsageError(f"{where}: {name} must be {wanted}, not {value!r}.")


def _known(values: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Raises UserError (exit code 2) for an unknown key, with the nearest known one."""
    for key in values:
        if key not in names:
            raise UsageError(f"{where}: there is no '{key}'{guess_among(key, names, most=12)}")


def _plain(key: Any) -> str:
    return str(key).replace("-", "_")
