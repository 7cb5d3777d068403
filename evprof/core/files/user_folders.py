"""Where a program's files belong in a person's home, by their system's custom: XDG's on Linux, Apple's, Windows'."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_NAME = "evprof"


def cache_folder() -> Path:
    """What can be made again. None of these folders need exist yet."""
    return _folder("XDG_CACHE_HOME", ".cache", "Library/Caches", "Cache")


def data_folder() -> Path:
    """What a person would miss."""
    return _folder("XDG_DATA_HOME", ".local/share", "Library/Application Support", "")


def log_folder() -> Path:
    return _folder("XDG_STATE_HOME", ".local/state", "Library/Logs", "Logs", below_named="log")


def _folder(variable: str, linux: str, apple: str, windows: str, *, below_named: str = "") -> Path:
    """`windows` and `below_named` are subfolders of ours; the others hold many programs' folders."""
    home, named = _home(), Path(os.environ.get(variable, "").strip())
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / _NAME / windows
    if named.is_absolute():
        return named / _NAME / below_named
    if sys.platform == "darwin":
        return home / apple / _NAME
    return home / linux / _NAME / below_named


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        # A user whom the system does not know, without HOME, as in containers. What would be kept there cannot be.
        return Path("/")


def hub_cache_folder() -> Path:
    """Where Hugging Face keeps what it fetched, by the variables its own library goes by."""
    if folder := os.environ.get("HF_HUB_CACHE"):
        return Path(folder)
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    return Path(home) / "hub"
