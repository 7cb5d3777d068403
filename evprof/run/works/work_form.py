"""What the window can have done by a command, as plain data: forms in words of their own, and lines of progress."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evprof.core.plain import Plain
from evprof.core.vocabulary.drafters import KINDS

SUITE_SESSION = "suite.evprof"

MEASURE_SUITE, COLLECT, TRAIN = "measure_suite", "collect_examples", "train_adapter"

FILE, FOLDER, PLACE, WORD, FLAG, MORE = "file", "folder", "place", "word", "flag", "more"
"""Kinds of values: a file that is there, a folder, a place to write to, any other word, yes or no; MORE are words of
the command line."""

ON = "yes"

_SEE_HELP = re.compile(r"; see evprof [\w -]+ --help\.$")
"""What a form tells itself."""


@dataclass(frozen=True)
class WorkField:
    """A value of a form. `option` is "" for a value that the command line knows by its position.

    `choices` are pairs of value and text. `comes_from` names the work whose output the value is.
    """

    name: str
    option: str
    title: str
    help: str = ""
    kind: str = WORD
    choices: tuple[tuple[str, str], ...] = ()
    comes_from: str = ""

    @property
    def is_required(self) -> bool:
        """Whether the command needs it: what it knows by its position, its output, and what trains."""
        return self.kind != MORE and (not self.option or self.option in _REQUIRED)


_REQUIRED = ("--output", "--kind")
_MORE = WorkField("more", "", "More options", "options of the command line, such as --limit 5", MORE)


@dataclass(frozen=True)
class WorkForm:
    """A kind of work: its name in the code, what the menu calls it, the words that begin its command, and its fields.

    `result` is what of the place it writes to, the value of `output`, can be opened, relative to that place; None:
    nothing. `is_sized`: what it would measure can be said before. `follows_up` takes what this one made.
    """

    name: str
    title: str
    words: tuple[str, ...]
    text: str
    fields: tuple[WorkField, ...]
    result: str | None = None
    can_resume: bool = False
    is_sized: bool = False
    follows_up: str = ""

    def argv(self, values: Mapping[str, str]) -> list[str]:
        """The command's words for the values given, by field name. What is empty is not given."""
        options, places = list[str](), list[str]()
        for entry in self.fields:
            value = values.get(entry.name, "").strip()
            if not value:
                continue
            if entry.kind == MORE:
                options += _words(value)
            elif not entry.option:
                # A name that begins with a dash is no option.
                places.append(f"./{value}" if value.startswith("-") else value)
            else:
                # In one word: a value may begin with a dash.
                options.append(entry.option if entry.kind == FLAG else f"{entry.option}={value}")
        resume = ["--resume"] if self.can_resume and values.get("resume") == ON else []
        return [*self.words, *places, *options, *resume]

    def missing(self, values: Mapping[str, str]) -> list[WorkField]:
        return [entry for entry in self.fields if entry.is_required and not values.get(entry.name, "").strip()]

    def in_its_words(self, sentence: str) -> tuple[WorkField | None, str]:
        """What the command says of an option (`--repeat: must be …`): the field, and the sentence with its title."""
        option, _, rest = sentence.partition(": ")
        entry = next((entry for entry in self.fields if option and option == entry.option), None)
        told = sentence if entry is None else f"{entry.title}: {rest}"
        return entry, _SEE_HELP.sub(".", told)

    def made(self, values: Mapping[str, str]) -> Path | None:
        place = values.get("output", "").strip()
        return None if self.result is None or not place else Path(place) / self.result


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quote
        return [text]


_OUTPUT = WorkField("output", "--output", "Output folder", kind=PLACE)
_MODELS = (
    WorkField("draft", "--draft", "Draft model", "the bundled model, or a checkpoint folder", FOLDER),
    WorkField("target", "--target", "Target model", "the bundled model, or a checkpoint folder", FOLDER),
)

_KINDS = tuple((kind.key, f"{kind.word}: {kind.sentence}") for kind in KINDS.values() if kind.sizes)

FORMS = (
    WorkForm(
        MEASURE_SUITE,
        "Measure a suite",
        ("suite",),
        "Measures many configurations, and writes a session and a report.",
        (
            WorkField("suite", "", "Suite", "Or a grid file (TOML, JSON).", FILE),
            WorkField("data", "--data", "Samples", "Or a list of samples (CSV, JSON).", FILE),
            *_MODELS,
            WorkField("repeat", "--repeat", "Repetitions", "as the suite says"),
            _OUTPUT,
            _MORE,
        ),
        SUITE_SESSION,
        can_resume=True,
        is_sized=True,
    ),
    WorkForm(
        "convert",
        "Convert recordings",
        ("convert",),
        "Converts event recordings, videos, frames and lists of samples.",
        (
            WorkField("input", "", "Read", "A recording, a video, a folder, or a list of samples.", FILE),
            WorkField("output", "--output", "Write to", "The ending decides the format.", PLACE),
            WorkField("overwrite", "--overwrite", "Replace existing files", kind=FLAG),
            _MORE,
        ),
        "",
    ),
    WorkForm(
        COLLECT,
        "Collect examples for an adapter",
        ("adapter", "collect"),
        "The target answers a list of samples; the hidden states of both models are kept.",
        (
            WorkField("manifest", "", "List of samples", "A CSV or JSON file.", FILE),
            *_MODELS,
            _OUTPUT,
            _MORE,
        ),
        follows_up=TRAIN,
    ),
    WorkForm(
        TRAIN,
        "Train an adapter",
        ("adapter", "train"),
        "Trains a drafter on collected examples.",
        (
            WorkField("data", "", "Examples", "The folder of collected examples.", FOLDER, comes_from=COLLECT),
            WorkField("kind", "--kind", "Kind", choices=_KINDS),
            _OUTPUT,
            _MORE,
        ),
        follows_up="evaluate_adapter",
    ),
    WorkForm(
        "evaluate_adapter",
        "Evaluate an adapter",
        ("adapter", "evaluate"),
        "Measures an adapter on samples that it was not trained on.",
        (
            WorkField("adapter", "", "Adapter", "The folder of an adapter.", FOLDER, comes_from=TRAIN),
            WorkField("data", "", "Samples", "A list of samples, or a folder of examples.", FILE),
            WorkField("repeat", "--repeat", "Repetitions", "3"),
            _MORE,
        ),
    ),
)


@dataclass(frozen=True)
class WorkSize:
    """What work would do: one sentence, and the number of runs by role."""

    sentence: str
    runs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Works:
    """How the window has work done. `argv` makes the argument list of a process that prints `WorkProgress` lines.

    `check` says in a sentence why a command's words are not valid, "" if they are. `size` says what a suite would
    measure; it reads files. `suites` are names and titles of ready-made suites.
    """

    argv: Callable[[Sequence[str]], list[str]]
    check: Callable[[Sequence[str]], str]
    size: Callable[[Sequence[str]], WorkSize] = lambda _: WorkSize("")
    suites: Callable[[], Sequence[tuple[str, str]]] = tuple


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
