"""Places to work as whoever hands out requests sees them: each carries out one at a time, several do so at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.run.places.arrival import Arrival


@dataclass(frozen=True)
class Ended:
    """A request that is over at a place, however.

    `arrival` is what was recorded; None where it went straight into the Recording, and where it is `lost`: nothing of
    it came back, for that reason. `is_begun`: False when a stop came before. `is_cold`: the place's models are gone.
    """

    place: int
    arrival: Arrival | None = None
    lost: str | None = None
    is_begun: bool = True
    is_cold: bool = False


class Places(Protocol):
    """Places by number, which a place keeps; those of one machine tell the same name."""

    @property
    def lost(self) -> str | None:
        """Why none of them can carry out another request; None while one can."""

    @property
    def is_stopping(self) -> bool:
        """Whether what is at work was asked to stop."""

    def free(self) -> list[int]:
        """Those that wait for a request."""

    def machine(self, place: int) -> str:
        """On what it works, by a name that tells machines (and cards) apart."""

    def begin(self, place: int, request: RunRequest, *, is_fresh: bool) -> None:
        """Hands a request to a free place; `is_fresh`: for a new engine process there."""

    def next_ended(self, look: Callable[[], None]) -> Ended | None:
        """Waits until a request has ended, or another place is free (None). Calls `look` about 20 times a second.

        Raises UserError when nothing can be carried out any more, KeyboardInterrupt at the second Ctrl-C.
        """

    def stop(self) -> None:
        """Asks all that is at work to stop."""

    def record_into(self, recording: RecordLog) -> None:
        """From the next request on records go into another Recording, where they go straight into one."""

    def close(self, *, is_broken_off: bool = False) -> None:
        """Ends the engines; `is_broken_off`: without waiting for what is at work."""
