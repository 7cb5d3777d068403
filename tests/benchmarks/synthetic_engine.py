"""An engine without models that only makes records at a rate, for the benchmarks of the window and its engine process.

What it reports is marked as synthetic, so that nobody takes it for a measurement of a model.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from evprof.core.protocols import RequestEnded, RunEnded, RunStarted, Sink, StopFlag, monotonic_ns
from evprof.core.records import BEGIN, END, ORIGIN_TARGET, SETTLED, TARGET, KvRecord, SpanRecord, TokenRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FINISHED, RunInfo
from evprof.core.sample import Sample
from evprof.core.units import NS_PER_S

ENVIRONMENT: dict[str, Any] = {"device": "synthetic", "driver": None, "torch": None, "transformers": None, "gpu": None}

_BURST_S = 0.005
"""Records come in small bursts: nothing sleeps more finely than this on a busy machine."""


@dataclass
class SyntheticEngine:
    """Makes `records_per_s` records for `seconds`: of four, one token, one KV length, and a span's begin and end."""

    records_per_s: float
    seconds: float

    def describe(self) -> dict[str, Any]:
        return dict(ENVIRONMENT)

    def run(self, request: RunRequest, sink: Sink, stop: StopFlag) -> None:
        """One run in mode target, whatever is asked; each record carries the time at which it was made."""
        run_id = request.first_run_id
        start_ns = monotonic_ns()
        sink.post(RunStarted(run_id, synthetic_info(request, start_ns)))
        sink.append(SpanRecord(run_id, 0, -1, BEGIN, TARGET, "decode", start_ns, -1))
        total, made = int(self.records_per_s * self.seconds), 0
        while made < total and not stop.is_set():
            due = min(total, int((monotonic_ns() - start_ns) * self.records_per_s / NS_PER_S))
            for serial in range(made // 4, due // 4):
                self._make_four(run_id, serial, sink)
            made = due
            time.sleep(_BURST_S)
        end_ns = monotonic_ns()
        for phase in (END, SETTLED):
            sink.append(SpanRecord(run_id, 0, -1, phase, TARGET, "decode", start_ns, end_ns))
        status = CANCELLED if stop.is_set() else FINISHED
        sink.post(RunEnded(run_id, status, facts={"end_ns": end_ns, "text": None}))
        sink.post(RequestEnded(run_id))

    def _make_four(self, run_id: int, serial: int, sink: Sink) -> None:
        now = monotonic_ns()
        sink.append(SpanRecord(run_id, serial + 1, 0, BEGIN, TARGET, "step", now, -1))
        sink.append(TokenRecord(run_id, TARGET, serial, serial % 32_000, ORIGIN_TARGET, -1, now, " token"))
        sink.append(KvRecord(run_id, TARGET, now, 600 + serial, (600 + serial) * 524_288))
        sink.append(SpanRecord(run_id, serial + 1, 0, END, TARGET, "step", now, monotonic_ns()))

    def close(self) -> None:
        """Nothing is held."""


def synthetic_info(request: RunRequest, start_ns: int) -> RunInfo:
    return RunInfo(
        run_id=request.first_run_id,
        group_id=request.group_id,
        repeat=0,
        role=TARGET,
        mode="target",
        settings=request.settings,
        sample=Sample(prompt=request.sample.prompt),
        start_ns=start_ns,
        environment=dict(ENVIRONMENT),
    )
