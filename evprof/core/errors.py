"""The one error a person is meant to read; everything else is a defect."""

from __future__ import annotations

FAILURE = 1
"""Exit code: the input or the machine did not allow it."""

USAGE = 2
"""Exit code: the command was asked for in a way that cannot work."""

CANCELLED = 130
"""Exit code: stopped by the person."""


EXIT_CODES = {
    0: "it worked",
    FAILURE: "the input or the machine did not allow it, or a run failed: one sentence says what and what to do",
    USAGE: "the options or arguments cannot work",
    CANCELLED: "stopped with Ctrl-C; what was measured is kept. A second Ctrl-C ends the program at once",
}
"""What `evprof` leaves with, for man page and pages."""


class UserError(Exception):
    """One sentence a person can act on: what happened, where, and the way out.

    `exit_code` is what the command line leaves with: 1 for inputs and machines, 2 for wrong usage, 130 for a cancel.
    """

    def __init__(self, sentence: str, *, exit_code: int = FAILURE) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.exit_code = exit_code


class UsageError(UserError):
    """Wrong usage; exit code 2."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, exit_code=USAGE)


class EngineLost(UserError):  # noqa: N818 - a fact about a process
    """Raised out of an engine whose process cannot go on, since a device it holds has failed; another process can."""


GPU_LOST = "The GPU failed"
"""How the error of a run begins whose GPU failed: the run says nothing of what was measured in it."""


class Cancelled(Exception):  # noqa: N818 - a request that was honoured, not an error
    """Raised inside an engine when the stop flag was seen; the run ends as "cancelled"."""
