"""What `evprof merge` and `evprof prune` share: progress, Ctrl-C, and a place that nothing lies at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.protocols import StopFlag

_Done = TypeVar("_Done")


def check_new(output: Path) -> None:
    """Raises UserError unless a new session may be made at `output`."""
    if output.suffix.lower() != ".evprof":
        raise UserError(f"-o: a session's name ends in .evprof; name it '{output.stem}.evprof'.", exit_code=USAGE)
    if output.exists():
        raise UserError(f"-o: '{output}' exists already; name another file.", exit_code=USAGE)


def rewritten(console: Console, work: Callable[[StopFlag, Callable[[str, int, int], None]], _Done]) -> _Done | None:
    """Does the work with progress shown; None where Ctrl-C stopped it, and nothing was changed then."""
    from evprof.run.processes.interrupts import stop_flag

    with stop_flag() as stop, Progress(console) as progress:

        def tell(what: str, done: int, total: int) -> None:
            progress.turn_to(what, "runs", total)
            progress.reach(done)

        try:
            return work(stop, tell if console.is_terminal or console.is_followed else lambda *_: None)
        except Cancelled:
            console.note("stopped; nothing was written")
            return None
