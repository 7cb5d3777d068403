"""`evprof completions`."""

from __future__ import annotations

import argparse

from evprof.cli.command import Command
from evprof.cli.help.completions import SHELLS, completions
from evprof.cli.parser import CommandExample
from evprof.cli.terminal.console import Console


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
