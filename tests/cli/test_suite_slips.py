"""Suites that could not end, or never begin: refused in a sentence before anything is measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evprof.cli.suite import command
from evprof.loaders.toml_text import parse_toml


class Room:
    """No model is known."""

    def family_of(self, name: str) -> str | None:
        return None

    def fits(self, cells: Any) -> bool:
        return True

    def past_context(self, cell: Any) -> str | None:
        return None


BOMBS = {
    "keys.toml": "a" + ".a" * 200_000 + " = 1\n[axes]\nframes = [1]\n",
    "deep.toml": "x = " + "[" * 100_000 + "]" * 100_000 + "\n[axes]\nframes = [1]\n",
    "wide.toml": f"[axes]\nframes = {list(range(1, 2000))}\n",
    "digits.json": '{"axes": {"frames": [1' + "0" * 5000 + "]}}",
    "bits.toml": "[axes]\nframes = [99999999999999999999999]\n",
    "frames.toml": "[axes]\nframes = [1000000000]\n",
    "rows.toml": "repeat = 1000000000\n[axes]\nframes = [1]\n",
    "labels.toml": '[[cells]]\nlabel = "x"\n[[cells]]\nlabel = "x"\nmax_new_tokens = 3\n',
    "zero.toml": "repeat = 0\n[axes]\nframes = [1]\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_grid_that_would_not_end_is_refused(
    evprof: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setattr(command, "make_room", Room)
    grid = tmp_path / name
    grid.write_text(BOMBS[name])
    found = evprof("suite", grid, "-o", tmp_path / "out")
    assert found.code in {1, 2}
    assert found.errors.startswith("evprof: ")
    assert "defect" not in found.errors
    assert not list((tmp_path / "out").glob("*.evprof"))


@pytest.mark.parametrize("words", [("--repeat", 0), ("--repeat", -3), ("--warmup", -1), ("--limit", 0)])
def test_counts_are_checked_before_models_are_looked_at(
    evprof: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[object, ...]
) -> None:
    monkeypatch.setattr(command, "make_room", lambda: pytest.fail("models were looked at"))
    found = evprof("suite", "stages", *words, "-o", tmp_path / "out")
    assert found.code == 2
    assert f"{words[0]} must be at least" in found.errors
    assert not (tmp_path / "out").exists()


def test_long_lines_without_endless_keys_are_toml() -> None:
    assert parse_toml(f"x = {[1.5] * 1000}\n") == {"x": [1.5] * 1000}
    with pytest.raises(ValueError, match="more than 32 parts"):
        parse_toml("[" + "'a' . " * 40 + "b]\n")
