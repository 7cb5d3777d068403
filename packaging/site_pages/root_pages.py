"""Pages that lie in the root of the repository, as pages of the site, and links that lead out of it."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ROOT_PAGES = {
    "contributing.md": "CONTRIBUTING.md",
    "architecture.md": "ARCHITECTURE.md",
    "changes.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
}
"""Page of the site -> file of the root."""

_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)\s]+)\)")


def root_page(name: str) -> str:
    return within_site((ROOT / ROOT_PAGES[name]).read_text(encoding="utf-8"), "")


def within_site(text: str, folder: str = "docs") -> str:
    """A page's text with its links leading to pages of the site; what the site lacks is named without a link.

    `folder` is where the page lies, from the root.
    """
    pages = {file: page for page, file in ROOT_PAGES.items()}

    def rewritten(link: re.Match[str]) -> str:
        target, _, anchor = link[2].partition("#")
        place = posixpath.normpath(posixpath.join(folder, target))
        hash_ = f"#{anchor}" if anchor else ""
        if place in pages:
            return f"[{link[1]}]({pages[place]}{hash_})"
        if place.startswith("docs/"):
            return f"[{link[1]}]({place.removeprefix('docs/')}{hash_})"
        return link[1]

    return _LINK.sub(rewritten, text)
