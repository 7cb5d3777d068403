"""What a run holds, for tests that compare two runs."""

from __future__ import annotations

from evprof.core.run_log import RunLog


def content(run: RunLog) -> tuple[object, ...]:
    """Info, spans and rows."""
    rows = (run.tokens, run.rejected, run.rounds, run.judgements, run.kv, run.memory, run.power, run.frames)
    return run.info, run.spans, run.stages(), *rows
