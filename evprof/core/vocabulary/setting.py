"""What a setting says of itself, and when it counts. A field of a settings class carries one: see `setting`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, get_args

from evprof.core.errors import UsageError
from evprof.core.plain import hints_of
from evprof.core.vocabulary.families import FAMILIES, READ_BY
from evprof.core.vocabulary.modes import Mode, mode_of

T = TypeVar("T")

LOSSLESS, ROUNDED, LOSSY, INPUT = "lossless", "rounded", "lossy", "input"
"""What a setting does to the answer: nothing; nothing but rounding; it may change it; it changes what is asked."""

EFFECT_WORDS = {
    LOSSLESS: "Same answer.",
    ROUNDED: "Same answer but for rounding.",
    LOSSY: "May change the answer.",
    INPUT: "",
}


@dataclass(frozen=True)
class Situation:
    """What decides whether a setting counts: the mode, all settings by name, and the models that take part.

    `families` by role; a role that is missing or None has a model of which nobody knows the family.
    `keeps_roles`: such a one is of a family that its role is offered for; else of any.
    `roles` are the models that take part (default: those of the mode). `has_cuda` is False where no model that takes
    part can be on a CUDA device.
    """

    mode: str
    values: Mapping[str, Any]
    families: Mapping[str, str | None] = field(default_factory=dict)
    roles: tuple[str, ...] | None = None
    has_cuda: bool = True
    keeps_roles: bool = False

    @property
    def described(self) -> Mode:
        return mode_of(self.mode)

    @property
    def taking_part(self) -> tuple[str, ...]:
        return self.described.roles if self.roles is None else self.roles

    @property
    def reading(self) -> tuple[str, ...]:
        return tuple(role for role in self.taking_part if role in self.described.reading)

    def reads(self, role: str) -> str:
        chosen = str(self.values[f"{role}_input"])
        return READ_BY[role] if chosen == "auto" else chosen

    def may_be(self, role: str, keys: tuple[str, ...]) -> bool:
        known = self.families.get(role)
        if known in FAMILIES:
            return known in keys
        return not self.keeps_roles or any(FAMILIES[key].reads == READ_BY[role] for key in keys if key in FAMILIES)


Condition = Callable[[Situation], str]
"""Why a setting changes nothing in a situation, in a sentence; "" where it counts."""

Refusal = Callable[[Situation, Any], str]
"""Why a value cannot be taken in a situation, in a sentence; "" where it can."""

Words = str | Mapping[Any, str] | Callable[[Any, Mapping[str, Any]], str]
"""A value in words: a template such as "canvas {}", words by value, or a function of it and all values by name."""

Check = Callable[[Any], str]
"""What a value must be, as it follows "must be"; "" where it is."""

KEY = "setting"
"""Where a field's metadata keeps its description."""


@dataclass(frozen=True)
class Range:
    """The numbers of a setting: from `least` to `most` (None: no limit); `is_above`: `least` itself is excluded.

    A control shows them with `decimals`, in steps of `step`, up to `shown` (0: `most`), as percent where `is_share`.
    `low` names the lowest value, or None below it.
    """

    least: float | None = None
    most: float | None = None
    is_above: bool = False
    shown: float = 0
    step: float = 1
    decimals: int = 0
    is_share: bool = False
    low: str = ""

    @property
    def scale(self) -> int:
        return 100 if self.is_share else 1

    def holds(self, value: Any) -> bool:
        if self.least is None:
            return True
        is_enough = value > self.least if self.is_above else value >= self.least
        return is_enough and (self.most is None or value <= self.most)

    def text(self, *, has_none: bool) -> str:
        """What a number must do, as it follows "must": "be at least 1"."""
        least = self.least or 0
        if self.most is None:
            named = f" ({self.low})" if self.low and not has_none else ""
            return f"be at least {least:g}" if least else f"be 0{named} or more"
        return f"lie {'above' if self.is_above else 'from'} {least:g} {'and up ' * self.is_above}to {self.most:,.12g}"


@dataclass(frozen=True)
class Setting:
    """A setting, described once for every reader. `key`, `group` (the class it is a field of), `kind` and `default` are
    its field's.

    For people: `name`; `tip`, one sentence, completed by its `effect`; `head`, the section it stands under. `choices`
    are values and their words; without any it is a number within `range`, a text, or on and off. `check` adds a
    condition. `is_free`: other words than the choices may be typed. `has_control`: the settings popover shows it;
    `is_advanced`: only `--help-all` lists it.

    `option` is its name on the command line without dashes ("": its key), `metavar` what stands for a value there;
    `is_per_role`: there is one for each model.

    In tables of runs: `label` words a value that is not the default in a run's label ("": not at all), `text` any value
    in a table, `axis` in the label of a suite's cell. `row` is the key of its row where that differs from its own;
    `told_with` is the setting whose row words this one, too. `is_told_idle`: it has its row even where it changes
    nothing.

    `idle` says why it changes nothing, `refuses` why a value cannot be taken, `is_lossy` which values may change the
    answer where not all do.
    """

    name: str
    tip: str
    head: str = ""
    effect: str = LOSSLESS
    choices: tuple[tuple[Any, str], ...] = ()
    range: Range = Range()
    check: Check = lambda _: ""
    is_free: bool = False
    has_control: bool = True
    is_advanced: bool = False
    option: str = ""
    metavar: str = ""
    is_per_role: bool = False
    label: Words = ""
    text: Words = "{}"
    axis: Words = ""
    row: str = ""
    told_with: str = ""
    is_told_idle: bool = False
    idle: Condition = lambda _: ""
    refuses: Refusal = lambda _, __: ""
    is_lossy: Callable[[Any], bool] | None = None
    key: str = ""
    group: str = ""
    kind: type = str
    default: Any = None

    @property
    def has_none(self) -> bool:
        return self.default is None

    @property
    def sentence(self) -> str:
        return f"{self.tip} {EFFECT_WORDS[self.effect]}".rstrip()

    @property
    def known(self) -> tuple[Any, ...]:
        return () if self.is_free else tuple(value for value, _ in self.choices)

    @property
    def flag(self) -> str:
        """The option with its dashes: `--no-…` turns off what is on by default."""
        words = self.option or self.key.replace("_", "-")
        return f"--no-{words}" if self.default is True else f"--{words}"

    def role_flag(self, role: str) -> str:
        """The option of one model: `--draft-quant`."""
        return f"--{role}-{self.option or self.key.replace('_', '-')}"

    def words(self, value: Any, role: str = "") -> list[str]:
        """The option that asks for a value, of one model where `role` is given; nothing for None."""
        flag = self.role_flag(role) if role else self.flag
        if value is None or self.kind is bool:
            return [] if value in (None, self.default) else [flag]
        return [flag, f"{value:g}" if isinstance(value, float) else str(value)]

    def may_change_answer(self, value: Any) -> bool:
        """Whether the answer may be another one at this value than without the setting, beyond rounding."""
        return self.effect == LOSSY and value != self.default if self.is_lossy is None else self.is_lossy(value)

    def problem(self, value: Any) -> str:
        """What is wrong with a value, as it follows the setting's name: "must be at least 1, not 0."; "" when nothing
        is."""
        if self.has_none and value is None:
            return ""
        if self.known and value not in self.known:
            listed = ", ".join(str(known) for known in self.known if known is not None)
            return f"must be one of {listed}, not {value}."
        if not self.range.holds(value):
            return f"must {self.range.text(has_none=self.has_none)}, not {value}."
        said = self.check(value)
        return f"must be {said}, not {value}." if said else ""

    def validate(self, value: Any, flag: str = "") -> None:
        """Raises UserError (exit code 2) for a value that means nothing; `flag` is the option to name."""
        if said := self.problem(value):
            raise UsageError(f"{flag or self.flag} {said}")


def said(words: Words, value: Any, values: Mapping[str, Any]) -> str:
    """A value in words; numbers as short as they are exact. `values` are all settings by name."""
    try:
        if callable(words):
            return words(value, values)
        if isinstance(words, Mapping):
            return words.get(value, f"{value}")
        return words.format(f"{value:g}" if isinstance(value, float) else value)
    except (TypeError, ValueError):
        return str(value)  # of another program: not of the kind that the setting is


def setting(default: T, name: str, tip: str, head: str, effect: str = LOSSLESS, /, **described: Any) -> T:
    """A field of a settings class, described: its default, and a Setting of it as the field's metadata.

    `described` may name another `default`, which people get who ask for nothing.
    """
    described = {"default": default, **described}
    found: Any = field(default=default, metadata={KEY: Setting(name, tip, head, effect, **described)})
    return found  # type: ignore[no-any-return]  # what a dataclass reads as a field, a type checker reads as its default


def settings_in(kind: Any, group: str = "") -> tuple[Setting, ...]:
    """The settings that a settings class describes, with their keys, types and the group they are kept in."""
    hints = hints_of(kind)
    return tuple(
        replace(
            entry.metadata[KEY], key=entry.name, group=group, kind=(*get_args(hints[entry.name]), hints[entry.name])[0]
        )
        for entry in fields(kind)
        if KEY in entry.metadata
    )
