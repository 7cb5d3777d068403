"""A small session whose content is known, for the tests of the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evprof.core.protocols import EngineChanged, RequestEnded, RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import (
    BEGIN,
    END,
    AlternativesRecord,
    FrameRecord,
    JudgementRecord,
    KvRecord,
    MemoryRecord,
    PowerRecord,
    RoundRecord,
    SpanRecord,
    TensorRecord,
    TokenRecord,
)
from evprof.core.run_info import KvFacts, LengthFacts, MemoryFacts, ModelFacts, RunInfo, SetupFacts
from evprof.run.session_writer import SessionWriter
from told import told

ENVIRONMENT = {"device": "AMD Ryzen", "torch": "2.13.0", "gpu": None, "threads": 2}
PIECES = ["▁A", " caf", "é", "<0xE2>", "<0x82>", "<0xAC>", " naïve 道路", ""]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 3


def model_facts() -> ModelFacts:
    return ModelFacts(
        "tiny", "eventgpt", "EventChat_llama", 1_000_000, 2_000_000, "bfloat16", "cpu", None, 8, 4, 32, 2, 2048, "sdpa",
        "dynamic", "USER: {prompt} ASSISTANT:",
    )  # fmt: skip


def known_info(run_id: int = 1, group_id: int = 1) -> RunInfo:
    return RunInfo(
        run_id=run_id,
        group_id=group_id,
        repeat=0,
        role="draft",
        mode="draft",
        **told(
            {"max_new_tokens": 8, "temperature": 0.0},
            {"events": {"path": "/gone/événements.npy"}, "prompt": "What is\nin the “scene”?"},
        ),
        started_at="2026-01-02T03:04:05+00:00",
        environment=ENVIRONMENT,
    )


def known_recording(run_id: int = 1, group_id: int = 1) -> RecordLog:
    """One finished run with rows in every stream."""
    recording = RecordLog()
    recording.post(EngineChanged("ready", "", 5, ENVIRONMENT))
    recording.post(RunStarted(run_id, known_info(run_id, group_id)))
    start = 7_000_000_000_000
    for serial, name in enumerate(("load", "preprocess", "vision", "prefill", "decode")):
        begin = start + serial * 10_000_000
        recording.append(SpanRecord(run_id, serial, -1, BEGIN, "draft", name, begin, -1))
        recording.append(SpanRecord(run_id, serial, -1, END, "draft", name, begin, begin + 9_000_000))
        recording.append(TensorRecord(run_id, serial, "out", "features", f"1,{serial},512", "bfloat16", 1024 * serial))
    for place, piece in enumerate(PIECES):
        t_ns = start + 60_000_000 + place * 1_234_567
        recording.append(TokenRecord(run_id, "draft", place, 900 - place, "target", -1, t_ns, piece))
        recording.append(KvRecord(run_id, "draft", t_ns, 640 + place, (640 + place) * 4096))
    recording.append(RoundRecord(run_id, 0, start + 70_000_000, 5, 6, 7, 5, 3, 4, "12,7,901,4,5", 0))
    recording.append(JudgementRecord(run_id, 0, 0, 1, 12, 12, 1, 912_345, 870_001, 870_001, 903_210, " caf", " caf"))
    recording.append(JudgementRecord(run_id, 0, 1, 2, 7, 4, 0, -1, 12_345, 987_655, -1, "é", "<0xE2>"))
    five = (0.912, 0.05, 0.03, 0.007, 0.001)
    where = (run_id, "draft", -1, 1, 899)
    recording.append(
        AlternativesRecord.made(where, [899, 7, 0, 65_535, 4], five, 0.731, [" caf", "é", "", "\n", "<s>"])
    )
    recording.append(MemoryRecord(run_id, start + 1, 123_456_789_012, -1))
    recording.append(PowerRecord(run_id, 205, "cuda:0", 5_000_000, 301_500, 1980, 3201, 61, 0x20, 97, -1))
    recording.append(FrameRecord(run_id, "draft", 0, 0, 20_000, "slice 1", PNG))
    recording.append(FrameRecord(run_id, "draft", 1, 20_000, 40_000, "slice 2", b""))
    recording.post(
        RunEnded(
            run_id,
            "finished",
            facts={
                "start_ns": start,
                "end_ns": start + 90_000_000,
                "text": "A café€ naïve 道路",
                "models": {"draft": model_facts()},
                "setup": {"draft": SetupFacts(weights_ms=12.5)},
                "lengths": {"draft": LengthFacts(640, 30, 27, 583)},
                "kv": {"draft": KvFacts(2_650_112, 2_650_112, [331_264] * 8, 1)},
                "memory": MemoryFacts(weights_bytes=2_000_000, by_stage={"vision": 77}),
            },
        )
    )
    recording.post(RequestEnded(run_id))
    return recording


@pytest.fixture
def recording() -> RecordLog:
    return known_recording()


@pytest.fixture
def write_session(tmp_path: Path) -> Callable[..., Path]:
    """Writes a recording (the known one by default) as a closed session."""

    def write(content: RecordLog | None = None, name: str = "s.evprof") -> Path:
        path = tmp_path / name
        with SessionWriter(content or known_recording(), path):
            pass
        return path

    return write


@pytest.fixture
def two_runs(write_session: Callable[..., Path]) -> Path:
    """A closed session of two runs that were recorded one after the other."""
    write_session(known_recording(1, 1))
    return write_session(known_recording(2, 2))
