"""The Python that pages show, in order with their commands."""

from __future__ import annotations

import re
from typing import NamedTuple

from shown_commands import PAGES, REASONS, ROOT, commands_of

NOT_INSTALLED = "needs a program of its own"
"""Why Python is shown and not tried, besides REASONS."""

_BLOCK = re.compile(r"(?:<!-- not tried: ([^>]*?) -->\n+)?^```(sh|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class ShownStep(NamedTuple):
    """A block of Python, or one command; `reason` "" where it is tried."""

    is_python: bool
    text: str
    reason: str


def steps_of(text: str) -> list[ShownStep]:
    """What the reader of a page does, in order."""
    found = []
    for above, language, block in _BLOCK.findall(text):
        if language == "python":
            reason = next((reason for reason in (*REASONS, NOT_INSTALLED) if reason in above), "")
            found.append(ShownStep(True, block, reason))
        else:
            commands = commands_of(f"<!-- not tried: {above} -->\n```sh\n{block}```\n")
            found += [ShownStep(False, command.line, command.reason) for command in commands]
    return found


def steps_in(page: str) -> list[ShownStep]:
    """The same of a page by name."""
    return steps_of((ROOT / page).read_text(encoding="utf-8"))


SHOWING = [page for page in PAGES if any(step.is_python for step in steps_in(page))]
"""The pages that show Python."""
