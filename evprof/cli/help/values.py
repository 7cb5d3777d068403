"""What stands for a value in a command's help, what it means, and how a shell completes it."""

from __future__ import annotations

from dataclasses import dataclass

FILE, FOLDER, PATH, MODEL = "file", "folder", "path", "model"
"""How a value is completed: any file, any folder, either, or the name of a model or a folder. Else it is a suffix."""


@dataclass(frozen=True)
class ValueKind:
    """What a word in capitals stands for; `completed` is one of the four above, suffixes of files, or nothing."""

    meaning: str
    completed: str | tuple[str, ...] = ()


VALUES: dict[str, ValueKind] = {
    "N": ValueKind("a whole number"),
    "X": ValueKind("a number"),
    "MS": ValueKind("a time in milliseconds"),
    "US": ValueKind("a time in microseconds"),
    "SECONDS": ValueKind("a time in seconds"),
    "SECONDS|TEMPERATURE": ValueKind("a time in seconds (30), or a GPU's temperature (60C)"),
    "FPS": ValueKind("frames per second, as 30, 29.97 or 30000/1001"),
    "SHARE": ValueKind("a number from 0 to 1"),
    "SIZE": ValueKind("an amount of memory, as 24GB"),
    "WxH": ValueKind("width and height in pixels, as 1600x1000"),
    "TREE": ValueKind("children by level such as 3,2,1, or dynamic:NODES:LEVELS"),
    "N,N,…": ValueKind("whole numbers with commas between them"),
    "auto|N,N,N": ValueKind("auto, or numbers of layers with commas between them", ("auto",)),
    "MS,MS,…": ValueKind("times in milliseconds with commas between them"),
    "NAME=N": ValueKind("a name and its whole number"),
    "TEXT": ValueKind("words; quote them where they hold spaces"),
    "NAME": ValueKind("a name"),
    "FORMAT": ValueKind("a name of a format"),
    "LIST": ValueKind("numbers of runs, as 1,2,5-8"),
    "RUN": ValueKind("the number of a run, or the name of a configuration"),
    "DEVICE": ValueKind("auto, cpu, cuda, or cuda:1 and so on", ("auto", "cpu", "cuda")),
    "SHAPE": ValueKind("the shape of a model"),
    "MODEL": ValueKind("a name that evprof inspect lists, a folder with a checkpoint, or a hub id", MODEL),
    "ADAPTER": ValueKind("a folder with a trained adapter, or the name of a bundled one", FOLDER),
    "NAME|ADAPTER": ValueKind("the name of a drafter, or a trained adapter", FOLDER),
    "PATH": ValueKind("a file or a folder", PATH),
    "DIR": ValueKind("a folder", FOLDER),
    "FILE": ValueKind("a file", FILE),
    "IN": ValueKind("a file or a folder to read", PATH),
    "OUT": ValueKind("a file or a folder to write", PATH),
    "OUT.png": ValueKind("a picture to write", ("*.png",)),
    "MAP.h5": ValueKind("an HDF5 file", ("*.h5", "*.hdf5")),
    "S.evprof": ValueKind("a session", ("*.evprof",)),
    "SESSION|FILE.json": ValueKind("a session, or a result file of another program", ("*.evprof", "*.json", "*.jsonl")),
    "FILE.json": ValueKind("a result file of another program", ("*.json", "*.jsonl")),
    "FILE.md|FILE.html": ValueKind("a report to write", ("*.md", "*.html")),
    "FILE.csv|FILE.json": ValueKind("a table to write", ("*.csv", "*.json")),
    "auto|local|ADDRESS": ValueKind(
        "auto, local, or the address of a cluster's head, as 10.0.0.1:6379", ("auto", "local")
    ),
    "MANIFEST": ValueKind("a list of samples, a grid, or the name of a suite", PATH),
    "MANIFEST|DIR": ValueKind("a list of samples, or a folder of examples", PATH),
}
"""By the word itself."""
