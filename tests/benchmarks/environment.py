"""What benchmarks note of their surroundings."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def environment(libraries: Iterable[str]) -> dict[str, Any]:
    """Python, processors, and versions of libraries by name; None where one is not installed."""
    return {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "libraries": {name: _version(name) for name in libraries},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
