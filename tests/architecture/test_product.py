"""What is shipped: the packages and their run-time files; neither the bundled pair's workshop nor scripted engines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"evprof", "engines", "ui"}


def test_the_wheel_holds_packages_and_assets_alone() -> None:
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    files = [Path(entry.distribution_path) for entry in builder.recurse_included_files()]
    assert {path.parts[0] for path in files} == {*PACKAGES, "assets"}
    assert Path("assets/held-out/scene-1/events.npy") in files
    assert not [path for path in files if {"tiny", "bundled_pair"} & set(path.parts) or "script" in path.stem]


def test_the_frozen_program_is_made_of_the_same_packages() -> None:
    recipe = (ROOT / "packaging" / "evprof.spec").read_text(encoding="utf-8")
    collected = set(re.findall(r'collect_submodules\("(\w+)"\)', recipe))
    assert collected - {"torch_tb_profiler"} == PACKAGES
    assert "pathex=[str(root)]" in recipe
    assert not [path for package in PACKAGES for path in (ROOT / package).rglob("*script*.py")]
