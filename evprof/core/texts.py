"""Texts of others (answers, prompts, file names, errors) made safe to set: nothing invisible, nothing endless.

Knows nothing of Markdown, HTML or Qt, which escape what comes out of here in their own way.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable

MOST_CHARACTERS = 20_000
"""Of one text: a page of a report is for people."""

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u115f\u1160\u180e\u3164\uffa0"  # controls but tab and newline; fillers
    "\u061c\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u206f\ufeff"  # direction marks and what has no width
    "\ud800-\udfff\ufffe\uffff\U000e0000-\U000e007f\U000e0100-\U000e01ef]"  # half and no characters, tags
)


def visible(text: str) -> str:
    """`text` with every hidden character told by its number, `⟨U+202E⟩`; tabs and line ends stay."""
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def escaped(text: str) -> str:
    """JSON text with every hidden character as an escape of JSON: a terminal obeys some of them."""
    return _HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


_GUARDED = ("=", "+", "-", "@", "\t", "\r", "'")
"""How a text begins that a spreadsheet takes for a formula; and the guard itself, so that it can be taken off again."""


def guarded(text: str) -> str:
    """`text` with an apostrophe before what a spreadsheet would compute."""
    return f"'{text}" if text.startswith(_GUARDED) else text


def unguarded(text: str) -> str:
    """The inverse of `guarded`; a text that merely begins with an apostrophe stays."""
    return text[1:] if text.startswith("'") and text[1:].startswith(_GUARDED) else text


def plain(text: str, most: int = MOST_CHARACTERS) -> str:
    """`visible` text, cut after `most` with a note."""
    # Cut first: a text may be of any length.
    shown = visible(text[:most].replace("\r\n", "\n"))
    if len(text) <= most:
        return shown
    return f"{shown} … [{len(text) - most:,} more characters left out]"


def one_line(text: str, most: int = MOST_CHARACTERS) -> str:
    """`plain` text with all white space, line ends too, as single spaces."""
    return " ".join(plain(text, most).split())


UNKNOWN = " ⁇ "
"""How sentencepiece shows a token it has no text for."""

_EACH_BYTE = "evprof-each-byte"


def _replace_each_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error(_EACH_BYTE, _replace_each_byte)

_BYTES = re.compile(r"(?:<0x[0-9A-Fa-f]{2}>)+\Z")
_DIGITS = re.compile(r"x(..)")


def is_byte(piece: str) -> bool:
    """Whether a piece is raw bytes, as `<0xE2>` or `<0xE2><0x82>`."""
    return _BYTES.match(piece) is not None


_CONTROL = re.compile(r"</?s>\Z|<pad>\Z|<unk>\Z|<\|[^|]*\|>\Z")


def is_control(piece: str) -> bool:
    """Whether a piece steers and is no text, as `</s>`."""
    return _CONTROL.match(piece) is not None


def join_pieces(pieces: Iterable[str]) -> str:
    """The text of consecutive pieces: runs of byte pieces (`<0xE2><0x82><0xAC>`) become the characters they spell.

    As in sentencepiece's decoder, each byte that belongs to no character becomes U+FFFD, and a single leading space,
    which the dummy prefix puts before the first word, is dropped (the space of a byte or of "unknown" is not). An
    empty piece, a special token's, has no text, but no character reaches across it.
    """
    parts: list[str] = []
    pending = bytearray()
    for piece in pieces:
        if is_byte(piece):
            pending += bytes.fromhex("".join(_DIGITS.findall(piece)))
            continue
        if pending:
            parts.append(pending.decode("utf-8", errors=_EACH_BYTE))
            pending.clear()
        if piece:
            is_first_word = not parts and piece != UNKNOWN
            parts.append(piece.removeprefix(" ") if is_first_word else piece)
    if pending:
        parts.append(pending.decode("utf-8", errors=_EACH_BYTE))
    return "".join(parts)


_LEAST_ALIKE = 0.6
_LONGEST = 100
"""Letters of a word worth comparing: comparing takes their product."""


def nearest(word: object, known: Iterable[object]) -> str | None:
    """The known name most like `word`, whatever its case; None where none is near, or where the word is too long."""
    asked = str(word)
    if len(asked) > _LONGEST:
        return None
    import difflib  # only for who errs

    by_small = {name.casefold(): name for name in map(str, known) if len(name) <= _LONGEST}
    found = difflib.get_close_matches(asked.casefold(), by_small, n=1, cutoff=_LEAST_ALIKE)
    if found:
        return by_small[found[0]]
    # What was typed as far as it was remembered: `parallel` of `parallel-prefill`.
    begun = [name for small, name in by_small.items() if len(asked) > 2 and small.startswith(asked.casefold())]
    return begun[0] if begun else None


def did_you_mean(word: object, known: Iterable[object]) -> str:
    found = nearest(word, known)
    return f"; did you mean {found}?" if found else ""


def guess_among(word: object, known: Iterable[object], *, most: int = 30) -> str:
    """The end of a sentence about a name that nobody knows: the nearest one, else which there are."""
    names = list(dict.fromkeys(map(str, known)))
    if guess := did_you_mean(word, names):
        return guess
    listed = ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
    return f"; there {'is' if len(names) == 1 else 'are'} {listed or 'none'}."
