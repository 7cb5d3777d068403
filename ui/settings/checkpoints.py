"""Whether a folder is a checkpoint, and of which family. It uses no Qt."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.files.whole_file import regular_file
from evprof.core.vocabulary.families import FAMILIES, family_by_type, family_by_word

_WEIGHTS = ("*.safetensors", "*.bin")

_MOST_BYTES = 1_000_000
"""Of a config.json, which the window reads itself; real ones take a few thousand."""

_LONGEST_NAME = 80


def family_of(folder: str | Path, role: str) -> str:
    """The family of the checkpoint in `folder`. Raises UserError, one sentence, when `role` cannot use it."""
    place = Path(folder)
    model_type = _model_type(place, "checkpoint", "the checkpoint is damaged, copy it again")
    family = family_by_type(str(model_type))
    if family is None:
        known = ", ".join(name for family in FAMILIES.values() for name in family.model_types)
        raise UserError(f"{place}: its model_type is {model_type!r}; {known} can be run.")
    if family.role != role:
        wanted = " or ".join(other.title for other in FAMILIES.values() if other.role == role)
        raise UserError(f"{place}: is of family {family.key}; this side needs a checkpoint of {wanted}.")
    if not _has_weights(place):
        raise UserError(f"{place}: holds no weights (*.safetensors, *.bin); download the checkpoint again.")
    return family.key


def family_named(name: str) -> str | None:
    """The family of a model by what it is called: bundled, `random:…`, or a folder; None where that says nothing."""
    found = None
    if Path(name).is_dir():
        with suppress(UserError):
            found = family_by_type(str(_model_type(Path(name), "", "")))
    elif name.startswith(("random:", "evprof-")):
        found = family_by_word(name)
    return None if found is None else found.key


def clip_problem(folder: str | Path) -> str:
    """Why a folder cannot stand in for a CLIP tower, in a sentence; empty when it looks like one."""
    place = Path(folder)
    try:
        kind = _model_type(place, "CLIP model", "download the CLIP model again")
    except UserError as error:
        return error.sentence
    if kind not in ("clip", "clip_vision_model"):
        return f"{place}: its model_type is {kind!r}; a CLIP model is needed."
    return "" if _has_weights(place) else f"{place}: holds no weights; download the CLIP model again."


def _model_type(place: Path, what: str, remedy: str) -> str | None:
    """What a folder's config.json says it is of. Raises UserError where there is none that can be read."""
    config = place / "config.json"
    if not config.exists():
        raise UserError(f"{place}: holds no config.json; choose the folder of a {what}.")
    try:
        if regular_file(config, remedy).stat().st_size > _MOST_BYTES:
            raise UserError(f"{config}: is far too long for a configuration; {remedy}.")
        described = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise UserError(f"{config}: cannot be read as JSON; {remedy}.") from None
    kind = described.get("model_type") if isinstance(described, dict) else None
    return kind if kind is None else str(kind)[:_LONGEST_NAME]


def _has_weights(place: Path) -> bool:
    return any(next(place.glob(pattern), None) for pattern in _WEIGHTS)
