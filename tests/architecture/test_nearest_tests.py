"""`make quick` runs the tests nearest to what changed, and for no longer than it is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import nearest_tests
import recorded_seconds
from nearest_tests import LAST, SECONDS, base, changed_files, ranked_tests, selected

ROOT = Path(__file__).parents[2]


def test_what_changed_comes_first_and_the_ground_floor_last() -> None:
    ranked = ranked_tests(["tests/view/test_lanes.py", "evprof/core/units.py", "docs/json.md", "evprof/gone.py"], {})
    assert ranked[:2] == ["tests/view/test_lanes.py", "tests/core/test_units.py"]
    assert ranked[-1].startswith(LAST)
    assert len(ranked) == len(set(ranked))
    assert "tests/cli/test_documentation.py" in ranked  # it names json.md
    for path in ranked:
        assert (ROOT / path).exists()


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("tests/published_heads.py", "tests/engine/test_published_heads.py"),
        ("tests/gui/conftest.py", "tests/gui/test_timeline.py"),
        ("evprof/run/conversion/task.py", "tests/run/test_conversion.py"),
        ("evprof/core/vocabulary/switches.py", "tests/view/test_settings_text.py"),
    ],
)
def test_tests_that_import_what_changed_are_near(changed: str, test: str) -> None:
    ranked = ranked_tests([changed], {})
    assert ranked.index(test) < ranked.index("tests/core/test_safe_text.py")


def test_nearest_tests_fit_into_the_minute_by_their_recorded_seconds() -> None:
    near, long, other = "tests/core/test_units.py", "tests/core/test_plain.py", "tests/core/test_errors.py"
    seconds = {near: {"test_a": 30.0}, long: {"test_b": SECONDS * 1.0}, other: {}}
    assert selected([near, long, other], seconds) == [near, other]
    assert selected([long, other], seconds)[0] == long


def test_durations_are_recorded_test_by_test(tmp_path: Path) -> None:
    assert recorded_seconds.read(tmp_path) == {}
    recorded_seconds.write(tmp_path, {"tests/a.py::test_a[x::y]": 1.234, "tests/a.py::test_b": 0.001})
    recorded_seconds.write(tmp_path, {"tests/a.py::test_b": 2.0, "tests/b.py::test_c": 0.001})
    seconds = recorded_seconds.read(tmp_path)
    assert seconds == {"tests/a.py": {"test_a[x::y]": 1.23, "test_b": 2.0}, "tests/b.py": {}}
    recorded_seconds.write(tmp_path, {"tests/b.py::test_d": 10.0})
    recorded_seconds.write(tmp_path, {"tests/b.py::test_d": 50.0})
    assert recorded_seconds.read(tmp_path)["tests/b.py"] == {"test_d": 12.5}
    assert recorded_seconds.of_file(seconds, "tests/a.py", 2) == pytest.approx(3.25)
    assert recorded_seconds.of_file(seconds, "tests/c.py", 5) == pytest.approx(1.0)
    (tmp_path / "seconds.json").write_text("{")
    assert recorded_seconds.read(tmp_path) == {}


def git(folder: Path, *words: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    names = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(
        ["git", *names, *words], cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def commit(folder: Path, name: str) -> str:
    (folder / name).write_text(name)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", name)
    return git(folder, "rev-parse", "HEAD")


def test_what_is_compared_is_the_work_since_the_branch_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream, clone = tmp_path / "upstream", tmp_path / "clone"
    upstream.mkdir()
    git(upstream, "init", "-q")
    git(upstream, "checkout", "-q", "-b", "main")
    commit(upstream, "first")
    pushed = commit(upstream, "last")
    git(tmp_path, "clone", "-q", "upstream", "clone")
    monkeypatch.setattr(nearest_tests, "ROOT", clone)
    assert base() == pushed
    assert changed_files(pushed) == []
    (clone / "new").write_text("")
    assert changed_files(base()) == ["new"]
    local = commit(clone, "mine")
    assert base() == pushed
    assert changed_files(base()) == ["mine", "new"]
    git(clone, "checkout", "-q", "-b", "feature")
    commit(clone, "more")
    assert base() == local
    git(clone, "branch", "-q", "-D", "main")
    assert base() == pushed
    git(clone, "remote", "remove", "origin")
    assert base() == git(clone, "rev-parse", "HEAD")


def run_for(seconds: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--for-seconds={seconds}", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_a_run_without_a_test_fails() -> None:
    done = run_for(0, "tests/core/test_units.py")
    assert done.returncode != 0
    assert "left to make test" in done.stdout
    assert "ran 0 of " in done.stdout


def test_how_many_tests_ran_is_printed() -> None:
    done = run_for(300, "tests/core/test_units.py")
    assert done.returncode == 0, done.stdout
    count = int(done.stdout.rpartition("ran ")[2].split()[0])
    assert f"ran {count} of {count}" in done.stdout
    assert f"{count} passed" in done.stdout
