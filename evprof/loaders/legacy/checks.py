"""Whether a file's numbers can be what their keys say: types, units, sums; what cannot is counted and told per file.

A value that fails a check is None from then on: nothing is mended by guess.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.loaders.legacy.rows import SIDE_BY_SIDE, Interval, LegacyModel, LegacyRow

MS_PER_S = 1000.0
MIB = 1 << 20

SHORTEST_MS = 0.05
"""Below this nothing was measured: it is the time between two readings of the clock."""

LONGEST_S = 300.0
"""A stage of a 7B model that takes longer is in other units than its key says."""

SUM_TOLERANCE = 2e-3
"""Share by which a total may miss the sum of its parts: scripts read the clock between stages."""

_ENORMOUS = 1e100
"""No number of a result file; squares of what is below are finite."""

MOST_TOKENS = 65_536

MOST_SENTENCES = 100
"""Different findings about one file; what comes after is counted as one."""

_OTHERS = "other findings, too many to list"


@dataclass
class _Note:
    count: int = 0
    first: int | None = None
    is_counted: bool = True


@dataclass
class FileProblems:
    """Sentences about a file, each with how many rows it holds for. In order of appearance."""

    _notes: dict[str, _Note] = field(default_factory=dict)
    _of_row: list[str] = field(default_factory=list)

    def taken(self) -> list[str]:
        """What was told of rows since it was last asked."""
        found, self._of_row = self._of_row, []
        return found

    def of_row(self, sentence: str, row: int) -> None:
        """One more row for which `sentence` (without its full stop) holds."""
        self._of_row.append(sentence)
        note = self._note(sentence, is_counted=True)
        note.count += 1
        note.first = row if note.first is None else note.first

    def of_file(self, sentence: str) -> None:
        """A sentence about the whole file."""
        self._note(sentence.rstrip("."), is_counted=False)

    def _note(self, sentence: str, *, is_counted: bool) -> _Note:
        if sentence not in self._notes and len(self._notes) >= MOST_SENTENCES:
            sentence = _OTHERS
        return self._notes.setdefault(sentence, _Note(is_counted=is_counted))

    def sentences(self, rows: int) -> list[str]:
        """What was found, with counts out of `rows`."""
        return [
            f"{sentence}." if not note.is_counted else f"{sentence} ({_counted(note, rows)})."
            for sentence, note in self._notes.items()
        ]


def _counted(note: _Note, rows: int) -> str:
    if note.count == 1:
        return f"1 of {rows:,} rows: row {note.first}"
    return f"{note.count:,} of {rows:,} rows, first row {note.first}"


@dataclass
class RowCheck:
    """Reads one row, or one model's part of it; `name` says whose it is in sentences."""

    raw: Mapping[str, Any]
    row: int
    problems: FileProblems
    name: str

    def number(self, key: str, *, is_expected: bool = True) -> float | None:
        """A finite number; None, and told where it was expected, for null, text, truth values and other things."""
        value = self.raw.get(key)
        if (known := finite(value)) is not None:
            return known
        if is_expected:
            missing = "is not there" if key not in self.raw else "is null" if value is None else "is no number"
            self.problems.of_row(f"{self.name}: {key} {missing}", self.row)
        return None

    def count(self, key: str, *, is_expected: bool = False, most: int = 1 << 40) -> int | None:
        """A whole number of at least 0."""
        value = self.number(key, is_expected=is_expected)
        if value is None:
            return None
        if value < 0 or value > most or value != int(value):
            self.problems.of_row(f"{self.name}: {key} is no count", self.row)
            return None
        return int(value)

    def duration_ms(self, key: str, *, is_expected: bool = True) -> float | None:
        """A time in ms, from seconds unless the key says `_ms`; None when it is none, is none that was measured, or
        cannot be in that unit."""
        value = self.number(key, is_expected=is_expected)
        if value is None:
            return None
        is_ms = key.endswith("_ms")
        if value < 0:
            self.problems.of_row(f"{self.name}: {key} is negative and was left out", self.row)
            return None
        duration_ms = value if is_ms else value * MS_PER_S
        if duration_ms > LONGEST_S * MS_PER_S:
            self.problems.of_row(
                f"{self.name}: {key} is more than {LONGEST_S:.0f} s, so it is probably no time in "
                f"{'milliseconds' if is_ms else 'seconds'}, and was left out",
                self.row,
            )
            return None
        if duration_ms < SHORTEST_MS:
            self.problems.of_row(
                f"{self.name}: {key} is {_tiny_text(duration_ms)} ms: no measurement, so that stage is absent", self.row
            )
            return None
        return duration_ms

    def intervals(
        self, covers: Mapping[str, Iterable[str]], role: str, unexpected: Collection[str] = ()
    ) -> tuple[Interval, ...]:
        """The times that were measured, of the keys with what they cover; those in `unexpected` may be missing."""
        times = {key: self.duration_ms(key, is_expected=key not in unexpected) for key in covers}
        return tuple(
            Interval(key, tuple(covers[key]), duration, role) for key, duration in times.items() if duration is not None
        )

    def figures(self, names: Mapping[str, str], factor: float = 1.0) -> dict[str, float]:
        """Numbers under our names for their keys, times `factor`; those that are missing are left out."""
        found = {name: self.number(key, is_expected=False) for key, name in names.items()}
        return {name: value * factor for name, value in found.items() if value is not None}

    def text(self, key: str) -> str | None:
        value = self.raw.get(key)
        if value is None or isinstance(value, str):
            return value
        self.problems.of_row(f"{self.name}: {key} is no text", self.row)
        return None

    def ids(self, key: str) -> tuple[int, ...]:
        """Token ids; none of them, and told, when one is no id."""
        value = self.raw.get(key)
        if value is None:
            if key in self.raw:
                self.problems.of_row(f"{self.name}: {key} is null", self.row)
            return ()
        if (
            isinstance(value, list)
            and len(value) <= MOST_TOKENS
            and all(isinstance(entry, int) and not isinstance(entry, bool) and -1 <= entry < 1 << 31 for entry in value)
        ):
            return tuple(value)
        self.problems.of_row(f"{self.name}: {key} is no list of token ids", self.row)
        return ()

    def adds_up(self, total_key: str, parts: Iterable[str]) -> None:
        """Reports a total that is not the sum of its parts. Silent where one of them is missing."""
        values = [self.number(key, is_expected=False) for key in (total_key, *parts)]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return
        if differs(known[0], sum(known[1:])):
            self.problems.of_row(f"{self.name}: {total_key} is not the sum of its parts", self.row)

    def ratio_agrees(self, key: str, above: float | None, below: float | None) -> None:
        """Reports a ratio that its own row does not give."""
        told = self.number(key, is_expected=False)
        if told is not None and above is not None and below and differs(told, above / below):
            self.problems.of_row(f"{self.name}: {key} is not what its own row gives", self.row)

    def counts_agree(self, told: int | None, ids: tuple[int, ...], text: str | None) -> int | None:
        """How many tokens the answer had: the ids' number, unless they cannot be all of them."""
        if ids and text and len(ids) < len(text.split()):
            self.problems.of_row(
                f"{self.name}: fewer token ids than the text has words, so the ids are not all of its tokens and "
                "were left out",
                self.row,
            )
            return None
        if told is not None and ids and told != len(ids):
            self.problems.of_row(f"{self.name}: the number of tokens is not that of the token ids", self.row)
        return len(ids) or told

    def numbers(self) -> dict[str, float]:
        """All finite numbers of the row by their keys."""
        return {key: known for key, value in self.raw.items() if (known := finite(value)) is not None}


def _tiny_text(duration_ms: float) -> str:
    return "0.0" if duration_ms == 0 else f"below {SHORTEST_MS}"


def finite(value: object) -> float | None:
    """A number that is one; None for everything else, and for what is too large to be anything."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _ENORMOUS:  # NaN is not below
        return float(value)
    return None


NUMBERED = re.compile(r"sample -?\d+")
"""Names of samples that are numbers alone."""


def sample_name(value: object, number: int) -> str:
    """`sample 7`: by its own number where the file tells one, else by its row's."""
    index = finite(value)
    return f"sample {number if index is None else int(index)}"


def mib_bytes(value: float | None) -> int | None:
    """Mebibytes, which the files call MB, as bytes."""
    return None if value is None or not 0 <= value < 1 << 40 else round(value * MIB)


def mapping(value: object) -> dict[str, Any]:
    """A JSON object; an empty one for everything else."""
    return value if isinstance(value, dict) else {}


def differs(told: float, own: float) -> bool:
    """Whether two numbers differ by more than clocks explain."""
    return abs(told - own) > SUM_TOLERANCE * max(abs(told), 1e-9)


def ratio(above: object, below: object) -> float | None:
    """One number over another; None unless both are numbers and the second is not 0."""
    one, other = finite(above), finite(below)
    return None if one is None or not other else one / other


_ERRORS = {"egpt_error": DRAFT, "vl_error": TARGET}

UNKNOWN_MODEL = "both models"
"""The cell of a failure that names no model."""


def failed_rows(
    raw: Any, number: int, problems: FileProblems, cells: Mapping[str, tuple[str, LegacyModel]]
) -> list[LegacyRow]:
    """The rows of one entry of `errors`: one per model that the entry names, one in all when it names none.

    `cells` are the configurations by role: name and model.
    """
    if not isinstance(raw, dict):
        problems.of_row("errors: an entry is no object and was left out", number)
        return []
    check = RowCheck(raw, number, problems, "errors")
    named = {role: text for key, role in _ERRORS.items() if (text := check.text(key))}
    by_role = named or {TARGET: check.text("error") or "the file says that this sample failed, and not why"}
    for text in by_role.values():
        problems.of_row(f"errors: failed samples: {error_kind(text)}", number)
    return [
        LegacyRow(
            row=number,
            group=number,
            side="errors",
            role=role,
            mode=SIDE_BY_SIDE,
            cell=cells[role][0] if named and role in cells else UNKNOWN_MODEL,
            sample=sample_name(raw.get("sample_idx"), number),
            models={role: cells[role][1]} if named and role in cells else {},
            error=text,
        )
        for role, text in by_role.items()
    ]


_NUMBER = re.compile(r"\d[\d.,]*\d|\d")


def error_kind(text: str) -> str:
    """An error without its numbers, so that the same one of many samples counts as one."""
    return shortened(_NUMBER.sub("…", shortened(text, 400)))


def shortened(text: str, most: int = 160) -> str:
    """The first sentences of an error, for lists: printable, on one line."""
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 4 * most]).split())
    return words if len(words) <= most else f"{words[: most - 1].rsplit(' ', 1)[0]}…"
