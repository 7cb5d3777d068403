"""The folders that evprof writes to, and what they take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from evprof.cli.doctor.problem import Problem
from evprof.core.units import bytes_text, count_text

_MOST_FILES = 100_000
"""Files whose sizes are added up; a folder with more is told as taking at least that."""


def folder_facts(problems: list[Problem]) -> dict[str, dict[str, Any]]:
    """Where sessions, other data, logs, the cache and fetched models lie, what each takes, and whether it can be
    written."""
    from evprof.core.files.user_folders import cache_folder, data_folder, hub_cache_folder, log_folder
    from evprof.session.autosave import abandoned, autosave_folder, told

    folders = {
        "sessions": autosave_folder(),
        "data": data_folder(),
        "logs": log_folder(),
        "cache": cache_folder(),
        "models": hub_cache_folder(),
    }
    if sentence := told(abandoned()):
        problems.append(Problem(f"{sentence}.", "open it in the window (evprof gui PATH), or remove it"))
    found = {}
    for name, folder in folders.items():
        writable = _is_writable(folder)
        files, size = disk_use(folder)
        found[name] = {"path": str(folder), "writable": writable, "files": files, "bytes": size}
        if not writable:
            problems.append(
                Problem(f"The folder of {name}, {folder}, cannot be written.", f"make it writable: {folder}")
            )
    return found


def folder_text(facts: dict[str, Any]) -> str:
    """A folder in one line."""
    files = facts["files"]
    use = f"{count_text(files, 'file')}, {bytes_text(facts['bytes'])}" if files else "empty"
    return f"{facts['path']} ({use}{'' if facts['writable'] else ', cannot be written'})"


def disk_use(folder: Path) -> tuple[int, int]:
    """Files below a folder and their bytes, links not followed; none where it does not exist or may not be read."""
    files = size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue  # it has just gone
            files += 1
        if files >= _MOST_FILES:
            break
    return files, size


def _is_writable(folder: Path) -> bool:
    """Whether files can be made there, or the folder itself can."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    return os.access(place, os.W_OK)
