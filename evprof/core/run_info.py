"""What is known of a run apart from its rows: identity, models, settings, lengths, caches, outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evprof.core.plain import Plain, hints_of, plain_values, read
from evprof.core.sample import UNKNOWN, Sample
from evprof.core.vocabulary.families import TextShape, VisionShape
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.settings import settings_from_json, settings_to_json

SAME, SHARED, REENCODED = "same", "shared", "re-encoded"
"""How the vocabularies of draft and target meet: id for id; in part of their ids; through text."""


@dataclass(frozen=True)
class SpeculationFacts(Plain):
    """What a run's speculation really was; None for what does not apply or was not measured.

    `drafter` is its name as told to people, `kind` one of DRAFTERS (or KV). `alignment` is SAME, SHARED or REENCODED;
    `shared_ids` of the target's `target_ids` the drafter can propose. `is_lossless`: the answer is the target's own.
    `concurrency` says how draft and target ran at once ("threads", "streams", "devices"), `draft_threads` and
    `target_threads` with how many CPU threads each. `transfer_bytes` and `transfer_ms` are what drafts took to cross
    from device to device.
    """

    drafter: str
    kind: str
    adapter: str | None = None
    alignment: str = SAME
    shared_ids: int | None = None
    draft_ids: int | None = None
    target_ids: int | None = None
    length: str = "fixed"
    tree: str = ""
    is_lossless: bool = True
    concurrency: str | None = None
    draft_threads: int | None = None
    target_threads: int | None = None
    transfer_bytes: int | None = None
    transfer_ms: float | None = None


RUNNING, FINISHED, CANCELLED, FAILED = "running", "finished", "cancelled", "failed"

REFERENCE = "reference"
"""The cell that a suite measures again and again between blocks, to show drift; it is compared with nothing."""

ENGINE_SESSION = "engine_session"
"""Key of a run's environment: the name of the engine process that made it."""

PLACE, PLACES_AT_WORK = "place", "places_at_work"
"""Keys of the environment of a run that one of several machines made: which (and which card of it), and how many
engines worked there at once."""


NOT_TOLD = "a model that is not told"
"""The name of a model that a file does not name."""


@dataclass(frozen=True)
class ModelFacts(Plain):
    """A loaded model. `parameters` counts scalars, `weight_bytes` what they take on the device (None: an imported file
    does not say). Of a model behind a server nothing is known but its name: its numbers are 0, its words "".

    `attention`, `cache`, `step` and `vision_pass` (of the vision tower, "eager" or "graphs") are what the run really
    took. `content` names what its files hold (None: older sessions and random weights do not say). `layers`,
    `kv_heads`, `head_dim`, `kv_element_bytes` come from the configuration: the KV formula needs them. `text` and
    `vision` (of one frame) are all its sizes; older sessions and imported files do not have them.
    """

    name: str
    family: str
    model_type: str
    parameters: int
    weight_bytes: int | None
    dtype: str
    device: str
    quantization: str | None
    layers: int
    kv_heads: int
    head_dim: int
    kv_element_bytes: int
    context_limit: int
    attention: str
    cache: str
    prompt_template: str
    step: str = "eager"
    vision_pass: str = field(default="eager", compare=False)
    content: str | None = field(default=None, compare=False)
    text: TextShape | None = field(default=None, compare=False)
    vision: VisionShape | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SetupFacts(Plain):
    """Time spent before a run's zero, in ms; None where it was not spent or not measured (a warm engine).

    `first_use`: the model, on a GPU, was not run like this before since it was loaded. A GPU's libraries load kernels
    and choose among them when a shape first asks for one, so what this took lies inside the stages.
    """

    import_ms: float | None = None
    weights_ms: float | None = None
    compile_ms: float | None = None
    first_use: bool = False


@dataclass(frozen=True)
class LengthFacts(Plain):
    """Positions of one model's prompt: `input` in all = `system` + `text` + `visual`.

    `per_frame` are the visual positions that are one frame's own; what frames share (EventGPT's spatial means) is not
    among them.
    """

    input: int
    system: int
    text: int
    visual: int
    per_frame: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class LoadingFacts(Plain):
    """What stage load of one model read; None for what does not apply, or what this platform cannot say.

    `bytes_read`: bytes of files that were asked for; `bytes_from_disk`: of these, the ones the page cache did not have.
    `events`: camera events brought onto the host; `frames`: pictures decoded. `decoder`: the format's name for events,
    for pictures the library that decoded them. `frame_cache`: "hit" or "miss" where it was switched on.
    """

    bytes_read: int | None = None
    bytes_from_disk: int | None = None
    events: int | None = None
    frames: int | None = None
    decoder: str | None = None
    frame_cache: str | None = None


@dataclass(frozen=True)
class KvLayout(Plain):
    """How a layer's keys lie in memory, told by the first layer; values and the other layers lie as they do.

    `shape` is [batch, kv_heads, positions, head_dim] of what is in use (of a cache packed in blocks: its first block),
    `strides` the elements from one index to the next. `is_contiguous`: nothing lies between the elements in use.
    """

    shape: list[int]
    strides: list[int]
    dtype: str
    is_contiguous: bool


@dataclass(frozen=True)
class KvFacts(Plain):
    """One model's cache at the end of the run, measured by walking its tensors.

    `measured_bytes`: the positions in use, in the form they are kept in; `stored_bytes`: the storages their tensors lie
    in, of which a view may show less; `reserved_bytes`: all that is set aside. `rolled_back` counts the positions that
    were written for rejected draft tokens and cut off again. `layout` is None where it was not looked at.
    """

    measured_bytes: int
    reserved_bytes: int
    per_layer_bytes: list[int]
    rolled_back: int = 0
    stored_bytes: int | None = None
    layout: KvLayout | None = None


@dataclass(frozen=True)
class MemoryFacts(Plain):
    """Memory of a run in bytes; None where this device or platform cannot say.

    `measuring_ms`: what reading it took, between the stages and therefore part of the unattributed time.
    """

    weights_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    peak_rss_bytes: int | None = None
    by_stage: dict[str, int] = field(default_factory=dict)
    measuring_ms: float | None = None


@dataclass(frozen=True)
class ClockFacts(Plain):
    """How far a device's clock ran away from the host's during a run, in µs: positive where the device's was slower.

    `uncertainty_us` is how far the figure may be off. `is_corrected`: device times were stretched by it.
    """

    drift_us: float
    uncertainty_us: float
    is_corrected: bool


@dataclass(frozen=True)
class ImportedFacts(Plain):
    """Where a run that was not made here comes from: `row` of the file `path` of result files of a `family`.

    `output_tokens` and `decode_steps` are what the file counted. `figures` are other numbers it gives, under our names
    with our units; `notes` is what is wrong with this row or has to be known of it, in sentences.

    `has_first_token_time`: the first token came with the end of prefill, as the file measured it. `has_token_times`:
    the times of the tokens' records were measured; else they are made up. `accepted_histogram`: how many rounds
    accepted so many tokens.
    """

    path: str
    family: str
    row: int
    output_tokens: int | None = None
    decode_steps: int | None = None
    figures: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    has_first_token_time: bool = False
    has_token_times: bool = False
    accepted_histogram: dict[str, int] = field(default_factory=dict)


class RowKey(NamedTuple):
    """Which row of a suite a run is of, in this session and when it is continued; warm-ups are rows of their own."""

    cell: str
    sample: str
    prompt: str
    repeat: int
    role: str
    warmup: bool = False


FEWEST_TURNS = 5
"""Turns from which on differences have an interval, and the usual number of turns of a measurement."""


@dataclass(frozen=True)
class Turn(Plain):
    """The place of a run among the runs that are compared. Each turn of a `series` runs every configuration once, in a
    random order.

    `number` counts the turns of the series, `place` the runs of the turn; both start at 0.
    """

    series: str
    number: int
    place: int


@dataclass
class RunInfo:
    """One run. Per-model facts are keyed by role, "draft" or "target"; `role` says whose text is the answer.

    `cell` names the configuration in a suite or an imported file: runs of one cell differ in sample and `repeat` only.
    `chosen_baseline` holds the numbers of the runs that the user chose as the baseline, [] where the rule chooses.
    `name` and `note` are the user's words for the run. `is_deleted`: deleted, and kept so that this can be undone; no
    reader is shown it.
    `start_ns`/`end_ns` are the wall's own pair of clock readings: the start of stage load (the run's zero) and the end
    of the run. They are None until known. `started_at` is ISO 8601 UTC. `clocks` are by the name of their device.
    `turn` is None for runs that were not scheduled in turns, warm-ups and profiled runs.

    `given` names the settings that an imported file or an older session tells; None: all were chosen or taken by us.
    """

    run_id: int
    group_id: int
    repeat: int
    role: str
    mode: str
    settings: GenerationSettings = field(default_factory=GenerationSettings)
    sample: Sample = UNKNOWN
    started_at: str = ""
    status: str = RUNNING
    error: str | None = None
    warmup: bool = False
    profiled: bool = False
    start_ns: int | None = None
    end_ns: int | None = None
    models: dict[str, ModelFacts] = field(default_factory=dict)
    setup: dict[str, SetupFacts] = field(default_factory=dict)
    lengths: dict[str, LengthFacts] = field(default_factory=dict)
    kv: dict[str, KvFacts] = field(default_factory=dict)
    loading: dict[str, LoadingFacts] = field(default_factory=dict)
    memory: MemoryFacts = field(default_factory=MemoryFacts)
    clocks: dict[str, ClockFacts] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    text: str | None = None
    trace_path: str | None = None
    snapshot_path: str | None = None
    warnings: list[str] = field(default_factory=list)
    cell: str = ""
    imported: ImportedFacts | None = None
    speculation: SpeculationFacts | None = None
    chosen_baseline: list[int] = field(default_factory=list)
    name: str = ""
    note: str = ""
    is_deleted: bool = False
    turn: Turn | None = None
    given: frozenset[str] | None = None

    @property
    def given_settings(self) -> dict[str, Any]:
        listed = self.settings.flat()
        return listed if self.given is None else {name: listed[name] for name in listed if name in self.given}

    @property
    def row(self) -> RowKey | int:
        """Which row of its suite it is, however often that was begun; of other origin its number."""
        if not self.cell or self.imported is not None:
            return self.run_id
        return RowKey(self.cell, self.sample.name, self.sample.prompt, self.repeat, self.role, self.warmup)

    @property
    def has_token_times(self) -> bool:
        """Whether the times of its tokens' records were measured; those of most imported runs are made up."""
        return self.imported is None or self.imported.has_token_times

    @property
    def is_cold(self) -> bool:
        """Whether a model was loaded for this run, or on a GPU first used like this: its passes pay for memory, caches
        and kernels that later ones find."""
        paid = any(setup.weights_ms is not None or setup.first_use for setup in self.setup.values())
        return self.imported is None and paid

    @property
    def marks(self) -> tuple[str, ...]:
        """Why the run stands in no figure, in words."""
        known = (("warm-up", self.warmup), ("cold", self.is_cold and not self.warmup), ("profiled", self.profiled))
        return tuple(word for word, holds in known if holds)

    @property
    def is_over(self) -> bool:
        return self.status != RUNNING

    def to_json(self) -> dict[str, Any]:
        values = plain_values(self)
        del values["given"]
        if self.given is not None:
            values["settings"] = settings_to_json(self.settings, self.given)
        values["sample"] = self.sample.facts() if self.imported is None else self.sample.imported_facts()
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RunInfo:
        """The inverse of `to_json`: settings and sample as far as they fit. Raises UnfitError where another field does
        not."""
        settings, given = settings_from_json(values.get("settings"))
        sample = Sample.from_facts(values.get("sample"))
        found: RunInfo = read({**values, "settings": settings, "given": given, "sample": sample}, cls)
        return found

    def copied(self) -> RunInfo:
        """One of its own for a reader: what `merge` and warnings change in it changes here no more.

        Facts, settings and sample are shared; nobody changes those.
        """
        own = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name, value in own.items():
            if isinstance(value, (dict, list)):
                own[name] = value.copy()
        return RunInfo(**own)

    def spoil(self, sentence: str) -> None:
        """Marks a run of which rows are damaged: it counts as failed, so that no figure includes it."""
        if sentence not in self.warnings:
            self.warnings = [*self.warnings, sentence]
        if self.status != FAILED:
            self.status, self.error = FAILED, sentence

    def merge(self, facts: dict[str, Any]) -> None:
        """Takes newly known fields in; the per-role dictionaries are merged role by role, everything else replaced.

        `facts` holds plain values (see `to_json`) or the fact objects themselves.
        """
        hints = hints_of(RunInfo)
        for name, value in facts.items():
            if name in _BY_ROLE:
                getattr(self, name).update(read(value, hints[name]))
            elif name in hints:
                setattr(self, name, read(value, hints[name]) if isinstance(value, dict) else value)


_BY_ROLE = frozenset({"models", "setup", "lengths", "kv", "loading"})
