"""Whether runs were made alike enough to be compared, which figures still can be, and the sentence that says so.

What a run does not tell is neither equal nor different.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from evprof.core.errors import UserError
from evprof.core.run_info import PLACE, PLACES_AT_WORK
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.figures import (
    ARITHMETIC,
    FIGURES,
    MACHINE,
    METER,
    MODEL,
    OF_ANSWER,
    PROMPT,
    SAMPLE,
    SECTIONS,
)
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.comparison.figures import READERS
from evprof.metrics.configurations.gathering import Configuration, machine_of, on_machines_of_both
from evprof.metrics.figures.decoding import answer_length
from evprof.metrics.figures.kept import kept
from evprof.metrics.figures.stages import END_TO_END

Told = dict[str, str | float]
"""Values by what they belong to ("" if there is one): only values that belong to the same are compared."""


@dataclass(frozen=True)
class Circumstance:
    """A fact that figures depend on (`aspect`, see `Figure.depends_on`), and where it is in a run.

    `source`: "environment.KEY"; "gpu.KEY", the higher of the readings before and after the run; "model.KEY", of each
    model; or the name of a function of the run. `belongs_to`: what a value of the environment belongs to. `device`: the
    only kind of device for which it counts. Numbers are equal within `tolerance`, a part of the larger; of several
    runs their median counts. `is_matched`: one common value is enough. `is_chosen_by_machine`: a setting that "auto"
    leaves to the machine; on one machine it was set.
    """

    name: str
    aspect: str
    source: str
    belongs_to: str = ""
    device: str = ""
    tolerance: float = 0.0
    unit: str = ""
    is_matched: bool = False
    is_chosen_by_machine: bool = False

    def values_in(self, run: RunLog) -> Told:
        """The values of a run; {} if it has none."""
        info, environment = run.info, run.info.environment
        place, _, key = self.source.partition(".")
        device = model.device if (model := info.models.get(info.role)) else ""
        kind = device.partition(":")[0]
        if self.device not in ("", kind):
            return {}
        if place == "model":
            return {one.name: value for one in info.models.values() if _is_value(value := getattr(one, key))}
        if place == "gpu":
            states = [environment[when] for when in ("gpu", "gpu_end") if isinstance(environment.get(when), dict)]
            numbers = [state[key] for state in states if isinstance(state.get(key), int | float)]
            return {str(environment.get("device")): max(numbers)} if numbers else {}
        if place == "environment":
            names = " + ".join(sorted(one.name for one in info.models.values()))
            owners = {"kind": kind, "card": device, "processor": str(environment.get("processor")), "models": names}
            value = environment.get(key)
            if key == "python" and isinstance(value, str):
                value = ".".join(value.split(".")[:2])
            return {owners.get(self.belongs_to, ""): value} if _is_value(value) else {}
        return _OF_RUN[place](run)


def _is_value(value: Any) -> bool:
    return isinstance(value, str | float | int) and not isinstance(value, bool) and value != ""


def _prompt(run: RunLog) -> Told:
    return {"": run.info.sample.prompt} if run.info.sample.prompt else {}


def _sample(run: RunLog) -> Told:
    """The hashes of the contents, which do not depend on the place of the files; else the name."""
    sample = run.info.sample
    clip = f" {sample.clip_text}".rstrip()
    contents = {"events": sample.events_hash, "video": sample.video_hash}
    hashes: Told = {half: f"{digest[-8:]}{clip}" for half, digest in contents.items() if digest}
    return hashes or ({"": sample.name} if sample.name else {})


@kept()
def meters(run: RunLog) -> Told:
    """The source of a device's energy: its own counter, or its power."""
    from evprof.metrics.figures.energy import COUNTER, POWER

    return {
        device: COUNTER if any(record.energy_uj >= 0 for record in records[:2]) else POWER
        for device, records in run.power.items()
    }


_OF_RUN = {"prompt": _prompt, "sample": _sample, "meters": meters}

CIRCUMSTANCES = (
    Circumstance("prompt", PROMPT, "prompt", is_matched=True),
    Circumstance("sample", SAMPLE, "sample", is_matched=True),
    Circumstance("files of {}", MODEL, "model.content"),
    Circumstance("place", MACHINE, f"environment.{PLACE}"),
    Circumstance("device", MACHINE, "environment.device", "kind"),
    Circumstance("torch", MACHINE, "environment.torch"),
    Circumstance("driver", MACHINE, "environment.driver", device="cuda"),
    Circumstance("power limit", MACHINE, "gpu.power_limit_w", tolerance=0.01, unit="W"),
    Circumstance("clocks", MACHINE, "gpu.clocks_mhz", tolerance=0.1, unit="MHz"),
    # A run takes as many threads as its models can use.
    Circumstance("threads", MACHINE, "environment.threads", "models", device="cpu"),
    Circumstance("engines at once", MACHINE, f"environment.{PLACES_AT_WORK}"),
    Circumstance("arithmetic of {}", ARITHMETIC, "model.dtype", is_chosen_by_machine=True),
    Circumstance("evprof", MACHINE, "environment.evprof"),
    Circumstance("processor", MACHINE, "environment.processor"),
    Circumstance("processors", MACHINE, "environment.cpus", "processor"),
    Circumstance("card", MACHINE, "environment.gpu_id", "card"),
    Circumstance("CUDA", MACHINE, "environment.cuda", device="cuda"),
    Circumstance("Triton", MACHINE, "environment.triton", device="cuda"),
    Circumstance("transformers", MACHINE, "environment.transformers"),
    Circumstance("Python", MACHINE, "environment.python"),
    Circumstance("float32 products", ARITHMETIC, "environment.float32_matmul"),
    Circumstance("energy source of {}", METER, "meters"),
)
"""In the order in which a sentence names them."""


TOKEN_MATCH = "token_match"
"""What answers are compared by."""

MOST_BRIEF, MOST_NAMED, MOST_VALUES, MOST_SHOWN = 2, 4, 3, 40
"""Differences that a short and a whole sentence name, values of each, and letters of a value."""

Value = str | float
Values = dict[tuple[Circumstance, str], list[Value]]


@dataclass(frozen=True)
class RunsDifference:
    """A difference: `values` are those of every column as text, [] where a column has none."""

    name: str
    aspect: str
    values: list[list[str]]

    @property
    def words(self) -> str:
        """`torch (2.11.0 or 2.13.0)`."""
        texts = list(dict.fromkeys(text for texts in self.values for text in texts))
        shown = [*texts[: MOST_VALUES - 1], "…"] if len(texts) > MOST_VALUES else texts
        return f"{self.name} ({' or '.join(shown)})"


@dataclass(frozen=True)
class Comparability:
    """`figures` are those that the columns have, `comparable` the ones that no difference touches. `unknown`: places of
    columns whose machine is not told while that of another is; `unknown_names` are what they are called."""

    differences: tuple[RunsDifference, ...]
    figures: tuple[str, ...]
    comparable: tuple[str, ...]
    unknown: tuple[int, ...] = ()
    unknown_names: tuple[str, ...] = ()

    @property
    def is_comparable(self) -> bool:
        return not self.differences

    @property
    def sentence(self) -> str:
        """What to say above a table; "" where there is nothing to say."""
        parts, names = [], [difference.words for difference in self.differences]
        if names:
            if len(names) > MOST_NAMED:
                names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} other facts"]
            left = _titles(self.figures, self.comparable)
            of_figures = f"only {listed_words(left)} can be compared" if left else "no figure can be compared"
            parts.append(f"The runs differ in {listed_words(names)}; {of_figures}.")
        if self.unknown:
            parts.append(f"It is not known on which machine {listed_words(self.unknown_names)} ran.")
        return " ".join(parts)

    @property
    def brief(self) -> str:
        """How much differs and how many figures are left, for where the sentence is folded away."""
        if not self.differences:
            return self.sentence
        names = [difference.name for difference in self.differences]
        what = listed_words(names) if len(names) <= MOST_BRIEF else f"{len(names)} facts that nobody set"
        left = f"{len(self.comparable)} of {len(self.figures)} figures" if self.comparable else "no figure"
        return f"The runs differ in {what}; {left} can be compared."

    def require(self) -> None:
        """Raises UserError with the sentence unless the runs are comparable."""
        if not self.is_comparable:
            raise UserError(self.sentence)

    def to_json(self) -> dict[str, Any]:
        """`comparability` of the `compare` document."""
        return {
            "is_comparable": self.is_comparable,
            "differences": [
                {"name": found.name, "aspect": found.aspect, "values": found.values} for found in self.differences
            ],
            "comparable_figures": list(self.comparable),
            "unknown": list(self.unknown),
            "sentence": self.sentence,
        }


def comparability(listed: Sequence[Configuration], baseline: int = 0) -> Comparability:
    """Whether columns can be compared with the one at index `baseline`, over what one machine ran for both."""
    found: dict[tuple[Circumstance, str], None] = {}
    base = listed[baseline]
    whole = [_values(column.runs) for column in listed]
    for column, own in zip(listed, whole, strict=True):
        if column is not base:
            one, two = on_machines_of_both(base, column)
            is_all = one is base.runs and two is column.runs
            sides = (whole[baseline], own) if is_all else (_values(one), _values(two))
            found |= dict.fromkeys(_differences(*sides))
    ordered = sorted(found, key=lambda entry: CIRCUMSTANCES.index(entry[0]))
    values = whole if ordered else []
    differences = tuple(
        RunsDifference(
            entry[0].name.format(entry[1]),
            entry[0].aspect,
            [[_text(entry[0], value) for value in own.get(entry, ())] for own in values],
        )
        for entry in ordered
    )
    figures = _figures(listed)
    aspects = {difference.aspect for difference in differences}
    unknown = _unknown(listed)
    return Comparability(
        differences,
        figures,
        tuple(key for key in figures if aspects.isdisjoint(_depends_on(key, listed))),
        unknown,
        tuple(listed[place].cell or f"run {listed[place].run_id}" for place in unknown),
    )


def _values(runs: Iterable[RunLog]) -> Values:
    """What runs give of every circumstance, each value once; of numbers with a tolerance the median."""
    found: dict[tuple[Circumstance, str], dict[Value, None]] = {}
    numbers: dict[tuple[Circumstance, str], list[float]] = {}
    for run in runs:
        for circumstance in CIRCUMSTANCES:
            for of, value in circumstance.values_in(run).items():
                if circumstance.tolerance and not isinstance(value, str):
                    numbers.setdefault((circumstance, of), []).append(value)
                else:
                    found.setdefault((circumstance, of), {})[value] = None
    return {key: list(values) for key, values in found.items()} | {
        key: [median(values)] for key, values in numbers.items()
    }


def _differences(one: Values, two: Values) -> list[tuple[Circumstance, str]]:
    found = [
        (circumstance, of)
        for (circumstance, of), values in one.items()
        if (others := two.get((circumstance, of))) and not _are_alike(circumstance, values, others)
    ]
    own = {circumstance.aspect for circumstance, _ in found if not circumstance.is_chosen_by_machine}
    is_elsewhere = MACHINE in own
    return [entry for entry in found if is_elsewhere or not entry[0].is_chosen_by_machine]


def _are_alike(circumstance: Circumstance, one: Sequence[Value], two: Sequence[Value]) -> bool:
    if circumstance.is_matched:
        return not set(one).isdisjoint(two)
    return all(
        any(_is_within(value, other, circumstance.tolerance) for other in others)
        for values, others in ((one, two), (two, one))
        for value in values
    )


def _is_within(one: Value, two: Value, tolerance: float) -> bool:
    if isinstance(one, str) or isinstance(two, str):
        return one == two
    return abs(one - two) <= tolerance * max(abs(one), abs(two))


def _text(circumstance: Circumstance, value: Value) -> str:
    if not isinstance(value, str):
        return f"{value:g} {circumstance.unit}".rstrip()
    words = " ".join(value.split())
    return words if len(words) <= MOST_SHOWN else f"{words[: MOST_SHOWN - 1]}…"


def _figures(listed: Sequence[Configuration]) -> tuple[str, ...]:
    """The figures that a column's first run has, and the match of tokens."""
    firsts = [column.runs[0] for column in listed]
    known = [
        key for key, read in READERS.items() if any(read(run, run.info.role, END_TO_END) is not None for run in firsts)
    ]
    return (*known, *([TOKEN_MATCH] if any(map(answer_length, firsts)) else []))


def _depends_on(key: str, listed: Sequence[Configuration]) -> tuple[str, ...]:
    if key == TOKEN_MATCH:
        return OF_ANSWER
    figure, drafts = FIGURES[key], any(mode_of(column.runs[0].info.mode).drafts for column in listed)
    return (*figure.depends_on, *(figure.with_drafts if drafts else ()))


def _unknown(listed: Sequence[Configuration]) -> tuple[int, ...]:
    told = [any(machine_of(run.info) for run in column.runs) for column in listed]
    return tuple(place for place, is_told in enumerate(told) if not is_told) if any(told) else ()


def _titles(figures: Sequence[str], kept: Sequence[str]) -> list[str]:
    """The figures of `kept` in words: a whole section by its name."""
    titles = ["answers"] if TOKEN_MATCH in kept else []
    for section in SECTIONS:
        inside = [key for key in figures if key != TOKEN_MATCH and FIGURES[key].head == section]
        left = [FIGURES[key].title for key in inside if key in kept]
        titles += [section.lower()] if len(left) > 1 and len(left) == len(inside) else left
    return titles


def listed_words(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
