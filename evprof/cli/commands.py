"""The commands of this version, in the order of their list."""

from __future__ import annotations

from evprof.cli.adapter.command import AdapterCommand
from evprof.cli.bench.command import BenchCommand
from evprof.cli.command import Command
from evprof.cli.convert.command import ConvertCommand
from evprof.cli.demo import DemoCommand
from evprof.cli.doctor.command import DoctorCommand
from evprof.cli.gui import GuiCommand
from evprof.cli.inspect.command import InspectCommand
from evprof.cli.run.command import RunCommand
from evprof.cli.sessions.compare import CompareCommand
from evprof.cli.sessions.export import ExportCommand
from evprof.cli.sessions.making import ImportCommand, SessionCommand
from evprof.cli.sessions.report import ReportCommand
from evprof.cli.sessions.show import ShowCommand
from evprof.cli.suite.command import SuiteCommand

COMMANDS: tuple[type[Command], ...] = (
    GuiCommand,
    DemoCommand,
    RunCommand,
    SuiteCommand,
    ImportCommand,
    InspectCommand,
    ConvertCommand,
    ShowCommand,
    CompareCommand,
    ReportCommand,
    ExportCommand,
    SessionCommand,
    AdapterCommand,
    BenchCommand,
    DoctorCommand,
)

REMOVED = {
    "completions": "use `evprof --completions SHELL`",
    "cuda": "use `evprof doctor --install-cuda FOLDER` and `--remove-cuda`",
    "film": "use `evprof export --format rerun` and Rerun's viewer",
    "help": "use `evprof COMMAND --help`",
    "merge": "use `evprof session merge`",
    "models": "use `evprof inspect`",
    "prune": "use `evprof export`, which writes the figures without logs",
    "trace": "use `evprof show`, which reads traces as well as sessions",
}
"""Commands of the release before this one, and what to use instead."""
