"""Runs built by hand with numbers that are easy to add up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, END, SETTLED, RoundRecord, SpanRecord, TensorRecord, TokenRecord
from evprof.core.run_info import KvFacts, LengthFacts, MemoryFacts, ModelFacts, RunInfo, SetupFacts
from evprof.core.run_log import RunBook, RunLog
from told import TINY_MODEL, told

MS = 1_000_000
ZERO = 5_000 * MS


def model(name: str = "tiny", **changes: Any) -> ModelFacts:
    sizes = {"parameters": 1000, "weight_bytes": 4000, "layers": 3, "head_dim": 8, "context_limit": 512}
    return replace(TINY_MODEL, name=name, **(sizes | changes))


class RunScript:
    """Writes one run into a Recording: times in ms after the run's zero."""

    def __init__(self, recording: RecordLog, run_id: int = 1, role: str = "target", mode: str = "target") -> None:
        self.recording, self.run_id, self.role, self.next_span = recording, run_id, role, 0
        self.info = RunInfo(
            run_id=run_id,
            group_id=run_id,
            repeat=0,
            role=role,
            mode=mode,
            **told(
                {"max_new_tokens": 16, "temperature": 0.0, "gamma": 3}, {"video": {"path": "a.mp4"}, "prompt": "What?"}
            ),
            start_ns=ZERO,
            models={role: model()},
            setup={role: SetupFacts()},
            lengths={role: LengthFacts(input=20, system=5, text=7, visual=8)},
        )

    def begin(self, **changes: object) -> RunScript:
        for name, value in changes.items():
            setattr(self.info, name, value)
        self.recording.post(RunStarted(self.run_id, self.info))
        return self

    def span(
        self, name: str, start: float, end: float | None, *, role: str = "", parent: int = -1, phase: int = SETTLED
    ) -> int:
        span_id, self.next_span = self.next_span, self.next_span + 1
        start_ns = ZERO + int(start * MS)
        parts = (self.run_id, span_id, parent)
        owner = role or self.role
        self.recording.append(SpanRecord(*parts, BEGIN, owner, name, start_ns, -1))
        if end is not None:
            self.recording.append(SpanRecord(*parts, phase, owner, name, start_ns, ZERO + int(end * MS)))
        return span_id

    def end_unsettled(self, name: str, start: float, end: float) -> int:
        return self.span(name, start, end, phase=END)

    def tensor(self, span_id: int, direction: str, name: str, shape: str, nbytes: int) -> None:
        self.recording.append(TensorRecord(self.run_id, span_id, direction, name, shape, "float32", nbytes))

    def token(self, token_id: int, at: float, origin: str = "target", piece: str = "") -> None:
        position = getattr(self, "_position", 0)
        self.recording.append(
            TokenRecord(
                self.run_id, self.role, position, token_id, origin, -1, ZERO + int(at * MS), piece or f" t{token_id}"
            )
        )
        if origin != "rejected":
            self._position = position + 1

    def round(
        self,
        start: float,
        draft: float,
        verify: float,
        *,
        drafted: int,
        accepted: int,
        emitted: int,
        hidden: int = 0,
        ids: str = "",
    ) -> None:
        index = getattr(self, "_round", 0)
        self._round = index + 1
        self.recording.append(
            RoundRecord(
                self.run_id,
                index,
                ZERO + int(start * MS),
                int(draft * MS),
                int(verify * MS),
                0,
                drafted,
                accepted,
                emitted,
                ids,
                hidden,
            )
        )

    def end(self, at: float, status: str = "finished", **facts: object) -> RunLog:
        self.recording.post(RunEnded(self.run_id, status, None, {"end_ns": ZERO + int(at * MS), **facts}))
        return self.log()

    def log(self) -> RunLog:
        book = RunBook(self.recording)
        book.update()
        return book.runs[self.run_id]


@pytest.fixture
def script() -> Callable[..., RunScript]:
    """Makes a RunScript on a Recording of its own unless given one."""

    def make(
        run_id: int = 1, role: str = "target", mode: str = "target", recording: RecordLog | None = None
    ) -> RunScript:
        return RunScript(recording or RecordLog(), run_id, role, mode)

    return make


@pytest.fixture
def plain_run(script: Callable[..., RunScript]) -> RunLog:
    """load 10, preprocess 20, vision 30, prefill 25, decode 90 (four tokens), 5 ms covered by none: 180 in all."""
    return write_plain(script())


def write_plain(run: RunScript, scale: float = 1.0, tokens: tuple[int, ...] = (7, 8, 9, 2)) -> RunLog:
    run.begin()
    at = 0.0
    for name, length in (("load", 10), ("preprocess", 20), ("vision", 30), ("prefill", 25)):
        span = run.span(name, at, at + length * scale)
        if name == "vision":
            run.tensor(span, "in", "pixel_values", "8,3,64,64", 393216)
            run.tensor(span, "out", "features", "1,8,16", 512)
            run.span("tower", at, at + 20 * scale, parent=span)
            run.span("projector", at + 20 * scale, at + 30 * scale, parent=span)
        at += length * scale
    run.token(tokens[0], at)
    run.span("decode", at, at + 90 * scale)
    for index, token_id in enumerate(tokens[1:], start=1):
        run.token(token_id, at + 90 * scale * index / (len(tokens) - 1), piece="</s>" if token_id == 2 else "")
    return run.end(
        at + 95 * scale,
        text="t7 t8 t9",
        kv={"target": KvFacts(8832, 8832, [2944, 2944, 2944])} if run.role == "target" else {},
        memory=MemoryFacts(weights_bytes=4000, peak_rss_bytes=9000),
    )


@pytest.fixture
def plain_writer() -> Callable[..., RunLog]:
    """The function behind `plain_run`, for runs with other numbers or tokens."""
    return write_plain


@pytest.fixture
def speculative_run(script: Callable[..., RunScript]) -> RunLog:
    """Rounds of 3: accepted 3, 1, 0 and a clipped 2; draft's own stages take 40 ms, decode 80 ms, 10 tokens."""
    return write_speculative(script(run_id=2, mode="speculative"))


def write_speculative(run: RunScript) -> RunLog:
    run.begin(
        models={"target": model(), "draft": model("drafter", layers=1)},
        lengths={"target": LengthFacts(20, 5, 7, 8), "draft": LengthFacts(12, 5, 5, 2)},
    )
    run.span("load", 0, 10, role="draft")
    run.span("load", 10, 20)
    run.span("prefill", 20, 50, role="draft")
    run.span("prefill", 50, 80)
    run.token(1, 80)
    decode = run.span("decode", 80, 160)
    run.span("verify", 85, 100, parent=decode)
    for start, accepted, emitted, ids in (
        (80, 3, 4, "2,3,4"),
        (100, 1, 2, "6,6,6"),
        (120, 0, 1, "9,9,9"),
        (140, 2, 2, "9,10,5"),
    ):
        run.round(start, 5, 15, drafted=3, accepted=accepted, emitted=emitted, ids=ids)
        for index in range(emitted):
            run.token(start + index, start + 20, "accepted" if index < accepted else "bonus")
        if accepted < 3 and emitted > accepted:
            run.token(99, start + 20, "rejected")
    return run.end(165, kv={"target": KvFacts(1, 1, [1], rolled_back=5), "draft": KvFacts(1, 1, [1])})


@pytest.fixture
def speculative_writer() -> Callable[..., RunLog]:
    """The function behind `speculative_run`."""
    return write_speculative
