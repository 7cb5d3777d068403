"""A bundle's licences: known and allowed, with texts; and the list of its parts as CycloneDX."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from licences.contents import Component, components, texts_of
from licences.policy import LicenceError, policy
from packaging.requirements import Requirement

_OF_CUDA = re.compile("nvidia-(?!ml-py)[a-z0-9-]+|cuda-(toolkit|bindings|pathfinder)")

NAMES = ("numpy", "PySide6", "pyqtgraph", "shiboken6", "sentencepiece", "tokenizers", "regex", "torch", "psutil", "PIL")


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A bundle's folder of files; the archive's modules are given apart."""
    folder = tmp_path / "evprof" / "_internal"
    for name in (*NAMES, "PySide6/Qt"):
        (folder / name).mkdir(parents=True)
    return folder


@pytest.fixture
def parts(inside: Path) -> list[Component]:
    return components(inside, {"filelock", "filelock._api", "evprof.cli"}, policy())


def test_every_part_has_a_licence_and_its_text(parts: list[Component]) -> None:
    by_name = {part.name: part for part in parts}
    assert {"numpy", "filelock", "torch", "Python", "Inter", "Qt", "PySide6_Essentials"} <= set(by_name)
    assert not {"pytest", "mypy", "evprof"} & set(by_name)
    assert all(part.texts and all(path.is_file() for path in part.texts) for part in parts)
    assert by_name["Qt"].licence == by_name["PySide6_Essentials"].licence == "LGPL-3.0-only"
    assert {path.name for path in by_name["Qt"].texts} == {"LGPL-3.0-only.txt", "GPL-3.0-only.txt"}
    assert by_name["Qt"].source
    assert by_name["filelock"].purl == f"pkg:pypi/filelock@{metadata.version('filelock')}"


def test_every_dependency_of_evprof_may_be_bundled() -> None:
    allowed = policy()
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked, seen = list(project["dependencies"]), set()
    while asked:
        wanted = Requirement(asked.pop())
        # The bundle holds the torch for CPUs; packages of a CUDA one are not in it.
        if (
            wanted.name in seen
            or _OF_CUDA.fullmatch(wanted.name.lower())
            or (wanted.marker and not wanted.marker.evaluate({"extra": ""}))
        ):
            continue
        seen.add(wanted.name)
        found = metadata.distribution(wanted.name)
        assert texts_of(found, allowed.of_distribution(found)), wanted.name
        asked += found.requires or []
    assert len(seen) > 40


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("MIT", "MIT"),
        ("Apache-2.0 OR GPL-3.0-only", "Apache-2.0"),
        ("GPL-3.0-only OR (MIT AND 0BSD)", "MIT AND 0BSD"),
        ("GPL-3.0-or-later WITH GCC-exception-3.1", "GPL-3.0-or-later WITH GCC-exception-3.1"),
        ("GPL-3.0-only", None),
        ("MIT AND GPL-2.0-or-later", None),
        ("Proprietary", None),
        ("", None),
    ],
)
def test_what_is_allowed(expression: str, chosen: str | None) -> None:
    if chosen is not None:
        assert policy().check("a part", expression) == chosen
    else:
        with pytest.raises(LicenceError, match="a part is under"):
            policy().check("a part", expression)


def test_a_distribution_that_says_nothing_or_ought_not_to_be_there_stops_everything(inside: Path, tmp_path) -> None:
    for name, line in (("nobody_knows", ""), ("not_free", "License-Expression: GPL-3.0-only\n")):
        info = tmp_path / "site" / f"{name}-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1\n{line}", encoding="utf-8")
        with pytest.raises(LicenceError, match=name):
            policy().of_distribution(metadata.PathDistribution(info))


def test_the_ffmpeg_of_pyavs_own_wheel_is_refused(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (inside / "av").mkdir()
    (inside / "av.libs").mkdir()
    (inside / "av.libs" / "libavcodec-1234.so.62").touch()
    if "+lgpl" not in metadata.version("av"):
        with pytest.raises(LicenceError, match=r"x264 and x265 \(GPL\)"):
            components(inside, set(), policy())
    monkeypatch.setattr(metadata.Distribution, "version", property(lambda found: "18.1.0+lgpl"))
    found = {part.name: part for part in components(inside, set(), policy())}
    assert found["FFmpeg"].licence == "LGPL-2.1-or-later"
    assert found["FFmpeg"].sha256
    assert found["dav1d"].texts[0].name == "dav1d-COPYING.txt"
