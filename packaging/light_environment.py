"""Makes .venv/light: an environment with neither Qt nor torch, of links to what .venv holds already.

Usage: .venv/bin/python packaging/light_environment.py
"""

from __future__ import annotations

import os
import shutil
import sys
import venv
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement  # the library of that name, which pytest brings
from requirements import ROOT, alone, name_of, required

PLACE = ROOT / ".venv" / "light"

ABSENT = {"pyside6-essentials", "pyqtgraph", "torch", "transformers", "safetensors", "sentencepiece"}
ABSENT |= {"bitsandbytes", "hqq", "triton", "ruff", "mypy", "import-linter", "evprof"}
ABSENT |= {"speculators", "datasets", "openai"}  # for tests with torch alone


def wanted() -> list[Distribution]:
    """What the tests without Qt and torch need: the requirements but ABSENT, and what these bring."""
    found: dict[str, Distribution] = {}
    waiting = [line for line in (*required(["dev"]), *alone(["dev"])) if name_of(line) not in ABSENT]
    while waiting:
        requirement = Requirement(waiting.pop())
        name = name_of(requirement.name)
        if name in found or name in ABSENT or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform, or another Python
        waiting += found[name].requires or []
    return list(found.values())


def link(package: Distribution, target: Path) -> None:
    """Links the files of an installed package into the folder `target`; copies where the disk has no links."""
    for file in package.files or ():
        source = Path(str(package.locate_file(file)))
        if ".." in file.parts or not source.is_file():
            continue  # programs; compiled files that were never made
        place = target / file
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, place)
        except OSError:
            shutil.copy2(source, place)


def main() -> int:
    """Makes it anew when what it is made from has changed; says nothing otherwise."""
    packages = wanted()
    names = sorted(f"{package.name}=={package.version}" for package in packages)
    stamp = PLACE / "ready"
    content = "\n".join([sys.version, str(PLACE), *names])
    if stamp.exists() and stamp.read_text(encoding="utf-8") == content:
        return 0
    venv.create(PLACE, clear=True, symlinks=True)
    target = next(PLACE.glob("lib/python*/site-packages"))
    for package in packages:
        link(package, target)
    stamp.write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
