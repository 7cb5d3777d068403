"""The hidden command `evprof _engine`: what the window starts as its engine process."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.core.errors import USAGE, UserError
from evprof.core.protocols import Engine


def main(arguments: Sequence[str] = ()) -> int:
    """Serves the host that started this process; `--synthetic RECORDS_PER_S SECONDS` serves an engine without models.

    Raises UserError (exit code 2) when no host did, or for other arguments.
    """
    from evprof.run.processes.engine_server import serve

    match list(arguments):
        case []:
            return serve(_make_engine)
        case ["--synthetic", records_per_s, seconds]:
            from evprof.run.benches.synthetic_engine import SyntheticEngine

            return serve(lambda: SyntheticEngine(float(records_per_s), float(seconds)))
        case _:
            raise UserError(
                "evprof _engine takes no arguments; it is started by the window, not by people.", exit_code=USAGE
            )


def _make_engine() -> Engine:
    # Here and not above: importing a model library takes seconds, in which the host would hear nothing.
    from engines.start import make_engine

    return make_engine()
