"""Names and words: no two public classes share a name, and nobody is told in riddles."""

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

ODD = re.compile(
    r"\bby (itself|themselves)\b(?= \()|\b(epitaph|mourn\w*|bury|buried|burial)\b|\b0 is none\b", re.IGNORECASE
)
"""Words that say less than plain ones would."""

BY_DEFAULT = re.compile(r"\b(?:off|on|is|are|shown) by (?:itself|themselves)\b", re.IGNORECASE)
"""German for "by default"."""

OTHERWISE_WRITTEN = re.compile(
    r"[.\w][fg]\}+x\b|\b\d+\.\d+x\b"
    r"|[\d}X]%(?![0-9A-F]{2})"
    r"|(?<![\w.,/-])[1-9]\d{3,} (?:[\w-]+ )?(?:events|frames|positions|rounds|rows|runs|samples|steps|tokens|turns)\b"
)
"""`0.67x`, `12%`, `:.0%` and `1204 tokens`: people read what `times_text`, `percent_text` and `count_text` write,
`0.67×`, `12 %` and `1,204 tokens`."""

STYLE = re.compile(r"\(--|[a-z]:(?:[a-z(]{3}|\d+%)")
"""A line of CSS, whose lengths are no text."""

WEAK = {"Yes.", "No."}
"""Docstrings that say nothing."""

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


def odd(text: str) -> list[str]:
    """Words of a text that a reader stumbles over."""
    return [match[0] for pattern in (ODD, BY_DEFAULT) for match in pattern.finditer(text)]


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


def test_code_is_written_in_plain_words() -> None:
    found = []
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found += [f"{path}:{node.lineno}: {word}" for word in odd(node.value)]
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found += [f"{path}:{node.lineno}: {node.name}" for word in odd(node.name.replace("_", " "))]
                found += [f"{path}:{node.lineno}: {ast.get_docstring(node)}"] * (ast.get_docstring(node) in WEAK)
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_written_in_plain_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert odd(text) == []
    assert missing(text, page.parent) == []


@pytest.mark.parametrize(
    "text", ["It is off by itself.", "Shown by themselves: 8.", "Its epitaph.", "A time of 0 is none."]
)
def test_odd_words_are_seen(text: str) -> None:
    assert odd(text)


def test_missing_files_are_seen() -> None:
    text = "[here](docs/json.md), [there](docs/nothing.md), `run/suites` and `evprof/nothing.py`, `core/records.py`"
    assert missing(text, ROOT) == ["docs/nothing.md", "evprof/nothing.py"]


def test_figures_are_written_in_one_way() -> None:
    files = [ROOT / path for path, _ in trees()] + PAGES
    found = {
        f"{path.relative_to(ROOT)}:{number}: {written[0]}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (written := OTHERWISE_WRITTEN.search(line)) and not STYLE.search(line)
    }
    assert found == set()


@pytest.mark.parametrize(
    "text",
    [
        *('f"{ratio:.2f}x"', '"{ours:.2f}x the time"', "It is 0.67x as fast."),
        *('f"{share:.0%} read"', 'f"{percent}%"', "49% of them", "X% of it", "Of 1204 tokens", "2000 warm-up runs"),
    ],
)
def test_other_ways_are_seen(text: str) -> None:
    assert OTHERWISE_WRITTEN.search(text)
    assert not STYLE.search(text)
