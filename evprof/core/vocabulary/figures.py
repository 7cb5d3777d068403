"""The figures that runs are told and compared by: names, units, meaning, what each depends on, which side is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evprof.core.records import COVERS, STAGES
from evprof.core.vocabulary.scoring import CHOICE, EXACT, RIGHT, ROUGE_L, TOKEN_F1

TIME, RATES, LENGTHS, MEMORY, ENERGY, SPECULATION = "Time", "Rates", "Lengths", "Memory", "Energy", "Speculation"
ACCURACY = "Accuracy"
"""Sections of figures, in order."""

_SECTIONS = {"ms": TIME, "tok/s": RATES, "tokens": LENGTHS, "bytes": MEMORY, "J": ENERGY, "W": ENERGY, "": SPECULATION}
"""Unit -> the section a figure stands in, unless it says otherwise."""

MACHINE, MODEL, ARITHMETIC, PROMPT, SAMPLE = "machine", "model", "arithmetic", "prompt", "sample"
METER = "meter"
"""What a figure may depend on besides settings: hardware and software, a model's files, the numbers it computes with,
the question, the recording and video, and what energy is read from."""

EVERYTHING = (MACHINE, MODEL, ARITHMETIC, PROMPT, SAMPLE)
OF_ANSWER = (MODEL, ARITHMETIC, PROMPT, SAMPLE)
"""What decides an answer, token by token, wherever it is computed."""

_PER_TOKEN = (MACHINE, MODEL, ARITHMETIC)


@dataclass(frozen=True)
class Figure:
    """A figure. `lower_is_better` is None where neither direction is better. `section` "" is its unit's.

    `is_of_answer`: it belongs to the whole run and is told of the model that answers; else every model has its own.
    `is_counted`: the same whenever the same is asked. `is_of_process`: an engine process has it, and how much processes
    differ in it is not told by how much their times do. `place` orders the table of two runs beside each other (0: it
    is not in it). `depends_on`: two runs that differ in one of these cannot be compared by it; `with_drafts`: what it
    depends on besides where tokens are drafted.
    """

    key: str
    title: str
    unit: str
    tip: str
    lower_is_better: bool | None = True
    section: str = ""
    is_of_answer: bool = True
    is_counted: bool = False
    is_of_process: bool = False
    place: int = 0
    depends_on: tuple[str, ...] = EVERYTHING
    with_drafts: tuple[str, ...] = ()

    @property
    def is_timed(self) -> bool:
        return self.unit in ("ms", "tok/s", "J", "W")

    @property
    def varies_by_process(self) -> bool:
        return self.is_timed or self.is_of_process

    @property
    def has_interval(self) -> bool:
        """Whether a difference is measured: not of exact counts, of shares, and of what no stage covers."""
        return bool(self.unit) and not self.is_counted and self.key != "unattributed_ms"

    @property
    def head(self) -> str:
        return self.section or _SECTIONS[self.unit]


WIDEST = 3.0
"""An interval whose ends are further apart than this factor decides nothing."""


def is_clear(interval: Sequence[float] | None) -> bool:
    """Whether the interval of a ratio decides that one side is larger: it excludes 1 and spans less than WIDEST."""
    return interval is not None and not interval[0] <= 1 <= interval[1] and interval[1] < WIDEST * interval[0]


_STAGE_TIPS = {
    "load": "files to events or frames on the host",
    "preprocess": "rendering, resizing, prompt and tokens, up to the device",
    "vision": "tower, projector, adaptor and pooling",
    "prefill": "one pass over visual and text embeddings, up to the first token",
    "decode": "tokens 2 to n",
}
_STAGE_DEPENDS = {"load": (MACHINE, SAMPLE), "vision": (MACHINE, MODEL, ARITHMETIC, SAMPLE)}
_SCORES = {
    RIGHT: ("right answers", "share of answers that name the right choice, or match exactly; free text has none"),
    EXACT: ("exact match", "share of answers that are a right wording, but for case, punctuation and articles"),
    CHOICE: ("right choice", "share of answers that name the right choice"),
    TOKEN_F1: ("token F1", "words in common with the best of the right wordings, F1 as SQuAD counts it"),
    ROUGE_L: ("ROUGE-L", "longest common subsequence of words with the best of the right wordings, F1"),
}
"""Title and meaning of the figure of each rule of `vocabulary/scoring`."""

_TWO_RUNS = (
    *("visual_tokens", "input_sequence_length", "output_sequence_length"),
    *(f"{name}_ms" for name in STAGES),
    *("time_to_first_token_ms", "inter_token_latency_ms", "decode_throughput_tok_s", "kv_cache_bytes"),
    *("total_ms", "unattributed_ms", "energy_per_answer_j", "energy_per_token_j", RIGHT, TOKEN_F1),
)
"""Order of the table of two runs."""

_METERED: dict[str, Any] = {"depends_on": (*EVERYTHING, METER)}
_OF_ANSWER: dict[str, Any] = {"depends_on": OF_ANSWER}
_DRAFTED: dict[str, Any] = {"depends_on": _PER_TOKEN, "with_drafts": OF_ANSWER}
_OF_MODEL: dict[str, Any] = {"is_of_answer": False}
_COUNTED: dict[str, Any] = _OF_MODEL | {"is_counted": True}
_OF_PROMPT: dict[str, Any] = _COUNTED | {"depends_on": (MODEL, PROMPT)}

_STEP_TIP = "decode time / (n - 1): what one more token costs, however it was found"
_RATE_TIP = "positions of the prompt / prefill time"
_PROMPT_TIP = "positions of the whole prompt"
_VISUAL_TIP = "positions of the prompt that carry pictures"
_ANSWER_TIP = "tokens of the answer, end of sequence included"
_WEIGHTS_TIP = "bytes of all loaded weights on their device"
_PROCESS_TIP = "most resident bytes of the engine process"
_ENERGY_TIP = "of the devices that computed, from the run's zero to its end, what they draw when idle included"
_ACCEPTED_TIP = "accepted drafts by all that were drafted, bonus tokens apart"
_LENGTH_TIP = "1 + accepted / rounds, bonus token included"

_METERED_TOKEN: dict[str, Any] = {"depends_on": (*_PER_TOKEN, METER), "with_drafts": OF_ANSWER}

_Row = tuple[str, str, str, str, bool | None, Mapping[str, Any]]
_ROWS: tuple[_Row, ...] = (
    ("total_ms", "total", "ms", "from the run's zero to its end", True, {}),
    ("time_to_first_token_ms", "first token", "ms", "from the run's zero to the first token", True, {}),
    *(
        (f"{name}_ms", name, "ms", tip, True, _OF_MODEL | {"depends_on": _STAGE_DEPENDS.get(name, EVERYTHING)})
        for name, tip in _STAGE_TIPS.items()
    ),
    ("unattributed_ms", "unattributed", "ms", "wall time that no stage covers", None, {}),
    ("inter_token_latency_ms", "per token", "ms", "(last token - first token) / (n - 1)", True, _DRAFTED),
    ("decode_ms_per_token", "decode step", "ms", _STEP_TIP, True, _DRAFTED),
    ("prefill_throughput_tok_s", "prefill rate", "tok/s", _RATE_TIP, False, {"depends_on": _PER_TOKEN}),
    ("decode_throughput_tok_s", "decode rate", "tok/s", "(n - 1) / decode time", False, _DRAFTED),
    ("input_sequence_length", "prefill tokens", "tokens", _PROMPT_TIP, None, _OF_PROMPT),
    ("visual_tokens", "visual tokens", "tokens", _VISUAL_TIP, None, _COUNTED | {"depends_on": (MODEL,)}),
    ("output_sequence_length", "output tokens", "tokens", _ANSWER_TIP, None, _OF_ANSWER),
    ("kv_cache_bytes", "KV cache", "bytes", "measured in the cache when the run ended", None, _COUNTED | _OF_ANSWER),
    ("weights_bytes", "weights", "bytes", _WEIGHTS_TIP, None, {"is_counted": True, "depends_on": (MODEL, ARITHMETIC)}),
    ("peak_allocated_bytes", "peak allocated", "bytes", "most bytes of tensors on the device at once", True, {}),
    ("peak_rss_bytes", "peak process", "bytes", _PROCESS_TIP, True, {"is_of_process": True}),
    ("energy_per_answer_j", "energy", "J", _ENERGY_TIP, True, _METERED),
    ("energy_per_token_j", "energy per token", "J", "energy of decode / (n - 1)", True, _METERED_TOKEN),
    ("mean_power_w", "mean power", "W", "energy / wall time", None, _METERED),
    ("peak_power_w", "peak power", "W", "the most in a sample, ten of which are taken a second", None, _METERED),
    ("draft_acceptance_rate", "accepted / drafted", "", _ACCEPTED_TIP, False, _OF_ANSWER),
    ("mean_acceptance_length", "tokens per round", "tokens", _LENGTH_TIP, False, _OF_ANSWER | {"section": SPECULATION}),
    *((key, title, "", tip, False, _OF_ANSWER | {"section": ACCURACY}) for key, (title, tip) in _SCORES.items()),
)
FIGURES: dict[str, Figure] = {
    key: Figure(
        *(key, title, unit, tip, lower_is_better),
        place=_TWO_RUNS.index(key) + 1 if key in _TWO_RUNS else 0,
        **more,
    )
    for key, title, unit, tip, lower_is_better, more in _ROWS
}
"""Figures by name, in the order in which comparisons tell them."""

SECTIONS = (*dict.fromkeys(_SECTIONS.values()), ACCURACY)


def figure_of(key: str) -> Figure:
    """The figure of a name: also of several stages timed in one piece, and of one that only a file knows."""
    found = FIGURES.get(key)
    if found is not None:
        return found
    parts = key.removesuffix("_ms").split(COVERS)
    if all(part in STAGES for part in parts):
        tip = "these stages together, as a file that times them in one piece gives them"
        return Figure(key, " + ".join(parts), "ms", tip, is_of_answer=False)
    return Figure(key, key.replace("_", " "), "", "", None)


_REASONS = {
    0x2: "applications clocks setting",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
    0x100: "display clocks setting",
}
"""NVML's bits in words; idling (0x1) is no reason to mistrust a figure."""

_DECIDED = ("applications clocks setting", "display clocks setting", "sync boost")
"""Reasons that somebody set and that hold all the time: told in the state, not warned about."""

IDLE_BIT = 0x1
"""The GPU has nothing to do, so its clocks are low."""

HOT_C = 85
"""From here on GPUs lower their clocks sooner or later."""


def throttle_reasons(bits: int | None) -> list[str] | None:
    """NVML's bit mask in words, in the order of its bits; None when not known."""
    return None if bits is None else [name for bit, name in _REASONS.items() if bits & bit]


def doubtful_reasons(reasons: list[str] | None) -> list[str]:
    """Those that nobody decided on: they make times doubtful."""
    return [name for name in reasons or [] if name not in _DECIDED]
