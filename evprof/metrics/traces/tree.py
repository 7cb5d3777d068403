"""Which operator called which: the host's scopes of a trace, nested by their times on each thread.

Scopes are operators, profiler steps, data loaders. As in torch-tb-profiler, what crosses its neighbour is left
out, and an operator whose only child has its name is one with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evprof.core.rows.blocks import Ints
from evprof.core.rows.trace_columns import NONE, TraceColumns
from evprof.metrics.traces.roles import COMMUNICATION, HOST_SCOPES, OPERATOR, Mask, slice_roles, text_mask

_WRAPPERS = frozenset({"DataParallel.forward", "DistributedDataParallel.forward"})


def summed(which: Ints, values: Ints, count: int) -> Ints:
    """The sum of the values of each of `count` groups; `which` is the group of each value."""
    found = np.zeros(count, dtype=np.int64)
    np.add.at(found, which, values)
    return found


@dataclass(frozen=True)
class ScopeTree:
    """Scopes in the order thread, beginning, outer before inner: what lies in scope `i` are the `sizes[i]` from `i` on.

    `rows` are places in the trace's slices, `parents` places in the tree (NONE: outermost). `keepers` is each scope
    itself, or the one it is one with. `counts` are the operators that are counted as such.
    """

    rows: Ints
    starts: Ints
    ends: Ints
    names: Ints
    tracks: Ints
    parents: Ints
    depths: Ints
    sizes: Ints
    keepers: Ints
    counts: Mask
    is_operator: Mask
    crossing: int

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def durations(self) -> Ints:
        return self.ends - self.starts

    def totals(self, own: Ints) -> Ints:
        passed = np.concatenate(([0], np.cumsum(own)))
        places = np.arange(len(self))
        found: Ints = passed[places + self.sizes] - passed[places]
        return found

    def of_children(self, values: Ints) -> Ints:
        """The sum over direct children, of those that are scopes of their own."""
        is_child = (self.parents >= 0) & (self.keepers == np.arange(len(self)))
        return summed(self.keepers[self.parents[is_child]], values[is_child], len(self))

    def innermost(self, tracks: Ints, times: Ints) -> Ints:
        """The innermost scope at a time of a thread; NONE where there is none. Merged scopes give their keeper."""
        ranks: dict[int, int] = {}
        for track in self.tracks.tolist():
            ranks.setdefault(track, len(ranks))
        scopes = len(self)
        asked = np.array([ranks.get(track, NONE) for track in tracks.tolist()], dtype=np.int64)
        rank = np.concatenate((np.array([ranks[track] for track in self.tracks.tolist()], dtype=np.int64), asked))
        is_question = np.arange(len(rank)) >= scopes
        order = np.lexsort((np.arange(len(rank)), is_question, np.concatenate((self.starts, times)), rank))
        found = np.full(len(times), NONE)
        ends, threads, moments = self.ends.tolist(), rank.tolist(), times.tolist()
        open_scopes: list[int] = []
        thread = NONE
        for place in order.tolist():
            if threads[place] != thread:
                thread = threads[place]
                open_scopes.clear()
            now = moments[place - scopes] if place >= scopes else None
            start = int(self.starts[place]) if now is None else now
            while open_scopes and ends[open_scopes[-1]] <= start:
                open_scopes.pop()
            if now is None:
                open_scopes.append(place)
            elif open_scopes:
                found[place - scopes] = self.keepers[open_scopes[-1]]
        return found


def scope_tree(trace: TraceColumns) -> ScopeTree:
    slices = trace.slices
    roles = slice_roles(trace.texts, slices.categories, slices.names)
    rows = np.flatnonzero(np.isin(roles, (*HOST_SCOPES, COMMUNICATION)))
    tracks, ends = slices.tracks[rows].astype(np.int64), trace.ends[rows]
    order = np.lexsort((-ends, slices.starts[rows], _first_seen(tracks, slices.starts[rows])))
    rows = rows[order]
    starts, ends, tracks = slices.starts[rows], trace.ends[rows], tracks[order]
    parents, depths, is_kept = _nested(starts, ends, tracks)
    places = np.cumsum(is_kept) - 1
    parents = np.where(parents >= 0, places[parents], NONE)[is_kept]
    rows, starts, ends, tracks, depths = (x[is_kept] for x in (rows, starts, ends, tracks, depths))
    names = slices.names[rows].astype(np.int64)
    is_operator = np.isin(roles[rows], (OPERATOR, COMMUNICATION))
    is_plain = ~text_mask(trace.texts, lambda name: name in _WRAPPERS or name.startswith("Optimizer."))
    keepers = _keepers(parents, names, is_operator)
    return ScopeTree(
        rows,
        starts,
        ends,
        names,
        tracks,
        parents,
        depths,
        _sizes(parents),
        keepers,
        is_operator & is_plain[names] & (keepers == np.arange(len(rows))) if len(rows) else is_operator,
        is_operator,
        int((~is_kept).sum()),
    )


def _nested(starts: Ints, ends: Ints, tracks: Ints) -> tuple[Ints, Ints, Mask]:
    """The parent and the depth of each scope, and whether it lies wholly inside one (or outside all)."""
    parents, depths, kept = [NONE] * len(starts), [0] * len(starts), [True] * len(starts)
    open_scopes: list[int] = []
    until: list[int] = []
    track = NONE
    for place, (start, end, own) in enumerate(zip(starts.tolist(), ends.tolist(), tracks.tolist(), strict=True)):
        if own != track:
            track = own
            open_scopes.clear()
            until.clear()
        while until and start >= until[-1]:
            until.pop()
            open_scopes.pop()
        if until:
            if end > until[-1]:
                kept[place] = False
                continue
            parents[place] = open_scopes[-1]
            depths[place] = len(until)
        open_scopes.append(place)
        until.append(end)
    return np.array(parents, dtype=np.int64), np.array(depths, dtype=np.int64), np.array(kept, dtype=bool)


def _sizes(parents: Ints) -> Ints:
    """How many scopes each holds, itself counted."""
    sizes = [1] * len(parents)
    for place, parent in reversed(list(enumerate(parents.tolist()))):  # what is inside comes after
        if parent >= 0:
            sizes[parent] += sizes[place]
    return np.array(sizes, dtype=np.int64)


def _keepers(parents: Ints, names: Ints, is_operator: Mask) -> Ints:
    """Each scope, or the outermost of a chain of only children with one name."""
    places = np.arange(len(parents))
    has_parent = parents >= 0
    children = np.bincount(parents[has_parent], minlength=len(parents)) if len(parents) else places
    above = np.maximum(parents, 0)
    if not len(parents):
        return places
    is_one = has_parent & (children[above] == 1) & (names == names[above]) & is_operator & is_operator[above]
    keepers = np.where(is_one, above, places)
    while not np.array_equal(further := keepers[keepers], keepers):
        keepers = further
    return keepers


def _first_seen(tracks: Ints, starts: Ints) -> Ints:
    order: dict[int, int] = {}
    for track in tracks[np.argsort(starts, kind="stable")].tolist():
        order.setdefault(track, len(order))
    return np.array([order[track] for track in tracks.tolist()], dtype=np.int64)
