"""What a row of a result file says, whatever family it comes from. Values only: it knows neither files nor sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evprof.core.records import DRAFT, TARGET

DEFAULT_PROMPT = "What are the key elements in this scene?"
"""What the scripts asked where their files do not say."""

SIDE_BY_SIDE = "side-by-side"
"""The mode of rows of both models."""

NO_TIME = "the row holds no time that was measured"
"""Why a row without any time failed."""


@dataclass(frozen=True)
class Interval:
    """One measured time: under which key the file gives it, which stages it really holds, and for how long in ms.

    `start_ms` is its place on the row's made-up clock; None: after the interval before it.
    """

    key: str
    covers: tuple[str, ...]
    duration_ms: float
    role: str
    start_ms: float | None = None


@dataclass(frozen=True)
class LegacyModel:
    """A model as far as a file and the script that wrote it say. `weight_bytes` None: not told; `family` "": a model of
    which nothing is told but its name."""

    name: str
    family: str
    dtype: str
    quantization: str | None = None
    weight_bytes: int | None = None


@dataclass(frozen=True)
class Lengths:
    """Positions of a prompt; the system prompt is counted with the text, since no file tells them apart."""

    input: int
    text: int
    visual: int
    per_frame: tuple[int, ...] = ()


@dataclass(frozen=True)
class LegacyRow:
    """One answer of one model. `row` is its number in its list, `group` that of the rows that belong together, `side`
    what the file's statistics call its model.

    `cell` is the configuration's name within the file. `output_tokens` and `decode_steps` are counts (None: not told,
    or told wrongly); `figures` other numbers under our names; `values` the file's own numbers by its own keys, in its
    own units, for checking its statistics. `error` is why the row failed.
    """

    row: int
    group: int
    side: str
    role: str
    mode: str
    cell: str
    sample: str
    models: Mapping[str, LegacyModel]
    prompt: str = DEFAULT_PROMPT
    intervals: tuple[Interval, ...] = ()
    is_warmup: bool = False
    events_path: str | None = None
    video_path: str | None = None
    token_ids: tuple[int, ...] = ()
    text: str | None = None
    output_tokens: int | None = None
    decode_steps: int | None = None
    lengths: Lengths | None = None
    peak_bytes: int | None = None
    figures: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    error: str | None = None
    is_cancelled: bool = False
    has_first_token_time: bool = False
    token_times_ms: tuple[float, ...] = ()
    accepted_histogram: Mapping[int, int] = field(default_factory=dict)
    started_at: str | None = None


SIDES = {"eventgpt": DRAFT, "egpt": DRAFT, "videollava": TARGET, "vl": TARGET, "llava": TARGET}
"""How files call the two models."""

LAYERS, KV_HEADS, HEAD_DIM, ELEMENT_BYTES = 32, 32, 128, 2
"""Of both language models, which are Vicuna-7B's shape."""

CONTEXT_LIMIT = 4096

PARAMETERS = {"eventgpt": 7_079_684_096, "llava": 7_063_427_072, "video_llava": 7_366_279_168}
"""Scalars of the models by family, towers and projectors included; from their configurations."""

MODEL_TYPES = {"eventgpt": "EventChat_llama", "llava": "llava", "video_llava": "video_llava"}

LLAVA, VIDEO_LLAVA = "llava-hf/llava-1.5-7b-hf", "LanguageBind/Video-LLaVA-7B-hf"
EVENTGPT = "EventGPT-7b"

EVENTGPT_PATCHES, LLAVA_PATCHES = 577, 576
"""Visual positions of one frame: with the class token, and without."""


def eventgpt_model(quantization: str | None = None, weight_bytes: int | None = None) -> LegacyModel:
    """EventGPT as all scripts load it."""
    return LegacyModel(EVENTGPT, "eventgpt", "bfloat16", quantization, weight_bytes)


def llava_model(quantization: str | None = None, weight_bytes: int | None = None) -> LegacyModel:
    """LLaVA-1.5, shown frames as so many images; files call it "videollava" all the same."""
    return LegacyModel(LLAVA, "llava", "float16", quantization, weight_bytes)


def video_llava_model(quantization: str | None = None, weight_bytes: int | None = None) -> LegacyModel:
    """The real Video-LLaVA, which the 4-bit scripts load."""
    return LegacyModel(VIDEO_LLAVA, "video_llava", "float16", quantization, weight_bytes)


def eventgpt_lengths(prefill_length: int | None, visual: int) -> Lengths | None:
    """EventGPT's prompt of one frame; None where it is not told or shorter than its picture."""
    if prefill_length is None or prefill_length < visual:
        return None
    return Lengths(prefill_length, prefill_length - visual, visual, (EVENTGPT_PATCHES,))
