"""What a client can measure of an answer, as intervals and tokens of ours; it knows no program.

Definitions are alike in all of them: the time to the first token and the latency count from sending the request, the
gaps lie between the pieces in which the answer came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from evprof.core.records import TARGET
from evprof.core.run_info import NOT_TOLD
from evprof.loaders.legacy.checks import FileProblems, finite
from evprof.loaders.legacy.reading import Covers
from evprof.loaders.legacy.rows import Interval, LegacyModel

BEFORE = ("preprocess", "vision", "prefill")
"""What happens before a first token is sent. Of a request without pictures there is no vision in it."""

FIRST, REST, WHOLE = "ttft", "latency - ttft", "latency"

COVERS: Covers = {TARGET: {FIRST: [*BEFORE], REST: ["decode"], WHOLE: [*BEFORE, "decode"]}}
"""What the times of a request cover; `latency` stands for both where the first token has no time of its own."""

LONGEST_MS = 6 * 3600 * 1000.0
"""Clients give up after so long, so nothing longer was measured."""

NETWORK = (
    "Times are the client's: the time to the first token counts from sending the request, so it holds the network, "
    "waiting in the server's queue and, beside others' requests, waiting for them; loading is no part of it"
)

IN_ONE_PIECE = "the answer came in one piece, so its first token has no time of its own"

CHUNKS = "pieces of several tokens came, so that not every token has a time of its own; gaps are between pieces"


@dataclass(frozen=True)
class AnswerTimes:
    """The times of one answer; `token_times_ms` is () unless every token has its own."""

    intervals: tuple[Interval, ...]
    token_times_ms: tuple[float, ...] = ()
    has_first_token_time: bool = False


def served_model(name: object) -> LegacyModel:
    """A model behind a server: its name is all that clients know."""
    return LegacyModel(name[:200] if isinstance(name, str) and name else NOT_TOLD, "", "")


@dataclass
class TimeCheck:
    """Reads the times of one row in ms; tells what cannot be one."""

    row: int
    problems: FileProblems

    def ms(self, name: str, value: object, factor: float = 1.0) -> float | None:
        """A time of at least 0 in ms, from `value` times `factor`; None, and told unless null, for what is none."""
        if value is None:
            return None
        number = finite(value)
        if number is None or not 0 <= number * factor <= LONGEST_MS:
            self.problems.of_row(f"{name} is no time, and was left out", self.row)
            return None
        return number * factor

    def all_ms(self, name: str, values: object, factor: float = 1.0) -> tuple[float, ...] | None:
        """A list of times; None, and told, when one of them is none."""
        if values is None:
            return None
        listed = values if isinstance(values, list) else [None]
        found = [None if value is None else self.ms(name, value, factor) for value in listed]
        known = tuple(value for value in found if value is not None)
        if len(known) < len(found):
            self.problems.of_row(f"{name} is no list of times, and was left out", self.row)
            return None
        return known

    def count(self, name: str, value: object) -> int | None:
        """A whole number of at least 0; None, and told unless it is null, for everything else."""
        number = finite(value)
        if value is not None and (number is None or number != int(number) or not 0 <= number < 1 << 40):
            self.problems.of_row(f"{name} is no count, and was left out", self.row)
            return None
        return None if number is None else int(number)

    def answer(
        self, first_ms: float | None, total_ms: float | None, gaps_ms: Sequence[float] | None, tokens: int | None
    ) -> AnswerTimes | None:
        """The answer's times; None when nothing was measured. Without a latency it ends with its last piece.

        A first token of 0 ms was never timed; one that came with all the others has no time of its own.
        """
        if total_ms is None and first_ms:
            total_ms = first_ms + sum(gaps_ms or ())
        if not total_ms:
            return None
        if first_ms and first_ms > total_ms:
            self.problems.of_row("the first token comes after the last one, and has no time therefore", self.row)
            first_ms = None
        came_together = first_ms == total_ms and tokens != 1
        if came_together:
            self.problems.of_row(IN_ONE_PIECE, self.row)
        if not first_ms or came_together:
            return AnswerTimes((Interval(WHOLE, (*BEFORE, "decode"), total_ms, TARGET),))
        parts = (Interval(FIRST, BEFORE, first_ms, TARGET), Interval(REST, ("decode",), total_ms - first_ms, TARGET))
        times: tuple[float, ...] = ()
        if gaps_ms is not None and tokens == len(gaps_ms) + 1:
            times = tuple(accumulate(gaps_ms, initial=first_ms))
        elif gaps_ms is not None and tokens is not None:
            self.problems.of_row(CHUNKS, self.row)
        return AnswerTimes(parts, times, has_first_token_time=True)


def request_name(number: int, input_tokens: int | None) -> str:
    """How a request is told from others where it has no name: by its place and its length."""
    return f"request {number}" if input_tokens is None else f"request {number}, {input_tokens} tokens"
