"""Runs targets of the Makefile, as many at once as there are cores, and prints which of them passed.

Usage: python packaging/check.py TARGET ...

Exits with 1 if a target fails. The targets start in the given order, so the longest ones come first. The output of a
target is printed when the target ends, so that outputs don't mix; before that, a line for each tenth of its tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

PROGRESS = re.compile(r"^[.sxFEX]+ +\[ *(\d+)%\]$")
"""A line of pytest about its progress, in percent."""

PRINTING = Lock()


@dataclass(frozen=True)
class Outcome:
    """How a target ended."""

    target: str
    code: int
    seconds: float
    last_line: str

    def __str__(self) -> str:
        status = "FAILED" if self.code else "passed"
        return f"{status}  {self.target:<16} {self.seconds:>5.0f} s  {self.last_line}"


def make(target: str) -> Outcome:
    """Runs one target of the Makefile."""
    began, lines, shown = time.monotonic(), list[str](), 0
    command = [os.environ.get("MAKE", "make"), "--no-print-directory", target]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as done:
        assert done.stdout is not None
        for line in map(str.rstrip, done.stdout):
            if not (progress := PROGRESS.match(line)):
                lines.append(line)
            elif (tenth := int(progress[1]) // 10) > shown or "F" in line:
                shown = tenth
                show(f"{target} {progress[1]} %" + ", a test failed" * ("F" in line))
    closing = next((line for line in reversed(lines) if line and not line.startswith("make")), "")
    outcome = Outcome(target, done.returncode, time.monotonic() - began, closing)
    show("\n".join([f"--- {target}", *lines]))
    return outcome


def show(text: str) -> None:
    """Prints lines that no other target interrupts."""
    with PRINTING:
        print(text, flush=True)


def main(targets: list[str]) -> int:
    """Returns 1 if a target failed, otherwise 0."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(make, targets))
    print("---", *outcomes, sep="\n")
    return int(any(outcome.code for outcome in outcomes))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
