"""A release of a small repository: changelog, commit, files, checksums, tag; and what stands in its way."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import release as releasing
from release import Release

ROOT = Path(__file__).parents[2]
CHANGELOG = "# Changelog\n\n## Unreleased\n\n- Something new.\n\n## 1.0.0 – 2025-01-01\n\n- The first.\n"


class Repository:
    """A repository of its own; git is real, make writes what it would build."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "evprof").mkdir()
        (root / ".gitignore").write_text("/dist/\n", encoding="utf-8")
        self.write("evprof/version.py", '__version__ = "1.1.0"\n')
        self.write("CHANGELOG.md", CHANGELOG)
        self.made: list[str] = []
        self.fails = ""
        self.run(["git", "init", "--quiet"])
        self.run(["git", "config", "user.name", "Somebody"])
        self.run(["git", "config", "user.email", "somebody@example.invalid"])
        self.commit()

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text, encoding="utf-8")

    def commit(self) -> None:
        self.run(["git", "add", "--all"])
        self.run(["git", "commit", "--quiet", "--message", "change"])

    def run(self, words: Sequence[str]) -> str:
        if words[0] == "make":
            self.made.append(words[1])
            if words[1] in ("docs", "try-wheel"):
                return ""
            if words[1] == self.fails:
                raise subprocess.CalledProcessError(2, words)
            dist = self.root / "dist"
            (dist / "evprof" / "_internal").mkdir(parents=True, exist_ok=True)
            (dist / "evprof" / "_internal" / "inside.whl").write_text("-", encoding="utf-8")
            (dist / "evprof" / "sbom.cdx.json").write_text("{}", encoding="utf-8")
            suffix = "whl" if words[1] == "wheel" else "deb"
            (dist / f"evprof-1.1.0-{words[1]}.{suffix}").write_text(words[1], encoding="utf-8")
            return ""
        done = subprocess.run(words, cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout

    def release(self) -> Release:
        return Release(self.root, self.run, "2026-02-03")

    def carry_out(self) -> None:
        for step in self.release().steps():
            step.work()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_release(repository: Repository) -> None:
    repository.carry_out()
    text = (repository.root / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.startswith("# Changelog\n\n## Unreleased\n\n## 1.1.0 – 2026-02-03\n\n- Something new.\n\n## 1.0.0")
    assert repository.run(["git", "log", "-1", "--format=%s"]) == "Release 1.1.0\n"
    assert repository.run(["git", "describe", "--exact-match"]) == "v1.1.0\n"
    assert repository.run(["git", "status", "--porcelain"]) == ""
    assert repository.made == ["docs", "wheel", "try-wheel", "installer"]
    folder = repository.root / "dist" / "release"
    names = ["SHA256SUMS", "evprof-1.1.0-installer.deb", "evprof-1.1.0-wheel.whl", "evprof-1.1.0.sbom.cdx.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    sums = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    assert [line.split("  ")[1] for line in sums] == names[1:]
    assert sums[0].split()[0] == hashlib.sha256(b"installer").hexdigest()


def test_a_release_whose_building_failed_goes_on(repository: Repository) -> None:
    repository.fails = "installer"
    with pytest.raises(subprocess.CalledProcessError):
        repository.carry_out()
    assert repository.run(["git", "tag", "--list"]) == ""
    repository.fails = ""
    repository.carry_out()
    assert repository.run(["git", "tag", "--list"]) == "v1.1.0\n"
    assert repository.run(["git", "log", "--format=%s"]) == "Release 1.1.0\nchange\n"


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_workflows_and_releases_ask_for_targets_that_there_are() -> None:
    yaml = pytest.importorskip("yaml")
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert [path.name for path in files] == ["check.yml", "docs.yml", "nightly.yml", "release.yml"]
    asked = {words[1] for _, words in releasing.BUILDING}
    for path in files:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        for job in document["jobs"].values():
            commands = [step["run"] for step in job["steps"] if "run" in step]
            assert commands
            for command in commands:
                # No logic of their own: what a workflow does, a person can do with make.
                assert re.fullmatch(r"make [a-z-]+", command), f"{path.name}: {command}"
                asked.add(command.split()[1])
    assert asked <= make_targets()
