"""Runs by the dozen for claims and reports: a configuration's means in, its runs out, with a little scatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evprof.core.records import COVERS, SETTLED, RoundRecord, SpanRecord, TokenRecord
from evprof.core.run_info import (
    ImportedFacts,
    KvFacts,
    LengthFacts,
    MemoryFacts,
    ModelFacts,
    RunInfo,
    SpeculationFacts,
    Turn,
)
from evprof.core.run_log import RunLog
from evprof.metrics.configurations.gathering import Configuration
from told import TINY_MODEL, told

MS = 1_000_000
SCATTER = (1.0, 1.02, 0.98, 1.01, 0.99, 1.0)
"""What a sample's times are multiplied with, unless a cell says otherwise: 1 on average, in every configuration."""


@dataclass(frozen=True)
class Cell:
    """One configuration: times in ms of its intervals by name ("vision+prefill" for a piece), and all else."""

    name: str = "cell"
    role: str = "target"
    mode: str = "target"
    stages: dict[str, float] = field(default_factory=lambda: {"vision": 30.0, "prefill": 500.0, "decode": 140.0})
    tokens: Sequence[int] = (1, 2, 3, 4, 5, 6)
    pieces: Sequence[str] = ()
    text: str | None = None
    prompt: int = 0
    frames: int = 1
    frame_tokens: int = 576
    settings: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    weights: int | None = None
    samples: int = 6
    scatter: dict[str, Sequence[float]] = field(default_factory=dict)
    """By stage."""
    is_imported: bool = True
    family: str = "one-vs-eight"
    figures: dict[str, float] = field(default_factory=dict)
    steps: int | None = None
    output: int | None = None
    rounds: Sequence[tuple[int, int, int]] = ()
    """(drafted, accepted, hidden) of each round."""
    vision_parts: Sequence[str] = ()
    kv_bytes: int | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    is_warmup: bool = False
    speculation: SpeculationFacts | None = None
    drafts: Cell | None = None
    """Whose model drafts, of a paired mode."""

    def with_(self, **changes: Any) -> Cell:
        return replace(self, **changes)

    def column(self, first_run: int = 1) -> Configuration:
        return Configuration(tuple(self.runs(first_run)))

    def runs(self, first_run: int = 1) -> list[RunLog]:
        return [self._run(first_run + place, place) for place in range(self.samples)]

    def _run(self, run_id: int, place: int) -> RunLog:
        run = RunLog(self._info(run_id, place))
        at = number = 0
        for name, duration in self.stages.items():
            factors = self.scatter.get(name, SCATTER)
            length = round(duration * MS * factors[place % len(factors)])
            run.absorb(SpanRecord(run_id, number, -1, SETTLED, self.role, name, at, at + length))
            if name.split(COVERS)[-1] == "vision":
                for part, child in enumerate(self.vision_parts, start=number + 100):
                    run.absorb(SpanRecord(run_id, part, number, SETTLED, self.role, child, at, at + 1))
            at, number = at + length, number + 1
        if not self.is_imported:
            run.info.end_ns = at
        for index, (drafted, accepted, hidden) in enumerate(self.rounds):
            row = (index, at, 5 * MS, 10 * MS, 0, drafted, accepted, accepted + 1, "", hidden)
            run.absorb(RoundRecord(run_id, *row))
        for index, token in enumerate(self.tokens):
            piece = self.pieces[index] if index < len(self.pieces) else ""
            run.absorb(TokenRecord(run_id, self.role, index, token, "target", -1, at, piece))
        return run

    def _info(self, run_id: int, place: int) -> RunInfo:
        info = RunInfo(
            run_id=run_id,
            group_id=run_id,
            repeat=0,
            role=self.role,
            mode=self.mode,
            **told(self.settings, {"name": f"sample {place}", "prompt": "What?"}),
            status="finished",
            start_ns=0,
            models={self.role: self._model()} | ({} if self.drafts is None else {"draft": self.drafts._model()}),
            memory=MemoryFacts(weights_bytes=self.weights),
            environment=self.environment,
            text=self.text,
            cell=self.name,
            warmup=self.is_warmup,
            speculation=self.speculation,
            turn=None if self.is_imported else Turn("series", 0, 0),
        )
        if self.prompt:
            visual = self.frames * self.frame_tokens
            each = [self.frame_tokens] * self.frames
            info.lengths = {self.role: LengthFacts(self.prompt, 0, self.prompt - visual, visual, each)}
        if self.kv_bytes is not None:
            info.kv = {self.role: KvFacts(self.kv_bytes, self.kv_bytes, [self.kv_bytes])}
        if self.is_imported:
            info.imported = ImportedFacts(
                "f.json", self.family, place, output_tokens=self.output, decode_steps=self.steps, figures=self.figures
            )
        return info

    def _model(self) -> ModelFacts:
        values: dict[str, Any] = {
            "name": "EventGPT-7b" if self.role == "draft" else "llava-hf/llava-1.5-7b-hf",
            "family": "eventgpt" if self.role == "draft" else "llava",
            "model_type": "",
            "parameters": 7_063_427_072,
            "weight_bytes": None,
            "dtype": "bfloat16" if self.role == "draft" else "float16",
            "device": "" if self.is_imported else "cpu",
            "layers": 32,
            "kv_heads": 32,
            "head_dim": 128,
            "kv_element_bytes": 2,
            "context_limit": 4096,
            "prompt_template": "",
        }
        return replace(TINY_MODEL, **(values | self.model))


DRAFT_002 = Cell(
    name="EventGPT, 1 event frame",
    role="draft",
    mode="side-by-side",
    stages={"preprocess": 3.6, "vision": 5.9, "prefill": 66.1, "decode": 92.7},
    tokens=(),
    steps=5,
    prompt=636,
    frame_tokens=577,
    settings={"event_frames": 1, "input": {"pooling": "none"}},
    figures={"kv_cache_bytes": 318.0 * (1 << 20)},
)
"""Document 002's one event frame."""

TARGET_002 = Cell(
    name="LLaVA-1.5, 8 video frames",
    role="target",
    mode="side-by-side",
    stages={"preprocess": 78.7, "vision": 29.5, "vision+prefill": 568.1, "decode": 143.9},
    tokens=(),
    steps=5,
    prompt=4643,
    frames=8,
    settings={"frames": 8},
    figures={"kv_cache_bytes": 2321.5 * (1 << 20)},
)
"""Document 002's eight video frames; its prefill holds the vision pass once more."""

TINY = {"name": "tiny", "layers": 2, "kv_heads": 2, "head_dim": 8, "kv_element_bytes": 4, "dtype": "float32"}
"""A model that is none of the documents'."""
