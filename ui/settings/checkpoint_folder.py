"""Whether a folder looks like a checkpoint for one side, from its files' names and its config alone."""

from __future__ import annotations

import json
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.records import DRAFT

FAMILIES = {
    "EventChat_llama": "eventgpt",
    "llava": "llava",
    "video_llava": "video_llava",
    "llava_next_video": "llava_next_video",
}
"""`model_type` of a config.json -> family."""

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
    family = FAMILIES.get(str(model_type))
    if family is None:
        known = ", ".join(FAMILIES)
        raise UserError(f"{place}: its model_type is {model_type!r}; {known} can be run.")
    if (family == "eventgpt") != (role == DRAFT):
        wanted = "an EventGPT checkpoint" if role == DRAFT else "a LLaVA or Video-LLaVA checkpoint"
        raise UserError(f"{place}: is of family {family}; this side needs {wanted}.")
    if not any(next(place.glob(pattern), None) for pattern in _WEIGHTS):
        raise UserError(f"{place}: holds no weights (*.safetensors, *.bin); download the checkpoint again.")
    return family


def family_named(name: str) -> str | None:
    """The family of a model by what it is called: bundled, `random:…`, or a folder; None where that says nothing."""
    if Path(name).is_dir():
        try:
            described = json.loads((Path(name) / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return FAMILIES.get(str(described.get("model_type"))) if isinstance(described, dict) else None
    if not name.startswith(("random:", "evprof-")):
        return None
    known = ("video-llava", "llava-next-video", "llava", "eventgpt")
    return next((family.replace("-", "_") for family in known if name.endswith(family)), None)


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
