"""What pyproject.toml asks for, as requirement lines.

Needs nothing but Python: set-up calls it before anything is installed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def required(extras: Iterable[str] = ()) -> list[str]:
    """The product's requirements with those of `extras`; an extra that names others of ours brings theirs.

    Raises KeyError for an extra that does not exist.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines: list[str] = list(project["dependencies"])
    open_extras, seen = list(extras), set[str]()
    while open_extras:
        extra = open_extras.pop(0)
        if extra in seen:
            continue
        seen.add(extra)
        for line in project["optional-dependencies"][extra]:
            ours = re.fullmatch(r"evprof\[([\w,\s-]+)\]", line)
            if ours:
                open_extras += [name.strip() for name in ours[1].split(",")]
            else:
                lines.append(line)
    return list(dict.fromkeys(lines))


def alone(extras: Iterable[str] = ()) -> list[str]:
    """What is installed for `extras` without what it requires itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [line for extra in extras for line in project["tool"]["evprof"]["alone"].get(extra, ())]


def name_of(requirement: str) -> str:
    """The project's name in a requirement line, in the spelling by which names compare (PEP 503)."""
    found = re.match(r"[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""
