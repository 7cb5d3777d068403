"""`evprof show`."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evprof.cli.command import Command, CommandExample, advanced
from evprof.cli.options import add_json_option, check_least, option_of
from evprof.cli.sessions.export import run_numbers
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.tables import print_rows
from evprof.core.errors import USAGE, UserError
from evprof.core.units import bytes_text, ms_text

if TYPE_CHECKING:
    from evprof.core.run_log import RunLog
    from evprof.metrics.costs.visual_costs import VisualCosts

MOST_PRINTED = 1000
"""Runs that are printed one by one without being asked for."""


class ShowCommand(Command):
    """Print the runs of a saved session, or the figures of a torch trace.

    Of a session: stages, tokens, figures, caches and texts, as they were measured; with --json the same document that
    `run` prints. Of more than 1,000 runs a line for each configuration, unless --runs names some of them.

    Of a trace, *.pt.trace.json[.gz] or a folder with one such file, written by evprof run --torch-trace or any other
    program: time by category (kernels first, then copies, CUDA's calls, operators), steps, GPUs, operators, kernels,
    memory, modules, and which of evprof's switches would act on what stands out. A damaged file shows what is whole.
    """

    name = "show"
    examples = (
        CommandExample("evprof show scene.evprof", "print every run"),
        CommandExample("evprof show scene.evprof --rounds", "list every round of speculation, too"),
        CommandExample("evprof show suite.evprof --runs 17,40-42", "print some of very many runs"),
        CommandExample("evprof show scene.evprof --costs", "print what frames and other tokens cost"),
        CommandExample("evprof show scene.evprof --json", "print one JSON document"),
        CommandExample("evprof show traces/run1", "show where a traced run's time went"),
        CommandExample(
            "evprof show fused.pt.trace.json.gz --against eager.pt.trace.json.gz",
            "show what changed from one trace to another",
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("path", metavar="S.evprof|TRACE", help="a session, a torch trace, or the folder of one")
        group = parser.add_argument_group("of a session")
        group.add_argument("--runs", metavar="LIST", type=run_numbers, help="only these runs: 1,2,5-8")
        group.add_argument("--rounds", action="store_true", help="list every round of speculation and why it ended")
        group.add_argument(
            "--costs",
            action="store_true",
            help="print what tokens cost instead: KV caches by origin, each frame's share of times and bytes, and "
            "how stages grow over frames and clip lengths",
        )
        group = parser.add_argument_group("of a trace")
        group.add_argument("--against", metavar="FILE", help="show what changed from this trace")
        advanced(
            group.add_argument("--rows", type=int, metavar="N", help="rows of each table (default: 12); JSON has all")
        )
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        path = Path(options.path)
        is_trace = path.is_dir() or path.name.lower().endswith((".json", ".json.gz"))
        strange = ("runs", "rounds", "costs") if is_trace else ("against", "rows")
        for name in strange:
            if getattr(options, name) not in (None, False):
                kind = "a session" if is_trace else "a torch trace"
                raise UserError(f"{option_of(name)} is for {kind}; leave it out.", exit_code=USAGE)
        if is_trace:
            from evprof.cli.sessions.trace import show_trace

            check_least(options, rows=1)
            show_trace(options, console)
        else:
            _show_session(path, options, console)
        return 0


def _show_session(path: Path, options: argparse.Namespace, console: Console) -> None:
    from evprof.cli.run.text import print_batches, print_configurations, print_runs
    from evprof.session.facts import mark_documents, read_batches
    from evprof.session.opened import open_session

    session = open_session(path)
    every, batches = list(session.runs.values()), read_batches(session.facts)
    runs = _chosen(every, options.runs, session.deleted)
    marks = mark_documents(session.facts, {run.run_id for run in runs})
    if console.is_json:
        from evprof.metrics.document import session_document

        document = session_document(
            runs,
            session.environment or None,
            others=every,
            batches=batches,
            marks=marks,
            is_streamed=True,
        )
        console.document(document | _cost_document(runs, session.facts) if options.costs else document)
        return
    if not runs:
        console.print("The session holds no runs.")
        return
    if options.costs:
        _print_costs(runs, session.facts, console)
        return
    if options.runs is None and len(runs) > MOST_PRINTED:
        print_configurations(runs, console)
        some = f"`--runs {runs[0].run_id}-{runs[19].run_id}` prints some of them, `--json` all"
        console.note(f"{len(runs):,} runs; {some}")
    else:
        print_runs(runs, console, every, has_rounds=options.rounds)
        if options.runs is None:
            print_batches(batches, console)
    if marks:
        console.print()
        print_rows(console, marks, title="marks")


def _cost_document(runs: Sequence[RunLog], facts: dict[str, Any]) -> dict[str, Any]:
    from evprof.metrics.costs.sweeps import scaling_document

    return {"scaling": scaling_document(runs, facts)}


def _print_costs(runs: Sequence[RunLog], facts: Mapping[str, Any], console: Console) -> None:
    """The cache and the frames of every model of every run, then how stages grow over all runs."""
    from evprof.metrics.costs.sweeps import scaling_document
    from evprof.metrics.costs.visual_costs import visual_costs
    from evprof.metrics.limits.sizes import read_models, sizes_of

    noted = read_models([facts.get("models")])
    for run in runs:
        for role, model in run.info.models.items():
            console.print(f"run {run.run_id} · {model.name} ({role})")
            console.print(f"  KV cache: {_cache_text(run, role)}")
            costs = visual_costs(run, role, sizes_of(model, noted))
            if costs is None:
                continue
            console.table([("  shares of", "tokens", "KV cache", "vision", "prefill", "decode"), *_cost_rows(costs)])
            console.print()
    sweeps = scaling_document(runs, facts)
    for sweep in sweeps:
        console.print(f"{sweep['model']} over {sweep['axis'].replace('clip_s', 'seconds')}: {sweep['runs']:,} runs")
        for slope in sweep["slopes"]:
            console.print(f"  {slope['stage']:<18}{slope['sentence']}")
    if not sweeps:
        console.print("No runs of one model differ only in frames or in the length of their clip.")


def _cache_text(run: RunLog, role: str) -> str:
    from evprof.metrics.costs.cache_map import HELD_ORIGINS, cache_map, reason_without

    cache = cache_map(run, role)
    if cache is None:
        return reason_without(run, role)
    parts = [f"{origin} {bytes_text(cache.bytes_of(origin))}" for origin in HELD_ORIGINS if cache.bytes_of(origin)]
    measured = "not measured" if cache.measured_bytes is None else bytes_text(cache.measured_bytes)
    return (
        f"{cache.length:,} positions in {cache.layers} layers ({', '.join(parts)}), {bytes_text(cache.held_bytes)} by "
        f"formula, measured {measured}, {bytes_text(cache.reserved_bytes)} reserved, "
        f"{bytes_text(cache.rolled_back_bytes)} rolled back"
    )


def _cost_rows(costs: VisualCosts) -> Iterator[tuple[str, ...]]:
    is_even = len(costs.frames) > 1 == len({frame.cost for frame in costs.frames})
    named = [(f"frame {frame.frame + 1}", frame.cost) for frame in costs.frames]
    if is_even:
        named = [(f"each of {len(costs.frames):,} frames", costs.frames[0].cost)]
    named += [("shared by all", costs.shared)] if costs.shared.tokens else []
    for name, cost in [*named, ("all visual tokens", costs.whole)]:
        times = map(ms_text, (cost.vision_ms, cost.prefill_ms, cost.decode_ms))
        yield (f"  {name}", f"{cost.tokens:,}", bytes_text(cost.kv_bytes), *times)


def _chosen(runs: Sequence[RunLog], numbers: Collection[int] | None, deleted: Collection[int]) -> Sequence[RunLog]:
    """Those of these numbers, all without any. Raises UserError (exit code 2) where there is none."""
    chosen = [run for run in runs if numbers is None or run.run_id in numbers]
    if not chosen and numbers and (gone := [number for number in deleted if number in numbers]):
        raise UserError(f"--runs: run {gone[0]} was deleted.", exit_code=USAGE)
    if runs and not chosen:
        raise UserError(
            f"--runs: none of these runs is in the session; it holds {runs[0].run_id} to {runs[-1].run_id}.",
            exit_code=USAGE,
        )
    return chosen
