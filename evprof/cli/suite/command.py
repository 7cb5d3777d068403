"""`evprof suite`."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.cli.command import Command, CommandExample
from evprof.cli.options import add_json_option, check_least, typed_words
from evprof.cli.suite.machines import Machines, open_cluster, places_text
from evprof.cli.terminal import program
from evprof.cli.terminal.console import Console
from evprof.core.errors import CANCELLED, FAILURE, UserError
from evprof.core.sample import Sample
from evprof.core.units import count_text
from evprof.run.suites.cell import SuiteConfiguration
from evprof.run.suites.plan import SuitePlan
from evprof.run.suites.ready import DOCUMENTS
from evprof.run.suites.spec import SuiteSpec

_HOW_AGAIN = ("suite", "resume", "retry_failed")
"""What is typed in a place of its own, or not again."""

REPORTS = ("report.md", "report.html")


class SuiteCommand(Command):
    """Measure many configurations on many samples, and write a session and reports.

    MANIFEST is a ready-made suite (stages, shapes, one-vs-eight, token-scaling, loading, speculation, drafters,
    parallel-prefill, optimizations, or documents, which is all of these), a grid in a TOML or JSON file, or samples
    for the suite stages. Samples, here or after --data, are a list (CSV, JSON, EventGPT's instruction JSON), or a
    folder with a recording and its video (such as DSEC's), which --clip-ms cuts into clips.
    Without --data the bundled samples are taken, without --draft and --target the bundled pair.

    Every row is saved as soon as it is measured: after Ctrl-C, or worse, the same command with --resume goes on. With
    more samples, another --limit or another --repeat it measures the rows that are missing.
    """

    name = "suite"
    examples = (
        CommandExample("evprof suite stages -o results", "measure the stages of the bundled models"),
        CommandExample(
            "evprof suite one-vs-eight --data dataset.csv --limit 200 -o results",
            "measure a ready-made suite on samples of your own",
        ),
        CommandExample("evprof suite grid.toml -o results --resume", "measure what a suite lacks that was stopped"),
        CommandExample(
            "evprof suite zurich_city_00_a --clip-ms 50 --clip-step-ms 1000 -o results",
            "measure a clip of every second of a folder with a recording and its video",
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        from evprof.cli.suite.options import add_suite_options

        add_suite_options(parser)
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Measures what is left; 1 when not a single row finished or some failed, 130 when stopped."""
        with ExitStack() as held:
            return _Measurement(options, console, held).conclude()


class _Measurement:
    def __init__(self, options: argparse.Namespace, console: Console, held: ExitStack) -> None:
        self._options = options
        self._console = console
        self._held = held
        self._folder: Path = options.output
        self._has_facts = False
        self._command = "evprof " + " ".join(shlex.quote(word) for word in words_of(options))

    def conclude(self) -> int:
        from evprof.cli import preflight
        from evprof.cli.suite.options import question_of, samples_of, spec_of
        from evprof.run.suites.record import SUITE, RowOutcomes, check_folder, fingerprint, made_folder, suite_fact

        if self._options.retry_failed and not self._options.resume:
            raise UserError("--retry-failed belongs to --resume; add it.", exit_code=2)
        check_least(self._options, limit=1, repeat=1, warmup=0)
        # What needs no engine is checked before the seconds that its import takes: also the cells, as they are asked.
        question = question_of(self._options)
        spec = spec_of(question, self._options, lambda _: None)
        samples, problems = samples_of(question, spec)
        asked = fingerprint(spec, samples)
        check_folder(self._folder, resumes=self._options.resume)
        facts, infos = self._before(asked) if self._options.resume else ({}, [])
        preflight.check_samples(samples, self._console.warn)
        room = make_room()
        spec = spec_of(question, self._options, room.family_of)
        cluster = self._held.enter_context(open_cluster(self._options, self._console))
        machines = Machines(room, cluster, self._options, spec.cells)
        machines.check(spec.cells)
        spec, left_out = within_context(spec, room.past_context)
        session = made_folder(self._folder, resumes=self._options.resume)
        if not self._options.resume:
            self._reserve(session)
        before = facts.get(SUITE, {})
        order = before.get("order") or ("interleaved" if machines.fits(spec.cells) else "blocks")
        plan, drawn = self._plan(spec, samples, order)
        place = None if question.manifest is None else str(Path(question.manifest).resolve())
        told = [f"Cell '{entry['cell']}' was left out: {entry['reason']}." for entry in left_out]
        outcomes = RowOutcomes(infos)
        fact = suite_fact(
            plan,
            asked,
            before=before,
            measured=outcomes.keys,
            command=self._command,
            manifest=place,
            problems=[*problems, *told, *drawn],
        )
        fact["left_out"] = left_out
        fact["machines"] = machines.counts()
        self._has_facts = {"ceilings", "models"} <= facts.keys()
        return self._report(session, plan, self._measure(plan, fact, outcomes, session, machines))

    def _reserve(self, session: Path) -> None:
        """Keeps the session for this process until the reports are written, though several writers follow one
        another."""
        from evprof.session.presence import reserved

        self._held.enter_context(reserved(session))

    def _before(self, asked: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        """Facts and runs of the suite that is continued. Raises UserError unless it can go on as `asked`."""
        from evprof.run.suites.record import SUITE, check_same, made_folder
        from evprof.session.opened import open_session

        session = made_folder(self._folder, resumes=True)
        self._reserve(session)
        found = open_session(session)
        infos = [run.info for run in found.runs.values()]
        if infos or SUITE in found.facts:  # else it was killed before its first row: there is nothing to differ from
            check_same(found.facts.get(SUITE), asked)
        return found.facts, infos

    def _plan(self, spec: SuiteSpec, samples: Sequence[Sample], order: str) -> tuple[SuitePlan, list[str]]:
        from evprof.run.suites.plan import plan_suite
        from evprof.run.suites.ready import DrawnFrames
        from evprof.run.suites.record import FRAMES_FOLDER

        frames = DrawnFrames(self._folder.resolve() / FRAMES_FOLDER)
        plan = plan_suite(spec, samples, order, frames.sample_for)
        return plan, frames.draw(spec.cells, plan.samples)

    def _measure(self, plan: SuitePlan, fact: dict[str, Any], outcomes: Any, session: Path, machines: Machines) -> Any:
        from evprof.cli.run import recorded_session
        from evprof.cli.suite.progress import SuiteProgress
        from evprof.run.suites.ready import VideoTrials
        from evprof.run.suites.suite import SuiteDriver

        for sentence in fact["problems"]:
            self._console.warn(sentence)
        retries = self._options.retry_failed
        left = [row for row in plan.rows if not outcomes.is_done(row, retry_failed=retries)]
        self._console.note(_opening(plan, len(left)) + places_text(fact["machines"]))
        extra: dict[str, Any] = {}
        if left and not self._has_facts:
            extra = machines.facts(facts_here, plan, self._console)
        # With engine processes of its own a suite loses no more than a row with one of them.
        is_here = plan.spec.processes == 1 and self._options.timeout is None and not fact["machines"]
        trials = VideoTrials(program.program_argv("_video")) if is_here else None
        with SuiteProgress(self._console, left, len(plan.rows) - len(left)) as watcher:
            driver = SuiteDriver(
                plan,
                session,
                recorded_session.make_engine,
                watcher,
                progress=outcomes,
                retry_failed=retries,
                processes=program.engine_argv(),
                trials=trials,
                timeout_s=self._options.timeout,
                places=machines.places(plan, len(left), watcher) if left else None,
            )
            for key, value in extra.items():
                driver.note(key, value)
            try:
                return driver.run(fact)
            except (KeyboardInterrupt, UserError):
                watcher.say(self._how_to_resume(), is_warning=True)
                raise
            finally:
                if trials is not None:
                    trials.close()

    def _how_to_resume(self) -> str:
        return f"stopped; go on with: {self._command} --resume"

    def _report(self, session: Path, plan: SuitePlan, end: Any) -> int:
        from evprof.cli.suite.progress import cell_documents, print_cells, suite_document
        from evprof.export.report.writing import read_source

        source = read_source(session)
        cells = cell_documents(source, plan)
        if not self._console.is_json:
            print_cells(cells, self._console)
        by_documents = plan.spec.name == DOCUMENTS
        reports = write_reports(self._folder, session, self._command, self._console, by_documents=by_documents)
        if self._console.is_json:
            self._console.document(suite_document(source, cells, session, reports))
        for path in (session, *reports):
            self._console.note(f"saved: {path}")
        if end.is_stopped:
            self._console.warn(self._how_to_resume())
            return CANCELLED
        return FAILURE if any(cell["failed"] or cell["missing"] for cell in cells) else 0


def _opening(plan: SuitePlan, left: int) -> str:
    cells, samples, spec = len(plan.spec.cells), len(plan.samples), plan.spec
    done = f", {len(plan.rows) - left} of them done" if left < len(plan.rows) else ""
    processes = f" in each of {spec.processes} engine processes" if spec.processes > 1 else ""
    rest = f", resting before each ({spec.cooldown_s:g} s)" if spec.cooldown_s else ""
    return (
        f"{spec.name}: {count_text(cells, 'cell')} on {count_text(samples, 'sample')}, "
        f"{count_text(spec.repeat, 'time')} each{processes}, {plan.order}: "
        f"{count_text(len(plan.rows), 'row')}{done}{rest}"
    )


def within_context(spec: SuiteSpec, past_context: Any) -> tuple[SuiteSpec, list[dict[str, Any]]]:
    """The suite without cells that pass a context, where it asks for that; those, each with the reason."""
    if not spec.within_context:
        return spec, []
    reasons = {cell.label: past_context(cell) for cell in spec.cells}
    kept: tuple[SuiteConfiguration, ...] = tuple(cell for cell in spec.cells if reasons[cell.label] is None)
    if not kept:
        raise UserError(f"No cell is left: {next(iter(reasons.values()))}.")
    left_out = [
        {
            "cell": cell.label,
            "models": {role: choice.name for role in cell.roles if (choice := cell.choice(role)) is not None},
            "frames": cell.settings.frames,
            "event_frames": cell.settings.event_frames,
            "reason": reasons[cell.label],
        }
        for cell in spec.cells
        if reasons[cell.label]
    ]
    return replace(spec, cells=kept), left_out


def words_of(options: argparse.Namespace) -> list[str]:
    """The command's words as they would be typed again, without --resume, --retry-failed and --json."""
    return ["suite", options.suite, *typed_words(options, _HOW_AGAIN), "-o", str(options.output)]


def write_reports(
    folder: Path, session: Path, command: str, console: Console, *, by_documents: bool = False
) -> list[Path]:
    """Both reports; what could not be written is told. None when not a single row finished."""
    from evprof.export.report.writing import write_report

    written = []
    for name in REPORTS:
        try:
            write_report([session], folder / name, command=command, by_documents=by_documents)
            written.append(folder / name)
        except UserError as error:
            console.warn(error.sentence)
            break
    return written


def make_room() -> Any:
    """What knows models' sizes and this machine; importing it takes seconds. Tests bring their own."""
    from engines.fit.verdict import SuiteRoom

    return SuiteRoom()


def facts_here(plan: SuitePlan, console: Any) -> dict[str, Any]:
    """What the report needs of this machine and of models; `console` is one, or notes and warns as one does."""
    return machine_facts(plan.spec, console) | pair_facts(plan, console)


def machine_facts(spec: SuiteSpec, console: Console) -> dict[str, Any]:
    """Ceilings and models' shapes, measured before the first row; what is not available is missing from the report."""
    from engines.suites.facts import suite_facts

    choices = dict.fromkeys(choice for _, choice in spec.choices)
    try:
        return suite_facts(choices, spec.cells[0].settings, console.note)
    except (UserError, RuntimeError, MemoryError) as error:
        console.warn(f"The machine's ceilings could not be measured ({error}); the report goes without them.")
        return {}


def pair_facts(plan: SuitePlan, console: Console) -> dict[str, Any]:
    """What the documents' suite asks of both models together: alignment of their features, caches, batches."""
    cell = next((cell for cell in plan.spec.cells if cell.draft and cell.target), None)
    if plan.spec.name != DOCUMENTS or cell is None or cell.draft is None or cell.target is None:
        return {}
    from engines.suites.facts import document_facts

    return document_facts(cell.draft, cell.target, plan.samples, cell.settings, console.note)
