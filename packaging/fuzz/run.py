"""Feed damaged files to every parser: ``python packaging/fuzz/run.py [--parser NAME …] [--seconds N] [--out FOLDER]``.

Each parser runs in a process of its own, with limits of memory and time. With atheris installed
(``pip install 'evprof[fuzz]'``), coverage guides the mutations. A parser may read a file or raise UserError; any other
end is a finding. The folder keeps the file of each finding with a text beside it. ``--replay FILE`` reads such a file.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "packaging"), str(ROOT / "tests")]

from evprof.core.errors import UserError  # noqa: E402 - the checkout precedes an installed evprof
from fuzz.targets import TARGETS, Target  # noqa: E402

CPU_SECONDS = 10
"""Limit of one execution."""
BYTES_PER_BYTE = 40
"""Memory of one execution for each byte of the file, besides `Target.spare_bytes`."""
ADDRESS_BYTES = 3 << 30
MOST_SEED_BYTES = 1 << 20
PATIENCE_S = 400.0
"""Time beyond the requested seconds after which a worker counts as hanging: imports take long on a busy machine."""
NUMBERS = (0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 2)
WORDS = (b"\xff" * 8, bytes(8), b"\x00\x00\x00\x80", b"1e999999999", b"-1", b"NaN")


def mutated(seeds: list[bytes], chance: random.Random) -> bytes:
    """A seed with one to six random changes, more often near its start."""
    content = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        limit = min(len(content), 400) if chance.random() < 0.6 else len(content)
        start = chance.randrange(limit + 1)
        match chance.randrange(7):
            case 0:
                del content[start:]
            case 1:
                content[start : start + 1] = bytes([chance.randrange(256)])
            case 2:
                content[start:start] = chance.randbytes(chance.randint(1, 12))
            case 3:
                del content[start : start + chance.randint(1, 64)]
            case 4:
                content[start:start] = content[start : start + chance.randint(1, 300)] * chance.choice((1, 1, 8))
            case 5:
                width = chance.choice((1, 2, 4, 8))
                number = chance.choice(NUMBERS) % 2 ** (8 * width)
                content[start : start + width] = number.to_bytes(width, chance.choice(("little", "big")))
            case _:
                word = chance.choice(WORDS)
                content[start : start + len(word)] = word
    return bytes(content[:MOST_SEED_BYTES])


class TooSlow(BaseException):
    """One execution takes more than CPU_SECONDS."""


class Executor:
    """Run a target on bytes and keep findings. The file that is being read stays in the folder after a crash."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.target, self.folder = target, folder
        reading = folder / "reading"
        reading.mkdir(parents=True, exist_ok=True)
        self.path = reading / (f"file{target.suffix}" if target.suffix.startswith(".") else target.suffix)
        self.executions = 0
        signal.signal(signal.SIGPROF, _too_slow)

    def __call__(self, content: bytes) -> None:
        """Read `content` once."""
        self.path.write_bytes(content)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            self.target.read(self.path)
        except UserError as error:
            if "\n" in error.sentence or len(error.sentence) > 2_000:
                keep(self.folder, self.target, content, "sentence", error.sentence)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - any other error is a finding
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
            keep(self.folder, self.target, content, where, "".join(traceback.format_exception(error)))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
        if self.executions and grown > self.target.spare_bytes + BYTES_PER_BYTE * len(content):
            keep(self.folder, self.target, content, "memory", f"took {grown >> 20} MiB")
        self.executions += 1


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlow


def keep(folder: Path, target: Target, content: bytes, kind: str, text: str) -> None:
    """Keep one finding of each kind."""
    name = folder / f"finding-{hashlib.sha256(kind.encode()).hexdigest()[:10]}"
    if not name.with_suffix(".txt").exists():
        Path(f"{name}{target.suffix}").write_bytes(content)
        name.with_suffix(".txt").write_text(f"{target.name}: {kind}\n\n{text}", encoding="utf-8")


def work(name: str, seconds: float, folder: Path, seed: int) -> None:
    """Run one parser in this process until the time is over, and print the number of executions."""
    target = TARGETS[name]
    run, seeds = Executor(target, folder), target.good()
    for content in seeds:
        run(content)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + ADDRESS_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    if importlib.util.find_spec("atheris") is not None:
        atheris = importlib.import_module("atheris")
        corpus = folder / "corpus"
        corpus.mkdir(exist_ok=True)
        for number, content in enumerate(seeds):
            (corpus / f"seed-{number}").write_bytes(content)
        flags = [f"-max_total_time={max(1, int(seconds))}", f"-seed={seed}", "-rss_limit_mb=0", "-timeout=600"]
        atheris.instrument_all()
        atheris.Setup([sys.argv[0], *flags, str(corpus)], run)
        atheris.Fuzz()  # ends the process
    chance, stop = random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < stop:
        run(mutated(seeds, chance))
    print(run.executions)


def fuzz(name: str, seconds: float, out: Path, seed: int) -> tuple[str, list[Path]]:
    """Run one parser in a process of its own. Returns what it printed last, and the texts of its findings."""
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, __file__, "--worker", "--parser", name, "--seconds", str(seconds), "--seed", str(seed)]
    try:
        done = subprocess.run(
            [*words, "--out", str(folder)], capture_output=True, text=True, check=False, timeout=seconds + PATIENCE_S
        )
        end = "" if done.returncode == 0 else f"the process ended with code {done.returncode}\n{done.stderr[-2000:]}"
        printed = (done.stdout or done.stderr).strip().splitlines()[-1:]
    except subprocess.TimeoutExpired:
        end, printed = "the process hangs", []
    if end:
        for path in (folder / "reading").iterdir():
            keep(folder, TARGETS[name], path.read_bytes(), "crash", end)
    return "".join(printed), sorted(folder.glob("finding-*.txt"))


def main() -> int:
    """Parse the command line. Returns 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parser", action="append", choices=TARGETS, metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each parser (default: 60)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "fuzz")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="with one --parser: read this file here")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.parser or list(TARGETS)
    if options.replay is not None:
        TARGETS[names[0]].read(options.replay)
        return 0
    if options.worker:
        work(names[0], options.seconds, options.out, options.seed)
        return 0
    findings: list[Path] = []
    for name in names:
        missing = [need for need in TARGETS[name].needs if importlib.util.find_spec(need) is None]
        if missing:
            print(f"{name}: left out, needs {', '.join(missing)}", flush=True)
            continue
        printed, found = fuzz(name, options.seconds, options.out, options.seed)
        print(f"{name}: executions {printed}, findings {len(found)}", flush=True)
        findings += found
    for path in findings:
        print(f"\n{path}: {path.read_text(encoding='utf-8')[:300]}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
