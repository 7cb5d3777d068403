"""Whether a folder looks like a checkpoint for one side, from its files' names and its config alone."""

from __future__ import annotations

import json
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.vocabulary.families import FAMILIES, family_by_type, family_by_word

_WEIGHTS = ("*.safetensors", "*.bin")


def family_of(folder: str | Path, role: str) -> str:
    """The family of the checkpoint in `folder`. Raises UserError, one sentence, when `role` cannot use it."""
    place = Path(folder)
    config = place / "config.json"
    try:
        described = json.loads(config.read_text(encoding="utf-8"))
        model_type = described.get("model_type") if isinstance(described, dict) else None
    except FileNotFoundError:
        raise UserError(f"{place}: holds no config.json; choose the folder of a checkpoint.") from None
    except (OSError, ValueError):
        raise UserError(f"{config}: cannot be read as JSON; the checkpoint is damaged, copy it again.") from None
    family = family_by_type(str(model_type))
    if family is None:
        known = ", ".join(family.model_type for family in FAMILIES.values())
        raise UserError(f"{place}: its model_type is {model_type!r}; {known} can be run.")
    if family.role != role:
        wanted = " or ".join(other.title for other in FAMILIES.values() if other.role == role)
        raise UserError(f"{place}: is of family {family.key}; this side needs a checkpoint of {wanted}.")
    if not any(next(place.glob(pattern), None) for pattern in _WEIGHTS):
        raise UserError(f"{place}: holds no weights (*.safetensors, *.bin); download the checkpoint again.")
    return family.key


def family_named(name: str) -> str | None:
    """The family of a model by what it is called: bundled, `random:…`, or a folder; None where that says nothing."""
    if Path(name).is_dir():
        try:
            described = json.loads((Path(name) / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        found = family_by_type(str(described.get("model_type"))) if isinstance(described, dict) else None
    elif name.startswith(("random:", "evprof-")):
        found = family_by_word(name)
    else:
        return None
    return None if found is None else found.key


def clip_problem(folder: str | Path) -> str:
    """Why a folder cannot stand in for a CLIP tower, in a sentence; empty when it looks like one."""
    place = Path(folder)
    try:
        described = json.loads((place / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return f"{place}: holds no config.json; choose the folder of a CLIP model."
    except (OSError, ValueError):
        return f"{place / 'config.json'}: cannot be read as JSON; download the CLIP model again."
    kind = described.get("model_type") if isinstance(described, dict) else None
    if kind not in ("clip", "clip_vision_model"):
        return f"{place}: its model_type is {kind!r}; a CLIP model is needed."
    if not any(next(place.glob(pattern), None) for pattern in _WEIGHTS):
        return f"{place}: holds no weights; download the CLIP model again."
    return ""
