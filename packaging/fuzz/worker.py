"""Feeds one parser in this process until the time is over; started by `run`, which watches it.

Usage: python -m fuzz.worker PARSER SECONDS FOLDER SEED atheris|mutations

FOLDER gets the file in hand (`in-hand*`, what a crash leaves behind), `counters` (executions and peak memory, int64
each) and what was found: `finding-*` with a text of how it ended beside each.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import mmap
import os
import random
import resource
import signal
import struct
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from evprof.core.errors import UserError

CPU_SECONDS = 10
"""Of one execution: what takes longer hangs, for whoever waits."""

BYTES_PER_BYTE = 40
"""Memory of one execution, for each byte of the file, besides what the target spares."""

_ADDRESS_BYTES = 3 << 30
_MOST_SEED_BYTES = 1 << 20
_WORDS = (b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7, b"\xfe" * 4, b"\x00\x00\x00\x80", b"1e999999999", b"-1", b"NaN")


class TooSlow(BaseException):
    """One execution took more than CPU_SECONDS."""


class Executor:
    """Runs a target on bytes and keeps what ends neither well nor in a sentence."""

    def __init__(self, name: str, folder: Path) -> None:
        from fuzz.targets import TARGETS

        self.target = TARGETS[name]
        self._folder = folder
        home = folder / "in-hand"
        home.mkdir(parents=True, exist_ok=True)
        suffix = self.target.suffix
        self._path = home / (f"file{suffix}" if suffix.startswith(".") else suffix)
        (folder / "counters").write_bytes(bytes(16))
        with (folder / "counters").open("r+b") as file:
            self._counters = mmap.mmap(file.fileno(), 16)
        self.executions, self.peak = 0, 0
        self._known: set[str] = set()
        signal.signal(signal.SIGPROF, _interrupt)

    def warm_up(self, content: bytes) -> None:
        """Brings in what readers import: it takes time and memory that are not the file's."""
        self._path.write_bytes(content)
        with contextlib.suppress(UserError):
            self.target.read(self._path)

    def __call__(self, content: bytes) -> None:
        """One execution."""
        self._path.write_bytes(content)
        _forget_peak()
        before = _memory("VmRSS")
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            self.target.read(self._path)
        except UserError as error:
            if "\n" in error.sentence or len(error.sentence) > 2_000:
                self._keep(content, "rambles", error.sentence)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is a finding
            self._keep(content, _place(error), "".join(traceback.format_exception(error)))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        grown = _memory("VmHWM") - before
        if grown > self.target.spare_bytes + BYTES_PER_BYTE * len(content):
            self._keep(content, "memory", f"took {grown >> 20} MiB")
        self.executions += 1
        self.peak = max(self.peak, grown)
        self._counters[:] = struct.pack("<qq", self.executions, self.peak)

    def _keep(self, content: bytes, kind: str, how: str) -> None:
        if kind in self._known:
            return
        self._known.add(kind)
        name = f"finding-{hashlib.sha256(kind.encode()).hexdigest()[:10]}"
        (self._folder / f"{name}{self.target.suffix}").write_bytes(content)
        (self._folder / f"{name}.txt").write_text(f"{self.target.name}: {kind}\n\n{how}", encoding="utf-8")


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlow


def _place(error: BaseException) -> str:
    """What and where: one finding of each is kept."""
    frames = list(traceback.extract_tb(error.__traceback__))
    if isinstance(error, TooSlow):
        frames = [frame for frame in frames if "/evprof/" in frame.filename or "/engines/" in frame.filename][-1:]
    last = frames[-1] if frames else None
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}" if last else type(error).__name__


def _memory(key: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith(key))
    return int(line.split()[1]) << 10


def _forget_peak() -> None:
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def mutated(seeds: list[bytes], chance: random.Random) -> bytes:
    """A seed cut, flipped, filled, doubled or joined with another in some places, more often near the start."""
    whole = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        limit = min(len(whole), 400) if chance.random() < 0.6 else len(whole)
        place = chance.randrange(limit + 1)
        match chance.randrange(9):
            case 0:
                del whole[place:]
            case 1 | 2:
                whole[place : place + 1] = bytes([chance.randrange(256)])
            case 3:
                whole[place:place] = chance.randbytes(chance.randint(1, 12))
            case 4:
                del whole[place : place + chance.randint(1, 64)]
            case 5:
                whole[place:place] = whole[place : place + chance.randint(1, 300)] * chance.choice((1, 1, 8))
            case 6:
                other = chance.choice(seeds)
                start = chance.randrange(len(other) + 1)
                whole[place : place + 100] = other[start : start + 100]
            case 7:
                width = chance.choice((1, 2, 4, 8))
                number = chance.choice((0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, chance.randrange(2**16)))
                whole[place : place + width] = (number % 2 ** (8 * width)).to_bytes(
                    width, chance.choice(("little", "big"))
                )
            case _:
                word = chance.choice(_WORDS)
                whole[place : place + len(word)] = word
    return bytes(whole[:_MOST_SEED_BYTES])


def by_mutation(run: Executor, good: list[bytes], seconds: float, seed: int) -> None:
    """Mutations of the good files without looking at what they reach."""
    chance = random.Random(seed)
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        run(mutated(good, chance))


def by_coverage(run: Executor, good: list[bytes], seconds: float, seed: int, folder: Path) -> None:
    """Led by the lines of ours that are reached. Does not return: the library ends the process."""
    atheris = importlib.import_module("atheris")
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, content in enumerate(good):
        (corpus / f"seed-{number}").write_bytes(content)
    longest = max(map(len, good)) + 1000
    flags = [f"-max_total_time={max(1, int(seconds))}", f"-seed={seed}", "-rss_limit_mb=0", "-timeout=600"]
    atheris.Setup([sys.argv[0], *flags, f"-max_len={longest}", str(corpus)], run)
    atheris.Fuzz()


@contextlib.contextmanager
def _instrumented(is_wished: bool) -> Iterator[None]:
    if not is_wished:
        yield
        return
    with importlib.import_module("atheris").instrument_imports(
        include=["evprof", "engines"], enable_loader_override=False
    ):
        yield


def main() -> None:
    """See the top."""
    name, seconds, folder, seed = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    is_led = sys.argv[5] == "atheris"
    with _instrumented(is_led):
        run = Executor(name, folder)
        good = run.target.good()
        for content in good:
            run.warm_up(content)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + _ADDRESS_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    if is_led:
        by_coverage(run, good, seconds, seed, folder)
    by_mutation(run, good, seconds, seed)


if __name__ == "__main__":
    main()
