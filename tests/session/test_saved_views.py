"""Views saved in a session: beside all else that it holds, never into one that is being recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.session.facts import LONGEST_NAME, MOST_VIEWS, save_view, saved_views
from evprof.session.reading import load_session
from evprof.session.store import Commit, SessionFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A session with a fact of its own and no run."""
    place = tmp_path / "s.evprof"
    file = SessionFile(place)
    file.commit({}, Commit(facts={"suite": {"name": "stages"}}))
    file.close()
    return place


def test_views_are_kept_beside_other_facts(path: Path) -> None:
    save_view(path, "a", {"basis": "model-only"})
    save_view(path, "b · ä", {"columns": []})
    save_view(path, "a", {"basis": "end-to-end"})
    facts = load_session(path).facts
    assert facts["suite"] == {"name": "stages"}
    assert saved_views(facts) == {"a": {"basis": "end-to-end"}, "b · ä": {"columns": []}}
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_session_that_is_being_recorded_is_left_alone(path: Path) -> None:
    recording = SessionFile(path)
    try:
        with pytest.raises(UserError, match="being recorded"):
            save_view(path, "a", {})
    finally:
        recording.close()
    assert saved_views(load_session(path).facts) == {}


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * (LONGEST_NAME + 1)])
def test_impossible_names_are_refused(path: Path, name: str) -> None:
    before = path.read_bytes()
    with pytest.raises(UserError, match="characters"):
        save_view(path, name, {})
    assert path.read_bytes() == before


def test_what_is_no_session_is_neither_made_nor_changed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        save_view(tmp_path / "none.evprof", "a", {})
    other = tmp_path / "text.evprof"
    other.write_text("text " * 40)
    with pytest.raises(UserError, match="no evprof session"):
        save_view(other, "a", {})
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["text.evprof"]


def test_there_is_an_end_to_views(path: Path) -> None:
    file = SessionFile(path)
    file.commit({}, Commit(facts={"views": {str(number): {} for number in range(MOST_VIEWS)}}))
    file.close()
    save_view(path, "7", {"basis": "model-only"})
    with pytest.raises(UserError, match="views already"):
        save_view(path, "one more", {})
    assert saved_views({"views": ["no table"]}) == {}
