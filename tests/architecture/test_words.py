"""No two public classes share a name, and pages name files that exist."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from site_pages.contents import COMING, GENERATED

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("evprof", "engines", "ui")
PAGES = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))


LINK = re.compile(r"\]\(([\w./-]+)(?:#[\w-]*)?\)")
FILE = re.compile(r"`([a-z][a-z0-9_-]*/(?:[a-z0-9_-]+/)*[a-z0-9_.-]+\.(?:md|py|toml|sh))`")


def trees() -> Iterator[tuple[Path, ast.Module]]:
    """Every module of the product, parsed."""
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def twins(found: Iterator[tuple[Path, ast.Module]]) -> dict[str, list[str]]:
    """Names of public classes that stand in more than one module, with these."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in found:
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path))
    return {name: modules for name, modules in places.items() if len(modules) > 1}


def missing(text: str, folder: Path) -> list[str]:
    """Files that a page names and nobody finds: links from its folder, paths in code from the root or a package."""
    roots = (ROOT, *(ROOT / package for package in PRODUCT))
    made = {(ROOT / "docs" / name).resolve() for name in (*GENERATED, *COMING)}  # pages of the site alone
    links = [(link, (folder / link).resolve()) for link in LINK.findall(text)]
    lost = [link for link, place in links if not place.exists() and place not in made]
    return lost + [path for path in FILE.findall(text) if not any((root / path).exists() for root in roots)]


def test_no_two_public_classes_share_a_name() -> None:
    assert twins(trees()) == {}


def test_twins_are_seen() -> None:
    """What the check above looks for."""
    tree = ast.parse("class Row: ...\nclass _Row: ...")
    assert twins(iter([(Path("a.py"), tree), (Path("b.py"), tree)])) == {"Row": ["a.py", "b.py"]}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_files_that_exist(page: Path) -> None:
    assert missing(page.read_text(encoding="utf-8"), page.parent) == []


def test_missing_files_are_seen() -> None:
    text = "[here](docs/json.md), [there](docs/nothing.md), `run/suites` and `evprof/nothing.py`, `core/records.py`"
    assert missing(text, ROOT) == ["docs/nothing.md", "evprof/nothing.py"]
