"""How well a text answers what somebody types to find it."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+")

WHOLE, BEGINNING, INSIDE = 3.0, 2.0, 1.0
"""What a typed word is worth: a word of the text, the beginning of one, letters inside one."""


def match(query: str, text: str) -> float | None:
    """A score, higher is better; None where a word of `query` is nowhere in `text`. Cases do not matter.

    Nothing typed fits everything equally. Of texts that fit equally the shorter one scores higher.
    """
    typed = query.casefold().split()
    folded = text.casefold()
    words = [(found.start(), found.group()) for found in _WORD.finditer(folded)]
    total = 0.0
    for part in typed:
        if part not in folded:
            return None
        worths = [WHOLE if word == part else BEGINNING for at, word in words if folded.startswith(part, at)]
        total += max(worths, default=INSIDE)
    return total - len(text) / (len(text) + 1000.0) if typed else 0.0
