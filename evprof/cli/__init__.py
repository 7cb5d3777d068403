"""The command line: builds the commands, runs one, and turns every outcome into an exit code.

It is the composition root: only commands import ui or engines, and only inside their functions.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from evprof.cli.parser import CommandExample, CommandHelp, CommandParser, add_command, add_commands, epilog
from evprof.cli.terminal.streams import give_up_streams, output_problem, tell
from evprof.core.errors import CANCELLED, FAILURE, USAGE, UserError

if TYPE_CHECKING:
    from evprof.cli.command import Command

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
    _speak_utf8()
    try:
        code = _HIDDEN[words[0]](words[1:]) if words and words[0] in _HIDDEN else run_words(words)
    except UserError as error:
        from evprof.cli.terminal.console import printable

        tell(f"evprof: {printable(error.sentence)}")
        return error.exit_code
    except KeyboardInterrupt:
        tell("evprof: stopped.")
        return CANCELLED
    except SystemExit as request:
        # argparse ends --help and --version this way.
        code = request.code if isinstance(request.code, int) else USAGE
    except BrokenPipeError:
        give_up_streams()  # the reader of our output has gone (`| head`): nothing to tell, and nobody to tell it
        return FAILURE
    except Exception as error:  # noqa: BLE001 - the one crash path
        return _explain(error, words)
    return _with_all_printed(code)


def _with_all_printed(code: int) -> int:
    """The exit code of a command that ended with `code`, once its result is where it was to go."""
    problem = output_problem()
    if problem is None:
        return code
    if not isinstance(problem, BrokenPipeError):
        tell(f"evprof: The result could not be written to standard output ({problem.strerror}).")
    give_up_streams()
    return code or FAILURE


def _explain(error: Exception, words: list[str]) -> int:
    """Says what ended a command that did not expect it: standard output, the machine, or a defect."""
    if isinstance(error, OSError) and output_problem() is not None:
        return _with_all_printed(FAILURE)
    from evprof.cli.terminal.circumstances import sentence_of
    from evprof.cli.terminal.crash import report_crash

    sentence = None if "--debug" in words else sentence_of(error)
    if sentence is None:
        return report_crash(error, words)
    from evprof.cli.terminal.console import printable

    tell(f"evprof: {printable(sentence)}")
    return FAILURE


def _serve_engine(words: list[str]) -> int:
    from evprof.cli import _engine

    return _engine.main(words)


def _report_part(words: list[str]) -> int:
    from evprof.cli import _examine
    from evprof.cli.terminal.program import leave_to_window_program

    if words == ["window"]:
        leave_to_window_program()
    return _examine.main(words)


def _measure_section(words: list[str]) -> int:
    from evprof.cli import _gpu_section

    return _gpu_section.main(words)


def _do_long_work(words: list[str]) -> int:
    from evprof.cli import _work

    return _work.main(words, run_words)


def _decode_videos(_: list[str]) -> int:
    from evprof.loaders.videos.apart_server import main as serve_videos

    return serve_videos()


def _serve_tensorboard(words: list[str]) -> int:
    """TensorBoard's own command line, in a process that ends with the one that started it."""
    from evprof.run.processes.interrupts import end_with_parent

    end_with_parent()
    from tensorboard.main import run_main

    sys.argv = ["tensorboard", *words]
    run_main()
    return 0


_HIDDEN: dict[str, Callable[[list[str]], int]] = {
    "_engine": _serve_engine,
    "_examine": _report_part,
    "_gpu-section": _measure_section,
    "_video": _decode_videos,
    "_work": _do_long_work,
    "_tensorboard": _serve_tensorboard,
}
"""What the program starts for itself; in no list of commands."""


class _PrintVersion(argparse.Action):
    """The build is looked up when it is asked for, not whenever a parser is made."""

    def __call__(self, *_: object) -> NoReturn:
        from evprof.core.build import version_text

        print(version_text())
        raise SystemExit(0)


def build_parser() -> argparse.ArgumentParser:
    """The parser with every command that this version has."""
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
    """Runs a command and returns its exit code; `is_followed`: a program reads its progress."""
    from evprof.cli.terminal.console import Console

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


def _speak_utf8() -> None:
    """Text of models and paths of people hold any character; a console with a smaller alphabet must not end us."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            with contextlib.suppress(OSError, ValueError):
                reconfigure(encoding="utf-8", errors="backslashreplace")
