"""Checks before the engine starts: devices, models, inputs and output paths, each answered in one sentence.

Nothing here imports torch, which takes seconds, and no session is begun: a refused command leaves nothing behind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path

from evprof.core.errors import UsageError, UserError
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.texts import did_you_mean, nearest
from evprof.core.vocabulary.families import FAMILIES, family_by_type
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.suites.cell import SuiteConfiguration

_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z")
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth")

_MOST_READ = 16 << 20
"""Bytes of a recording whose first events are read; of larger ones only the header."""

_MOST_SAMPLES = 50
"""Samples of a suite that are opened beforehand."""

_MOST_LISTED = 1000
"""Neighbours of a missing path that are compared with it."""


def check_request(request: RunRequest) -> None:
    """Raises UserError for a request that cannot be measured on this machine."""
    choices = [choice for choice in map(request.choice_of, request.roles) if choice is not None]
    _check_choices(request, choices)
    if request.trace is not None:
        check_folder(Path(request.trace.folder), "--torch-trace")
    check_sample(request.sample)


def check_cells(cells: Sequence[SuiteConfiguration]) -> None:
    """Raises UserError for a cell whose models or devices are not available."""
    for cell in cells:
        choices = [choice for role in cell.roles if (choice := cell.choice(role)) is not None]
        try:
            _check_choices(cell.request(Sample("events", "video")), choices)
        except UserError as error:
            raise UserError(f"Cell '{cell.label}': {error.sentence}", exit_code=error.exit_code) from None


def _check_choices(request: RunRequest, choices: Sequence[ModelChoice]) -> None:
    for choice in choices:
        check_device(choice.device)
    request.validate(has_cuda=_may_use_cuda([choice.device for choice in choices]))
    check_models(choice.name for choice in choices)


def check_samples(samples: Sequence[Sample], warn: Callable[[str], None]) -> None:
    """Reports which of the first samples cannot be read: their rows will fail. Raises UserError when none can."""
    problems: list[UserError] = []
    for sample in samples[:_MOST_SAMPLES]:
        try:
            check_sample(sample)
        except UserError as error:
            problems.append(error)
            warn(f"sample '{sample.name}': {error.sentence}")
    if problems and len(problems) == len(samples):
        raise UserError(f"None of the {len(samples):,} samples can be read: {problems[0].sentence}")


def check_device(name: str) -> None:
    """Raises UserError for a device that is not there (exit code 1), or is none (2)."""
    if not _DEVICE.fullmatch(name):
        guess = "; did you mean cuda?" if name.lower() == "gpu" else did_you_mean(name, ("auto", "cpu", "cuda"))
        raise UsageError(f"Unknown device '{name}'{guess or ';'} Choose auto, cpu, cuda or cuda:1.")
    if name.startswith("cuda") and (reason := cuda_problem()):
        raise UserError(f"Device '{name}' is not available: {reason}; use --device cpu.")


def cuda_problem() -> str:
    """Why nothing can run on CUDA here, "" where it seems it can: torch itself has the last word."""
    from evprof.run.gpu_bench.driving import has_gpu

    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""
    if version.endswith("+cpu"):
        return "this PyTorch was built without CUDA"
    return "" if "rocm" in version or has_gpu() else "no NVIDIA GPU was found"


def _may_use_cuda(devices: Sequence[str]) -> bool:
    """Whether one of these devices can be a CUDA device; Triton's interpreter counts as one."""
    is_named = any(device.startswith("cuda") for device in devices) or bool(os.environ.get("TRITON_INTERPRET"))
    return is_named or ("auto" in devices and not cuda_problem())


def check_models(names: Iterable[str]) -> None:
    """Raises UserError for the first name that leads to no model; the engine fetches a name of the hub."""
    from engines.checkpoints.naming import split_layers

    for name in dict.fromkeys(names):
        _check_model(split_layers(name)[0])


def _check_model(whole: str) -> None:
    from engines import CATALOGUE, bundled_folder

    known = [entry.name for entry in CATALOGUE]
    path = Path(os.path.expanduser(whole))
    if whole in known:
        if not whole.startswith("random:") and bundled_folder(whole) is None:
            raise UserError(f"The bundled model '{whole}' is missing from this installation; install evprof again.")
    elif path.is_dir():
        _check_checkpoint(path)
    elif path.is_file():
        raise UsageError(f"{whole} is a file; name the checkpoint folder that contains it.")
    elif guess := nearest_path(path):
        raise UserError(f"There is no folder '{whole}'{guess}")
    elif not _HUB_ID.match(whole) or path.parent.is_dir():
        guess = did_you_mean(whole, known) or "."
        raise UsageError(f"There is no model and no folder '{whole}'{guess} evprof inspect lists the models.")


def _check_checkpoint(folder: Path) -> None:
    """Raises UserError for a folder without configuration or weights, or of an unknown family."""
    from engines.checkpoints.shards import read_json

    if not (folder / "config.json").is_file():
        below = [path.parent for path in sorted(folder.glob("*/config.json"))[:2]]
        guess = f"; did you mean {below[0]}?" if len(below) == 1 else "."
        raise UserError(
            f"{folder}: holds no config.json, so it is no checkpoint; name the folder that holds it with the weights"
            f"{guess}"
        )
    model_type = str(read_json(folder / "config.json").get("model_type", ""))
    if family_by_type(model_type) is None:
        families = ", ".join(family.title for family in FAMILIES.values())
        raise UserError(
            f"{folder}: is a model of type '{model_type[:80]}', which evprof cannot run; it runs {families}."
        )
    if not any(next(folder.glob(pattern), None) for pattern in _WEIGHTS):
        raise UserError(f"{folder}: holds a configuration but no weights (*.safetensors); fetch them, too.")


def check_sample(sample: Sample) -> None:
    """Raises UserError for a recording or video that cannot be read, is the other kind, or ends before the clip."""
    if sample.events_path is not None:
        _as_kind("events", sample.events_path, lambda: _check_events(sample))
    if sample.video_path is not None:
        _as_kind("video", sample.video_path, lambda: _check_video(sample))


def _as_kind(kind: str, path: str, check: Callable[[], None]) -> None:
    """Runs `check`; a file of another kind is reported as that kind."""
    from evprof.loaders.probe import probe

    try:
        check()
    except UserError:
        try:
            actual = probe(path)
        except UserError:
            actual = ""
        if actual and actual != kind:
            raise UserError(_other_kind(kind, path, actual)) from None
        raise


_OTHER_KINDS = {
    "events": "an event recording; did you mean --events?",
    "video": "a video; did you mean --video?",
    "sequence": "a folder with events and video; did you mean --sample?",
    "session": "a session; evprof show reads it.",
    "manifest": "a list of samples; evprof suite reads it.",
    "checkpoint": "a checkpoint; --draft and --target name models.",
    "legacy": "a result file; evprof import reads it.",
    "trace": "a trace; evprof show reads it.",
}
"""By kind of file: what it is, and what to do with it."""


def _other_kind(kind: str, path: str, actual: str) -> str:
    return f"--{kind}: '{path}' is {_OTHER_KINDS[actual]}"


def _check_events(sample: Sample) -> None:
    from evprof.loaders.clips import check_clip
    from evprof.loaders.events.opening import open_recording
    from evprof.loaders.pictures.frame_folder import is_frame_set
    from evprof.loaders.probe import probe

    path = str(sample.events_path)
    if Path(path).is_dir() or is_frame_set(path):
        if (actual := probe(path)) != "events":
            raise UserError(_other_kind("events", path, actual))
        return
    with open_recording(path) as recording:
        check_clip(recording, sample)
        if Path(path).stat().st_size <= _MOST_READ:
            next(iter(recording.chunks()), None)


def _check_video(sample: Sample) -> None:
    from evprof.loaders.clips import clip_frames
    from evprof.loaders.videos.opening import open_video

    with open_video(str(sample.video_path), sample.video_times_path) as video:
        clip_frames(video, sample, 1)


def check_folder(path: Path, option: str) -> None:
    """Raises UserError unless files can be made in the folder `path`, which need not exist yet."""
    place = path.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise UserError(f"{option}: '{place}' is a file; name a folder.")
    if not os.access(place, os.W_OK):
        raise UserError(f"{option}: '{place}' may not be written to; name another folder.")


def nearest_path(path: Path) -> str:
    """`; did you mean PATH?` where a similar name lies in the same folder; else ""."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MOST_LISTED), strict=False)]
    except (OSError, ValueError):
        return ""
    name = nearest(path.name, names)
    return f"; did you mean {path.parent / name}?" if name else ""
