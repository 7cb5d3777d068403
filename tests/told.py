"""Settings, sample and model of a run as files tell them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from evprof.core.run_info import ENGINE_SESSION, ModelFacts, Turn
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.settings import settings_from_json

TINY_MODEL = ModelFacts(
    name="tiny",
    family="video_llava",
    model_type="video_llava",
    parameters=10,
    weight_bytes=40,
    dtype="float32",
    device="cpu",
    quantization=None,
    layers=2,
    kv_heads=2,
    head_dim=4,
    kv_element_bytes=4,
    context_limit=64,
    attention="sdpa",
    cache="dynamic",
    prompt_template="vicuna",
)
"""A model on the CPU."""


def told(settings: dict[str, Any] | None = None, sample: dict[str, Any] | None = None) -> dict[str, Any]:
    """The fields of a RunInfo that a file with these `settings` and this `sample` gives; None: it has no such part."""
    found: dict[str, Any] = {}
    if settings is not None:
        found["settings"], found["given"] = settings_from_json(settings)
    if sample is not None:
        found["sample"] = Sample.from_facts(sample)
    return found


def in_turns(runs: Iterable[RunLog]) -> None:
    """Puts runs in turns of one engine process: every configuration once in each, its runs in order."""
    counts: Counter[str] = Counter()
    for run in runs:
        info = run.info
        if not info.warmup:
            key = f"{info.cell} {info.mode} {info.role} {info.settings.speculation} {info.sample.name}"
            info.environment = {**info.environment, ENGINE_SESSION: "one"}
            info.turn = Turn("series", counts[key], 0)
            counts[key] += 1
