"""Facts that are added to a session afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.session.facts import add_facts
from whole_session import load_session


def test_dictionaries_are_merged_and_lists_go_on(tmp_path: Path) -> None:
    path = tmp_path / "s.evprof"
    add_facts(path, {"models": {"a": 1, "b": 1}, "batches": [1], "note": "old"})
    add_facts(path, {"models": {"b": 2}, "batches": [2, 3], "note": "new", "more": []})
    assert load_session(path).facts == {"models": {"a": 1, "b": 2}, "batches": [1, 2, 3], "note": "new", "more": []}


def test_a_file_that_is_no_session_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("dear reader, " * 100, encoding="utf-8")
    with pytest.raises(UserError, match="no evprof session"):
        add_facts(path, {"models": {}})
    assert path.read_text(encoding="utf-8").startswith("dear")
