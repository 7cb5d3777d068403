"""Whether a model's name leads anywhere: a bundled one, a checkpoint folder, or a model of the Hugging Face hub."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from evprof.cli.preflight.places import nearest_path
from evprof.core.errors import USAGE, UserError
from evprof.core.suggestions import did_you_mean
from evprof.core.vocabulary.families import FAMILIES, family_by_type

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z")

_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth")

_ANSWER_S = 3.0


def check_model(name: str) -> None:
    """Raises UserError when no model of that name can be had, or its folder cannot be one."""
    from engines import CATALOGUE, bundled_folder
    from engines.checkpoints.naming import split_layers

    whole, _ = split_layers(name)
    known = [entry.name for entry in CATALOGUE]
    path = Path(os.path.expanduser(whole))
    if whole in known:
        if not whole.startswith("random:") and bundled_folder(whole) is None:
            raise UserError(f"The bundled model '{whole}' is missing from this installation; install evprof again.")
    elif path.is_dir():
        check_checkpoint(path)
    elif path.is_file():
        raise UserError(f"{whole} is a file; name the checkpoint folder it lies in.", exit_code=USAGE)
    elif _HUB_ID.match(whole):
        _check_hub(whole, path)
    else:
        place = nearest_path(path) or did_you_mean(whole, known)
        raise UserError(
            f"There is no model and no folder '{whole}'{_ended(place)} evprof inspect lists the models.",
            exit_code=USAGE,
        )


def check_checkpoint(folder: Path) -> None:
    """Raises UserError for a folder without configuration or weights, or of a family that evprof does not know."""
    from engines.checkpoints.json_file import read_json

    if not (folder / "config.json").is_file():
        raise UserError(
            f"{folder}: holds no config.json, so it is no checkpoint; name the folder that holds it with the weights"
            f"{_ended(_checkpoint_below(folder))}".rstrip()
        )
    told = str(read_json(folder / "config.json").get("model_type", ""))
    if family_by_type(told) is None:
        families = ", ".join(family.title for family in FAMILIES.values())
        raise UserError(f"{folder}: is a model of type '{told[:80]}', which evprof cannot run; it runs {families}.")
    if not any(next(folder.glob(pattern), None) for pattern in _WEIGHTS):
        raise UserError(f"{folder}: holds a configuration but no weights (*.safetensors); fetch them, too.")


def _ended(guess: str) -> str:
    """A sentence's end: the guess, or a full stop."""
    return f"{guess}" if guess else "."


def _checkpoint_below(folder: Path) -> str:
    """The one checkpoint right below a folder, as a guess."""
    try:
        below = [path.parent for path in sorted(folder.glob("*/config.json"))[:2]]
    except OSError:
        return ""
    return f"; did you mean {below[0]}?" if len(below) == 1 else ""


def _check_hub(name: str, path: Path) -> None:
    """A hub id that is in the cache is fine; another one must not be a folder's slip, and the hub must answer."""
    from evprof.core.files.user_folders import hub_cache_folder

    if any(hub_cache_folder().glob(f"models--{name.replace('/', '--')}/snapshots/*/config.json")):
        return
    if guess := nearest_path(path):
        raise UserError(f"There is no folder '{name}'{guess}")
    if path.parent.is_dir():
        raise UserError(f"There is no folder '{name}', though there is '{path.parent}'; check the path.")
    if reason := _hub_problem():
        raise UserError(
            f"There is no folder '{name}', the Hugging Face cache holds no such model, and {reason}; name a checkpoint "
            "folder, or fetch the model where there is a network."
        )


def _hub_problem() -> str:
    """Why nothing can be fetched, as it follows "and"; "" where the hub answers, or a proxy is to be asked for it."""
    if os.environ.get("HF_HUB_OFFLINE", "").strip().lower() in ("1", "true", "yes", "on"):
        return "HF_HUB_OFFLINE forbids asking for it"
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return ""
    place = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    try:
        socket.create_connection((place.hostname or "", place.port or 443), timeout=_ANSWER_S).close()
    except (OSError, ValueError):
        return f"{place.hostname} does not answer"
    return ""


def check_models(names: Iterable[str]) -> None:
    """Raises UserError for the first that cannot be had."""
    for name in dict.fromkeys(names):
        check_model(name)
