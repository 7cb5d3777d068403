"""Makes targets of the Makefile, the last beside the others; says in the end which passed, and fails when one did not.

Usage: python packaging/check.py TARGET ...
"""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Thread


def make(target: str, output: int | None = None) -> subprocess.CompletedProcess[bytes]:
    """One target of the Makefile; without an `output` it prints as it goes."""
    words = [os.environ.get("MAKE", "make"), "--no-print-directory", target]
    return subprocess.run(words, stdout=output, stderr=None if output is None else subprocess.STDOUT, check=False)


def main(targets: list[str]) -> int:
    """The last target prints as it goes, the others one after the other, each when it is over."""
    codes: dict[str, int] = {}

    def make_others() -> None:
        for target in targets[:-1]:
            done = make(target, subprocess.PIPE)
            print(f"\n{done.stdout.decode(errors='replace')}", end="", flush=True)
            codes[target] = done.returncode

    others = Thread(target=make_others)
    others.start()
    codes[targets[-1]] = make(targets[-1]).returncode
    others.join()
    for target in targets:
        print("FAILED " if codes[target] else "passed ", target)
    return int(any(codes.values()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
