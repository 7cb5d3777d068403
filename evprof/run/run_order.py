"""In which order the runs of a request are made: warm-ups first, then the repeats of all its models in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from evprof.core.request import RunRequest
from evprof.core.vocabulary.modes import mode_of


def run_order(request: RunRequest, is_warm: Callable[[str], bool]) -> Iterator[tuple[str, int]]:
    """(role, repeat) of every measured run and every warm-up, whose repeat is negative.

    `is_warm` says whether all models that a role's runs take are loaded and, on a GPU, were run like this before; it is
    asked on the way. Without a number of warm-ups in the request there is one wherever that is not so. Two models that
    cannot stay loaded together are repeated one after the other, because in turn each run would load its model again.
    """
    roles = mode_of(request.mode).answering
    warm_ups = {role: _warm_ups(request, is_warm=is_warm(role)) for role in roles}
    most = max(warm_ups.values())
    yield from ((role, repeat) for repeat in range(-most, 0) for role in roles if repeat >= -warm_ups[role])
    if not most or all(is_warm(role) for role in roles):
        yield from ((role, repeat) for repeat in range(request.repeat) for role in roles)
        return
    for role in reversed(roles):
        if not is_warm(role):  # the one that was loaded last still is
            yield from ((role, repeat) for repeat in range(-_warm_ups(request, is_warm=False), 0))
        yield from ((role, repeat) for repeat in range(request.repeat))


def _warm_ups(request: RunRequest, *, is_warm: bool) -> int:
    return request.warmup if request.warmup is not None else int(not is_warm)
