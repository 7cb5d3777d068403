"""The documentation as a site: it builds without a warning, opens from a disk, fetches nothing, and no link is dead."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from site_pages.contents import GENERATED
from site_pages.files import FOLDERS, VARIABLES
from site_pages.root_pages import ROOT_PAGES, within_site

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("mkdocs")

LARGEST_PICTURES = 1_500_000
"""Bytes of all pictures that are committed."""

OURS = ("evprof", "engines", "ui")


class PageReader(HTMLParser):
    """What a page links to, what it fetches, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes what the tag names."""
        found = dict(attrs)
        self.anchors.update(value for name in ("id", "name") if (value := found.get(name)))
        if tag == "a" and (link := found.get("href")):
            self.links.append(link)
        elif source := found.get("src") or (found.get("href") if tag == "link" else None):
            self.fetched.append(source)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does; a warning fails it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@cache
def page(path: Path) -> PageReader:
    """A page, read."""
    return PageReader(path.read_text(encoding="utf-8"))


@pytest.mark.whole
def test_every_page_is_in_it(site: Path) -> None:
    named = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    made = [Path(name) for name, make in GENERATED.items() if make() is not None]
    assert [name for name in (*named, *made) if not (site / name.with_suffix(".html")).is_file()] == []
    assert all((ROOT / file).is_file() for page, file in ROOT_PAGES.items() if page != "security.md")


@pytest.mark.whole
def test_every_link_leads_to_a_page_and_a_place_in_it(site: Path) -> None:
    lost, count = [], 0
    for path in site.rglob("*.html"):
        if path.name == "404.html":
            continue
        for link in page(path).links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_there = target.is_file() and (not parts.fragment or unquote(parts.fragment) in page(target).anchors)
            if not is_there:
                lost.append(f"{path.relative_to(site)}: {link}")
    assert lost == []
    assert count > 1000


@pytest.mark.whole
def test_nothing_is_fetched_from_anywhere(site: Path) -> None:
    fetched = {source for path in site.rglob("*.html") for source in page(path).fetched}
    assert [
        source for source in fetched if urlsplit(source).scheme not in ("", "data") or source.startswith("//")
    ] == []
    sheets = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"url\(\s*[\"']?(?:https?:)?//", sheets) == []


@pytest.mark.whole
def test_the_search_works_from_a_file(site: Path) -> None:
    """A page of a disk may not fetch JSON: the index has to be a script."""
    assert (site / "search" / "search_index.js").is_file()
    assert "Acceptance clinic" in (site / "search" / "search_index.js").read_text(encoding="utf-8")


def test_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "docs").rglob("*.png")) < LARGEST_PICTURES


def test_links_out_of_the_folder_of_the_pages_are_rewritten() -> None:
    """What the site shows in place of files of the repository."""
    text = "[map](../ARCHITECTURE.md#glossary), [a](json.md), [card](../assets/models/x/MODEL_CARD.md), ![p](p.png)"
    assert within_site(text) == "[map](architecture.md#glossary), [a](json.md), card, ![p](p.png)"
    assert within_site("[a](docs/json.md#a-run) and [code](evprof/core/units.py)", "") == "[a](json.md#a-run) and code"


def product() -> str:
    """The text of all our modules."""
    return "\n".join(path.read_text(encoding="utf-8") for package in OURS for path in (ROOT / package).rglob("*.py"))


def test_the_page_of_files_names_what_the_code_keeps() -> None:
    text = product()
    kept = set(re.findall(r'\b(?:data|cache|log)_folder\(\) / "([\w.-]+)"', text))
    assert kept <= {name for held in FOLDERS.values() for name in held}
    assert kept


def test_the_page_of_files_names_the_variables_that_the_code_reads() -> None:
    text = product()
    read = set(re.findall(r'environ(?:\.get\(|\[|\.setdefault\()\s*"([A-Z_]+)"', text))
    read |= set(re.findall(r'_folder\("([A-Z_]+)"', text)) | set(re.findall(r'^_FOLDER_VARIABLE = "(\w+)"', text, re.M))
    assert read - set(VARIABLES) <= {"KINETO_LOG_LEVEL", "DISPLAY", "WAYLAND_DISPLAY", "RAY_AUTH_MODE"}
    assert set(VARIABLES) <= set(re.findall(r'"([A-Z_]+)"', text)) | {
        "PYTORCH_ALLOC_CONF",
        "HF_ENDPOINT",
        "HF_HUB_OFFLINE",
    }
