"""The commands of this version, in the order of their list; what is not built is not here."""

from __future__ import annotations

from evprof.cli.adapter.command import AdapterCommand
from evprof.cli.bench.command import BenchCommand
from evprof.cli.command import Command
from evprof.cli.convert.command import ConvertCommand
from evprof.cli.cuda.command import CudaCommand
from evprof.cli.demo import DemoCommand
from evprof.cli.doctor.command import DoctorCommand
from evprof.cli.gui import GuiCommand
from evprof.cli.help.command import CompletionsCommand
from evprof.cli.inspect.command import InspectCommand
from evprof.cli.run.command import RunCommand
from evprof.cli.sessions.compare import CompareCommand
from evprof.cli.sessions.export import ExportCommand
from evprof.cli.sessions.import_command import ImportCommand
from evprof.cli.sessions.merge import MergeCommand
from evprof.cli.sessions.report import ReportCommand
from evprof.cli.sessions.show import ShowCommand
from evprof.cli.suite.command import SuiteCommand
from evprof.cli.trace.command import TraceCommand

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
    MergeCommand,
    TraceCommand,
    AdapterCommand,
    BenchCommand,
    DoctorCommand,
    CudaCommand,
    CompletionsCommand,
)

REMOVED = {
    "film": "use `evprof export --format rerun` and Rerun's viewer",
    "help": "use `evprof COMMAND --help`",
    "models": "use `evprof inspect`",
    "prune": "use `evprof export`, which writes the figures without logs",
}
"""Commands of the release before this one, and what to use instead."""
