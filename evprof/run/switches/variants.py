"""Which switches are measured, each against what: the rows of `evprof bench switches`, as data.

It knows no engine and no figure. What is not in the list is not measured; what cannot run somewhere is told by the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.core.request import RunRequest
from evprof.core.run_info import LengthFacts, ModelFacts
from evprof.core.units import TIMES
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.switches import PRUNINGS, Switches

LLM = ("prefill", "decode")
"""What document 004 calls stage 4, and expects its speedups of."""

MODEL = ("vision", "prefill", "decode")
"""Where a model computes."""

PLAIN = Switches(attention="sdpa", cache="static", step="eager")
"""Everything off: the published behaviour of the models, in the engine's plainest form."""


@dataclass(frozen=True)
class Basis:
    """What is known of a model after one plain run; some settings only mean something relative to it."""

    facts: ModelFacts
    lengths: LengthFacts


@dataclass(frozen=True)
class VariantChange:
    """What is different from a plain run: fields of Switches, of InputSettings and of the ModelChoice, and the mode.

    The value of a switch may be a function that finds it for a model.
    """

    switches: Mapping[str, Any] = field(default_factory=dict)
    input: Mapping[str, Any] = field(default_factory=dict)
    choice: Mapping[str, Any] = field(default_factory=dict)
    mode: str | None = None

    def resolved(self, basis: Basis) -> VariantChange:
        found = {name: value(basis) if callable(value) else value for name, value in self.switches.items()}
        return replace(self, switches=found)

    def applied(self, request: RunRequest, role: str) -> RunRequest:
        """`request`, with this change made to the model of `role`. Needs resolved values."""
        asked = request.settings
        settings = replace(
            asked, switches=replace(asked.switches, **self.switches), input=replace(asked.input, **self.input)
        )
        changed = replace(request, mode=self.mode or request.mode, settings=settings)
        choice = request.draft if role == DRAFT else request.target
        if choice is None:
            return changed
        chosen = replace(choice, **self.choice)
        return replace(changed, draft=chosen) if role == DRAFT else replace(changed, target=chosen)


@dataclass(frozen=True)
class Expectation:
    """What document 004 expects of the language model's time: off / on lies between `low` and `high`.

    `is_saving`: the document tells what is saved, as a share of off.
    """

    low: float
    high: float
    is_saving: bool = False

    @property
    def text(self) -> str:
        """As the document tells it: `1.5-2×`, `10-20 %`."""
        if self.is_saving:
            return f"{100 * (1 - 1 / self.low):g}-{100 * (1 - 1 / self.high):g} %"
        return f"{self.low:g}-{self.high:g}{TIMES}"


@dataclass(frozen=True)
class Variant:
    """One row for each of `roles`: a switch on, against it off. `stages` are those it aims at.

    `families` restricts it to models that have the thing; None: all. `title` is made of what is on unless given.
    """

    switch: str
    value: str
    stages: tuple[str, ...]
    on: VariantChange
    off: VariantChange = field(default_factory=VariantChange)
    against: str = "off"
    expects: Expectation | None = None
    roles: tuple[str, ...] = (DRAFT, TARGET)
    families: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """ "cache fp8": what `--only` and the table call it."""
        return f"{self.switch} {self.value}".strip()

    @property
    def loads_other_weights(self) -> bool:
        return bool(self.on.choice or self.off.choice)

    def is_named(self, wanted: str) -> bool:
        """Whether `--only wanted` means it: its switch, or switch and value; dashes and spaces are the same."""
        return _plain_name(wanted) in (_plain_name(self.switch), _plain_name(self.name))


def _plain_name(text: str) -> str:
    return text.lower().replace("_", " ").replace("-", " ").strip()


SPECULATIVE = Expectation(2.0, 3.0)
PRUNING = Expectation(1 / 0.9, 1 / 0.8, is_saving=True)
QUANTIZATION = Expectation(1.5, 2.0)
"""Document 004, "Possible Stage 4 optimizations"; a reduction by a tenth is a factor of 1 / 0.9."""


def quarter_of_prompt(basis: Basis) -> int:
    """A prefill chunk of about a quarter of the prompt: a power of two, at least 16."""
    chunk = 16
    while 2 * chunk <= basis.lengths.input // 4:
        chunk *= 2
    return chunk


def _switch(**values: Any) -> VariantChange:
    return VariantChange(switches=values)


def _choice(**values: Any) -> VariantChange:
    return VariantChange(choice=values)


NOTHING = Variant("nothing", "", MODEL, VariantChange())
"""Off against off: what this machine's unrest alone makes of equal things."""

_EVENTGPT, _LLAVA = ("eventgpt",), ("llava",)

VARIANTS: tuple[Variant, ...] = (
    NOTHING,
    Variant("attention", "sdpa", ("prefill",), VariantChange(), _switch(attention="eager"), "eager"),
    *(Variant("attention", kind, ("prefill",), _switch(attention=kind), against="sdpa") for kind in ("flash", "cudnn")),
    Variant("cache", "static", ("decode",), VariantChange(), _switch(cache="dynamic"), "dynamic"),
    *(Variant("cache", kind, ("decode",), _switch(cache=kind), against="static") for kind in ("fp8", "hqq8", "hqq4")),
    *(
        Variant("step", kind, ("decode",), _switch(step=kind), against="eager")
        for kind in ("compiled", "graphs", "identical")
    ),
    Variant("step", "fused", ("decode",), _switch(step="fused", attention="auto"), against="eager"),
    Variant("prefill-chunk", "", ("prefill",), _switch(prefill_chunk=quarter_of_prompt), against="all at once"),
    Variant("early-exit", "", ("decode",), _switch(early_exit=lambda basis: max(1, basis.facts.layers // 2))),
    Variant("vision-cache", "memory hit", ("vision",), _switch(vision_cache="memory")),
    Variant("prefetch", "warm", ("load",), _switch(prefetch="warm"), _switch(prefetch="cold"), "cold"),
    *(
        Variant("visual-keep", f"0.5 {way}", LLM, _switch(visual_keep=0.5, prune_by=way), expects=PRUNING)
        for way in PRUNINGS
    ),
    Variant("projector", "fused", ("vision",), _switch(projector="fused"), against="reference", families=_EVENTGPT),
    Variant(
        "image-layout", "grid", MODEL, VariantChange(input={"image_layout": "grid"}), against="frames", families=_LLAVA
    ),
    Variant("input", "video", MODEL, VariantChange(input={"draft_input": "video"}), against="events", roles=(DRAFT,)),
    Variant(
        "input", "events", MODEL, VariantChange(input={"target_input": "events"}), against="video", roles=(TARGET,)
    ),
    Variant("speculative", "", LLM, VariantChange(mode="speculative"), expects=SPECULATIVE, roles=(TARGET,)),
    *(
        Variant("dtype", name, MODEL, _choice(dtype=name), _choice(dtype="float32"), "float32")
        for name in ("bfloat16", "float16")
    ),
    Variant("dtype", "bfloat16", MODEL, _choice(dtype="bfloat16"), _choice(dtype="float16"), "float16"),
    *(
        Variant("quantization", kind, LLM, _choice(quantization=kind), expects=QUANTIZATION)
        for kind in ("int8", "int4", "nf4", "fp8")
    ),
    *(
        Variant(
            "quantization",
            f"{kind} compiled",
            LLM,
            VariantChange({"step": "compiled"}, choice={"quantization": kind}),
            _switch(step="compiled"),
            "compiled",
            expects=QUANTIZATION,
        )
        for kind in ("int8", "int4")
    ),
)
"""In order of the table: those that share the plain model's weights first."""


def plain_settings(max_new_tokens: int, *, ignore_eos: bool = True) -> GenerationSettings:
    """Everything off, greedy. Timed runs go on past the end of the answer, so that both sides do the same work."""
    return GenerationSettings(max_new_tokens=max_new_tokens, ignore_eos=ignore_eos, switches=PLAIN)
