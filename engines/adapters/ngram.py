"""What the target usually says next: counts of its own answers' continuations, as an adapter of kind "ngram".

For every run of up to `order` ids that stood in an answer, the id that followed most often, how often, and how often
anything followed. Stored as whole numbers; looked up in plain dictionaries, in a microsecond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from engines.adapters.folder import check_kind, load_tensors, size_of
from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import NGRAM
from evprof.loaders.adapters import AdapterInfo

ORDER = 8
"""Ids a context has at most."""
MOST_ORDER = 16

BEGIN, ABSENT = -1, -2
"""Stand for "the answer begins here" in a context, and for what lies before a short one."""

MOST_CONTEXTS = 400_000
"""Contexts kept: about 100 MB as dictionaries. The commonest stay."""

_MOST_BYTES = MOST_CONTEXTS * 4 * (MOST_ORDER + 3) + (1 << 20)

_NAMES = ("contexts", "following", "count", "total")


class Following(NamedTuple):
    token: int
    times: int
    total: int

    @property
    def confidence(self) -> float:
        """Its share, with one more seen against it: what was met once is a guess, not a rule."""
        return self.times / (self.total + 1)


class NgramCounts:
    """Context -> what follows it. A context is a tuple of at most `order` ids, BEGIN before the first of an answer."""

    def __init__(self, order: int, following: Mapping[tuple[int, ...], Following]) -> None:
        self.order = order
        self._following = following

    def __len__(self) -> int:
        return len(self._following)

    @classmethod
    def of(cls, answers: Iterable[Sequence[int]], order: int = ORDER, most: int = MOST_CONTEXTS) -> NgramCounts:
        counted: dict[tuple[int, ...], Counter[int]] = {}
        for answer in answers:
            whole = (BEGIN, *answer)
            for end in range(1, len(whole)):
                for size in range(1, min(order, end) + 1):
                    counted.setdefault(whole[end - size : end], Counter())[whole[end]] += 1
        if len(counted) > most:
            # The shorter of two that are as common: longer ones back off to it.
            commonest = sorted(counted, key=lambda context: (-counted[context].total(), len(context), context))
            counted = {context: counted[context] for context in commonest[:most]}
        return cls(order, {context: _likeliest(counts) for context, counts in counted.items()})

    def after(self, ids: Sequence[int]) -> Following | None:
        """What follows the longest known end of an answer's `ids`; None where not even the last id is known."""
        recent = tuple(ids[-self.order :])
        if len(ids) < self.order:
            recent = (BEGIN, *recent)
        for start in range(len(recent)):
            found = self._following.get(recent[start:])
            if found is not None:
                return found
        return None

    def tensors(self) -> dict[str, torch.Tensor]:
        """int32: "contexts" [N, order], padded with ABSENT on the left, and "following", "count", "total" [N]."""
        contexts = sorted(self._following, key=lambda context: (len(context), context))
        padded = [(ABSENT,) * (self.order - len(context)) + context for context in contexts]
        columns = [self._following[context] for context in contexts]
        return {
            "contexts": torch.tensor(padded, dtype=torch.int32).reshape(len(contexts), self.order),
            "following": torch.tensor([entry.token for entry in columns], dtype=torch.int32),
            "count": torch.tensor([entry.times for entry in columns], dtype=torch.int32),
            "total": torch.tensor([entry.total for entry in columns], dtype=torch.int32),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor], order: int, rows: int, source: str) -> NgramCounts:
        """The inverse of `tensors`, everything checked. Raises UserError naming `source` for what is no such table."""
        _check(tensors, order, rows, source)
        contexts, following, count, total = (tensors[name].tolist() for name in _NAMES)
        known: dict[tuple[int, ...], Following] = {}
        for context, *entry in zip(contexts, following, count, total, strict=True):
            first = next((place for place, token in enumerate(context) if token != ABSENT), order)
            own = tuple(context[first:])
            if not own or ABSENT in own or BEGIN in own[1:] or own in known:
                raise UserError(
                    f"{source} holds a context that is none or stands there twice; train the adapter again."
                )
            known[own] = Following(*entry)
        return cls(order, known)

    def config(self) -> dict[str, Any]:
        return {"order": self.order, "contexts": len(self)}


def load_ngram(info: AdapterInfo) -> NgramCounts:
    """The counts of an adapter's folder. Raises UserError for another kind, a damaged or an oversized one."""
    check_kind(info, NGRAM)
    order = size_of(info, "order", most=MOST_ORDER)
    path = info.tensors_path
    if path.is_file() and path.stat().st_size > _MOST_BYTES:
        raise UserError(f"{path} is too large for {MOST_CONTEXTS:,} contexts; train the adapter again.")
    return NgramCounts.from_tensors(load_tensors(info), order, info.vocabulary, str(info.tensors_path))


def _check(tensors: Mapping[str, torch.Tensor], order: int, rows: int, source: str) -> None:
    """Shapes, types and ranges, before anything is turned into Python's own numbers."""
    if set(tensors) != set(_NAMES):
        raise UserError(f"{source} must hold {', '.join(_NAMES)} and nothing else; train the adapter again.")
    contexts, following, count, total = (tensors[name] for name in _NAMES)
    size = following.shape[0] if following.dim() == 1 else -1
    shapes = [tuple(tensor.shape) for tensor in (contexts, count, total)]
    if shapes != [(size, order), (size,), (size,)] or any(each.dtype != torch.int32 for each in tensors.values()):
        raise UserError(f"{source} holds tables of other shapes or types than N x {order} int32; train it again.")
    if size > MOST_CONTEXTS:
        raise UserError(f"{source} holds {size:,} contexts; {MOST_CONTEXTS:,} are the most.")
    if size == 0:
        return
    is_sound = (
        int(contexts.min()) >= ABSENT
        and max(int(contexts.max()), int(following.max())) < rows
        and int(following.min()) >= 0
        and bool(((count >= 1) & (count <= total)).all())
    )
    if not is_sound:
        raise UserError(f"{source} holds ids outside the vocabulary of {rows} or impossible counts; train it again.")


def _likeliest(counts: Counter[int]) -> Following:
    token = min(counts, key=lambda one: (-counts[one], one))
    return Following(token, counts[token], counts.total())
