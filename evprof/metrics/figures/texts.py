"""How long generated texts are and how much two of them share: words, overlap, token F1, ROUGE-L.

Plain counting of words; nothing here knows what a text means. A figure over nothing is None, never 0.

Words. Three readings, each as the figure's source has it: by blanks, punctuation kept (`words`); as normalised by SQuAD
(`squad_words`); runs of letters and digits (`rouge_words`). In all of them each Chinese or Japanese character is a word
of its own, since these scripts put no blanks between words; Korean, Thai and the rest are read by their blanks.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

ROUGE_MOST_WORDS = 20_000
"""ROUGE-L looks at this many words of each text: its cost grows with the product of the lengths."""

OVERLAP_DEFINITION = "distinct lower-cased words of the first text that the second has too, of all it has"
JACCARD_DEFINITION = "distinct lower-cased words in both texts, of those in either"

_IDEOGRAPHS = (
    (0x3005, 0x3007),
    (0x3041, 0x3096),
    (0x309D, 0x309F),
    (0x30A1, 0x30FA),
    (0x30FC, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
"""Code points of scripts written without blanks between words: Chinese characters and Japanese kana."""


def words(text: str) -> list[str]:
    """Words as blanks divide them, punctuation and case kept: how long a text is, and what overlap is counted over."""
    return text.translate(_SPACED).split()


def squad_words(text: str) -> list[str]:
    """Words as SQuAD's evaluation normalises them: lower case, punctuation dropped, without a, an and the."""
    return _ARTICLES.sub(" ", text.lower().translate(_UNPUNCTUATED)).split()


def rouge_words(text: str) -> list[str]:
    """Lower-cased runs of letters and digits, in ASCII those of the rouge-score package, which drops other scripts."""
    return text.lower().translate(_LETTERS).split()


def word_count(text: str | None) -> int | None:
    """Words of a text; None where there is no text, 0 of an empty one."""
    return None if text is None else len(words(text))


def word_overlap(text: str | None, other: str | None) -> float | None:
    """Share of `text`'s distinct lower-cased words that `other` has too; None when `text` has none.

    The word overlap of the five documents' result files, with EventGPT's answer as `text`.
    """
    if text is None or other is None:
        return None
    own = set(words(text.lower()))
    return len(own & set(words(other.lower()))) / len(own) if own else None


def jaccard(text: str | None, other: str | None) -> float | None:
    """Distinct lower-cased words in both texts, of those in either; None when there are none."""
    if text is None or other is None:
        return None
    one, two = set(words(text.lower())), set(words(other.lower()))
    return len(one & two) / len(one | two) if one or two else None


@dataclass(frozen=True)
class Score:
    """`matched` of the candidate's and of the reference's words. `is_cut`: only the beginnings were compared."""

    matched: int
    candidate: int
    reference: int
    is_cut: bool = False

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall: 2 · matched / (candidate + reference)."""
        return 2 * self.matched / (self.candidate + self.reference)


def token_f1(candidate: str | None, reference: str | None) -> Score | None:
    """SQuAD's F1 (Rajpurkar et al. 2016): words in common, as often as both have them.

    None where there is no reference; an empty answer to a question with an answer scores 0.
    """
    if candidate is None or reference is None:
        return None
    said, wanted = squad_words(candidate), squad_words(reference)
    if not wanted:
        return None
    common = Counter(said) & Counter(wanted)
    return Score(common.total(), len(said), len(wanted))


def rouge_l(candidate: str | None, reference: str | None, most_words: int = ROUGE_MOST_WORDS) -> Score | None:
    """ROUGE-L of one text (Lin 2004, section 3): the longest common subsequence of words; F1, so beta = 1.

    None where there is no reference. Only the first `most_words` words of each are compared.
    """
    if candidate is None or reference is None:
        return None
    said, wanted = rouge_words(candidate), rouge_words(reference)
    if not wanted:
        return None
    is_cut = max(len(said), len(wanted)) > most_words
    said, wanted = said[:most_words], wanted[:most_words]
    return Score(common_subsequence(said, wanted), len(said), len(wanted), is_cut)


def common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence.

    A row of the table is one integer with a bit per word of `other` (Hyyrö 2004), so memory is linear and a step over
    a whole row is a few operations on long integers.
    """
    places: dict[str, int] = {}
    for place, word in enumerate(other):
        places[word] = places.get(word, 0) | 1 << place
    everything = (1 << len(other)) - 1
    row = everything
    for word in one:
        hits = row & places.get(word, 0)
        row = (row + hits | row - hits) & everything
    return len(other) - row.bit_count()


class _Table(dict[int, str]):
    """What becomes of each character, worked out when it is first met: text.translate takes a table that grows."""

    def __init__(self, dropped: str, replacement: str, also: str = "") -> None:
        super().__init__()
        self._dropped = dropped
        self._replacement = replacement
        self._also = also

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if any(low <= code <= high for low, high in _IDEOGRAPHS):
            found = f" {character} "
        elif unicodedata.category(character)[0] in self._dropped or character in self._also:
            found = self._replacement
        else:
            found = character
        self[code] = found
        return found


_SPACED = _Table("", "")
_UNPUNCTUATED = _Table("P", "", string.punctuation)
_LETTERS = _Table("PSZC", " ")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
