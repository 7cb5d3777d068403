"""The description of an adapter that somebody else wrote: told what is wrong with it, whatever is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evprof.core.errors import UserError
from evprof.loaders.adapters import FORMAT, read_adapter

GOOD: dict[str, Any] = {
    "format": FORMAT,
    "kind": "ngram",
    "name": "mine",
    "target": "t",
    "draft": None,
    "hidden_size": 8,
    "draft_hidden_size": None,
    "vocabulary": 100,
    "config": {},
    "training": {},
    "evaluation": None,
}


def described(folder: Path, values: Any) -> str:
    (folder / "adapter.json").write_text(json.dumps(values), encoding="utf-8")
    return str(folder)


def test_what_may_be_nothing_may_be_missing(tmp_path: Path) -> None:
    bare = {name: value for name, value in GOOD.items() if value is not None}
    assert read_adapter(described(tmp_path, bare)) == read_adapter(described(tmp_path, GOOD))


@pytest.mark.parametrize("name", ["format", "kind", "name", "target", "hidden_size", "vocabulary", "config"])
@pytest.mark.parametrize("value", [None, [], "x" * 10_000, 1e308, {}, 10**400])
def test_what_is_wrong_is_told_in_a_sentence(tmp_path: Path, name: str, value: Any) -> None:
    try:
        read_adapter(described(tmp_path, {**GOOD, name: value}))
    except UserError as error:
        said = error.sentence
    else:
        said = ""
    assert len(said) < 400
    assert "\n" not in said
