"""The nearest name to one that nobody knows: every "did you mean" comes from here."""

from __future__ import annotations

from collections.abc import Iterable

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
    """`; did you mean NAME?` to end a sentence with; "" where no name is near."""
    found = nearest(word, known)
    return f"; did you mean {found}?" if found else ""


def guess_among(word: object, known: Iterable[object], *, most: int = 30) -> str:
    """The end of a sentence about a name that nobody knows: the nearest one, else which there are."""
    names = list(dict.fromkeys(map(str, known)))
    if guess := did_you_mean(word, names):
        return guess
    listed = ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
    return f"; there {'is' if len(names) == 1 else 'are'} {listed or 'none'}."
