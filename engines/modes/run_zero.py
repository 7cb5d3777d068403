"""The run's zero, on which all of its times count: when the first of its passes begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engines.stages.pipeline import Tell


class RunZero:
    """Hears of all passes and tells each thing on, of their beginnings only the first: the run's zero is that."""

    def __init__(self, describe: Callable[[dict[str, Any]], None]) -> None:
        self._describe = describe
        self._is_told = False

    def teller(self, role: str) -> Tell:
        """What hears of a role's pass."""

        def tell(name: str, value: Any) -> None:
            if name in ("lengths", "loading"):
                self._describe({name: {role: value}})
            elif not self._is_told:
                self._is_told = True
                self._describe({"start_ns": value})

        return tell
