"""Claims as data, the evidence for them, and the one interpreter: `claims.toml` has their ranges and sentences.

A claim is about certain models, and is judged on those alone. Measurements of other models are shown with their names,
and confirm or refute nothing.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from string import Formatter
from typing import Any

from evprof.core.run_info import FEWEST_TURNS, ModelFacts
from evprof.core.run_log import RunLog
from evprof.core.units import count_text, number_text, percent_text, times_text
from evprof.core.vocabulary.figures import WIDEST
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.arithmetic.statistics import Interval
from evprof.metrics.configurations.baselines import SessionPools
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.estimates import FEWEST_SCENES, Verdict
from evprof.metrics.estimates.observations import Read
from evprof.metrics.estimates.paired import mean_of
from evprof.metrics.limits.sizes import DeviceCeiling, ModelSizes, is_7b

CONFIRMED, REFUTED, NOT_MEASURED = "confirmed", "refuted", "not measured"

APART = "the times cannot be told apart"
PARTLY = "the interval lies only partly in the claimed range"
FEW_RUNS, FEW_SCENES = f"fewer than {FEWEST_TURNS} runs", f"fewer than {FEWEST_SCENES} scenes"
WIDE = f"the interval spans more than a factor of {WIDEST:g}"

RANDOM = "random:"

EVENTGPT = "eventgpt"
DOCUMENTS_FAMILIES = (EVENTGPT, "llava")
_16_BIT = ("float16", "bfloat16")

LIST: dict[str, Any] = tomllib.loads((Path(__file__).parent / "claims.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Evidence(SessionPools):
    """Configurations, which of them form draft-target pairs, the finished warm-up runs, and what suites noted."""

    columns: Sequence[Configuration]
    pairs: Sequence[tuple[Configuration, Configuration]] = ()
    warmups: Sequence[RunLog] = ()
    models: Mapping[str, ModelSizes] = field(default_factory=dict)
    ceilings: Sequence[DeviceCeiling] = ()

    @cached_property
    def model_pairs(self) -> list[tuple[Configuration, Configuration]]:
        """The pairs of EventGPT and a video model, each of them alone."""
        alone = [pair for pair in self.pairs if all(map(is_alone, pair))]
        return [(one, other) for one, other in alone if _family(one) == EVENTGPT != _family(other)]

    def plain(self, family: str | None = None) -> list[Configuration]:
        """Configurations without speculation, of one family of models or of all."""
        return [column for column in self.columns if is_alone(column) and family in (None, _family(column))]

    def twins(self, key: str) -> Iterator[tuple[Configuration, Configuration]]:
        """Every two configurations that differ in one setting and nothing else, the earlier first."""
        for (one, mine), (other, theirs) in combinations(zip(self.columns, self._traits, strict=True), 2):
            if {name for name in mine | theirs if mine.get(name) != theirs.get(name)} == {key}:
                yield one, other

    @cached_property
    def _traits(self) -> list[dict[str, Any]]:
        return [_traits_of(column) for column in self.columns]


Words = dict[str, Any]
"""Values in a sentence, by name."""


@dataclass(frozen=True)
class Measured:
    """A quantity of a claim over the runs of `columns`, with its 95 % interval or the range of the runs; None for
    `reason` judges nothing.

    `words` are the values in the sentences named `parts` of `claims.toml`. `whose` names what was measured, where that
    is not what the claim is about.
    """

    words: Words
    columns: tuple[Configuration, ...]
    interval: Interval | None
    parts: tuple[str, ...]
    reason: str = ""
    whose: str = ""

    @property
    def sentence(self) -> str:
        """The sentence with the number of runs and samples that it is over."""
        text = _WORDS.vformat("".join(LIST["sentences"][part] for part in self.parts), (), self.words)
        if not self.columns:
            return text
        runs = " and ".join(f"{len(column.runs):,}" for column in self.columns)
        samples = len(set().union(*(column.samples() for column in self.columns)))
        counted = count_text(samples, "sample")
        return f"{text} ({runs} {'run' if runs == '1' else 'runs'} of {counted})"


class _Words(Formatter):
    """Sentences with values in percent, in four digits, as times, and as intervals."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in ("percent", "percent1"):
            return percent_text(value, int(format_spec[7:] or 0))
        if format_spec == "number":
            return number_text(value, 3)
        if format_spec == "times":
            return times_text(value)
        if format_spec in ("interval", "span"):
            digits = 2 if format_spec == "interval" else 1
            return "" if value is None else f" [{value[0]:,.{digits}f}, {value[1]:,.{digits}f}]"
        if format_spec == "part":
            return " to ".join(dict.fromkeys(percent_text(end) for end in value))
        return str(super().format_field(value, format_spec))


_WORDS = _Words()


def compared(figure: Verdict, /, *parts: str, columns: tuple[Configuration, ...], **words: Any) -> Measured:
    words |= {"ratio": figure.ratio, "interval": figure.interval}
    return Measured(words, columns, figure.interval, parts, figure.reason)


def estimated(column: Configuration, read: Read) -> tuple[float, Interval | None] | None:
    """A figure's mean over samples with the range of its runs, None below five; None where no run has it."""
    values = [value for run in column.runs if (value := read(run)) is not None]
    mean = mean_of(column, read)
    return None if mean is None else (mean, (min(values), max(values)) if len(values) >= FEWEST_TURNS else None)


def quotient(part: Interval | None, whole: Interval | None) -> Interval | None:
    """All quotients of two intervals; None without them, and where the second holds 0."""
    if part is None or whole is None or whole[0] <= 0 <= whole[1]:
        return None
    ends = [above / below for above in part for below in whole]
    return min(ends), max(ends)


def logarithms(interval: Interval | None) -> Interval | None:
    """The logarithms of the ends of a ratio's interval."""
    return None if interval is None else (math.log(interval[0]), math.log(interval[1]))


Quantity = Callable[[Evidence], Iterable[Measured]]


@dataclass(frozen=True)
class Claim:
    """What a document says: a quantity, and the range that it claims.

    `is_of_texts`: random weights judge nothing; `is_of_times`: the models compute in 16 bit, and, with `is_absolute`,
    on a GPU. `wanted` says what to measure, `nothing` what is said where it was not.
    """

    key: str
    document: str
    text: str
    wanted: str
    quantity: Quantity
    claimed: Interval
    nothing: str
    is_of_texts: bool = False
    is_of_times: bool = True
    is_absolute: bool = False


@dataclass(frozen=True)
class Finding:
    """A verdict on a claim with the sentence that carries it. `measured_on` names the models of measurements that judge
    nothing because they are not the claim's own."""

    claim: Claim
    verdict: str
    sentence: str
    measured_on: str = ""


def judge(claim: Claim, evidence: Evidence) -> Finding:
    """The first verdict among the measurements; without one the last of them, or that there is none."""
    findings = [_judged(claim, measured) for measured in claim.quantity(evidence)]
    verdicts = (finding for finding in findings if finding.verdict != NOT_MEASURED)
    return next(verdicts, findings[-1] if findings else Finding(claim, NOT_MEASURED, claim.nothing))


def _judged(claim: Claim, measured: Measured) -> Finding:
    """Confirmed when the whole interval lies in the claimed range, refuted when it lies outside; else, and of other
    models than the claim's, not measured."""
    low, high = measured.interval or (-math.inf, math.inf)
    least, most = claim.claimed
    is_refuted = high < least or low > most
    if measured.interval is None:
        reason = measured.reason or APART
    elif not is_refuted and not least <= low <= high < most:
        reason = PARTLY
    else:
        reason = WIDE if 0 < WIDEST * low < high else ""
    whose = measured.whose
    needs = {"needs_text": claim.is_of_texts, "needs_times": claim.is_of_times, "on_gpu": claim.is_absolute}
    if not reason and not whose and not are_claims_models(*measured.columns, **needs):
        whose = models_text(*measured.columns)
    if whose:
        reason = f"measured on {whose}, which the claim is not about"
    sentence = f"{measured.sentence}{f'; {reason}' if reason else ''}."
    return Finding(claim, NOT_MEASURED if reason else REFUTED if is_refuted else CONFIRMED, sentence, whose)


def is_alone(column: Configuration) -> bool:
    """Whether one model answers, without another that drafts for it."""
    return not mode_of(column.runs[0].info.mode).is_paired


def _family(column: Configuration) -> str:
    model = answering_model(column)
    return model.family if model else ""


def answering_model(column: Configuration) -> ModelFacts | None:
    """The model that answers; None where a file names none."""
    info = column.runs[0].info
    return info.models.get(info.role)


def are_claims_models(
    *columns: Configuration, needs_text: bool = False, needs_times: bool = True, on_gpu: bool = False
) -> bool:
    """Whether every model of these is one of the documents': EventGPT-7B or LLaVA-1.5-7B, weights not quantized.

    Where times matter they compute in 16 bit, where absolute times do on a GPU or in the documents' files, and where
    texts do the weights are trained ones. (What the documents call Video-LLaVA gives 576 tokens a frame: it is
    LLaVA-1.5.)
    """
    for info in (column.runs[0].info for column in columns):
        if info.role not in info.models:
            return False
        if on_gpu and info.imported is None and not info.models[info.role].device.startswith("cuda"):
            return False
        for model in info.models.values():
            if model.family not in DOCUMENTS_FAMILIES or not is_7b(model) or model.quantization is not None:
                return False
            if (needs_text and model.name.startswith(RANDOM)) or (needs_times and model.dtype not in _16_BIT):
                return False
    return bool(columns)


def models_text(*columns: Configuration) -> str:
    """`evprof-tiny-eventgpt and evprof-tiny-video-llava on cpu`."""
    answering = ((answering_model(column), column.runs[0].info.role) for column in columns)
    names = dict.fromkeys(model.name if model else role for model, role in answering)
    devices = dict.fromkeys(
        model.device
        for column in columns
        for model in column.runs[0].info.models.values()
        if column.runs[0].info.imported is None
    )
    return " and ".join(names) + (f" on {' and '.join(devices)}" if devices else "")


def _traits_of(column: Configuration) -> dict[str, Any]:
    """The settings and the facts of the models, in which configurations may differ."""
    info = column.runs[0].info
    loading = info.loading.get(info.role)
    traits: dict[str, Any] = {**info.settings.flat(), "role": info.role, "mode": info.mode}
    traits["decoder"] = loading.decoder if loading else None
    for role, model in info.models.items():
        own = "" if role == info.role else f"{role} "
        for name in ("name", "dtype", "quantization", "device"):
            traits[f"{own}{name}"] = getattr(model, name)
    return traits
