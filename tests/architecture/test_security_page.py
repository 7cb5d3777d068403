"""SECURITY.md names the tests that hold what it promises: they are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_test_that_the_page_names_is_there() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/.]+|test_\w+\.py)`", page)
    assert len(named) > 10
    missing = [name for name in named if not (ROOT / name).exists() and not list((ROOT / "tests").rglob(name))]
    assert not missing
