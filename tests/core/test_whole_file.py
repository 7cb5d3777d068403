"""Files that appear whole, under names nobody can guess, and never in a session's place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.core.files.whole_file import put_new, whole_binary, whole_file


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """Whoever may write to the folder could guess the name of the part that was written before."""
    victim, report = tmp_path / "victim", tmp_path / "report.html"
    victim.write_text("precious")
    (tmp_path / "report.html.part").symlink_to(victim)
    with whole_file(report) as stream:
        stream.write("new")
    assert victim.read_text() == "precious"
    assert (report.read_text(), report.is_symlink()) == ("new", False)


def test_what_goes_wrong_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def fail_half_way() -> None:
        with whole_binary(path) as stream:
            stream.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_session_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s.evprof"
    path.write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(UserError, match="is a session"), whole_binary(path):
        pass
    assert path.stat().st_size == 116


def test_others_get_the_rights_they_always_had(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    with whole_binary(tmp_path / "whole"):
        pass
    assert (tmp_path / "whole").stat().st_mode == plain.stat().st_mode


def test_a_new_file_appears_whole_and_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        put_new(tmp_path / name, b"all of it")
        assert (tmp_path / name).read_bytes() == b"all of it"
        with pytest.raises(FileExistsError):
            put_new(tmp_path / name, b"other")
        assert (tmp_path / name).read_bytes() == b"all of it"
        # The second time as where files without a name are not to be had.
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["one", "two"]
