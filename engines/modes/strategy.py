"""Which strategy carries a mode out: the class in the file that the mode's record names."""

from __future__ import annotations

from importlib import import_module

from engines.modes.plain_run import PlainRun
from evprof.core.vocabulary.modes import mode_of


def strategy_of(mode: str) -> type[PlainRun]:
    """The strategy of a mode: in `parallel_run.py` that is ParallelRun."""
    name = f"{mode_of(mode).strategy}_run"
    strategy: type[PlainRun] = getattr(import_module(f"engines.modes.{name}"), name.title().replace("_", ""))
    return strategy
