"""The options of the benchmarks besides those of `evprof bench`."""

from __future__ import annotations

import argparse
from functools import partial


def engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--context", type=int, metavar="N", help="positions of prompt (default: the family's own)")
    parser.add_argument("--tokens", type=int, metavar="N", default=64, help="tokens per turn (default: %(default)s)")
    parser.add_argument(
        "--limit",
        type=float,
        metavar="SECONDS",
        default=300,
        help="how long a contender may take (default: %(default)s)",
    )
    parser.add_argument("--contenders", metavar="NAMES", help="who takes part, with commas (default: all)")


def events(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--events", type=int, metavar="N", default=10_000_000, help="events of a file (default: %(default)s)"
    )
    parser.add_argument("--large", action="store_true", help="measure windows in a DSEC file of a gigabyte")


def trials(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, metavar="N", default=5, help="trials (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, metavar="SECONDS", default=30, help="how long each takes (default: %(default)s)"
    )


def runs(parser: argparse.ArgumentParser) -> None:
    """Adds how many runs a session holds, or which session is measured."""
    parser.add_argument(
        "--runs", type=int, metavar="N", default=100_000, help="runs of the session (default: %(default)s)"
    )
    parser.add_argument("--session", metavar="S.evprof", help="a session to measure, in place of one that is made")


def quick(known: str) -> partial[None]:
    return partial(_quick, known)


def _quick(known: str, parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help=known)
