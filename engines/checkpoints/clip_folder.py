"""The CLIP folder that describes an EventGPT checkpoint's tower, and that lends it one when it holds none.

config.json names the folder as it was called where the model was trained: often a bare name or somebody's home
directory. It knows names and places, no shapes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from engines.checkpoints.shards import StoredTensor, has_weights, read_headers
from evprof.core.errors import USAGE, UserError

_PUBLISHER = "openai/"
PUBLISHED = f"{_PUBLISHER}clip-vit-large-patch14-336"
"""The tower EventGPT was trained with, on the Hugging Face hub."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z")
_PARTS = ("embeddings.", "encoder.", "pre_layrnorm.", "post_layernorm.")
_INSIDE = "vision_model."


def given_folder(clip: str) -> Path:
    """The folder a user named. Raises UserError (exit code 2) when it is no CLIP folder."""
    folder = Path(os.path.expanduser(clip))
    if not (folder / "config.json").is_file():
        raise UserError(f"--clip {clip} is no CLIP folder: it holds no config.json.", exit_code=USAGE)
    return folder


def named_folder(checkpoint: Path, value: object) -> Path | None:
    """The folder that `mm_visual_tower` names: in the checkpoint, beside it, anywhere, or in the Hugging Face cache."""
    if not isinstance(value, str) or not value:
        return None
    beside = checkpoint.resolve().parent / PurePosixPath(value).name
    places = [checkpoint / value, Path(os.path.expanduser(value)), beside]
    found = next((place for place in places if _is_described(place)), None)
    if found is not None:
        return found
    return next((place for hub_id in _hub_ids(value) if _is_described(place := _cached(hub_id))), None)


def fetched_folder(value: object) -> Path | None:
    """The CLIP folder of that name with weights from the hub, from CLIP's publisher only; None if there is none or no
    network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    named = _hub_ids(value if isinstance(value, str) else "")
    for hub_id in (each for each in named if each.startswith(_PUBLISHER)):
        for weights in ("*.safetensors", "pytorch_model*.bin"):
            try:
                folder = Path(snapshot_download(hub_id, allow_patterns=["*.json", weights]))
            except (HfHubHTTPError, HFValidationError, OSError, ValueError):
                break
            if _is_described(folder) and has_weights(folder):
                return folder
    return None


def tower_tensors(folder: Path) -> dict[str, StoredTensor]:
    """A CLIP folder's vision tensors by their name within the tower; transformers from 5.17 on omits
    `vision_model.`."""
    stored = read_headers(folder)
    inside = {name.removeprefix(_INSIDE): each for name, each in stored.items() if name.startswith(_INSIDE)}
    return inside or {name: each for name, each in stored.items() if name.startswith(_PARTS)}


def _hub_ids(value: str) -> list[str]:
    """What the name can stand for on the hub; a path of another machine by its last part."""
    last = PurePosixPath(value.replace("\\", "/")).name
    named = [value] if _HUB_ID.match(value) else []
    return [*named, f"{_PUBLISHER}{last}"] if last.startswith("clip-") and f"{_PUBLISHER}{last}" not in named else named


def _is_described(place: Path | None) -> bool:
    try:
        return place is not None and (place / "config.json").is_file()
    except OSError:
        return False


def _cached(hub_id: str) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub_id, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
