"""Makes a release: "Unreleased" in the changelog gets version and date, everything is built, the commit is tagged.

Usage: python packaging/release.py [--dry-run]      all of it; the version is the one in evprof/version.py
       python packaging/release.py --files          only builds the files of a commit that is tagged already
Nothing is pushed. A release that failed on the way goes on when the command is given again.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNRELEASED = "## Unreleased"
SUMS = "SHA256SUMS"
BUILDING = (
    ("documentation, which the others hold", ("make", "docs")),
    ("wheel and sdist", ("make", "wheel")),
    ("wheel with the newest packages", ("make", "try-wheel")),
    ("installers, with licences and SBOM", ("make", "installer")),
)
KEPT = ("*.whl", "*.tar.gz", "*.deb", "*.run", "*.tar.zst", "*.cdx.json")
"""What a release consists of, wherever below dist it was built."""


class ReleaseError(Exception):
    """Why there can be no release; one sentence that says what to do."""


@dataclass(frozen=True)
class Step:
    """One thing that is done: its words, and how."""

    words: str
    work: Callable[[], None]


class Release:
    """The steps for the repository in `root`. `run` carries out a command there and raises CalledProcessError."""

    def __init__(self, root: Path, run: Callable[[Sequence[str]], str], today: str) -> None:
        self.root = root
        self.run = run
        self.today = today
        self.changelog = root / "CHANGELOG.md"
        self.version = version_of(root)
        self.folder = root / "dist" / "release"

    def steps(self) -> list[Step]:
        """Everything that is left to do. Raises ReleaseError where it cannot be."""
        text = self.changelog.read_text(encoding="utf-8")
        is_moved = re.search(rf"^## {re.escape(self.version)} ", text, re.MULTILINE) is not None
        if self._git("status", "--porcelain"):
            raise ReleaseError("There are changes that are not committed; commit them or take them back first.")
        if self._git("tag", "--list", self.tag):
            raise ReleaseError(f"The tag {self.tag} exists; give evprof/version.py the number of the new version.")
        steps = []
        if not is_moved:
            released(text, self.version, self.today)  # so that a dry run says what is wrong, too
            steps.append(Step(f"CHANGELOG.md: Unreleased becomes {self.version} – {self.today}", self._move))
            steps.append(Step(f"commit: Release {self.version}", self._commit))
        elif unreleased(text):
            raise ReleaseError(
                f"CHANGELOG.md has a part {self.version} and changes after it; give evprof/version.py the next number."
            )
        return [*steps, *self.file_steps(), Step(f"tag: {self.tag}", self._tag)]

    def file_steps(self) -> list[Step]:
        """Those that build the files of the commit that is checked out."""
        return [
            Step("empty dist", self._empty),
            *(Step(f"{name}: {' '.join(words)}", partial(self._build, words)) for name, words in BUILDING),
            Step(f"dist/release: everything, and {SUMS}", self._gather),
        ]

    @property
    def tag(self) -> str:
        """Such as v1.2.3."""
        return f"v{self.version}"

    def _git(self, *words: str) -> str:
        return self.run(("git", *words)).strip()

    def _move(self) -> None:
        text = self.changelog.read_text(encoding="utf-8")
        self.changelog.write_text(released(text, self.version, self.today), encoding="utf-8")

    def _commit(self) -> None:
        self._git("commit", "--quiet", "--message", f"Release {self.version}", "--", "CHANGELOG.md")

    def _tag(self) -> None:
        self._git("tag", "--annotate", self.tag, "--message", f"evprof {self.version}")

    def _empty(self) -> None:
        shutil.rmtree(self.root / "dist", ignore_errors=True)

    def _build(self, words: Sequence[str]) -> None:
        self.run(words)

    def _gather(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        dist = self.root / "dist"
        found = {path.name: path for pattern in KEPT for path in sorted(dist.rglob(pattern)) if self._is_product(path)}
        if not found:
            raise ReleaseError("Nothing was built below dist; look at what make printed.")
        for name, path in found.items():
            target = self.folder / (f"evprof-{self.version}.{name}" if name.endswith(".cdx.json") else name)
            shutil.copy2(path, target)
        write_sums(self.folder)

    def _is_product(self, path: Path) -> bool:
        return self.folder not in path.parents and "_internal" not in path.parts


def version_of(root: Path) -> str:
    """The version that evprof/version.py says, the one place. Raises ReleaseError."""
    text = (root / "evprof" / "version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(\d+\.\d+\.\d+)"$', text, re.MULTILINE)
    if found is None:
        raise ReleaseError('evprof/version.py must say __version__ = "X.Y.Z".')
    return found[1]


def unreleased(text: str) -> str:
    """What stands below "Unreleased" in the changelog; empty without that part."""
    found = re.search(rf"^{UNRELEASED}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def released(text: str, version: str, date: str) -> str:
    """The changelog with an empty "Unreleased", and its content below the version. Raises ReleaseError without any."""
    if not unreleased(text):
        raise ReleaseError('The part "Unreleased" of CHANGELOG.md is empty; say there what is new.')
    return text.replace(f"{UNRELEASED}\n", f"{UNRELEASED}\n\n## {version} – {date}\n", 1)


def write_sums(folder: Path) -> None:
    """SHA256SUMS of all other files of the folder, as `sha256sum --check` reads it."""
    lines = []
    for path in sorted(folder.iterdir()):
        if path.name != SUMS:
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def _running(root: Path) -> Callable[[Sequence[str]], str]:
    def run(words: Sequence[str]) -> str:
        is_git = words[0] == "git"
        done = subprocess.run(words, cwd=root, stdout=subprocess.PIPE if is_git else None, text=True, check=True)
        return done.stdout or ""

    return run


def main(words: Sequence[str]) -> int:
    """Carries the steps out, or shows them; 1 with a sentence when it cannot be done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="show every step, do none")
    parser.add_argument("--files", action="store_true", help="only build the files")
    options = parser.parse_args(words)
    try:
        release = Release(ROOT, _running(ROOT), datetime.now(UTC).date().isoformat())
        steps = release.file_steps() if options.files else release.steps()
        for number, step in enumerate(steps, 1):
            print(f"[{number}/{len(steps)}] {step.words}", flush=True)
            if not options.dry_run:
                step.work()
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"{' '.join(error.cmd)} failed; mend it and give the command again.", file=sys.stderr)
        return 1
    if not options.dry_run and not options.files:
        print(f"dist/release holds evprof {release.version}. To publish it: git push --follow-tags")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
