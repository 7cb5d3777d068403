"""The columns of a list that say what the right answer is: wordings, choices, which of them is right, the task."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal

from evprof.core.vocabulary.scoring import LETTERS, MOST_ANSWERS, ExpectedAnswer
from evprof.loaders.json_lines import decimal_of
from evprof.loaders.manifests.counterparts import type_name
from evprof.loaders.manifests.rows import ManifestProblems, shown

TIMES: Mapping[str, str] = {"start": "start_us", "duration": "duration_us", "video_offset": "video_offset_us"}
"""Field of a row -> field of a sample."""

UNITS_US: Mapping[str, int] = {"_ms": 1000, "_us": 1, "_s": 1_000_000}
"""What the end of a column's name says, the preferred spelling first."""

_LONGEST_US = 2**60


def time_columns(field: str) -> tuple[str, ...]:
    """What the column of a time may be called."""
    return tuple(f"{field}{unit}" for unit in UNITS_US)


def time_us(column: str, value: object) -> int | None:
    """The time of a cell, exact to the µs; None for an empty cell. Raises ValueError with a clause of what is wrong."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    unit = next(factor for ending, factor in UNITS_US.items() if column.endswith(ending))
    number = _number(value)
    if number is None or not abs(number * unit) < _LONGEST_US:
        raise ValueError(f"its {column} should be a time, not '{shown(str(value), 40)}'")
    return round(number * unit)


def _number(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    # Through text: 0.1 is a tenth, not the nearest float.
    return decimal_of(str(value))


EXPECTED: Mapping[str, tuple[str, ...]] = {
    "reference": ("reference", "answer", "reference_answer", "ground_truth", "expected"),
    "also": ("answers", "references", "accepted_answers"),
    "choices": ("choices", "options", "candidates"),
    "right": ("right_choice", "correct_choice", "correct_option", "correct_answer", "answer_index"),
    "task": ("task", "task_type", "question_type", "event_data_type", "data_type", "topic", "category"),
}
"""What is read -> what its column may be called, the preferred name first."""

LONGEST_ANSWERS = 100_000
"""Characters of all answers, or of all choices, of one row."""

LONGEST_TASK = 100

ODD_ANSWERS = "answers that are none"

_LETTERED = re.compile(r"\s*[(\[]?([A-Za-z])[)\].:]\s*(.*)", re.DOTALL)
_LETTER = re.compile(r"\s*[(\[]?([A-Za-z])[)\].:]?\s*")


class ExpectedCells:
    """Reads the columns of EXPECTED; what cannot be read is told, with its row."""

    def __init__(self, problems: ManifestProblems) -> None:
        self._problems = problems

    def of(self, number: int, cells: Mapping[str, object]) -> tuple[str | None, ExpectedAnswer | None]:
        """The first right answer of a row and what else it expects; cells are by the keys of EXPECTED."""
        answers = self._texts(number, cells.get("reference"), "reference answer")
        answers += self._texts(number, cells.get("also"), "answers")
        answers = list(dict.fromkeys(answers))
        task = self._task(number, cells.get("task"))
        choices = self._choices(number, cells.get("choices"))
        if not choices:
            told = ExpectedAnswer(also=tuple(answers[1:]), task=task)
            return (answers[0] if answers else None), None if told == ExpectedAnswer() else told
        right = self._right(number, cells, choices, answers)
        if right is None:
            return (answers[0] if answers else None), ExpectedAnswer(tuple(answers[1:]), choices, None, task)
        return choices[right], ExpectedAnswer((), choices, right, task)

    def _tell(self, number: int, words: str) -> None:
        self._problems.add(ODD_ANSWERS, f"Row {number}: {words}")

    def _texts(self, number: int, value: object, what: str) -> list[str]:
        """The texts of a cell: one, a list of them, or SQuAD's table with a list called `text`; numbers as texts."""
        if isinstance(value, dict) and "text" in value:
            value = value["text"]
        if isinstance(value, str) and what != "reference answer":
            value = _listed(value)
        entries = value if isinstance(value, list) else [] if value is None else [value]
        found = [text for text in (_text(entry) for entry in entries) if text]
        odd = next((entry for entry in entries if _text(entry) is None), None)
        if odd is not None:
            self._tell(number, f"its {what} should be a text, not {type_name(odd)}.")
        if len(found) > MOST_ANSWERS:
            self._tell(number, f"has {len(found):,} answers; the first {MOST_ANSWERS} are read.")
            found = found[:MOST_ANSWERS]
        if sum(map(len, found)) > LONGEST_ANSWERS:
            count = sum(map(len, found))
            self._tell(number, f"has {count:,} characters of right answers, more than {LONGEST_ANSWERS:,} allowed.")
            return []
        return found

    def _choices(self, number: int, value: object) -> tuple[str, ...]:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, str):
            value = _listed(value)
        if value is None or value == []:
            return ()
        if not isinstance(value, list):
            self._tell(number, f"its choices should be a list, not {type_name(value)}; they are left out.")
            return ()
        found = [_text(entry) for entry in value]
        if any(not text for text in found):
            self._tell(number, "one of its choices is no text or empty; they are left out.")
            return ()
        texts = _without_letters([text for text in found if text])
        if not 2 <= len(texts) <= len(LETTERS) or sum(map(len, texts)) > LONGEST_ANSWERS:
            self._tell(
                number,
                f"has {len(texts):,} choices; 2 to {len(LETTERS)} of at most {LONGEST_ANSWERS:,} characters in all are "
                "read, so they are left out.",
            )
            return ()
        return tuple(texts)

    def _right(
        self, number: int, cells: Mapping[str, object], choices: tuple[str, ...], answers: list[str]
    ) -> int | None:
        """The place of the right choice: as its own column says, else the answer."""
        value = cells.get("right")
        told = value if value is not None and value != "" else (answers[0] if answers else None)
        if told is None:
            return None
        found = _place(told, choices)
        if found is None:
            self._tell(number, f"'{shown(str(told), 40)}' is none of its choices; it is not scored.")
        return found

    def _task(self, number: int, value: object) -> str:
        if value is None:
            return ""
        text = _text(value)
        if text is None:
            self._tell(number, f"its task should be a text, not {type_name(value)}.")
            return ""
        return shown(" ".join(text.split()), LONGEST_TASK)


def _text(value: object) -> str | None:
    """A stripped text, of a number its digits; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    text = value if isinstance(value, str) else str(value)
    return text.encode("utf-8", errors="replace").decode("utf-8").replace("\0", "?").strip()


def _listed(text: str) -> list[object]:
    """A cell that holds several texts: a JSON list or table, or texts divided by `|`."""
    if text.lstrip()[:1] in ("[", "{"):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            found = list(found.values())
        if isinstance(found, list):
            return found
    return [part for part in text.split("|") if part.strip()]


def _without_letters(choices: list[str]) -> list[str]:
    """Choices without the letters in front of them, where each has its own: `A. a car`, `(B) a bus`."""
    found = [_LETTERED.fullmatch(choice) for choice in choices]
    letters = [match[1].upper() if match else "" for match in found]
    if letters != list(LETTERS[: len(choices)]) or not all(match and match[2].strip() for match in found):
        return choices
    return [match[2].strip() for match in found if match]


def _place(told: object, choices: tuple[str, ...]) -> int | None:
    """Which choice is meant: by its text, its letter, or its number from 0."""
    text = _text(told)
    if text is None:
        return None
    same = [place for place, choice in enumerate(choices) if choice.casefold() == text.casefold()]
    if len(same) == 1:
        return same[0]
    lettered = _LETTERED.fullmatch(text)
    letter = _LETTER.fullmatch(text)
    named = letter[1] if letter else lettered[1] if lettered else ""
    place = LETTERS.index(named.upper()) if named else int(text) if re.fullmatch("[0-9]{1,2}", text) else -1
    return place if 0 <= place < len(choices) else None
