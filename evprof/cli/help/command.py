"""`evprof help` and `evprof completions`."""

from __future__ import annotations

import argparse

from evprof.cli.command import Command
from evprof.cli.help.completions import SHELLS, completions
from evprof.cli.help.pages import commands_of
from evprof.cli.parser import CommandExample
from evprof.cli.terminal.console import Console
from evprof.core.errors import USAGE, UserError
from evprof.core.suggestions import did_you_mean


class HelpCommand(Command):
    """Say what evprof, or one of its commands, does, and show examples.

    The same as `evprof COMMAND --help`.
    """

    name = "help"
    examples = (
        CommandExample("evprof help", "list the commands"),
        CommandExample("evprof help run", "say what evprof run does, with its options and examples"),
        CommandExample("evprof help bench switches", "the same of one benchmark"),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The command's words."""
        parser.add_argument("words", metavar="COMMAND", nargs="*", help="such as run, or bench switches (default: all)")

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Prints the help of the parser that the words lead to."""
        parser: argparse.ArgumentParser = options.whole_parser()
        for word in options.words:
            below = commands_of(parser)
            if word not in below:
                guess = did_you_mean(word, below)
                raise UserError(
                    f"There is no command '{word}' of {parser.prog}{guess or f'; see {parser.prog} --help.'}",
                    exit_code=USAGE,
                )
            parser = below[word]
        console.print(parser.format_help().rstrip())
        return 0


class CompletionsCommand(Command):
    """Print the script by which a shell completes evprof's commands, options and values.

    The installers put it in place. By hand, save it where your shell looks for such scripts: for bash
    ~/.local/share/bash-completion/completions/evprof, for fish ~/.config/fish/completions/evprof.fish, for zsh a file
    _evprof in a folder of $fpath.
    """

    name = "completions"
    examples = (
        CommandExample("evprof completions bash > ~/.local/share/bash-completion/completions/evprof", "for bash"),
        CommandExample("evprof completions fish > ~/.config/fish/completions/evprof.fish", "for fish"),
        CommandExample('evprof completions zsh > "${fpath[1]}/_evprof"', "for zsh"),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The shell."""
        parser.add_argument("shell", choices=SHELLS, help="whose script to print")

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Prints the script."""
        console.output.write(completions(options.whole_parser(), options.shell))
        return 0
