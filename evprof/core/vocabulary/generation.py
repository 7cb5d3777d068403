"""How text is generated, with which models, and all settings of a run in one record."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from evprof.core.plain import Plain, plain_values
from evprof.core.records import DRAFT
from evprof.core.vocabulary.inputs import READS, VIDEO_FAMILIES, InputSettings, of_events, of_families
from evprof.core.vocabulary.setting import INPUT, LOSSY, ROUNDED, Range, Setting, Situation, Words, setting, settings_in
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches

SAMPLING, MODEL = "Sampling", "Model"

MOST_FRAMES = 100_000
"""Maximum number of frames; larger values are typos."""

GAMMA = "gamma"
"""The setting of SpeculationSettings that JSON keeps beside the groups."""


def _where_drawn(here: Situation) -> str:
    return "" if here.values["temperature"] else "Nothing is drawn at temperature 0."


def _counted(singular: str, unset: str = "model's own") -> Words:
    """`1 frame`, `8 frames`; `unset` where the model's own number is taken."""
    return lambda value, _: unset if value is None else f"{value} {singular}{'s' * (value != 1)}"


@dataclass(frozen=True)
class GenerationSettings(Plain):
    """Everything that is set about a run, but for its models: how text is generated, and the settings of inputs,
    optimizations and speculation."""

    max_new_tokens: int = setting(
        128,
        "most tokens",
        "Tokens of an answer at most.",
        SAMPLING,
        INPUT,
        has_control=False,
        range=Range(least=1, most=1_000_000),
        axis=_counted("token"),
    )
    ignore_eos: bool = setting(
        False,
        "stop at end token",
        "Whether the answer ends where the model ends it, or goes on up to the token limit.",
        SAMPLING,
        INPUT,
        choices=((False, "yes"), (True, "no")),
        label="past the end",
        text={False: "ends the answer", True: "ignored"},
        is_advanced=True,
    )
    temperature: float = setting(
        0.0,
        "temperature",
        "0 takes the likeliest token; above, tokens are drawn by their odds.",
        SAMPLING,
        LOSSY,
        is_lossy=lambda _: False,
        range=Range(least=0, shown=5, step=0.1, decimals=2, low="greedy"),
        label="temperature {}",
        text=lambda value, _: f"{value:g}" if value else "0 (greedy)",
    )
    top_p: float = setting(
        1.0,
        "top-p",
        "Draws among the likeliest tokens that together have this share of the odds.",
        SAMPLING,
        LOSSY,
        metavar="SHARE",
        idle=_where_drawn,
        is_lossy=lambda _: False,
        range=Range(least=0, most=1, is_above=True, step=0.05, decimals=2),
        label="top-p {}",
        is_advanced=True,
    )
    top_k: int = setting(
        0,
        "top-k",
        "Draws among this many of the likeliest tokens.",
        SAMPLING,
        LOSSY,
        idle=_where_drawn,
        is_lossy=lambda _: False,
        range=Range(least=0, shown=32_000, low="off"),
        label="top-k {}",
        is_advanced=True,
    )
    seed: int = setting(
        0,
        "seed",
        "Where the draws begin: the same seed gives the same answer.",
        SAMPLING,
        INPUT,
        check=lambda value: "" if value.bit_length() < 64 else "a number within 63 bits",
        idle=_where_drawn,
        range=Range(shown=2**31 - 1),
        label="seed {}",
    )
    alternatives: bool = setting(
        True,
        "alternatives",
        "Whether the five likeliest tokens in every token's place are kept, with the entropy.",
        SAMPLING,
        choices=((True, "kept"), (False, "left out")),
        axis=lambda value, _: "alternatives" if value else "no alternatives",
        is_told_idle=True,
        is_advanced=True,
    )
    frames: int | None = setting(
        None,
        "target's frames",
        "Frames that the target is shown: video frames, or event frames where it reads events.",
        READS,
        INPUT,
        idle=of_families(VIDEO_FAMILIES, "No model that reads video runs in this mode."),
        range=Range(least=1, most=MOST_FRAMES, shown=256, low="model's own"),
        label=_counted("frame"),
        text=_counted("frame"),
        axis=_counted("frame", "frames by default"),
        row="frames",
    )
    event_frames: int | None = setting(
        None,
        "draft's frames",
        "Frames that the draft is shown: event frames, or video frames where it reads video.",
        READS,
        INPUT,
        idle=of_events,
        range=Range(least=1, most=MOST_FRAMES, shown=64, low="model's own"),
        label=_counted("frame"),
        text=_counted("frame"),
        axis=_counted("event frame", "event frames by default"),
        row="frames",
    )
    input: InputSettings = field(default_factory=InputSettings)
    switches: Switches = field(default_factory=Switches)
    speculation: SpeculationSettings = field(default_factory=SpeculationSettings)

    def to_json(self) -> dict[str, Any]:
        """Plain values. `gamma` is a key beside the groups, where every format keeps it."""
        return {**plain_values(self), GAMMA: self.speculation.gamma}

    @classmethod
    def arranged(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The values with `gamma` in its group."""
        group = values.get("speculation") or {}
        return {**values, "speculation": {**group, GAMMA: values[GAMMA]}} if GAMMA in values else values

    def flat(self) -> dict[str, Any]:
        """All settings by name, one level deep."""
        return {entry.key: getattr(getattr(self, entry.group) if entry.group else self, entry.key) for entry in OF_RUN}

    def taken_by(self, role: str, *, drafts: bool) -> GenerationSettings:
        """As a role's model takes them: the draft's visual tokens may be pruned apart where it `drafts` for another."""
        asked = self.speculation
        if asked.draft_keep is None or role != DRAFT or not drafts:
            return self
        pruned = replace(self.switches, visual_keep=asked.draft_keep, prune_by=asked.draft_prune_by)
        return replace(self, switches=pruned)

    def validate(self) -> None:
        """Raises UserError (exit code 2) for values that mean nothing."""
        values = self.flat()
        for entry in OF_RUN:
            entry.validate(values[entry.key])
        self.speculation.check()


@dataclass(frozen=True)
class ModelChoice(Plain):
    """Which model, where and in which arithmetic. `name`: bundled name, checkpoint folder, hub id or `random:…`.

    `lora` is an adapter of that kind, merged into the language model.
    """

    name: str
    device: str = setting(
        "auto",
        "device",
        "Where the model runs: auto, cpu, cuda or cuda:N.",
        MODEL,
        ROUNDED,
        choices=tuple((name, name) for name in ("auto", "cpu", "cuda", "cuda:0", "cuda:1")),
        is_free=True,
        metavar="DEVICE",
        has_control=False,
        is_per_role=True,
        axis="{}",
    )
    dtype: str = setting(
        "auto",
        "arithmetic",
        "The kind of number that weights are held and computed in.",
        MODEL,
        ROUNDED,
        choices=(("auto", "auto"), ("float32", "fp32"), ("bfloat16", "bf16"), ("float16", "fp16")),
        has_control=False,
        is_per_role=True,
        text={"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"},
        axis="{}",
    )
    quantization: str | None = setting(
        None,
        "weights",
        "The language model's weights in fewer bits.",
        MODEL,
        LOSSY,
        choices=((None, "not quantized"), ("int8", "int8"), ("int4", "int4"), ("nf4", "nf4"), ("fp8", "fp8")),
        has_control=False,
        option="quant",
        is_per_role=True,
        label="{}",
        text=lambda value, _: value or "as loaded",
        axis=lambda value, _: value or "no quantization",
    )
    clip: str | None = setting(
        None,
        "CLIP",
        "CLIP tower for an EventGPT checkpoint that holds none.",
        MODEL,
        INPUT,
        metavar="DIR",
        has_control=False,
        idle=of_events,
        is_advanced=True,
    )
    lora: str | None = None

    def validate(self, role: str) -> None:
        """Raises UserError (exit code 2) for values that mean nothing."""
        for entry in OF_MODEL:
            entry.validate(getattr(self, entry.key), entry.role_flag(role))


NESTED: dict[str, type[InputSettings] | type[Switches] | type[SpeculationSettings]] = {
    "input": InputSettings,
    "switches": Switches,
    "speculation": SpeculationSettings,
}
"""The groups that GenerationSettings holds beside its own settings."""

OF_RUN: tuple[Setting, ...] = tuple(
    sorted(
        (
            *settings_in(GenerationSettings),
            *(entry for name, kind in NESTED.items() for entry in settings_in(kind, name)),
        ),
        key=lambda entry: bool(entry.group) and entry.key != GAMMA,
    )
)
"""Every setting of a run, by group; labels name `gamma` before the groups."""

OF_MODEL: tuple[Setting, ...] = settings_in(ModelChoice, "model")
"""What is chosen of each model beside its name."""
