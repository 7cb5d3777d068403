"""What a command can be asked for, as plain data: a window makes a form of it without knowing the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evprof.core.plain import Plain

SUITE_SESSION = "suite.evprof"


@dataclass(frozen=True)
class WorkOffer:
    """A kind of work: its name in the code, what the menu calls it, the words that begin its command.

    `result` is what of the place it writes to, the value of `output`, can be opened, relative to that place; None:
    nothing.
    """

    name: str
    title: str
    words: tuple[str, ...]
    result: str | None = None


OFFERS = (
    WorkOffer("measure_suite", "Measure a suite", ("suite",), SUITE_SESSION),
    WorkOffer("convert", "Convert recordings", ("convert",), ""),
    WorkOffer("collect_examples", "Collect examples for an adapter", ("adapter", "collect")),
    WorkOffer("train_adapter", "Train an adapter", ("adapter", "train")),
    WorkOffer("evaluate_adapter", "Evaluate an adapter", ("adapter", "evaluate")),
    WorkOffer("measure_overhead", "Measure the observer effect", ("bench", "overhead")),
)
"""In menu order."""


FILE, FOLDER, PLACE, WORD = "file", "folder", "place", "word"
"""Kinds of values: a file that is there, a folder, a place to write to, any other word."""

FLAG, LIST = "flag", "list"
"""Kinds of fields: nothing but yes or no; several values, a line each."""

ON = "yes"

_SEE_HELP = re.compile(r"; see evprof [\w -]+ --help\.$")
"""What a form tells itself."""


@dataclass(frozen=True)
class WorkField:
    """One thing that can be given. `option` is "" for what is told by its place, `short` its other spelling, if any;
    `choices` () is anything."""

    name: str
    option: str
    help: str
    kind: str = WORD
    choices: tuple[str, ...] = ()
    is_required: bool = False
    default: str = ""
    group: str = ""
    short: str = ""

    @property
    def title(self) -> str:
        words = (self.option.lstrip("-") or self.name).replace("-", " ").replace("_", " ")
        return f"{words[:1].upper()}{words[1:]}"


@dataclass(frozen=True)
class WorkForm:
    """One kind of long work: what is offered, the command's own words about it, and what it can be asked for."""

    offer: WorkOffer
    text: str
    fields: tuple[WorkField, ...]

    def argv(self, values: Mapping[str, str]) -> list[str]:
        """The command's words for the values given, by field name. What is empty is not given."""
        words, places = list(self.offer.words), list[str]()
        for field in self.fields:
            value = values.get(field.name, "").strip()
            if not value:
                continue
            if not field.option:
                # A name that begins with a dash is no option.
                each = value.splitlines() if field.kind == LIST else [value]
                places += [f"./{word}" if word.startswith("-") else word for word in each]
            elif field.kind == FLAG:
                words.append(field.option)
            else:
                # In one word: a value may begin with a dash.
                each = value.splitlines() if field.kind == LIST else [value]
                long = field.option.startswith("--")
                words += [w for one in each for w in ([f"{field.option}={one}"] if long else [field.option, one])]
        return [*self.offer.words, *places, *words[len(self.offer.words) :]]

    def missing(self, values: Mapping[str, str]) -> list[WorkField]:
        return [field for field in self.fields if field.is_required and not values.get(field.name, "").strip()]

    def in_its_words(self, sentence: str) -> tuple[WorkField | None, str]:
        """What the command says of an option (`--runs: there is no …`): of which field that is, and the same as a form
        says it."""
        option, _, rest = sentence.partition(": ")
        field = next((field for field in self.fields if option and option in (field.option, field.short)), None)
        told = sentence if field is None else f"{field.title}: {rest}"
        return field, _SEE_HELP.sub(".", told)

    def made(self, values: Mapping[str, str]) -> Path | None:
        place = values.get("output", "").strip()
        return None if self.offer.result is None or not place else Path(place) / self.offer.result


@dataclass(frozen=True)
class Works:
    """What the window needs to have long work done: the forms, and how a program is started that does it.

    `argv` makes the argument list of a process that follows `WorkProgress` lines; `check` says in a sentence why words
    cannot be meant, "" if they can.
    """

    forms: Callable[[], Sequence[WorkForm]]
    argv: Callable[[Sequence[str]], list[str]]
    check: Callable[[Sequence[str]], str]


MARK = "\x1e"
"""Begins a line of progress. No other line begins so: what a command writes has no control characters."""

_LONGEST = 4096


@dataclass(frozen=True)
class WorkProgress(Plain):
    """What is done, how much of how much (`total` None: unknown), and what is known: "3 of 8 rows · 40 s left"."""

    title: str
    done: float
    total: float | None
    state: str

    @property
    def share(self) -> float | None:
        """0…1; None where nobody knows how much there is to do."""
        return min(self.done / self.total, 1.0) if self.total else None

    def line(self) -> str:
        """Itself as a line of text, without the line's end."""
        return MARK + json.dumps(self.to_json(), allow_nan=False)

    @classmethod
    def of_line(cls, line: str) -> WorkProgress | None:
        """The progress that a line tells; None of any other line."""
        if not line.startswith(MARK) or len(line) > _LONGEST:
            return None
        try:
            return cls.if_fitting(json.loads(line[len(MARK) :]))
        except (ValueError, RecursionError):
            return None
