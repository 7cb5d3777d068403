"""The commands that the pages show, and the folder that a reader of a page is taken to stand in."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evprof.loaders.bundled import assets_folder
from evprof.loaders.pictures.png import encode_png

ROOT = Path(__file__).resolve().parents[1]
PAGES: tuple[str, ...] = (
    "README.md",
    "CONTRIBUTING.md",
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
)

REASONS = (
    "needs a GPU",
    "needs two GPUs",
    "needs a cluster",
    "needs a 7B checkpoint",
    "needs the network",
    "needs a dataset",
    "takes minutes",
    "opens the window",
)
"""Why a command is shown and not tried: these words stand in the comment beside it, or above its block."""

_BLOCK = re.compile(r"(?:<!-- not tried: ([^>]*?) -->\n+)?^```(?:sh|bash|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class ShownCommand:
    """A line of a shell block that calls evprof. `reason` is one of REASONS, "" where it is tried."""

    page: str
    line: str
    reason: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line)[1:]


def shown_in(page: str) -> list[ShownCommand]:
    return commands_of((ROOT / page).read_text(encoding="utf-8"), page)


def commands_of(text: str, page: str = "") -> list[ShownCommand]:
    found = []
    for above, block in _BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            command, _, comment = line.removeprefix("$ ").partition("  #")
            if re.match(r"evprof( |$)", command):
                found.append(ShownCommand(page, command.strip(), _reason(above) or _reason(comment)))
    return found


def _reason(words: str) -> str:
    return next((reason for reason in REASONS if reason in words), "")


def fill(folder: Path) -> None:
    """Puts what pages name into an empty folder: a DSEC sequence, lists, older results. Pages copy the scene."""
    for place, name in (("night/000001", "car-crossing-at-night"), ("day/000007", "bus-approaching")):
        (folder / place).parent.mkdir()
        for kind, suffix in (("events", "npy"), ("video", "mp4")):
            shutil.copy(assets_folder() / "samples" / name / f"{kind}.{suffix}", folder / f"{place}.{suffix}")
    (folder / "dataset.csv").write_text(
        "name,events,video,prompt,reference\n"
        "crossing,night/000001.npy,night/000001.mp4,What is crossing the road?,A red car.\n"
        "bus,day/000007.npy,day/000007.mp4,,\n"
    )
    scenes = sorted((assets_folder() / "held-out").glob("scene-*"))
    for name, listed in (
        ("scenes/scenes.csv", scenes[2:]),
        ("held-out/scenes.csv", scenes[:2]),
        ("held-out.csv", scenes[:2]),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        rows = "".join(f"{scene.name},{scene}/events.npy,{scene}/video.mp4\n" for scene in listed)
        (folder / name).write_text(f"name,events,video\n{rows}")
    (folder / "grid.toml").write_text('[settings]\nmode = "target"\n\n[axes]\nframes = [4, 8]\n')
    _write_sequence(folder / "zurich_city_00_a")


def _write_sequence(folder: Path) -> None:
    """A sequence as DSEC's own code unpacks it: 14 s of events and pictures on one clock."""
    zero, count, noise = 51_648_000_000, 14_001, np.random.default_rng(3)
    events, pictures = folder / "events" / "left", folder / "images" / "left" / "rectified"
    events.mkdir(parents=True)
    pictures.mkdir(parents=True)
    t = np.linspace(zero, zero + 14_000_000, count).astype(np.int64)
    columns = {"x": np.arange(count) % 34, "y": np.arange(count) % 26, "t": t, "p": np.arange(count) % 2}
    np.save(events / "events.npy", np.array(columns), allow_pickle=True)
    for number in range(28):
        picture = noise.integers(0, 255, (26, 34, 3)).astype(np.uint8)
        (pictures / f"{number:06d}.png").write_bytes(encode_png(picture))
    times = "".join(f"{zero + number * 500_000}\n" for number in range(28))
    (folder / "images" / "timestamps.txt").write_text(times)
