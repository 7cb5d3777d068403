"""The command line: builds the commands, runs one, and turns every outcome into an exit code.

It is the composition root: only commands import ui or engines, and only inside their functions.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import evprof
from evprof.core.errors import CANCELLED, FAILURE, USAGE, UserError

DEFAULT_COMMAND = "gui"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `evprof ARGUMENTS` and returns its exit code: 0, 1 (input or machine), 2 (usage) or 130 (cancelled)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _speak_utf8()
    try:
        return _HIDDEN[words[0]](words[1:]) if words and words[0] in _HIDDEN else _run(words)
    except UserError as error:
        from evprof.cli.terminal.console import printable

        print(f"evprof: {printable(error.sentence)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("evprof: stopped.", file=sys.stderr)
        return CANCELLED
    except SystemExit as request:
        # argparse ends --help and --version this way.
        return request.code if isinstance(request.code, int) else USAGE
    except BrokenPipeError:
        return _after_broken_pipe()
    except Exception as error:  # noqa: BLE001 - the one crash path
        from evprof.cli.terminal.crash import report_crash

        return report_crash(error, words)


def _serve_engine(words: list[str]) -> int:
    from evprof.cli import _engine

    return _engine.main(words)


def _report_part(words: list[str]) -> int:
    from evprof.cli import _examine

    return _examine.main(words)


def _measure_section(words: list[str]) -> int:
    from evprof.cli import _gpu_section

    return _gpu_section.main(words)


def _paint_window(_: list[str]) -> int:
    from ui.bench.window import paint_once

    return paint_once()


def _read_events(words: list[str]) -> int:
    from evprof.run.benches.event_readers import read_and_tell

    return read_and_tell(words)


def _serve_tensorboard(words: list[str]) -> int:
    """TensorBoard's own command line, for the frozen program, which has no Python to start it with."""
    from tensorboard.main import run_main

    sys.argv = ["tensorboard", *words]
    run_main()
    return 0


_HIDDEN: dict[str, Callable[[list[str]], int]] = {
    "_engine": _serve_engine,
    "_examine": _report_part,
    "_gpu-section": _measure_section,
    "_paint": _paint_window,
    "_read-events": _read_events,
    "_tensorboard": _serve_tensorboard,
}
"""What the program starts for itself; in no list of commands."""


class _Parser(argparse.ArgumentParser):
    """argparse, except that wrong usage is one sentence and the way to the help."""

    def error(self, message: str) -> NoReturn:
        """Raises UserError (exit code 2)."""
        raise UserError(f"{message[:1].upper()}{message[1:]}; see {self.prog} --help.", exit_code=USAGE)


def build_parser() -> argparse.ArgumentParser:
    """The parser with every command that this version has."""
    from evprof.cli.commands import COMMANDS

    parser = _Parser(
        prog="evprof",
        description="A visual profiler for event-camera and video language models. Without a command: the window.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"evprof {evprof.__version__}")
    parser.add_argument("--debug", action="store_true", help="show the whole traceback when something goes wrong")
    choices = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=_Parser)
    for command in COMMANDS:
        entry = choices.add_parser(
            command.name,
            help=command.summary(),
            description=command.description(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        entry.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        instance = command()
        instance.add_options(entry)
        entry.set_defaults(instance=instance)
    return parser


def _run(words: list[str]) -> int:
    from evprof.cli.terminal.console import Console

    parser = build_parser()
    options = parser.parse_args(words)
    if options.command is None:
        options = parser.parse_args([*words, DEFAULT_COMMAND])
    console = Console(is_json=getattr(options, "json", False))
    # Whatever a library prints meanwhile must not end up inside the one document on standard output.
    chatter = contextlib.redirect_stdout(sys.stderr) if console.is_json else contextlib.nullcontext()
    with chatter:
        code: int = options.instance.run(options, console)
    console.output.flush()
    return code


def _speak_utf8() -> None:
    """Text of models and paths of people hold any character; a console with a smaller alphabet must not end us."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            with contextlib.suppress(OSError, ValueError):
                reconfigure(encoding="utf-8", errors="backslashreplace")


def _after_broken_pipe() -> int:
    """The reader of our output has gone (`| head`): nothing to tell, and nothing more may be written at exit."""
    import os

    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILURE
