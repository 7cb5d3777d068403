"""What is asked of an engine: paths, names and settings, never arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from evprof.core.errors import UsageError
from evprof.core.plain import Plain
from evprof.core.run_info import Turn
from evprof.core.sample import Sample
from evprof.core.vocabulary.drafters import LORA
from evprof.core.vocabulary.families import EVENTS, READ_BY
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.inputs import InputSettings
from evprof.core.vocabulary.modes import MODES, mode_of
from evprof.core.vocabulary.setting import INPUT, Range, Situation, setting, settings_in
from evprof.core.vocabulary.settings import SETTINGS
from evprof.core.vocabulary.speculation import SpeculationSettings

_ON_CPU = "Here all models run on the CPU."

MEASURING = "Measuring"
"""Head of what is set about how often is measured."""


@dataclass(frozen=True)
class TraceSettings(Plain):
    """A torch profiler trace as a run of its own: where it goes and how many decode steps it covers."""

    folder: str
    tokens: int = 8


@dataclass(frozen=True)
class RunRequest(Plain):
    """One press of Run: `repeat` measured repetitions after `warmup` unmeasured ones of a mode on a sample.

    After them come runs made only to be looked into: under a torch profiler (`trace`), and with `nvtx` ranges.

    `first_run_id` and `group_id` come from whoever owns the session; the engine numbers onward from them. `cell` and
    `first_repeat` place the runs within a suite; `keeps_frames`: the pictures the models saw are recorded, too.
    `turn` is the place of a request that a scheduler made as one run of a turn; such a request without repetitions only
    warms up, or is only profiled.
    """

    mode: str
    sample: Sample
    draft: ModelChoice | None = None
    target: ModelChoice | None = None
    settings: GenerationSettings = field(default_factory=GenerationSettings)
    warmup: int | None = setting(
        0,
        "warm-up runs",
        "Runs before the measured ones, in no figure; auto: one after loading, on a GPU also after settings changed.",
        MEASURING,
        INPUT,
        default=None,
        range=Range(least=0, shown=20, low="auto"),
    )
    repeat: int = setting(
        1, "repetitions", "How often the same is measured.", MEASURING, INPUT, range=Range(least=1, shown=100)
    )
    trace: TraceSettings | None = None
    nvtx: bool = False
    first_run_id: int = 1
    group_id: int = 1
    cell: str = ""
    first_repeat: int = 0
    keeps_frames: bool = True
    turn: Turn | None = None

    def validate(self, *, has_cuda: bool = True) -> None:
        """Raises UserError (exit code 2) for an input or model that is missing, and for settings that cannot be used.

        Window, command line, suites and engine check a request here and nowhere else. `has_cuda`: whether a model of
        the request can run on a CUDA device.
        """
        self.settings.validate()
        self.sample.validate()
        for role, choice in (("draft", self.draft), ("target", self.target)):
            if choice is not None:
                choice.validate(role)
        if self.mode not in MODES:
            raise UsageError(f"Unknown mode '{self.mode}'; choose one of {', '.join(MODES)}.")
        for entry in OF_MEASURING:
            if entry.key != "repeat" or self.repeat or self.turn is None:
                entry.validate(getattr(self, entry.key))
        for role in self.roles:
            if getattr(self, role) is None:
                raise UsageError(f"Mode {self.mode} needs a {role} model; name one with --{role}.")
        self._check_speculation()
        for role in self.reading_roles:
            if self.input_of(role) == EVENTS and self.sample.events_path is None:
                raise UsageError(f"Mode {self.mode} needs an event recording; add --events PATH.")
            if self.input_of(role) != EVENTS and self.sample.video_path is None:
                raise UsageError(f"Mode {self.mode} needs a video; add --video PATH.")
        self._check_refusals(has_cuda=has_cuda)

    def _check_refusals(self, *, has_cuda: bool) -> None:
        """Raises UserError for what no fallback replaces: a missing GPU, and a cache or a step that drafts rule out."""
        values = self.settings.flat()
        for key, value in values.items():
            entry = SETTINGS[key]
            if value == entry.default:
                continue
            refusal = entry.refuses(Situation(self.mode, values), value)
            if (
                not refusal
                and not has_cuda
                and (needs := entry.refuses(Situation(self.mode, values, has_cuda=False), value))
            ):
                refusal = f"{needs} {_ON_CPU}"
            elif key != "cache" and value != "identical":
                continue  # the engine takes another step, and reports it
            if refusal:
                raise UsageError(f"{entry.flag} {value}: {refusal}")
        if self.nvtx and not has_cuda:
            raise UsageError(f"--nvtx needs a model on a CUDA device. {_ON_CPU}")

    def _check_speculation(self) -> None:
        asked = self.settings.speculation
        if mode_of(self.mode).is_paired and self.settings.switches.early_exit is not None:
            raise UsageError("Early exit changes the answer and speculation must not; leave one of them out.")
        if mode_of(self.mode).is_parallel and not asked.needs_draft_model:
            raise UsageError(
                f"Parallel prefill drafts with the draft model, and drafter {asked.drafter} does not; leave --drafter "
                "out or choose --mode speculative."
            )
        if mode_of(self.mode).maps_cache and not asked.adapter:
            raise UsageError("Mode kv-adapted needs a trained map; name its folder with --adapter.")

    @property
    def roles(self) -> tuple[str, ...]:
        return roles_of(self.mode, self.settings.speculation)

    @property
    def reading_roles(self) -> tuple[str, ...]:
        """Those of them that read their half of the sample; over a mapped cache the target reads nothing."""
        return tuple(role for role in self.roles if role in mode_of(self.mode).reading)

    def choice_of(self, role: str) -> ModelChoice | None:
        """The model of a role as it is loaded: a draft with what was taught to it."""
        if role != "draft" or self.draft is None:
            return self.draft if role == "draft" else self.target
        asked = self.settings.speculation
        changes = asked.drafter == LORA and mode_of(self.mode).drafts
        return replace(self.draft, lora=asked.adapter) if changes else self.draft

    def input_of(self, role: str) -> str:
        """ "events" or "video": the half of the sample that the model of this role reads."""
        return input_of(self.settings.input, role)


OF_MEASURING = settings_in(RunRequest)
"""How often is measured; no setting of a run."""


def roles_of(mode: str, speculation: SpeculationSettings | None = None) -> tuple[str, ...]:
    """The models a mode takes, the draft first; in speculative mode some drafters need no model of their own."""
    described = mode_of(mode)
    if described.drafts_in_rounds and speculation is not None and not speculation.needs_draft_model:
        return described.answering
    return described.roles


def input_of(settings: InputSettings, role: str) -> str:
    """EVENTS or VIDEO: what the model of a role reads; by default a draft reads events and a target video."""
    chosen = str(getattr(settings, f"{role}_input"))
    return READ_BY[role] if chosen == "auto" else chosen
