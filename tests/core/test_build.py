"""Which build this is: from a file of the release, from git's own files in a checkout, or unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from evprof.core.build import BUILD_FILE, commit

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


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_checkout_says_its_commit(package, is_packed) -> None:
    git = package.parent / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    if is_packed:
        (git / "packed-refs").write_text(f"# pack-refs\n{HASH} refs/heads/main\n")
    else:
        (git / "refs" / "heads" / "main").write_text(f"{HASH}\n")
    assert commit(package) == HASH
    (git / "HEAD").write_text(f"{HASH[::-1]}\n")
    assert commit(package) == HASH[::-1]


def test_a_further_work_tree_says_its_commit(package, tmp_path) -> None:
    git = tmp_path / "main.git"
    (git / "worktrees" / "other").mkdir(parents=True)
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "refs" / "heads" / "other").write_text(HASH)
    (git / "worktrees" / "other" / "HEAD").write_text("ref: refs/heads/other")
    (git / "worktrees" / "other" / "commondir").write_text("../..\n")
    (package.parent / ".git").write_text(f"gitdir: {git / 'worktrees' / 'other'}\n")
    assert commit(package) == HASH
