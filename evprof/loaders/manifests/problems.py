"""Collects what is wrong with a list of samples, told once per thing and summed up where it is told too often."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

EventsFrom = Literal["auto", "npy", "image", "image_1f"]
VideoFrom = Literal["auto", "video", "mp4"]
Questions = Literal["first", "all"]

MAX_TURNS = 1000
"""Turns that are read of one entry."""


@dataclass(frozen=True)
class Choices:
    """Which of several forms of the same data are taken, and how many of an entry's questions."""

    questions: Questions = "first"
    events_from: EventsFrom = "auto"
    video_from: VideoFrom = "auto"


TOLD = 50
"""Sentences of one kind that are told in full."""


@dataclass
class _Kind:
    sentences: list[str] = field(default_factory=list)
    count: int = 0


class ManifestProblems:
    """Sentences by kind, in the order in which the kinds were first met. Memory does not grow with the file."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}

    def add(self, kind: str, sentence: str) -> None:
        """One problem; `kind` says what many of them are, as "rows without a video"."""
        found = self._kinds.setdefault(kind, _Kind())
        found.count += 1
        if len(found.sentences) < TOLD:
            found.sentences.append(sentence)

    def once(self, sentence: str) -> None:
        """A problem that is told a single time, however often it is met."""
        if sentence not in self._kinds:
            self._kinds[sentence] = _Kind([sentence], 1)

    def count(self, kind: str) -> int:
        return self._kinds[kind].count if kind in self._kinds else 0

    def sentences(self) -> tuple[str, ...]:
        """All of them; of a kind met more than TOLD times the rest is a number."""
        told: list[str] = []
        for name, kind in self._kinds.items():
            told += kind.sentences
            if kind.count > len(kind.sentences):
                told.append(f"… and {kind.count - len(kind.sentences):,} more {name}.")
        return tuple(told)


def shown(text: str, longest: int = 120) -> str:
    """A name or path from a file, fit for a sentence: on one line, without control characters, not endless."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(letter if letter.isprintable() else "�" for letter in cut)
