"""Values of the cells of a list: texts, paths, times and right answers.

Functions raise ValueError with a clause about the cell, for "Row 3 is skipped, because its prompt should be a text".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from decimal import Decimal

from evprof.core.vocabulary.scoring import LETTERS, MOST_ANSWERS, ExpectedAnswer
from evprof.loaders.json_lines import decimal_of

LONGEST_TEXT = 100_000
LONGEST_NAME, LONGEST_TASK = 200, 100
LONGEST_PATH = 4096

UNITS_US = {"_ms": 1000, "_us": 1, "_s": 1_000_000}
_LONGEST_US = 2**60

_LETTERED = re.compile(r"\s*[(\[]?([A-Za-z])[)\].:]\s*(.*)", re.DOTALL)
_LETTER = re.compile(r"\s*[(\[]?([A-Za-z])[)\].:]?\s*")


def shown(text: str, longest: int = 120) -> str:
    """A text of the file for a sentence: on one line, printable, not too long."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(letter if letter.isprintable() else "�" for letter in cut)


def type_name(value: object) -> str:
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "true or false"),
        (type(None), "nothing"),
        (dict, "a table"),
        (list, "a list"),
        (str, "a text"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "a number")


def clean(text: str) -> str:
    """A stripped text. Lone surrogates and NULs, which cannot be stored, become question marks."""
    return text.encode("utf-8", errors="replace").decode("utf-8").replace("\0", "?").strip()


def text_of(value: object, what: str) -> str | None:
    """A text; None for an empty cell."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"its {what} should be a text, not {type_name(value)}")
    if len(value) > LONGEST_TEXT:
        raise ValueError(f"its {what} has {len(value):,} characters, more than {LONGEST_TEXT:,} allowed")
    return clean(value) or None


def path_of(value: object, what: str) -> str:
    """A path; "" for an empty cell."""
    if value is None or value == "":
        return ""
    if not isinstance(value, str):
        raise ValueError(f"its {what} should be a path, not {type_name(value)}")
    if len(value) > LONGEST_PATH:
        raise ValueError(f"the path of its {what} is longer than {LONGEST_PATH:,} characters")
    try:
        is_valid = b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        is_valid = False
    if not is_valid:
        raise ValueError(f"the path of its {what} holds an invalid character")
    return value.strip()


def time_us(column: str, value: object) -> int | None:
    """A time in the unit of its column, exact to the µs; None for an empty cell."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    unit = next(factor for ending, factor in UNITS_US.items() if column.endswith(ending))
    # Through text: 0.1 is a tenth, not the nearest float.
    is_number = isinstance(value, str | int | float | Decimal) and not isinstance(value, bool)
    number = decimal_of(str(value)) if is_number else None
    if number is None or not abs(number * unit) < _LONGEST_US:
        raise ValueError(f"its {column} should be a time, not '{shown(str(value), 40)}'")
    return round(number * unit)


def expected_of(cells: Mapping[str, object]) -> tuple[str | None, ExpectedAnswer | None]:
    """The first right answer and everything else that a row expects."""
    answers = list(dict.fromkeys(_texts(cells.get("reference"), "answer") + _texts(cells.get("answers"), "answers")))
    task = shown(" ".join((_answer(cells.get("task"), "task") or "").split()), LONGEST_TASK)
    choices = _without_letters(_texts(cells.get("choices"), "choices"))
    if not choices:
        expected = ExpectedAnswer(also=tuple(answers[1:]), task=task)
        return (answers[0] if answers else None), None if expected == ExpectedAnswer() else expected
    if not 2 <= len(choices) <= len(LETTERS):
        raise ValueError(f"it has {len(choices):,} choices, not 2 to {len(LETTERS)}")
    right = _answer(cells.get("right_choice"), "right choice") or (answers[0] if answers else None)
    if right is None:
        return None, ExpectedAnswer((), tuple(choices), None, task)
    place = _place(right, choices)
    return choices[place], ExpectedAnswer((), tuple(choices), place, task)


def _answer(value: object, what: str) -> str | None:
    """A text, or the digits of a number."""
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return text_of(str(value) if is_number else value, what)


def _texts(value: object, what: str) -> list[str]:
    """The texts of a cell: a list, a table, or for `answers` and `choices` a JSON list or texts separated by `|`."""
    if isinstance(value, str) and what != "answer":
        value = _listed(value)
    if isinstance(value, dict):
        value = list(value.values())
    listed = value if isinstance(value, list) else [value]
    if len(listed) > MOST_ANSWERS:
        raise ValueError(f"it has {len(listed):,} {what}, more than {MOST_ANSWERS}")
    texts = [text for text in (_answer(entry, what) for entry in listed) if text]
    if sum(map(len, texts)) > LONGEST_TEXT:
        raise ValueError(f"its {what} have more than {LONGEST_TEXT:,} characters")
    return texts


def _listed(text: str) -> object:
    if text.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    return text.split("|")


def _without_letters(choices: list[str]) -> list[str]:
    """Choices without the letters before them, if each has its own: `A. a car`, `(B) a bus`."""
    matches = [match for choice in choices if (match := _LETTERED.fullmatch(choice)) and match[2].strip()]
    if [match[1].upper() for match in matches] != list(LETTERS[: len(choices)]):
        return choices
    return [match[2].strip() for match in matches]


def _place(right: str, choices: list[str]) -> int:
    """The right choice by its text, its letter, or its number from 0."""
    same = [place for place, choice in enumerate(choices) if choice.casefold() == right.casefold()]
    letter = _LETTER.fullmatch(right) or _LETTERED.fullmatch(right)
    if len(same) == 1:
        return same[0]
    place = LETTERS.index(letter[1].upper()) if letter else int(right) if re.fullmatch("[0-9]{1,2}", right) else -1
    if not 0 <= place < len(choices):
        raise ValueError(f"its answer '{shown(right, 40)}' is none of its choices")
    return place
