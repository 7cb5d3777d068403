"""The command line: builds the commands, runs one, and turns every outcome into an exit code.

It is the composition root: only commands import ui or engines, and only inside their functions.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from evprof.cli.command import Command, CommandExample, CommandHelp, CommandParser, add_command, add_commands, epilog
from evprof.cli.terminal.crash import output_problem, report_crash, sentence_of, tell
from evprof.core.errors import CANCELLED, FAILURE, USAGE, UserError

DEFAULT_COMMAND = "gui"

DESCRIPTION = "A visual profiler for event-camera and video language models. Without a command: the window."

EXAMPLES = (
    CommandExample("evprof", "open the window"),
    CommandExample("evprof demo", "run the bundled models on the bundled sample"),
    CommandExample(
        "evprof run --events scene.npy --video scene.mp4 -o scene.evprof", "measure both models on a recording"
    ),
    CommandExample("evprof doctor", "look for what does not work here"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `evprof ARGUMENTS` and returns its exit code: 0, 1 (input or machine), 2 (usage) or 130 (cancelled)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _use_utf8()
    try:
        code = _carry_out(words)
    except BaseException as error:  # noqa: BLE001 - every outcome is an exit code
        code = _code_after(error, words)
    problem = output_problem()
    if problem is None:
        return code
    if not isinstance(problem, BrokenPipeError):
        tell(f"evprof: {_lost_output(problem)}")
    return code or FAILURE


def _carry_out(words: list[str]) -> int:
    if words and words[0].startswith("_"):
        from evprof.cli.hidden import HIDDEN

        if words[0] in HIDDEN:
            return HIDDEN[words[0]](words[1:])
    _end_as_interrupted()
    return run_words(words)


def _end_as_interrupted() -> None:
    """A request to end (SIGTERM, SIGQUIT) and a closed terminal (SIGHUP) act as Ctrl-C, which keeps what was measured.

    A signal that is ignored, such as SIGHUP under nohup, stays ignored.
    """
    is_main = threading.current_thread() is threading.main_thread()  # only it receives signals
    for name in ("SIGTERM", "SIGQUIT", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has one of them
        if is_main and number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))


def _code_after(error: BaseException, words: list[str]) -> int:
    """Reports what ended a command; the one crash path."""
    sentence, code = "", FAILURE
    match error:
        case UserError():
            sentence, code = error.sentence, error.exit_code
        case KeyboardInterrupt():
            sentence, code = "stopped.", CANCELLED
        case SystemExit():  # argparse ends --help and --version this way
            code = error.code if isinstance(error.code, int) else USAGE
        case BrokenPipeError():  # `| head` has read enough
            pass
        case OSError(filename=None) if output_problem() is not None:
            sentence = _lost_output(error)
        case _:
            sentence = "" if "--debug" in words else sentence_of(error) or ""
            code = FAILURE if sentence else report_crash(error, words)
    if sentence:
        tell(f"evprof: {sentence}")
    return code


def _lost_output(problem: OSError) -> str:
    return f"The result could not be written to standard output ({problem.strerror})."


class _PrintVersion(argparse.Action):
    """The build is looked up when it is requested, not whenever a parser is made."""

    def __call__(self, *_: object) -> NoReturn:
        from evprof.core.installation import version_text

        print(version_text())
        raise SystemExit(0)


class _PrintCompletions(argparse.Action):
    def __call__(self, parser: object, namespace: object, values: object, option_string: object = None) -> NoReturn:
        from evprof.cli.completions import completions

        print(completions(build_parser(), str(values)), end="")
        raise SystemExit(0)


def build_parser() -> argparse.ArgumentParser:
    from evprof.cli.commands import COMMANDS, REMOVED

    return _parser_of(COMMANDS, removed=REMOVED)


def parser_for(words: list[str]) -> argparse.ArgumentParser:
    """One that understands `words`, whose other commands have no options. The window waits for no other command."""
    from evprof.cli.gui import GuiCommand

    if not words or words[0] == DEFAULT_COMMAND:
        return _parser_of([GuiCommand])
    from evprof.cli.commands import COMMANDS, REMOVED

    return _parser_of(COMMANDS, {*words, DEFAULT_COMMAND}, REMOVED)


def _parser_of(
    commands: Sequence[type[Command]],
    words: Container[str] | None = None,
    removed: Mapping[str, str] = MappingProxyType({}),
) -> argparse.ArgumentParser:
    """With the options of those commands that are among `words`; None: of all."""
    parser = CommandParser(
        prog="evprof",
        description=DESCRIPTION,
        epilog=epilog(EXAMPLES),
        formatter_class=CommandHelp,
        allow_abbrev=False,
    )
    parser.examples = EXAMPLES
    parser.removed = removed
    parser.add_argument(
        "--version", action=_PrintVersion, nargs=0, default=argparse.SUPPRESS, help="print version and build, and exit"
    )
    parser.add_argument(
        "--completions",
        action=_PrintCompletions,
        choices=("bash", "zsh", "fish"),
        default=argparse.SUPPRESS,
        help="print the script by which a shell completes commands and options, and exit",
    )
    parser.add_argument("--debug", action="store_true", help="show the whole traceback when something goes wrong")
    parser.add_argument("-q", "--quiet", action="store_true", help="print the result and warnings, but no progress")
    parser.set_defaults(whole_parser=build_parser)
    choices = add_commands(parser, "command", is_required=False)
    for command in commands:
        entry = add_command(choices, command.name, command.description(), command.examples)
        instance = command()
        if words is None or command.name in words:
            instance.add_options(entry)
        entry.set_defaults(instance=instance)
    return parser


def run_words(words: list[str], *, is_followed: bool = False) -> int:
    """Runs a command and returns its exit code; `is_followed`: a program reads its progress.

    A file in the place of the command is opened in the window.
    """
    from evprof.cli.terminal.console import Console

    if words and Path(words[0]).suffix and Path(words[0]).exists():
        words = [DEFAULT_COMMAND, *words]
    parser = parser_for(words)
    options = parser.parse_args(words)
    if options.command is None:
        options = parser.parse_args([*words, DEFAULT_COMMAND])
    console = Console(is_json=getattr(options, "json", False), is_quiet=options.quiet, is_followed=is_followed)
    # Whatever a library prints meanwhile must not end up inside the one document on standard output.
    chatter = contextlib.redirect_stdout(sys.stderr) if console.is_json else contextlib.nullcontext()
    with chatter:
        code: int = options.instance.run(options, console)
    return code


def _use_utf8() -> None:
    """Names and answers hold any character; a console with a smaller alphabet shows escapes."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            with contextlib.suppress(OSError, ValueError):
                reconfigure(encoding="utf-8", errors="backslashreplace")
