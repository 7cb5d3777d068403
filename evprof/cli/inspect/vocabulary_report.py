"""How two vocabularies meet, for people to read in a terminal."""

from __future__ import annotations

import textwrap
from typing import Any

from evprof.cli.terminal.console import Console

_LABEL = 24
_WIDTH = 110

_MEANING = {
    "same": "every id means the same in both",
    "shared": "ids that mean the same are mapped onto each other, others are masked",
    "re-encoded": "too few ids mean the same: text passes between the models, not ids",
}


def print_vocabulary(vocabulary: dict[str, Any], console: Console) -> None:
    """The part "vocabulary" of the `inspect` document of a draft against a target."""
    alignment, shared = vocabulary["alignment"], vocabulary["shared_ids"]
    numbers = "under the same numbers" if vocabulary["same_number"] else "under numbers of their own"
    rows = [
        ("vocabulary against", vocabulary["target"]),
        ("  alignment", f"{alignment}: {_MEANING[alignment]}"),
        ("  draft's ids", f"{vocabulary['draft_ids']:,}"),
        ("  target's ids", f"{vocabulary['target_ids']:,}"),
        ("  shared", f"{shared:,}, {numbers}; {vocabulary['coverage']:.1%} of the draft's pieces"),
        ("  only the draft's", _listed(vocabulary["only_draft"], vocabulary["only_draft_count"])),
        ("  only the target's", _listed(vocabulary["only_target"], vocabulary["only_target_count"])),
        ("  same number, other", f"{vocabulary['differing_count']:,}"),
    ]
    for name, text in rows:
        console.print(_wrapped(name, text))
    for entry in vocabulary["differing"]:
        console.print(f"{'':<{_LABEL}}{entry['id']}: {_quoted(entry['draft'])}, {_quoted(entry['target'])}")


def _wrapped(name: str, text: str) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=f"{name:<{_LABEL}}",
        subsequent_indent=" " * _LABEL,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _listed(entries: list[dict[str, Any]], count: int) -> str:
    if not count:
        return "0"
    more = ", …" if count > len(entries) else ""
    return f"{count:,}: " + ", ".join(f"{entry['id']} {_quoted(entry['piece'])}" for entry in entries) + more


def _quoted(piece: str) -> str:
    """A piece of a foreign vocabulary, which may hold anything a terminal would obey."""
    shown = "".join(letter if letter.isprintable() else f"⟨U+{ord(letter):04X}⟩" for letter in piece)
    return f"“{shown}”"
