"""Where the fused step was proven: `evprof bench gpu` notes it in the user's cache folder, and `--step auto` reads it.

What holds for one device, torch, Triton and evprof says nothing of another.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import torch

from evprof.core.files.user_folders import cache_folder
from evprof.version import __version__


def proof_file() -> Path:
    """The list of what was proven; it need not exist."""
    return cache_folder() / "fused-step.json"


def note_proven(device: torch.device) -> Path:
    """From now on `--step auto` takes the fused step on such a device. Returns the file that says so.

    Raises OSError when it cannot be written.
    """
    path = proof_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(sorted({*_noted(), _name_of(device)}), indent=1), encoding="utf-8")
    return path


def is_proven(device: torch.device) -> bool:
    """Whether the fused step was proven on such a device with these versions."""
    return device.type == "cuda" and _name_of(device) in _noted()


def _noted() -> set[str]:
    try:
        read = json.loads(proof_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return set()
    return {name for name in read if isinstance(name, str)} if isinstance(read, list) else set()


def _name_of(device: torch.device) -> str:
    try:
        triton = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        triton = "none"
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
    return f"{name}, torch {torch.__version__}, triton {triton}, evprof {__version__}"
