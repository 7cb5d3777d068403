"""Which build this is: from a file of the release, from git in a checkout, or unknown."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from evprof.core.installation import BUILD_FILE, commit

HASH = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An installed package in a folder of its own."""
    (tmp_path / "root" / "evprof").mkdir(parents=True)
    return tmp_path / "root" / "evprof"


def test_a_release_says_its_commit(package) -> None:
    (package / BUILD_FILE).write_text(f"{HASH}\n")
    assert commit(package) == HASH


def test_where_nobody_knows(package) -> None:
    assert commit(package) is None
    (package / BUILD_FILE).write_text("<script>")
    assert commit(package) is None


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_checkout_says_its_commit(package) -> None:
    git = ["git", "-C", str(package.parent)]
    subprocess.run([*git, "init", "-q"], check=True)
    assert commit(package) is None
    author = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run([*git, *author, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert commit(package) == head.strip()
