"""The spans of a run as columns to sort and filter: start, duration, time of their own, and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evprof.core.rows.blocks import Ints
from evprof.core.rows.spans import RUNNING
from evprof.core.run_log import RunLog
from evprof.view.labels import stages_in
from evprof.view.lanes import VERIFY, Floats


class SpanLines(NamedTuple):
    """One entry per span of some runs, in the order of their first records.

    `names` and `stages` are codes into `words` (a stage's own name is both), `roles` into `role_words`. Times are ms;
    `starts` count from the run's zero. `own` is the duration without that of the parts. NaN: not known.
    """

    run_ids: Ints
    ids: Ints
    roles: Ints
    names: Ints
    stages: Ints
    starts: Floats
    durations: Floats
    own: Floats
    tokens: Floats
    words: tuple[str, ...]
    role_words: tuple[str, ...]


def span_lines(runs: Sequence[RunLog]) -> SpanLines:
    """The spans of all these runs; one that goes on has no duration."""
    words: dict[str, int] = {}
    role_words: dict[str, int] = {}
    columns = [_columns_of(run, words, role_words) for run in runs]
    empty = [np.zeros(0, dtype=np.int64)] * 9
    joined = map(np.concatenate, zip(*columns, strict=True)) if columns else empty
    return SpanLines._make([*joined, tuple(words), tuple(role_words)])


def _columns_of(run: RunLog, words: dict[str, int], role_words: dict[str, int]) -> tuple[Ints | Floats, ...]:
    """The first nine columns of one run; new words are added to those of all runs."""
    spans, first = run.span_columns, run.first_stage
    zero_ns = run.info.start_ns if run.info.start_ns is not None else 0 if first is None else first.start_ns
    starts, ends, parents = spans.starts, spans.ends, spans.places(spans.parents)
    has_end = spans.states != RUNNING
    durations = np.where(has_end, ends - starts, np.nan) / 1e6
    own = durations - _covered_ns(starts, np.where(has_end, ends, starts), parents) / 1e6
    names = _codes(words, spans.name_words)[spans.names]
    stages = np.where(parents >= 0, names[parents], names)
    roles = _codes(role_words, spans.role_words)[spans.roles]
    run_ids, tokens = np.full(len(starts), run.run_id), _tokens(run, starts, parents)
    return run_ids, spans.ids, roles, names, stages, (starts - zero_ns) / 1e6, durations, own, tokens


def _codes(known: dict[str, int], words: Sequence[str]) -> Ints:
    return np.array([known.setdefault(word, len(known)) for word in words], dtype=np.int64)


def _covered_ns(starts: Ints, ends: Ints, parents: Ints) -> Floats:
    """How much of each span its parts cover, overlaps once."""
    parts = np.flatnonzero(parents >= 0)
    if not len(parts):
        return np.zeros(len(starts))
    parts = parts[np.lexsort((starts[parts], parents[parts]))]
    owners = parents[parts]
    # Each owner's parts lie in a stretch of their own, so that one running maximum serves all of them.
    zero, width = int(starts.min()), int(ends.max() - starts.min()) + 1
    base = np.concatenate([[0], np.cumsum(np.diff(owners) != 0)]) * width - zero
    lows = base + np.maximum(starts[parts], starts[owners])
    highs = base + np.minimum(ends[parts], ends[owners])
    reached = np.concatenate([[-1], np.maximum.accumulate(highs)[:-1]])
    covered = np.maximum(highs - np.maximum(lows, reached), 0)
    total: Floats = np.bincount(owners, weights=covered, minlength=len(starts)).astype(np.float64)
    return total


def _tokens(run: RunLog, starts: Ints, parents: Ints) -> Floats:
    """Visual tokens, the prompt's tokens, the answer's after the first, as bars name them; of verify the round's."""
    spans = run.span_columns
    tokens = np.full(len(starts), np.nan)
    has_times = run.info.has_token_times
    times, rounds = (run.answer_column(name) if has_times else starts[:0] for name in ("t_ns", "round_index"))
    for place in np.flatnonzero(spans.are_stages(slice(None))).tolist():
        name, role = spans.name_words[int(spans.names[place])], spans.role_words[int(spans.roles[place])]
        lengths, last = run.info.lengths.get(role), stages_in(name)[-1]
        if last in ("vision", "prefill") and lengths is not None:
            tokens[place] = lengths.visual if last == "vision" else lengths.input
        elif last == "decode" and role == run.info.role and len(times):
            tokens[place] = (times > starts[place]).sum()
            parts = np.flatnonzero(parents == place)
            parts = parts[np.argsort(starts[parts], kind="stable")]
            passed = np.searchsorted(times[rounds >= 0], starts[parts], side="right")
            is_verify = spans.names[parts] == spans.name_code(VERIFY)
            tokens[parts[is_verify]] = np.diff(np.append(passed, (rounds >= 0).sum()))[is_verify]
    return tokens
