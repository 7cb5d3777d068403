"""What a row of a result file says, whatever its family, and the checks of its values."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import LengthFacts, ModelFacts

DEFAULT_PROMPT = "What are the key elements in this scene?"
"""The prompt of the scripts, where their files give none."""

SIDE_BY_SIDE = "side-by-side"
NO_TIME = "the row holds no time that was measured"
WRONG_UNIT = "a time of the row is in another unit than its key says"

SIDES = {"eventgpt": DRAFT, "egpt": DRAFT, "videollava": TARGET, "vl": TARGET, "llava": TARGET}
"""Names of the two models in the files."""

EVENTGPT_PATCHES, LLAVA_PATCHES = 577, 576
"""Visual positions of one frame: with the class token, and without."""

MS_PER_S = 1000.0
MIB = 1 << 20

SHORTEST_MS = 0.05
"""A shorter time is the interval between two readings of the clock, not a measurement."""

LONGEST_S = 300.0
"""A longer stage of a 7B model is in other units than its key says."""

OTHER_UNIT = (500.0, 2000.0)
"""A time that is so many times the typical one of its key, or the typical one of it, is in another unit."""

SUM_TOLERANCE = 2e-3
"""Allowed relative difference of a total and the sum of its parts: scripts read the clock between stages."""

MOST_TOKENS = 65_536
_ENORMOUS = 1e100

MOST_SENTENCES = 100
"""Different findings about one file. Later ones are counted as one."""

MOST_NAMED = 12
"""Rows of one finding that are named."""


@dataclass(frozen=True)
class Interval:
    """One measured time: its key in the file, the stages that it covers, and its length in ms.

    `start_ms` is its start on the row's made-up clock; None: after the previous interval.
    """

    key: str
    covers: tuple[str, ...]
    duration_ms: float
    role: str
    start_ms: float | None = None


@dataclass(frozen=True)
class LegacyRow:
    """One answer of one model. `row` is its number in its list, `group` the number of rows that belong together.

    `side` is the file's name of the model, `cell` the name of the configuration. `output_tokens` and `decode_steps`
    are counts (None: unknown or wrong). `figures` are other numbers under our names. `error` is why the row failed.
    """

    row: int
    group: int
    side: str
    role: str
    mode: str
    cell: str
    sample: str
    models: Mapping[str, ModelFacts]
    prompt: str = DEFAULT_PROMPT
    intervals: tuple[Interval, ...] = ()
    is_warmup: bool = False
    events_path: str | None = None
    video_path: str | None = None
    token_ids: tuple[int, ...] = ()
    text: str | None = None
    output_tokens: int | None = None
    decode_steps: int | None = None
    lengths: LengthFacts | None = None
    peak_bytes: int | None = None
    figures: dict[str, float] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    error: str | None = None
    is_cancelled: bool = False
    has_first_token_time: bool = False
    token_times_ms: tuple[float, ...] = ()
    accepted_histogram: Mapping[int, int] = field(default_factory=dict)
    started_at: str | None = None


_MODELS = {
    "": ("", "", "", 0),
    "eventgpt": ("EventGPT-7b", "EventChat_llama", "bfloat16", 7_079_684_096),
    "llava": ("llava-hf/llava-1.5-7b-hf", "llava", "float16", 7_063_427_072),
    "video_llava": ("LanguageBind/Video-LLaVA-7B-hf", "video_llava", "float16", 7_366_279_168),
}
"""Family -> name, model type, dtype, and parameters with towers and projectors, from configurations."""


def model_facts(
    family: str = "", *, name: str = "", quantization: str | None = None, weight_bytes: int | None = None
) -> ModelFacts:
    """A model of the scripts, whose language model is Vicuna-7B; without a family a model behind a server."""
    known_name, model_type, dtype, parameters = _MODELS[family]
    layers, kv_heads, head_dim, element_bytes, context_limit = (32, 32, 128, 2, 4096) if family else (0,) * 5
    return ModelFacts(
        name=name or known_name,
        family=family,
        model_type=model_type,
        parameters=parameters,
        weight_bytes=weight_bytes,
        dtype=dtype,
        device="cuda" if family else "",
        quantization=quantization,
        layers=layers,
        kv_heads=kv_heads,
        head_dim=head_dim,
        kv_element_bytes=element_bytes,
        context_limit=context_limit,
        attention="",
        cache="dynamic" if family else "",
        prompt_template="",
    )


def prompt_lengths(length: int | None, per_frame: list[int], shared: int = 0) -> LengthFacts | None:
    """A prompt with the system prompt in its text; None if its length is unknown or shorter than its frames.

    `shared` visual positions belong to all frames.
    """
    visual = sum(per_frame) + shared
    return LengthFacts(length, 0, length - visual, visual, per_frame) if length and length >= visual else None


class FileProblems:
    """Sentences about a file in order of appearance, each with the number of rows that it applies to."""

    def __init__(self) -> None:
        self._rows: dict[str, list[int]] = {}
        self._of_row: list[str] = []

    def taken(self) -> list[str]:
        sentences, self._of_row = self._of_row, []
        return sentences

    def of_row(self, sentence: str, row: int) -> None:
        """Adds a row to `sentence`, which has no full stop."""
        self._of_row.append(sentence)
        self._known(sentence).append(row)

    def of_file(self, sentence: str) -> None:
        self._known(sentence)

    def _known(self, sentence: str) -> list[int]:
        if sentence not in self._rows and len(self._rows) >= MOST_SENTENCES:
            sentence = "other findings, too many to list"
        return self._rows.setdefault(sentence, [])

    def sentences(self, rows: int) -> list[str]:
        listed = []
        for sentence, numbers in self._rows.items():
            which = ""
            if len(numbers) < rows:
                which = f": {'rows' if len(numbers) > 1 else 'row'} {', '.join(map(str, numbers[:MOST_NAMED]))}"
            if len(numbers) > MOST_NAMED and which:
                which += f" and {len(numbers) - MOST_NAMED:,} more"
            listed.append(f"{sentence} ({len(numbers):,} of {rows:,} rows{which})." if numbers else f"{sentence}.")
        return listed


@dataclass
class RowCheck:
    """Reads one row, or one model's part of it. `name` is the model in sentences, `typical` the median of each time.

    A value that fails a check becomes None and is reported. Nothing is repaired. `has_other_unit`: one of the times is
    in another unit, so that no time of the row is known.
    """

    raw: Mapping[str, Any]
    row: int
    problems: FileProblems
    name: str
    typical: Mapping[str, float] = field(default_factory=dict)
    has_other_unit: bool = False

    def tell(self, what: str) -> None:
        self.problems.of_row(f"{self.name}: {what}", self.row)

    def number(self, key: str, *, is_expected: bool = True) -> float | None:
        value = self.raw.get(key)
        known = finite(value)
        if known is None and is_expected:
            self.tell(
                f"{key} {'is not there' if key not in self.raw else 'is null' if value is None else 'is no number'}"
            )
        return known

    def count(self, key: str, *, most: int = 1 << 40) -> int | None:
        value = self.number(key, is_expected=False)
        if value is not None and (not 0 <= value <= most or value != int(value)):
            self.tell(f"{key} is no count")
            return None
        return None if value is None else int(value)

    def duration_ms(self, key: str, *, is_expected: bool = True) -> float | None:
        """A measured time in ms, from seconds unless the key ends in `_ms`."""
        value = self.number(key, is_expected=is_expected)
        if value is None:
            return None
        duration_ms = value if key.endswith("_ms") else value * MS_PER_S
        typical = self.typical.get(key, value)
        if value < 0:
            self.tell(f"{key} is negative and was left out")
        elif duration_ms > LONGEST_S * MS_PER_S or (
            min(value, typical) > 0 and OTHER_UNIT[0] < max(value / typical, typical / value) < OTHER_UNIT[1]
        ):
            unit = "milliseconds" if key.endswith("_ms") else "seconds"
            if not self.has_other_unit:
                self.tell(f"{key} is probably no time in {unit}, so no time of the row was taken")
            self.has_other_unit = True
        elif duration_ms < SHORTEST_MS:
            amount = "0.0" if duration_ms == 0 else f"below {SHORTEST_MS}"
            self.tell(f"{key} is {amount} ms: no measurement, so that stage is absent")
        else:
            return duration_ms
        return None

    def intervals(
        self, covers: Mapping[str, Iterable[str]], role: str, optional: Collection[str] = ()
    ) -> tuple[Interval, ...]:
        """The measured times of these keys. Keys in `optional` may be missing; keys that cover nothing are skipped."""
        times = {key: self.duration_ms(key, is_expected=key not in optional) for key in covers}
        return tuple(
            Interval(key, tuple(covers[key]), duration, role)
            for key, duration in times.items()
            if duration is not None and covers[key]
        )

    def figures(self, names: Mapping[str, str], factor: float = 1.0) -> dict[str, float]:
        """Numbers times `factor` under our names for their keys, without missing ones."""
        values = {name: self.number(key, is_expected=False) for key, name in names.items()}
        return {name: value * factor for name, value in values.items() if value is not None}

    def text(self, key: str) -> str | None:
        value = self.raw.get(key)
        if value is None or isinstance(value, str):
            return value
        self.tell(f"{key} is no text")
        return None

    def ids(self, key: str) -> tuple[int, ...]:
        """Token ids, () if one of them is invalid."""
        value = self.raw.get(key)
        if value is None:
            if key in self.raw:
                self.tell(f"{key} is null")
            return ()
        if (
            isinstance(value, list)
            and len(value) <= MOST_TOKENS
            and all(isinstance(entry, int) and not isinstance(entry, bool) and -1 <= entry < 1 << 31 for entry in value)
        ):
            return tuple(value)
        self.tell(f"{key} is no list of token ids")
        return ()

    def adds_up(self, total_key: str, parts: Iterable[str]) -> None:
        """Reports a total that is not the sum of its parts, if all are known."""
        total, *known = (self.number(key, is_expected=False) for key in (total_key, *parts))
        parts_sum = sum(value for value in known if value is not None)
        if total is None or None in known or abs(total - parts_sum) <= SUM_TOLERANCE * max(abs(total), 1e-9):
            return
        self.tell(f"{total_key} is not the sum of its parts")

    def counts_agree(self, count: int | None, ids: tuple[int, ...], text: str | None) -> int | None:
        """The number of tokens of an answer: that of its ids, unless these cannot be complete."""
        if ids and text and len(ids) < len(text.split()):
            self.tell("fewer token ids than the text has words, so the ids are not all of its tokens and were left out")
            return None
        if count is not None and ids and count != len(ids):
            self.tell("the number of tokens is not that of the token ids")
        return len(ids) or count


def finite(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _ENORMOUS:  # False for NaN
        return float(value)
    return None


NUMBERED = re.compile(r"sample -?\d+")
"""Names of samples that are numbers alone."""


def sample_name(value: object, number: int) -> str:
    """`sample 7`: the sample's own number, else that of its row."""
    index = finite(value)
    return f"sample {number if index is None else int(index)}"


def mib_bytes(value: float | None) -> int | None:
    """Mebibytes, which the files call MB, as bytes."""
    return None if value is None or not 0 <= value < 1 << 40 else round(value * MIB)


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_NUMBER = re.compile(r"\d[\d.,]*\d|\d")


def error_kind(text: str) -> str:
    """An error without its numbers, so that the same error of many samples counts as one."""
    return shortened(_NUMBER.sub("…", shortened(text, 400)))


def shortened(text: str, most: int = 160) -> str:
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 4 * most]).split())
    return words if len(words) <= most else f"{words[: most - 1].rsplit(' ', 1)[0]}…"
