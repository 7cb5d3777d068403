"""Texts of others (answers, prompts, file names, errors) made safe to set: nothing invisible, nothing endless.

Knows nothing of Markdown, HTML or Qt, which escape what comes out of here in their own way.
"""

from __future__ import annotations

import re

MOST_CHARACTERS = 20_000
"""Of one text: a page of a report is for people."""

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, tab and newline apart
    "\u061c\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u2069\ufeff"  # direction marks and what has no width
    "\ud800-\udfff\ufffe\uffff\U000e0000-\U000e007f]"  # half characters, no characters, tags
)


def visible(text: str) -> str:
    """`text` with every hidden character told by its number, `⟨U+202E⟩`; tabs and line ends stay."""
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def plain(text: str, most: int = MOST_CHARACTERS) -> str:
    """`visible` text, cut after `most` with a note."""
    if len(text) <= most and text.isprintable():
        return text
    # Cut first: a text may be of any length.
    shown = visible(text[:most].replace("\r\n", "\n"))
    if len(text) <= most:
        return shown
    return f"{shown} … [{len(text) - most:,} more characters left out]"


def one_line(text: str, most: int = MOST_CHARACTERS) -> str:
    """`plain` text with all white space, line ends too, as single spaces."""
    return " ".join(plain(text, most).split())
