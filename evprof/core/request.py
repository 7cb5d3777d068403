"""What is asked of an engine: paths, names and settings, never arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from evprof.core.errors import USAGE, UserError
from evprof.core.plain import Plain
from evprof.core.sample import Sample
from evprof.core.speculation import (
    KV_ADAPTED,
    LORA,
    PAIRED_MODES,
    PARALLEL_PREFILL,
    SPECULATIVE,
    SPECULATIVE_MODES,
    SpeculationSettings,
)
from evprof.core.switches import QUANTIZATIONS, InputSettings, Switches

MODES = ("side-by-side", SPECULATIVE, PARALLEL_PREFILL, "draft", "target", KV_ADAPTED)
"""Modes that are built, in the order they are offered."""

MOST_FRAMES = 100_000
"""No recording is cut into more; asked for by a slip."""

DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class ModelChoice(Plain):
    """Which model, where and in which arithmetic. `name`: bundled name, checkpoint folder, hub id or `random:…`.

    `quantization` is one of QUANTIZATIONS for the language model's weights, or None; `clip` is a CLIP folder that
    stands in for the one an EventGPT checkpoint names; `lora` an adapter of that kind, merged into the language model.
    """

    name: str
    device: str = "auto"
    dtype: str = "auto"
    quantization: str | None = None
    clip: str | None = None
    lora: str | None = None

    def validate(self, role: str) -> None:
        """Raises UserError (exit code 2) for an unknown quantization."""
        if self.quantization is not None and self.quantization not in QUANTIZATIONS:
            known = ", ".join(QUANTIZATIONS)
            raise UserError(f"--{role}-quant must be one of {known}, not {self.quantization}.", exit_code=USAGE)


@dataclass(frozen=True)
class GenerationSettings(Plain):
    """How text is generated. `temperature` 0 is greedy; `frames`/`event_frames` None is the model's own default.

    `gamma` is how many tokens the draft proposes per round in speculative modes.
    """

    max_new_tokens: int = 128
    ignore_eos: bool = False
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    frames: int | None = None
    event_frames: int | None = None
    gamma: int = 5
    input: InputSettings = field(default_factory=InputSettings)
    switches: Switches = field(default_factory=Switches)
    speculation: SpeculationSettings = field(default_factory=SpeculationSettings)

    def validate(self) -> None:
        """Raises UserError (exit code 2) for values that mean nothing."""
        checks = (
            (self.max_new_tokens >= 1, f"--max-new-tokens must be at least 1, not {self.max_new_tokens}."),
            (self.temperature >= 0, f"--temperature must be 0 (greedy) or more, not {self.temperature}."),
            (0 < self.top_p <= 1, f"--top-p must lie above 0 and up to 1, not {self.top_p}."),
            (self.seed.bit_length() < 64, f"--seed must lie within 63 bits, not {self.seed}."),
            (self.top_k >= 0, f"--top-k must be 0 (off) or more, not {self.top_k}."),
            (self.gamma >= 1, f"--gamma must be at least 1, not {self.gamma}."),
            (self.frames is None or self.frames >= 1, f"--frames must be at least 1, not {self.frames}."),
            (
                self.event_frames is None or self.event_frames >= 1,
                f"--event-frames must be at least 1, not {self.event_frames}.",
            ),
            (
                max(self.frames or 1, self.event_frames or 1) <= MOST_FRAMES,
                f"--frames and --event-frames go up to {MOST_FRAMES:,}.",
            ),
        )
        for holds, sentence in checks:
            if not holds:
                raise UserError(sentence, exit_code=USAGE)
        self.input.validate()
        self.switches.validate()
        self.speculation.validate()


@dataclass(frozen=True)
class TraceSettings(Plain):
    """A torch profiler trace as a run of its own: where it goes and how many decode steps it covers."""

    folder: str
    tokens: int = 8


@dataclass(frozen=True)
class RunRequest(Plain):
    """One press of Run: `repeat` measured repetitions after `warmup` unmeasured ones of a mode on a sample.

    `warmup` None is one where a model has to be loaded, else none.

    `first_run_id` and `group_id` come from whoever owns the session; the engine numbers onward from them. `cell` and
    `first_repeat` place the runs within a suite; `keeps_frames`: the pictures the models saw are recorded, too.
    """

    mode: str
    sample: Sample
    draft: ModelChoice | None = None
    target: ModelChoice | None = None
    settings: GenerationSettings = field(default_factory=GenerationSettings)
    warmup: int | None = 0
    repeat: int = 1
    trace: TraceSettings | None = None
    first_run_id: int = 1
    group_id: int = 1
    cell: str = ""
    first_repeat: int = 0
    keeps_frames: bool = True

    def validate(self) -> None:
        """Raises UserError (exit code 2) when the mode lacks an input or a model, or settings mean nothing."""
        self.settings.validate()
        self.sample.validate()
        for role, choice in (("draft", self.draft), ("target", self.target)):
            if choice is not None:
                choice.validate(role)
        if self.mode not in MODES:
            raise UserError(f"Unknown mode '{self.mode}'; choose one of {', '.join(MODES)}.", exit_code=USAGE)
        if self.repeat < 1 or (self.warmup or 0) < 0:
            raise UserError("--repeat must be at least 1 and --warmup at least 0.", exit_code=USAGE)
        if "draft" in self.roles and self.draft is None:
            raise UserError(f"Mode {self.mode} needs a draft model; name one with --draft.", exit_code=USAGE)
        if "target" in self.roles and self.target is None:
            raise UserError(f"Mode {self.mode} needs a target model; name one with --target.", exit_code=USAGE)
        self._check_speculation()
        for role in self.reading_roles:
            if self.input_of(role) == "events" and self.sample.events_path is None:
                raise UserError(f"Mode {self.mode} needs an event recording; add --events PATH.", exit_code=USAGE)
            if self.input_of(role) == "video" and self.sample.video_path is None:
                raise UserError(f"Mode {self.mode} needs a video; add --video PATH.", exit_code=USAGE)

    def _check_speculation(self) -> None:
        asked = self.settings.speculation
        if self.mode in PAIRED_MODES and self.settings.switches.early_exit is not None:
            raise UserError(
                "Early exit changes the answer and speculation must not; leave one of them out.",
                exit_code=USAGE,
            )
        if self.mode == PARALLEL_PREFILL and not asked.needs_draft_model:
            raise UserError(
                f"Parallel prefill drafts with the draft model, and drafter {asked.drafter} does not; leave --drafter "
                "out or choose --mode speculative.",
                exit_code=USAGE,
            )
        if self.mode == KV_ADAPTED and not asked.adapter:
            raise UserError("Mode kv-adapted needs a trained map; name its folder with --adapter.", exit_code=USAGE)

    @property
    def roles(self) -> tuple[str, ...]:
        """The models this mode takes, the draft first."""
        return roles_of(self.mode, self.settings.speculation)

    @property
    def reading_roles(self) -> tuple[str, ...]:
        """Those of them that read their half of the sample; over a mapped cache the target reads nothing."""
        return ("draft",) if self.mode == KV_ADAPTED else self.roles

    def choice_of(self, role: str) -> ModelChoice | None:
        """The model of a role as it is loaded: a draft with what was taught to it."""
        if role != "draft" or self.draft is None:
            return self.draft if role == "draft" else self.target
        asked = self.settings.speculation
        changes = asked.drafter == LORA and self.mode in SPECULATIVE_MODES
        return replace(self.draft, lora=asked.adapter) if changes else self.draft

    def input_of(self, role: str) -> str:
        """ "events" or "video": the half of the sample that the model of this role reads."""
        return input_of(self.settings.input, role)


def roles_of(mode: str, speculation: SpeculationSettings | None = None) -> tuple[str, ...]:
    """The models a mode takes, the draft first; in speculative mode some drafters need no model of their own."""
    if mode in ("draft", "target"):
        return (mode,)
    if mode == SPECULATIVE and speculation is not None and not speculation.needs_draft_model:
        return ("target",)
    return ("draft", "target")


def input_of(settings: InputSettings, role: str) -> str:
    """ "events" or "video": what the model of a role reads; by itself a draft reads events and a target video."""
    chosen = settings.draft_input if role == "draft" else settings.target_input
    if chosen != "auto":
        return chosen
    return "events" if role == "draft" else "video"
