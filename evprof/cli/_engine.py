"""The hidden command `evprof _engine`: what the window starts as its engine process."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.core.errors import USAGE, UserError
from evprof.core.protocols import Engine


def main(arguments: Sequence[str] = ()) -> int:
    """Serves the host that started this process; `--synthetic WORDS` serves an engine without models.

    Raises UserError (exit code 2) when no host did, or for words that name no engine.
    """
    from evprof.run.processes.engine_server import serve

    match list(arguments):
        case []:
            return serve(_make_engine)
        case ["--synthetic", words]:
            from evprof.run.synthetic import engine_of

            return serve(lambda: engine_of(words))
        case _:
            raise UserError(
                "evprof _engine takes no arguments; it is started by the window, not by people.", exit_code=USAGE
            )


def _make_engine() -> Engine:
    # Here and not above: importing a model library takes seconds, in which the host would hear nothing.
    from engines.start import make_engine

    return make_engine()
