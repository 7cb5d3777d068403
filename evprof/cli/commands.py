"""The commands of this version, in the order of their list; what is not built is not here."""

from __future__ import annotations

from evprof.cli.adapter import Adapter
from evprof.cli.bench import Bench
from evprof.cli.command import Command
from evprof.cli.compare import Compare
from evprof.cli.convert import Convert
from evprof.cli.demo import Demo
from evprof.cli.doctor import Doctor
from evprof.cli.export import Export
from evprof.cli.gui import Gui
from evprof.cli.import_command import Import
from evprof.cli.inspect import Inspect
from evprof.cli.models import Models
from evprof.cli.report import Report
from evprof.cli.run import Run
from evprof.cli.show import Show
from evprof.cli.suite import Suite

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
