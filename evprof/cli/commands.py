"""The commands of this version, in the order of their list; what is not built is not here."""

from __future__ import annotations

from evprof.cli.adapter.command import Adapter
from evprof.cli.bench.command import Bench
from evprof.cli.command import Command
from evprof.cli.convert.command import Convert
from evprof.cli.demo import Demo
from evprof.cli.doctor import Doctor
from evprof.cli.gui import Gui
from evprof.cli.inspect.command import Inspect
from evprof.cli.models import Models
from evprof.cli.run.command import Run
from evprof.cli.sessions.compare import Compare
from evprof.cli.sessions.export import Export
from evprof.cli.sessions.import_command import Import
from evprof.cli.sessions.report import Report
from evprof.cli.sessions.show import Show
from evprof.cli.suite.command import Suite

COMMANDS: tuple[type[Command], ...] = (
    Gui,
    Demo,
    Run,
    Suite,
    Import,
    Models,
    Inspect,
    Convert,
    Show,
    Compare,
    Report,
    Export,
    Adapter,
    Bench,
    Doctor,
)
