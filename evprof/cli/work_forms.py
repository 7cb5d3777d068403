"""What the window needs to have commands carried out in processes of their own."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from evprof.core.errors import UserError
from evprof.core.units import count_text
from evprof.run.works.work_form import Works, WorkSize

_NAMED = 3
"""Samples that a sentence names."""


def works(make_parser: Callable[[], argparse.ArgumentParser]) -> Works:
    """`make_parser` makes the program's parser, when it is first needed."""
    from evprof.cli.terminal.program import program_argv

    parser = cache(make_parser)
    return Works(
        lambda words: program_argv("_work", *words),
        lambda words: check(parser(), words),
        lambda words: suite_size(parser(), words),
        _suites,
    )


def check(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    try:
        parser.parse_args(list(words))
    except UserError as error:
        return error.sentence
    return ""


def _suites() -> list[tuple[str, str]]:
    from evprof.run.suites.ready import READY

    return [(name, str(grid["title"])) for name, grid in READY.items()]


def suite_size(parser: argparse.ArgumentParser, words: Sequence[str]) -> WorkSize:
    """What `evprof suite …` would measure. Reads its grid and its list of samples; why it cannot is the sentence."""
    from evprof.cli.suite.options import question_of, samples_of, spec_of
    from evprof.run.suites.plan import plan_suite

    try:
        options = parser.parse_args(list(words))
        question = question_of(options)
        spec = spec_of(question, options, lambda _: None)
        samples, _ = samples_of(question, spec)
        plan = plan_suite(spec, samples)
    except UserError as error:
        return WorkSize(error.sentence)
    runs = Counter(role for row in plan.rows for role in row.roles)
    runs.update(role for cell in spec.cells for role in cell.answering * spec.warmup)
    names = ", ".join(sample.name for sample in samples[:_NAMED]) + (", …" if len(samples) > _NAMED else "")
    cells, times = count_text(len(spec.cells), "configuration"), count_text(spec.repeat, "time")
    total, warm = count_text(sum(runs.values()), "run"), spec.warmup * sum(len(cell.answering) for cell in spec.cells)
    where = f"{count_text(len(samples), 'sample')} ({names})"
    return WorkSize(f"{cells} on {where}, {times} each: {total}, {warm} of them warm-up.", runs)
