"""`evprof trace`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from evprof.cli.command import Command, add_json_option
from evprof.cli.parser import CommandExample
from evprof.cli.sample_options import check_least
from evprof.cli.terminal.console import Console

if TYPE_CHECKING:
    from evprof.metrics.traces.analysis import TraceAnalysis

USUAL_ROWS = 12


class TraceCommand(Command):
    """Show where the time and the memory of a torch trace went.

    FILE is what torch.profiler wrote, *.pt.trace.json or *.pt.trace.json.gz, or a folder with one such file: by evprof
    run --torch-trace or any other program. Time by category (kernels first, then copies, CUDA's calls, operators),
    steps, GPUs, operators, kernels, memory, modules, and which of evprof's switches would act on what stands out. A
    damaged file shows what is whole.
    """

    name = "trace"
    examples = (
        CommandExample("evprof trace traces/run1", "show where a traced run's time went"),
        CommandExample(
            "evprof trace fused.pt.trace.json.gz --against eager.pt.trace.json.gz",
            "show what changed from one trace to another",
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The file, another to compare with, and how much is shown."""
        parser.add_argument("path", metavar="FILE", help="a trace, *.pt.trace.json[.gz], or the folder of one")
        parser.add_argument("--against", metavar="FILE", help="show what changed from this trace")
        parser.add_argument(
            "--rows", type=int, metavar="N", help=f"rows of each table (default: {USUAL_ROWS}); JSON has all"
        )
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Reads, works out, prints."""
        check_least(options, rows=1)
        rows = USUAL_ROWS if options.rows is None else options.rows
        from evprof.cli.trace.text import print_difference, print_trace
        from evprof.loaders.traces.folders import trace_at
        from evprof.metrics.traces.difference import trace_difference
        from evprof.metrics.traces.document import trace_document

        path = str(trace_at(options.path))
        other = None if options.against is None else str(trace_at(options.against))
        analysis = analysed(path, console)
        against = None if other is None else analysed(other, console)
        difference = None if against is None else trace_difference(analysis, against)
        if console.is_json:
            console.document(trace_document(path, analysis, difference))
        elif difference is not None and other is not None:
            print_difference(path, other, difference, console, rows)
        else:
            print_trace(path, analysis, console, rows)
        for problem in analysis.problems if not console.is_json else ():
            console.warn(problem)
        return 0


def analysed(path: str, console: Console) -> TraceAnalysis:
    """A trace that is read with a bar. Raises UserError, Cancelled."""
    from evprof.cli.trace.progress import TraceBar
    from evprof.loaders.traces.reading import read_trace
    from evprof.metrics.traces.analysis import TraceAnalysis

    with TraceBar(console, path) as bar, bar.until_stopped() as stop:
        return TraceAnalysis(read_trace(path, bar.look, stop))
