"""Runs of a pair from a script or a notebook: what `evprof run` does, asked for by names, answered with a session.

The options, their checks and their defaults are the command's own; nothing of them is listed here.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evprof.cli.command import CommandParser
from evprof.cli.run.command import RunCommand
from evprof.cli.terminal.console import Console
from evprof.core.errors import UsageError, UserError
from evprof.core.texts import did_you_mean
from evprof.notebook.session import Session

_NOT_ASKED = frozenset({"help", "json", "output", "batches"})
"""Options of the command that mean nothing here."""


def profile(asked: Mapping[str, Any], output: Path | None, *, in_process: bool, quiet: bool) -> Session:
    """Carries out what `asked` says, by the names of the command's options with underscores; None: not given.

    The models live in a process of their own, unless `in_process`. The first Ctrl-C stops the run and keeps what was
    measured, the second raises KeyboardInterrupt. Raises TypeError for a name that nobody knows, UserError for what
    cannot be carried out and where not a single run began.
    """
    from evprof.cli import preflight
    from evprof.cli.run.command import requests_of
    from evprof.cli.run.recorded_session import RecordedSession, note_models, reserved_place

    options = options_of(asked)
    requests = requests_of(options)
    for request in requests:
        preflight.check_request(request)
    folder = Path(tempfile.mkdtemp(prefix="evprof-")) if output is None else None
    path = output or Path(str(folder), "session.evprof")
    try:
        with reserved_place(path):
            with RecordedSession(
                path,
                Console(is_quiet=quiet),
                processes=options.processes or 1,
                timeout_s=options.timeout,
                is_apart=not in_process,
            ) as recorded:
                recorded.run(*requests)
            note_models(recorded, requests)
        if recorded.problem:
            raise UserError(recorded.problem)
        if not recorded.book.runs:
            why = "it was stopped before the first one" if recorded.is_stopped else "the engine made none"
            raise UserError(f"There are no runs: {why}.")
        return Session.read(path, folder)
    except BaseException:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def options_of(asked: Mapping[str, Any]) -> argparse.Namespace:
    """The options of `evprof run` as if they had been typed. Raises TypeError and UserError (exit code 2)."""
    parser = CommandParser(prog="evprof run", allow_abbrev=False)
    RunCommand().add_options(parser)
    known = [action for action in parser._actions if action.dest not in _NOT_ASKED]
    actions = {action.dest: action for action in known if action.help != argparse.SUPPRESS}
    # Names of the releases before this one.
    actions |= {action.option_strings[0][2:]: action for action in known if action.help == argparse.SUPPRESS}
    words: list[str] = []
    for name, value in asked.items():
        if name not in actions:
            raise TypeError(f"evprof.profile() has no setting '{name}'{did_you_mean(name, actions)}")
        words += _words(actions[name], value)
    return parser.parse_args(words)


def _words(action: argparse.Action, value: Any) -> Iterator[str]:
    option = action.option_strings[-1]
    if value is None:
        return
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise UsageError(f"{action.dest} is True or False, not {value!r}.")
        # An option that turns off what is on keeps False.
        if value is action.const:
            yield option
    else:
        yield f"{option}={value}"
