"""Sessions of any number of runs, as a long suite leaves them, for measuring what opening and reading them takes.

Configurations × samples × repeats: five stages with parts, some 40 tokens with their odds, caches and memory, and in
every fifth configuration rounds of speculation. Written through the session's own writer, many runs a commit.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from evprof.core.recording import RecordLog
from evprof.core.records import (
    BEGIN,
    DRAFT,
    END,
    SETTLED,
    STAGES,
    STREAM_OF,
    TARGET,
    AlternativesRecord,
    KvRecord,
    MemoryRecord,
    Record,
    RoundRecord,
    SpanRecord,
    TensorRecord,
    TokenRecord,
)
from evprof.core.run_info import (
    FAILED,
    FINISHED,
    KvFacts,
    LengthFacts,
    LoadingFacts,
    MemoryFacts,
    ModelFacts,
    RunInfo,
    SetupFacts,
)
from evprof.core.sample import Sample
from evprof.core.speculation import SpeculationFacts
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.model_shapes import TextShape, VisionShape
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.run.kept_figures import kept_figures, runs_of
from evprof.run.session_target import sample_files
from evprof.session.store import Commit, SessionFile

CONFIGURATIONS, REPEATS = 50, 2
"""Of a session; its samples are as many as its runs need."""

_OF_COMMIT = 50
"""Runs written at once."""

_MS = 1_000_000
_STAGE_MS = {"load": 30.0, "preprocess": 12.0, "vision": 25.0, "prefill": 90.0, "decode": 480.0}
_PARTS = {"vision": ("tower", "projector", "pooling"), "prefill": ("embed", "layers", "head")}
_ANSWER = "A bus is approaching on a road that curves to the left, with trees on both sides. It is daytime"
_WORDS = ["", *_ANSWER.split()]
_TOKENS = 40
_SPECULATES = 5
"""Every so manieth configuration drafts."""


@dataclass(frozen=True)
class ManyRuns:
    """What a session holds: `runs` in all, in CONFIGURATIONS of as many samples as that takes."""

    runs: int
    configurations: int = CONFIGURATIONS
    repeats: int = REPEATS

    @property
    def samples(self) -> int:
        return max(1, math.ceil(self.runs / (self.configurations * self.repeats)))


def write_many_runs(path: Path, plan: ManyRuns, note: Callable[[str], object] = lambda _: None) -> None:
    """Writes the session. Raises UserError where it cannot be written."""
    chance, count = random.Random(20_260_601), 0
    with closing(SessionFile(path)) as file:
        recording, infos = _Rows(list), list[RunInfo]()
        for info in _infos(plan):
            infos.append(_recorded(recording, info, chance))
            count += 1
            if len(infos) == _OF_COMMIT or count == plan.runs:
                log = _log(recording)
                file.commit(log.streams, _commit(log, infos))
                recording, infos = _Rows(list), []
            if count % 10_000 == 0:
                note(f"{count:,} of {plan.runs:,} runs written")


def _commit(recording: RecordLog, infos: list[RunInfo]) -> Commit:
    samples = [sample for info in infos for sample in sample_files(info)]
    ranges = {name: (0, len(stream)) for name, stream in recording.streams.items() if len(stream)}
    begun = frozenset(info.run_id for info in infos)
    return Commit(ranges, infos, begun, samples, figures=kept_figures(runs_of(recording, infos)))


_Rows = defaultdict[str, list[tuple[Any, ...]]]


def _add(rows: _Rows, record: Record) -> None:
    rows[STREAM_OF[type(record)]].append(record)


def _log(rows: _Rows) -> RecordLog:
    recording = RecordLog()
    for name, listed in rows.items():
        recording.extend(name, listed)
    return recording


def _infos(plan: ManyRuns) -> Iterator[RunInfo]:
    """Every run as it ended, in the order of a suite: sample by sample, each configuration in turn."""
    began = datetime(2026, 6, 1, tzinfo=UTC)
    kinds = [_kind(place) for place in range(plan.configurations)]
    order = itertools.product(range(plan.repeats), range(plan.samples), kinds)
    for number, (repeat, sample, kind) in enumerate(itertools.islice(order, plan.runs), start=1):
        scene, clip = divmod(sample, 4)
        has_failed = number % 997 == 0
        yield replace(
            kind,
            run_id=number,
            group_id=number,
            repeat=repeat,
            sample=Sample(
                events_path=f"/data/scenes/{scene:04}/events.h5",
                video_path=f"/data/scenes/{scene:04}/video.mp4",
                start_us=clip * 500_000,
                duration_us=500_000,
                prompt="What are the key elements in this scene?",
                events_hash=f"blake2b:{scene:032x}",
                video_hash=f"blake2b:{scene:032x}",
                name=f"scene {scene:04} clip {clip}",
            ),
            started_at=(began + timedelta(seconds=0.8 * number)).isoformat(timespec="milliseconds"),
            start_ns=number * 700 * _MS,
            status=FAILED if has_failed else FINISHED,
            error="The device ran out of memory in stage prefill." if has_failed else None,
            warnings=[],
            environment={**kind.environment, "engine_session": f"{number // 2000:08x}"},
        )


def _kind(place: int) -> RunInfo:
    drafts = place % _SPECULATES == _SPECULATES - 1
    frames = 1 + place // 2 % 16
    settings = GenerationSettings(
        max_new_tokens=_TOKENS, frames=frames, speculation=SpeculationSettings(gamma=3 + place % 4)
    )
    models = {TARGET: _model("llava-hf/Video-LLaVA-7B-hf", "video_llava")}
    if drafts:
        models = {DRAFT: _model("EventGPT-7b", "eventgpt"), **models}
    visual = 257 * frames
    lengths = {role: LengthFacts(visual + 30, 1, 29, visual, [257] * frames) for role in models}
    layers = [2 * 2 * 32 * 128 * (visual + 30 + _TOKENS)] * 32
    return RunInfo(
        run_id=0,
        group_id=0,
        repeat=0,
        role=TARGET,
        mode="speculative" if drafts else "target",
        settings=settings,
        cell=f"{frames} frames, {'γ ' + str(settings.speculation.gamma) if drafts else 'plain'}, variant {place}",
        models=models,
        setup={role: SetupFacts() for role in models},
        lengths=lengths,
        kv={role: KvFacts(sum(layers), sum(layers), layers, stored_bytes=sum(layers)) for role in models},
        loading={role: LoadingFacts(158_463, 0, None, frames, "pyav") for role in models},
        environment=dict(_ENVIRONMENT),
        speculation=SpeculationFacts("EventGPT-7b", "model", None, "shared", 32_000, 32_000, 32_064)
        if drafts
        else None,
    )


_ENVIRONMENT: dict[str, Any] = {
    "evprof": "0.2.0",
    "device": "NVIDIA H100 80GB HBM3",
    "processor": "Intel Xeon Platinum 8480+",
    "torch": "2.13.0+cu128",
    "transformers": "5.23.0",
    "python": "3.11.7",
    "system": "Linux 6.8.0 x86_64",
    "threads": 8,
    "gpu_id": "GPU-5f5c2d1e",
    "compute_capability": "9.0",
}


def _model(name: str, family: str) -> ModelFacts:
    return ModelFacts(
        name=name,
        family=family,
        model_type=family,
        parameters=7_063_427_072,
        weight_bytes=14_126_854_144,
        dtype="bfloat16",
        device="cuda:0",
        quantization=None,
        layers=32,
        kv_heads=32,
        head_dim=128,
        kv_element_bytes=2,
        context_limit=4096,
        attention="sdpa",
        cache="static",
        prompt_template=family,
        step="graphs",
        content="blake2b:982bf265d18fda024bd0d1d0faaf76f0",
        attention_kernels={"prefill": "flash", "decode": "flash"},
        text=TextShape(32, 4096, 11_008, 32, 32, 128, 32_064, False),
        vision=VisionShape(1, 24, 1024, 4096, 14, 256, 257, ((1024, 4096), (4096, 4096)), 3),
    )


def _recorded(recording: _Rows, info: RunInfo, chance: random.Random) -> RunInfo:
    drafts, run_id, role = info.mode == "speculative", info.run_id, info.role
    at = info.start_ns or 0
    pace = (1 + 0.02 * info.settings.frames if info.settings.frames else 1) * chance.lognormvariate(0, 0.03)
    number, words = 0, []
    for stage in STAGES:
        length = round(_STAGE_MS[stage] * pace * _MS * (0.7 if drafts and stage == "decode" else 1))
        _span(recording, (run_id, number, -1), role, stage, (at, at + length))
        shape = f"1,{info.lengths[role].input},4096"
        _add(
            recording, TensorRecord(run_id, number, "out", "hidden", shape, "bfloat16", 8192 * info.lengths[role].input)
        )
        for place, part in enumerate(_PARTS.get(stage, ()), start=1):
            share = length // 4
            times = at + share * (place - 1), at + share * place
            _span(recording, (run_id, number + place, number), role, part, times)
        number += 4
        _add(recording, MemoryRecord(run_id, at, 6_000_000_000 + chance.randrange(50_000_000), 40_000_000_000))
        if stage == "decode":
            words = _decode(recording, info, (at, length), chance)
        at += length
    info.end_ns = at + 2 * _MS
    info.text = " ".join(words)
    info.memory = MemoryFacts(14_126_854_144 * len(info.models), 31_000_000_000 + run_id, None, 6_100_000_000 + run_id)
    return info


def _span(recording: _Rows, ids: tuple[int, int, int], role: str, name: str, times: tuple[int, int]) -> None:
    _add(recording, SpanRecord(*ids, BEGIN, role, name, times[0], -1))
    for phase in (END, SETTLED):
        _add(recording, SpanRecord(*ids, phase, role, name, *times))


def _decode(recording: _Rows, info: RunInfo, window: tuple[int, int], chance: random.Random) -> list[str]:
    (at, length), drafts = window, info.mode == "speculative"
    words, count = [], _TOKENS - chance.randrange(8)
    of_round = 4 if drafts else 1
    input_length = info.lengths[info.role].input
    for position in range(count):
        word = _WORDS[(position + chance.randrange(3)) % len(_WORDS)]
        words.append(word)
        token_id = 1000 + sum(map(ord, word)) % 5000
        step = (position + 1) // of_round
        t_ns = at + length * step * of_round // (count + of_round)
        origin = "accepted" if drafts and position % of_round else "bonus" if drafts else "target"
        round_index = position // of_round if drafts else -1
        _add(recording, TokenRecord(info.run_id, info.role, position, token_id, origin, round_index, t_ns, f" {word}"))
        _add(
            recording,
            AlternativesRecord.made(
                (info.run_id, info.role, round_index, position, token_id),
                [token_id + n for n in range(5)],
                [0.7, 0.1, 0.08, 0.05, 0.02],
                1.2,
                [f" {word}", " the", " a", " one", " some"],
            ),
        )
        _add(
            recording,
            KvRecord(info.run_id, info.role, t_ns, input_length + position, 524_288 * (input_length + position)),
        )
        if drafts and position % of_round == of_round - 1:
            accepted = chance.randrange(of_round)
            start = at + length * position // count
            times = (length // count, 2 * length // count, 1000)
            _add(
                recording,
                RoundRecord(info.run_id, round_index, start, *times, of_round, accepted, accepted + 1, "1,2,3,4", 0),
            )
    return words
