"""The processes below this one, some of which may end while they are looked at."""

from __future__ import annotations

import contextlib

import psutil


def command_lines() -> list[tuple[psutil.Process, str]]:
    """Each living process below this one, with the words it was started with."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            found.append((child, " ".join(child.cmdline())))
    return found


def processes_named(word: str) -> list[psutil.Process]:
    return [child for child, line in command_lines() if word in line]
