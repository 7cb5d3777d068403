"""A few kills of real programs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import kills

pytestmark = [pytest.mark.whole, pytest.mark.skipif(sys.platform != "linux", reason="needs SIGKILL and /proc")]


def test_a_killed_program_leaves_readable_sessions_and_no_process(tmp_path, capsys) -> None:
    assert kills.main(["--kills", "3", "--programs", "run", "--out", str(tmp_path)]) == 0, capsys.readouterr().err
    assert "| run | 3 | 0 |" in capsys.readouterr().out


def test_a_session_that_cannot_be_read_fails_the_kill(tmp_path: Path) -> None:
    (tmp_path / "s.evprof").write_bytes(b"no session")
    assert "cannot be read" in kills._remains(tmp_path, {})[0]
