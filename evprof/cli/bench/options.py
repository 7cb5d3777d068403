"""The options of the benchmarks; each takes some of these."""

from __future__ import annotations

import argparse
from functools import partial

from evprof.cli.options import add_pair_options, add_sessions_option, add_setting
from evprof.core.vocabulary.settings import SETTINGS
from evprof.run.demo import BUNDLED_TARGET

SESSIONS = 5
"""Engine processes whose spread is measured."""


def _shape(known: str, parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shape", metavar="SHAPE", help=known)


bench_shape = partial(
    _shape,
    "tiny, tiny-video-llava, dispatch-32, 160m, 1b, 1.5b-eventgpt-plus, 7b-eventgpt, 7b-llava or 7b-video-llava "
    "(default: dispatch-32)",
)
gpu_shape = partial(_shape, "tiny or 7b (default: 7b on a GPU, tiny on a CPU)")


def gpu(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="DIR", help="where gpu.json, gpu.md and logs go")
    parser.add_argument("--plan", action="store_true", help="print the sections and their seconds, run nothing")


def device(parser: argparse.ArgumentParser) -> None:
    add_setting(parser, SETTINGS["device"], default="auto")


def dtype(parser: argparse.ArgumentParser) -> None:
    add_setting(parser, SETTINGS["dtype"], default="auto")


def step(parser: argparse.ArgumentParser) -> None:
    add_setting(parser, SETTINGS["step"], default="auto")


def _repeat(rounds: int, parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repeat", type=int, metavar="N", default=rounds, help="rounds of turns (default: %(default)s)"
    )


def max_new_tokens(parser: argparse.ArgumentParser) -> None:
    add_setting(parser, SETTINGS["max_new_tokens"], default=64)


def _only(what: str, parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[], help=f"{what} (default: all)")


def only(what: str) -> partial[None]:
    """What adds `--only`, of parts called `what`."""
    return partial(_only, what)


def repeat(rounds: int) -> partial[None]:
    """What adds `--repeat`, whose default is `rounds`."""
    return partial(_repeat, rounds)


def markdown(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")


def target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target", metavar="MODEL", default=BUNDLED_TARGET, help="watches the video (default: %(default)s)"
    )


def scenes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scenes",
        type=int,
        metavar="N",
        default=8,
        help="held-out scenes, at most 8; 0: bundled samples (default: %(default)s)",
    )
    parser.add_argument("--data", metavar="MANIFEST", help="a list of samples to measure on, in place of --scenes")
    parser.add_argument("--adapter", metavar="ADAPTER", action="append", help="a trained adapter to take part as well")


def pairs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pairs", type=int, metavar="N", default=300, help="pairs (default: %(default)s)")


pair = add_pair_options
sessions = add_sessions_option
many_sessions = partial(add_sessions_option, usual=SESSIONS)
