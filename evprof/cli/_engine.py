"""The hidden command `evprof _engine`: what the window starts as its engine process."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.core.errors import USAGE, UserError
from evprof.core.protocols import Engine


def main(arguments: Sequence[str] = ()) -> int:
    """Serves the host that started this process.

    Raises UserError (exit code 2) when no host did, or for arguments.
    """
    from evprof.run.processes.engine_server import serve

    if arguments:
        raise UserError("evprof _engine takes no arguments; the window starts it.", exit_code=USAGE)
    return serve(_make_engine)


def _make_engine() -> Engine:
    # Here and not above: importing a model library takes seconds, in which the host would hear nothing.
    from engines.start import make_engine

    return make_engine()
