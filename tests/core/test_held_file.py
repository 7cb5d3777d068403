"""One holder at a time, for as long as it lives."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from evprof.core.files import held_file
from evprof.core.files.held_file import HeldError, HeldFile, is_held

HOLDER = """
import sys, time
from pathlib import Path
from evprof.core.files.held_file import HeldFile
held = HeldFile(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_the_second_comes_after_the_first(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with HeldFile(path):
        assert is_held(path)
        with pytest.raises(HeldError):
            HeldFile(path)
    assert not path.exists()
    assert not is_held(path)
    HeldFile(path).release()


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        assert is_held(path)
        holder.kill()
    assert path.exists()
    assert not is_held(path)
    with HeldFile(path):
        assert is_held(path)
    assert not path.exists()


def test_asking_keeps_nobody_out(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    for _ in range(50):
        assert not is_held(path)
        HeldFile(path).release()
        path.touch()


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic"):
        HeldFile(tmp_path / "lock")
    assert (tmp_path / "victim").read_text() == "precious"


def test_where_there_are_no_locks_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, *, shared: bool = False) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(held_file, "_try_lock", refuse)
    with HeldFile(tmp_path / "lock") as held:
        assert not held.is_real
    assert not is_held(tmp_path / "lock")
