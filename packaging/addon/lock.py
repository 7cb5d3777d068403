"""Writes assets/cuda/wheels.json: the wheels of the CUDA add-on with their sizes and hashes, as pip would take them.

Usage: python packaging/addon/lock.py      (needs an index that holds torch's CUDA build; downloads no wheel)

The versions are those of constraints.txt. Only what a CPU installation lacks is taken.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.extend(str(Path(__file__).resolve().parents[above]) for above in (2, 1))

from addon.resolving import resolved
from evprof.cli.doctor.cuda import Wheel, WheelList

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "assets" / "cuda" / "wheels.json"
PYTHONS = ("3.11", "3.12", "3.13")

_OF_CUDA = re.compile("(torch|triton|setuptools|cuda-.*|nvidia-.*)$")
"""What torch for CUDA needs beyond torch for CPUs, and what a frozen program holds only in part."""


def torch_version() -> str:
    """The torch that constraints.txt pins."""
    (line,) = re.findall(r"^torch==(.+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return str(line).strip()


def locked() -> WheelList:
    """Asks the index. Raises SystemExit with pip's words where it has no such torch."""
    by_file: dict[str, Wheel] = {}
    pythons: dict[str, set[str]] = {}
    for python in PYTHONS:
        for wheel, url in _of_python(python):
            pythons.setdefault(wheel.file, set()).add(python)
            if wheel.file not in by_file:
                by_file[wheel.file] = replace(wheel, size=_size(url))
    wheels = [
        replace(wheel, python=None if len(pythons[file]) == len(PYTHONS) else min(pythons[file]))
        for file, wheel in by_file.items()
    ]
    (runtime,) = {wheel.version for wheel in wheels if wheel.package == "nvidia-cuda-runtime"}
    return WheelList(
        torch_version(), ".".join(runtime.split(".")[:2]), tuple(sorted(wheels, key=lambda w: (w.package, w.file)))
    )


def _of_python(python: str) -> Iterator[tuple[Wheel, str]]:
    for entry in resolved([f"torch=={torch_version()}"], python, ROOT / "constraints.txt"):
        name = re.sub("[-_.]+", "-", entry["metadata"]["name"]).lower()
        if _OF_CUDA.match(name):
            url = entry["download_info"]["url"]
            digest = entry["download_info"]["archive_info"]["hashes"]["sha256"]
            yield Wheel(name, entry["metadata"]["version"], url.rsplit("/", 1)[1], 0, digest), url


def _size(url: str) -> int:
    with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=60) as answer:
        return int(answer.headers["Content-Length"])


def main() -> int:
    """Writes the list and says what it adds up to."""
    found = locked()
    LIST.parent.mkdir(exist_ok=True)
    LIST.write_text(json.dumps(found.to_json(), indent=1) + "\n", encoding="utf-8")
    for python in PYTHONS:
        wheels = found.for_python(python)
        print(f"Python {python}: {len(wheels)} wheels, {sum(wheel.size for wheel in wheels):,} bytes")
    print(f"all: {len(found.wheels)} wheels, {sum(wheel.size for wheel in found.wheels):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
