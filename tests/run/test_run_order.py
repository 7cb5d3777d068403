"""The order of a request's runs."""

from __future__ import annotations

from typing import Any

from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.requests import run_order


def order(mode: str, loaded: set[str], *, room: int = 2, **changes: int | None) -> list[str]:
    """The runs as words, made by an engine that has room for so many models: a capital letter is a warm-up."""
    request = RunRequest(mode, Sample(), ModelChoice("a"), ModelChoice("b"), **changes)  # type: ignore[arg-type]
    held: list[Any] = [role for role in ("draft", "target") if role in loaded]
    said = []
    for role, repeat in run_order(request, held.__contains__):
        held[:] = [*(other for other in held if other != role), role][-room:]
        said.append(role[0].upper() if repeat < 0 else role[0])
    return said


def test_only_models_that_had_to_be_loaded_warm_up() -> None:
    assert order("side-by-side", set(), warmup=None, repeat=2) == list("DTdtdt")
    assert order("side-by-side", {"draft"}, warmup=None) == list("Tdt")
    assert order("side-by-side", {"draft", "target"}, warmup=None) == list("dt")
    assert order("target", set(), warmup=None) == list("Tt")


def test_as_many_warm_ups_as_were_asked_for() -> None:
    assert order("side-by-side", set(), warmup=0, repeat=2) == list("dtdt")
    assert order("side-by-side", {"draft", "target"}, warmup=2) == list("DTDTdt")


def test_without_room_for_both_each_model_is_repeated_while_it_is_warm() -> None:
    assert order("side-by-side", set(), room=1, warmup=None, repeat=2) == list("DTttDdd")
    assert order("side-by-side", set(), room=1, warmup=0, repeat=2) == list("dtdt")
