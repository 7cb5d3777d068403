"""Pages name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from site_pages.contents import GENERATED

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("evprof", "engines", "ui")
PAGES = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))


LINK = re.compile(r"\]\(([\w./-]+)(?:#[\w-]*)?\)")
FILE = re.compile(r"`([a-z][a-z0-9_-]*/(?:[a-z0-9_-]+/)*[a-z0-9_.-]+\.(?:md|py|toml|sh))`")


def missing(text: str, folder: Path) -> list[str]:
    """Files that a page names and nobody finds: links from its folder, paths in code from the root or a package."""
    roots = (ROOT, *(ROOT / package for package in PRODUCT))
    made = {(ROOT / "docs" / name).resolve() for name in GENERATED}  # pages of the site alone
    links = [(link, (folder / link).resolve()) for link in LINK.findall(text)]
    lost = [link for link, place in links if not place.exists() and place not in made]
    return lost + [path for path in FILE.findall(text) if not any((root / path).exists() for root in roots)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_files_that_exist(page: Path) -> None:
    assert missing(page.read_text(encoding="utf-8"), page.parent) == []


def test_missing_files_are_seen() -> None:
    text = "[here](docs/json.md), [there](docs/nothing.md), `run/suites` and `evprof/nothing.py`, `core/records.py`"
    assert missing(text, ROOT) == ["docs/nothing.md", "evprof/nothing.py"]
