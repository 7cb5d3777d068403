"""What is shipped: the packages and their run-time files; neither the bundled pair's workshop nor scripted engines."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"evprof", "engines", "ui"}


def test_the_wheel_holds_packages_and_assets_alone() -> None:
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    files = [Path(entry.distribution_path) for entry in builder.recurse_included_files()]
    assert {path.parts[0] for path in files} == {*PACKAGES, "assets"}
    assert Path("assets/held-out/scene-1/events.npy") in files
    assert not [path for path in files if {"tiny"} & set(path.parts) or "script" in path.stem]


def test_the_frozen_program_is_made_of_the_same_packages() -> None:
    recipe = (ROOT / "packaging" / "evprof.spec").read_text(encoding="utf-8")
    collected = set(re.findall(r'modules_below\(root / "(\w+)"\)', recipe))
    assert collected == PACKAGES
    assert "pathex=[str(root)]" in recipe
    assert not [path for package in PACKAGES for path in (ROOT / package).rglob("*script*.py")]


def test_the_page_of_the_wheel_stands_alone() -> None:
    from wheel_readme import standing_alone

    text = standing_alone((ROOT / "README.md").read_text(encoding="utf-8"))
    assert text.startswith("# evprof\n\n**See why")
    assert not re.findall(r"\]\((?!https?://)", text)
    assert standing_alone("[a](b.md) ![c](d.png) [e](https://f)") == "a ![c](d.png) [e](https://f)"


def test_the_source_archive_holds_what_readers_and_builders_need() -> None:
    builder = pytest.importorskip("hatchling.builders.sdist").SdistBuilder(str(ROOT))
    files = {entry.distribution_path for entry in builder.recurse_included_files()}
    assert {"ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "README.md", "constraints.txt", "mkdocs.yml"} <= files


def test_the_wheel_brings_what_a_desktop_shows() -> None:
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    places = builder.config.shared_data
    assert set(places.values()) >= {"share/applications/evprof.desktop", "share/icons/hicolor/scalable/apps/evprof.svg"}
    assert all(Path(source).is_file() for source in places)


def test_every_extra_for_people_is_in_the_docs() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "cuda.md").read_text(encoding="utf-8")
    for extra in set(extras) - {"dev", "docs", "frozen", "fuzz", "release"}:
        (row,) = re.findall(rf"^\| `evprof\[{extra}\]` \| (.+) \|$", page, re.MULTILINE)
        assert row
